from .rknn_lite import RKNNLite as RKNNLite  # noqa: TID252
