"""Models: their architecture, weights, tokenizer and template, read from any format and written as ONNX."""
