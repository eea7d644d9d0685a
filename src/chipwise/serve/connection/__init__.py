"""Connections: from the socket to HTTP, bounded, drained and with errors as OpenAI writes them."""
