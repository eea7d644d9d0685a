"""A request, on its way through a server."""
