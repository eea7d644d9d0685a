"""A net in ONNX Runtime behind /v1/infer: what the graph gives when it is run alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chipwise.bundle import open_bundle
from chipwise.cli.main import main
from chipwise.engine.isolated import IsolatedGraph
from chipwise.serve.assembly.assembly import open_single_shots
from tests.build.models import write_images, write_net
from tests.serve.live import Live, live

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[None, True], ids=["in the server's process", "in its own"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("graph")
    net, samples = write_net(folder / "net.onnx"), write_images(folder / "images.npz")
    args = ["build", str(net), "--target", "host", "--samples", str(samples), "--threads", "1", "-o", str(folder / "b")]
    assert main(args) == 0
    served = open_single_shots(open_bundle(folder / "b"), threads=1, isolate=request.param)
    assert served.encoder is None
    assert isinstance(served.graph.session, IsolatedGraph) is bool(request.param)
    with live(None, graph=served.graph) as running:
        yield running
    served.graph.session.close()


def test_many_requests_at_once_get_what_each_gets_alone(server: Live) -> None:
    model = server.site.inference.current.model
    assert server.http.get("/v1/infer").json()["inputs"] == [
        {"name": "image", "datatype": "FP32", "shape": [-1, 3, 16, 16]}
    ]
    feeds = [np.random.default_rng(i).normal(size=(1 + i % 3, 3, 16, 16)).astype(np.float32) for i in range(24)]
    expected = [model.session.run({"image": feed})["logits"] for feed in feeds]

    def ask(feed: np.ndarray) -> np.ndarray:
        given = {"name": "image", "shape": list(feed.shape), "datatype": "FP32", "data": feed.tolist()}
        (output,) = server.http.post("/v1/infer", json={"inputs": [given]}).json()["outputs"]
        return np.array(output["data"], np.float32).reshape(output["shape"])

    with ThreadPoolExecutor(6) as pool:
        for answer, logits in zip(pool.map(ask, feeds), expected, strict=True):
            assert np.array_equal(answer, logits)
