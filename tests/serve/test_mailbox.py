from __future__ import annotations

import asyncio
import threading

from chipwise.serve.events import Event, Finish, Piece
from chipwise.serve.mailbox import Mailbox


def test_events_come_in_order_from_another_thread() -> None:
    sent: list[Event] = [*(Piece(str(i)) for i in range(50)), Finish("stop", 1, 50)]

    async def read() -> list[Event]:
        mailbox, got = Mailbox(), []
        thread = threading.Thread(target=lambda: [mailbox.put(event) for event in sent])
        thread.start()
        while not got or not isinstance(got[-1], Finish):
            got += await mailbox.get()
        thread.join()
        return got

    assert asyncio.run(read()) == sent


def test_reader_that_lags_gets_all_there_is() -> None:
    async def read() -> list[Event]:
        mailbox = Mailbox()
        for i in range(3):
            mailbox.put(Piece(str(i)))
        await asyncio.sleep(0)
        return await mailbox.get()

    assert asyncio.run(read()) == [Piece("0"), Piece("1"), Piece("2")]


def test_event_after_the_end_of_asyncio_is_dropped() -> None:
    async def make() -> Mailbox:
        return Mailbox()

    mailbox = asyncio.run(make())
    mailbox.put(Piece("nobody reads this"))


def test_whole_answer_comes_at_once() -> None:
    async def read() -> list[Event]:
        mailbox = Mailbox(at_once=True)
        mailbox.put(Piece("a"))
        await asyncio.sleep(0)
        mailbox.put(Piece("b"))
        mailbox.put(Finish("stop", 1, 2))
        return await mailbox.get()

    assert asyncio.run(read()) == [Piece("a"), Piece("b"), Finish("stop", 1, 2)]
