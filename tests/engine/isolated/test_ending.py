from __future__ import annotations

import signal

import pytest

from chipwise.engine.isolated.ending import in_words, oom_kills


@pytest.mark.parametrize(
    ("status", "out_of_memory", "words"),
    [
        (3, False, "its process ended by itself with status 3"),
        (0, False, "its process ended by itself with status 0"),
        (-signal.SIGSEGV, True, "its process ended: a segmentation fault (SIGSEGV)"),
        (-signal.SIGKILL, False, "its process ended: killed from outside (SIGKILL)"),
        (-signal.SIGKILL, True, "its process was killed by the kernel, since memory ran out (SIGKILL)"),
        (-signal.SIGUSR1, False, "its process ended: a signal (SIGUSR1)"),
        (-63, False, "its process was ended by signal 63"),
    ],
)
def test_every_end_has_its_words(status: int, out_of_memory: bool, words: str) -> None:
    assert in_words(status, out_of_memory=out_of_memory) == words


def test_the_kernel_counts() -> None:
    assert oom_kills() >= 0
