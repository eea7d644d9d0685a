"""Models as a server sees them, and how they are opened."""
