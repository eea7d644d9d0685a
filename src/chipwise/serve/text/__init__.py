"""From logits to text: sampling, grammars, tokens to characters."""
