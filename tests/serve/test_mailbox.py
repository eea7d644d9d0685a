from __future__ import annotations

import asyncio
import threading

from chipwise.serve.events import Event, Finish, Piece
from chipwise.serve.mailbox import Delivery, Mailbox


def test_events_come_in_order_from_another_thread() -> None:
    sent: list[Event] = [*(Piece(str(i)) for i in range(50)), Finish("stop", 1, 50)]

    async def read() -> list[Delivery]:
        mailbox, got = Mailbox(), []
        boxes = [mailbox.outbox(choice) for choice in range(3)]
        threads = [threading.Thread(target=lambda put=put: [put(event) for event in sent]) for put in boxes]
        for thread in threads:
            thread.start()
        while len(got) < len(boxes) * len(sent):
            got += await mailbox.get()
        for thread in threads:
            thread.join()
        return got

    got = asyncio.run(read())
    for choice in range(3):
        assert [event for of, event in got if of == choice] == sent


def test_reader_that_lags_gets_all_there_is() -> None:
    async def read() -> list[Delivery]:
        mailbox = Mailbox()
        put = mailbox.outbox()
        for i in range(3):
            put(Piece(str(i)))
        await asyncio.sleep(0)
        return await mailbox.get()

    assert asyncio.run(read()) == [(0, Piece("0")), (0, Piece("1")), (0, Piece("2"))]


def test_event_after_the_end_of_asyncio_is_dropped() -> None:
    async def make() -> Mailbox:
        return Mailbox()

    mailbox = asyncio.run(make())
    mailbox.outbox()(Piece("nobody reads this"))


def test_whole_answer_comes_at_once() -> None:
    async def read() -> list[Delivery]:
        mailbox = Mailbox(at_once=True)
        first, second = mailbox.outbox(0), mailbox.outbox(1)
        first(Piece("a"))
        second(Piece("not yet"))
        await asyncio.sleep(0)
        first(Piece("b"))
        first(Finish("stop", 1, 2))
        return await mailbox.get()

    assert asyncio.run(read()) == [(0, Piece("a")), (0, Piece("b")), (0, Finish("stop", 1, 2))]
