"""The board under a server, and what its policy lets serving do."""
