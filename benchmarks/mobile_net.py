"""A small MobileNetV2 with weights that were trained: depthwise separable convolutions, BatchNorm and ReLU6.

    python -m benchmarks.mobile_net OUT.onnx SAMPLES.npy

It tells apart ten kinds of drawn shapes (five outlines, striped along or across) in 64 x 64 colour images with a fixed
seed; a few minutes of training on one core. Random weights would not do: their activations have no outliers, no dead
channels and no BatchNorm that folds into uneven weights. Needs torch, which the tests bring.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

SIDE = 64
CLASSES = 10
SEED = 7
STEPS = 320
BATCH = 24
# Expansion, channels, stride of each inverted residual block (arXiv 1801.04381, table 2, narrower).
_BLOCKS = ((1, 8, 1), (4, 16, 2), (4, 16, 1), (4, 24, 2), (4, 24, 1), (4, 40, 2), (4, 40, 1), (4, 64, 1), (4, 96, 2))
_STEM = 16
_HEAD = 320


class _ConvNorm(nn.Sequential):
    def __init__(self, inside: int, outside: int, size: int, *, stride: int = 1, groups: int = 1, clip: bool = True):
        conv = nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outside), *([nn.ReLU6()] if clip else []))


class _Inverted(nn.Module):
    """Widen, filter each channel, narrow without an activation; a residual where the sizes allow it."""

    def __init__(self, inside: int, outside: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = inside * expansion
        widen = [_ConvNorm(inside, wide, 1)] if expansion > 1 else []
        self.layers = nn.Sequential(
            *widen, _ConvNorm(wide, wide, 3, stride=stride, groups=wide), _ConvNorm(wide, outside, 1, clip=False)
        )
        self.residual = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x)
        return x + found if self.residual else found


def network() -> nn.Sequential:
    """The net with its first weights."""
    layers: list[nn.Module] = [_ConvNorm(3, _STEM, 3, stride=2)]
    channels = _STEM
    for expansion, outside, stride in _BLOCKS:
        layers.append(_Inverted(channels, outside, expansion, stride))
        channels = outside
    layers += [_ConvNorm(channels, _HEAD, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_HEAD, CLASSES)]
    return nn.Sequential(*layers)


def draw(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images ``[n, 3, 64, 64]``, about -2 to 2, and their classes."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    images, classes = np.empty((n, 3, SIDE, SIDE), np.float32), rng.integers(0, CLASSES, n)
    for image, kind in zip(images, classes, strict=True):
        size = rng.uniform(12, 24)
        u, v = x - rng.uniform(size, SIDE - size), y - rng.uniform(size, SIDE - size)
        inside = _outline(int(kind) // 2, u / size, v / size)
        stripes = np.sign(np.sin((u if kind % 2 else v) * rng.uniform(0.7, 1.1)))
        ground, ink, dark = (rng.uniform(-1.2, 1.2, 3)[:, None, None] for _ in range(3))
        slope = (x * rng.uniform(-0.5, 0.5) + y * rng.uniform(-0.5, 0.5)) / SIDE
        image[:] = np.where(inside, np.where(stripes > 0, ink, dark), ground + slope)
        image += rng.normal(0, rng.uniform(0.02, 0.25), image.shape)
    return torch.from_numpy(images), torch.from_numpy(classes)


def _outline(kind: int, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    radius = np.hypot(u, v)
    return (
        radius < 1,
        np.maximum(abs(u), abs(v)) < 0.9,
        (v > -0.8) & (v < 0.8) & (abs(u) < (v + 0.8) * 0.6),
        (np.minimum(abs(u), abs(v)) < 0.3) & (radius < 1.1),
        (radius < 1.1) & (radius > 0.6),
    )[kind]


def train(steps: int = STEPS) -> tuple[nn.Sequential, float]:
    """The trained net, in evaluation mode, and its accuracy on images that it was not trained on."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for step in range(steps):
        images, classes = draw(BATCH, SEED * 100_000 + step)
        loss = nn.functional.cross_entropy(net(images), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    net.eval()
    images, classes = draw(400, SEED)
    with torch.no_grad():
        return net, float((net(images).argmax(-1) == classes).float().mean())


def write(path: Path, samples: Path, *, n: int, steps: int = STEPS) -> float:
    """Train, write the net as ONNX and ``n`` images beside it; returns the accuracy."""
    net, accuracy = train(steps)
    images, _ = draw(n, SEED + 1)
    torch.onnx.export(
        net, (images[:1],), str(path), input_names=["image"], output_names=["scores"], opset_version=17, dynamo=False
    )
    np.save(samples, images.numpy()[:, None])
    return accuracy


def main() -> int:
    """Write it where the arguments say."""
    if len(sys.argv) != 3:
        print("usage: python -m benchmarks.mobile_net OUT.onnx SAMPLES.npy", file=sys.stderr)
        return 2
    accuracy = write(Path(sys.argv[1]), Path(sys.argv[2]), n=24)
    print(f"accuracy {accuracy:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
