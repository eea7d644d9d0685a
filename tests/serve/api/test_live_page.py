from __future__ import annotations

import re

from chipwise.serve.hardware.hardware import Hardware
from chipwise.serve.hardware.policy import Policy
from chipwise.serve.hardware.rung import ladder
from chipwise.sim import Activity, VirtualBoard, VirtualFiles, load_spec
from chipwise.telemetry import BoardMeters, Tree
from tests.serve.fakes import null_model, says
from tests.serve.live import live

ASKED = {"prompt": "a\n", "max_tokens": 3}


def hot_board() -> tuple[Hardware, VirtualBoard]:
    board = VirtualBoard(load_spec("rk3588"), 70.0)
    board.advance(600, Activity(0.9, 0.2))
    meters = BoardMeters(Tree(VirtualFiles(board), timeout_s=None))
    return Hardware("sim:rk3588 <b>", meters, Policy(ladder(4)), clock=lambda: board.now_s), board


def row(page: str, name: str) -> tuple[str, str]:
    found = re.search(
        rf'<th scope="row">{re.escape(name)}</th><td class="value">(.*?)</td><td class="remark">(.*?)</td>', page
    )
    assert found, name
    return found[1], found[2]


def test_page_has_serving_policy_and_board() -> None:
    hardware, board = hot_board()
    with live(null_model(next_token=says("hello")), hardware=hardware) as server:
        assert server.http.post("/v1/completions", json=ASKED, headers={"X-Priority": "emergency"}).status_code == 200
        answer = server.http.get("/")
    page = answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert row(page, "Tokens generated") == ("3", "")
    assert row(page, "Requests that run")[1] == "of 4 at most"
    assert row(page, "length") == ("1", "")
    assert row(page, "Time to the first token")[1] == "the mean of 1"
    assert row(page, "Rung")[0] == "emergencies only"
    assert "degrees, 3 to guard" in row(page, "Rung")[1]
    assert row(page, "temp_c")[0] == f"{max(board.temps_c.values()):.1f} °C"
    assert row(page, "npu_load") == ("0.9", "sys/kernel/debug/rknpu/load")
    assert row(page, "power_w") == ("unknown", "nothing on this board tells it")
    assert "sim:rk3588 &lt;b&gt;" in page


def test_page_without_a_board_and_with_a_stale_one() -> None:
    with live(null_model()) as server:
        page = server.http.get("/").text
    assert row(page, "Time to the first token")[0] == "none yet"
    assert 'id="board"' not in page
    hardware, board = hot_board()
    board.advance(11.0)
    with live(null_model(), hardware=hardware) as server:
        page = server.http.get("/").text
    assert row(page, "Age of the state") == ("11 s", "too old to be shown")
    assert "temp_c" not in page


def test_board_without_a_policy_says_why() -> None:
    _, board = hot_board()
    meters = BoardMeters(Tree(VirtualFiles(board), timeout_s=None))
    hardware = Hardware("/", meters, None, why_no_policy="no thermometer", clock=lambda: board.now_s)
    with live(null_model(), hardware=hardware) as server:
        assert row(server.http.get("/").text, "Policy") == ("off", "no thermometer")


def test_who_is_turned_away_by_the_board_is_not_told_of_a_queue() -> None:
    hardware, _ = hot_board()
    with live(null_model(next_token=says("hello")), hardware=hardware) as server:
        refused = server.http.post("/v1/completions", json=ASKED)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "board_protected")
    assert int(refused.headers["retry-after"]) > 0
