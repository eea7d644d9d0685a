"""Speculation: guessing an answer's next tokens from what is known, and having the model check them in one step."""
