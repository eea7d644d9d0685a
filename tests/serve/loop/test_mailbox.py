from __future__ import annotations

import asyncio
import threading

import pytest

from chipwise.serve.loop.mailbox import Delivery, Mailbox, Postman
from chipwise.serve.request.events import Event, Finish, Outbox, Piece


def send(outbox: Outbox, *events: Event) -> None:
    """Fill an outbox, and wake the reader behind each event."""
    for event in events:
        wake = outbox(event)
        if wake is not None:
            wake()


def test_events_come_in_order_from_another_thread() -> None:
    sent: list[Event] = [*(Piece(str(i)) for i in range(50)), Finish("stop", 1, 50)]

    async def read() -> list[Delivery]:
        mailbox, got = Mailbox(Postman()), []
        boxes = [mailbox.outbox(choice) for choice in range(3)]
        threads = [threading.Thread(target=send, args=(box, *sent)) for box in boxes]
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
        mailbox = Mailbox(Postman())
        send(mailbox.outbox(), *(Piece(str(i)) for i in range(3)))
        await asyncio.sleep(0)
        return await mailbox.get()

    assert asyncio.run(read()) == [(0, Piece("0")), (0, Piece("1")), (0, Piece("2"))]


def test_event_after_the_end_of_asyncio_is_dropped() -> None:
    async def make() -> Mailbox:
        return Mailbox(Postman())

    mailbox = asyncio.run(make())
    send(mailbox.outbox(), Piece("nobody reads this"))


def test_one_call_wakes_the_readers_of_a_step() -> None:
    async def read() -> tuple[int, list[list[Delivery]]]:
        postman = Postman()
        boxes = [Mailbox(postman) for _ in range(3)]
        readers = [asyncio.create_task(box.get()) for box in boxes]
        wakes = {box.outbox()(Piece(str(i))) for i, box in enumerate(boxes)}
        await asyncio.sleep(0.01)
        assert not any(reader.done() for reader in readers)
        for wake in wakes:
            assert wake is not None
            wake()
        return len(wakes), await asyncio.gather(*readers)

    assert asyncio.run(read()) == (1, [[(0, Piece(str(i)))] for i in range(3)])


def test_reader_that_is_given_up_loses_nothing() -> None:
    async def read() -> list[Delivery]:
        mailbox = Mailbox(Postman())
        reader = asyncio.create_task(mailbox.get())
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        send(mailbox.outbox(), Piece("a"))
        return await mailbox.get()

    assert asyncio.run(read()) == [(0, Piece("a"))]


def test_postman_serves_one_event_loop_after_another_but_not_two_at_once() -> None:
    postman = Postman()

    async def make() -> Mailbox:
        return Mailbox(postman)

    asyncio.run(make())
    asyncio.run(make())
    first = asyncio.new_event_loop()
    first.run_until_complete(make())
    with pytest.raises(RuntimeError, match="one event loop"):
        asyncio.run(make())
    first.close()


def test_whole_answer_comes_at_once() -> None:
    async def read() -> list[Delivery]:
        mailbox = Mailbox(Postman(), at_once=True)
        first, second = mailbox.outbox(0), mailbox.outbox(1)
        assert first(Piece("a")) is None
        assert second(Piece("not yet")) is None
        send(first, Piece("b"), Finish("stop", 1, 2))
        return await mailbox.get()

    assert asyncio.run(read()) == [(0, Piece("a")), (0, Piece("b")), (0, Finish("stop", 1, 2))]
