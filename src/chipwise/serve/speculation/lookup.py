"""Look-up: what came after the latest tokens when they came before, in the prompt or in the answer itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chipwise.serve.speculation.draft import NO_DRAFT, Draft, Hint

# One equal token says next to nothing; more than this many say no more.
_LEAST_EQUAL, _MOST_EQUAL = 2, 12
_LONG, _MIDDLE = 8, 4


def look_up(tokens: npt.NDArray[np.int64], most: int) -> Draft:
    """What followed the longest earlier run that is the same as the end of a text; of equally long ones the latest.

    A run that reaches into the end itself shows a text that repeats itself, and is taken to go on so.

    ("Prompt lookup decoding", A. Saxena, 2023; searching by whole columns takes tens of microseconds for a prompt of
    thousands of tokens, and nothing has to be kept between two steps.)

    Args:
        tokens: Token ids of the prompt and the answer so far, int64 ``[n]``.
        most: The most tokens to give.
    """
    last = len(tokens) - 1
    if last < _LEAST_EQUAL or most < 1:
        return NO_DRAFT
    ends = np.flatnonzero(tokens[:last] == tokens[last])
    equal = 1
    while equal < _MOST_EQUAL and len(ends):
        longer = ends[ends >= equal]
        longer = longer[tokens[longer - equal] == tokens[last - equal]]
        if not len(longer):
            break
        ends, equal = longer, equal + 1
    if equal < _LEAST_EQUAL or not len(ends):
        return NO_DRAFT
    end = int(ends[-1])
    after = tokens[end + 1 + np.arange(most) % (last - end)]
    return Draft(tuple(after.tolist()), (_hint(equal),) * most)


def _hint(equal: int) -> Hint:
    return "long" if equal >= _LONG else "middle" if equal >= _MIDDLE else "short"
