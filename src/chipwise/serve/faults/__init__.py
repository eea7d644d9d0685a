"""What an engine can get wrong, and how that is seen."""
