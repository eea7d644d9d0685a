"""A live server in a thread of the test's process."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from chipwise.engine.null import NullSession
from chipwise.serve.api.app import create_app
from chipwise.serve.api.site import Site
from chipwise.serve.assembly.assembly import Served, make_site
from chipwise.serve.connection.crowd import Crowd
from chipwise.serve.connection.http_server import HttpServer
from chipwise.serve.connection.listener import bind, listen, url_of
from chipwise.serve.exchange.make_service import keep_prompts, make_service
from chipwise.serve.exchange.post import Post
from chipwise.serve.exchange.service import Service
from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.hardware.hardware_metrics import HardwareCollector
from chipwise.serve.http.keys import Keys
from chipwise.serve.models.served_encoder import ServedEncoder
from chipwise.serve.models.served_graph import ServedGraph
from chipwise.serve.models.served_model import ServedModel
from chipwise.serve.observe.workload import WorkloadCollector
from chipwise.serve.settings import ServeSettings


class LetGo(HttpServer):
    """A server that is let go at once when its test is over: uvicorn first leaves clients a tenth of a second."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self.force_exit:
            await super().shutdown(sockets)
            return
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        # What was closed is told so.
        await asyncio.sleep(0)


@dataclass
class Live:
    """A server that answers at ``url``."""

    url: str
    http: httpx.Client
    post: Post[Service]
    server: HttpServer
    thread: threading.Thread
    site: Site

    @property
    def service(self) -> Service:
        return self.post.current

    @property
    def session(self) -> NullSession:
        session = self.service.model.session
        assert isinstance(session, NullSession)
        return session

    def keep_prompts(self) -> None:
        """What the server does with its prompts once its loop has ended."""
        keep_prompts(self.service)

    def metric(self, name: str) -> float:
        lines = self.http.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))

    def wait_for(self, *, running: int, waiting: int) -> None:
        """Wait until so many requests have a slot, and so many have none."""
        self.wait(
            lambda: (
                (self.metric("chipwise_running_requests"), self.metric("chipwise_queue_depth_requests"))
                == (running, waiting)
            )
        )

    def wait(self, condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
        """Wait until something holds, which the test then knows."""
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.002)


@contextmanager
def live(
    model: ServedModel | None,
    *,
    encoder: ServedEncoder | None = None,
    graph: ServedGraph | None = None,
    keys: Keys | None = None,
    hardware: Hardware | None = None,
    crowd: Crowd | None = None,
    **settings,
) -> Iterator[Live]:
    """Serve models on a free port; at the end let the server go, whatever it still does."""
    chosen = ServeSettings(port=0, **settings)
    listener = bind(chosen.host, chosen.port)
    post = None
    if model is not None:
        post = Post(make_service(model, chosen, when_broken=lambda: server.leave(), keys=keys, hardware=hardware))
        post.current.metrics.collect(WorkloadCollector(post.workload))
        if hardware is not None:
            post.current.metrics.collect(HardwareCollector(hardware))
    site = make_site(chosen, post, Served(model, encoder, graph), keys=keys)
    ready = threading.Event()
    server = LetGo(
        create_app(site), site.worker, grace_s=chosen.grace_s, on_ready=ready.set, on_drain=lambda: None, crowd=crowd
    )
    site.worker.start()
    listen(listener)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    url = url_of(listener)
    thread.start()
    assert ready.wait(10)
    try:
        # One client: making each its TLS settings takes longer than a request.
        with httpx.Client(base_url=url, verify=False, timeout=10) as client:
            yield Live(url, client, post, server, thread, site)
    finally:
        server.force_exit = True
        server.leave()
        thread.join(10)
        assert site.worker.stop(10)
        site.close()
        assert not thread.is_alive()
