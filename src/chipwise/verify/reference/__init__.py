"""Reference answers, kept by content: the same model on the same tokens in the same shapes is run once."""
