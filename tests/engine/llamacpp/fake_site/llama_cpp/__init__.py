"""A package of the name of llama-cpp-python's, for processes that tests start."""
