"""The KV slots, what lies in them, and what of it outlives the server."""
