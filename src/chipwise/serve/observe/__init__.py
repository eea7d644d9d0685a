"""What a server counts and times, for Prometheus and OpenTelemetry."""
