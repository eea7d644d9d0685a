"""Samples of several shapes: those of the largest calibrate, some of each verify."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from chipwise.build.options import BuildOptions
from chipwise.build.sample_files import LazyFeeds, read_samples
from chipwise.build.samples import CALIBRATION, DRAWN, Samples
from chipwise.build.shape_sets import ShapeSet, largest
from chipwise.errors import InputError
from chipwise.rewrite.draw import draw_feeds
from chipwise.rewrite.pass_ import Feed

_DRAWN_TO_VERIFY = 4


def gather_shape_samples(options: BuildOptions, model: ir.Model, shapes: tuple[ShapeSet, ...]) -> Samples:
    """The user's samples, or drawn ones, for a graph that is compiled for several shapes.

    The toolkit calibrates with the largest shape only. Two thirds of its samples do that; the rest, and all of the
    others', at most ``max_cases`` of a shape, are held out.

    Raises:
        InputError: A sample is of a shape that is not listed, or a listed shape has no sample; queries are given.
        RewriteError: There are no samples, and none can be drawn.
    """
    if options.queries is not None:
        raise InputError(
            "queries have one length each build", where=str(options.queries),
            remedy="give --samples with a file of each listed shape",
        )  # fmt: skip
    most = largest(shapes)
    if options.samples is None:
        groups: list[Sequence[Feed]] = [
            draw_feeds(model, shape.dims, seed=index, n=DRAWN if index == most else _DRAWN_TO_VERIFY)
            for index, shape in enumerate(shapes)
        ]
        source = "drawn at random from the declared shapes"
    else:
        groups, source = _grouped(options, model, shapes), options.samples.name
    calibrating = groups[most]
    held = min(options.max_cases, len(calibrating) // 3)
    held_out = [group[: options.max_cases] for group in groups]
    if held:
        held_out[most] = calibrating[:held]
    return Samples(
        calibration=calibrating[held:][:CALIBRATION],
        held_out=[feed for group in held_out for feed in group] if options.samples is None else _joined(held_out),
        source=source,
        real=options.samples is not None,
        shared=not held,
        drawn=options.samples is None,
        per_shape=tuple(len(group) for group in held_out),
    )


def _grouped(options: BuildOptions, model: ir.Model, shapes: tuple[ShapeSet, ...]) -> list[Sequence[Feed]]:
    where = str(options.samples)
    feeds = read_samples(options.samples, model.graph) if options.samples is not None else ()
    members: list[list[int]] = [[] for _ in shapes]
    for index, feed in enumerate(feeds):
        fitting = next((at for at, shape in enumerate(shapes) if shape.fits(feed)), None)
        if fitting is None:
            found = ", ".join(f"{name} {list(np.shape(array))}" for name, array in feed.items())
            raise InputError(
                f"sample {index} is {found}, which is not listed", where=where,
                remedy=f"take it out, or list it; listed are {'; '.join(shape.label for shape in shapes)}",
            )  # fmt: skip
        members[fitting].append(index)
    for shape, found_at in zip(shapes, members, strict=True):
        if not found_at:
            raise InputError(
                f"no sample of {shape.label}", where=where,
                remedy="give a folder with one .npz a sample, at least one of each listed shape",
            )  # fmt: skip
    return [LazyFeeds([lambda at=at: feeds[at] for at in found_at]) for found_at in members]  # type: ignore[misc]


def _joined(groups: Sequence[Sequence[Feed]]) -> LazyFeeds:
    return LazyFeeds([lambda group=group, at=at: group[at] for group in groups for at in range(len(group))])  # type: ignore[misc]
