"""Inference: named tensors through a graph that answers in one run."""
