from __future__ import annotations

import os
import pty
import signal
import termios
import threading

import pytest

from chipwise.serve.exchange.early_hang_ups import EarlyHangUps, early_hang_ups


@pytest.fixture(autouse=True)
def nothing_is_left():
    # Where the tests run under nohup it would be ignored.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    left = signal.signal(signal.SIGHUP, before)
    assert left is signal.SIG_DFL


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def test_a_signal_is_noted_until_the_server_is_ready() -> None:
    with early_hang_ups() as early:
        hang_up()
        assert early.end()
    with early_hang_ups() as early:
        assert not early.end()
        hang_up()
        assert not early.end(), "from now on it is the server's"


def test_a_terminal_that_is_closed_interrupts_what_is_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setattr(os, "isatty", lambda fd: fd == 0)
    really = termios.tcgetattr
    monkeypatch.setattr(termios, "tcgetattr", lambda fd: really(theirs))
    with early_hang_ups() as early:
        hang_up()
        os.close(ours)
        with pytest.raises(KeyboardInterrupt):
            hang_up()
        assert early.end(), "the first one came while it was there"
        hang_up()
    os.close(theirs)


def test_nohup_keeps_what_it_asked_for() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with early_hang_ups() as early:
            hang_up()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert not early.end()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_the_main_thread_can_take_signals() -> None:
    made: list[EarlyHangUps] = []

    def elsewhere() -> None:
        with early_hang_ups() as early:
            made.append(early)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(5)
    assert [early.end() for early in made] == [False]
