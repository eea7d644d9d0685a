"""The HTTP face: OpenAI's API over the serving loop."""
