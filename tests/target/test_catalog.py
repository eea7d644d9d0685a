from __future__ import annotations

from pathlib import Path

import pytest

from chipwise.errors import InputError, UnknownTargetError
from chipwise.target import catalog, load_target, names

BOARD = """
chip = "rk3588"
mode = "ddr-4224"
[sources]
sheet = { kind = "vendor", source = "sheet", date = "2026-10" }
[board]
name = "gateway"
memory_bytes = { value = "8 GiB", source = "sheet" }
"""


def _folder(tmp_path: Path, **files: str) -> Path:
    for stem, text in files.items():
        (tmp_path / f"{stem}.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_catalog_holds_every_name() -> None:
    targets = catalog()
    assert tuple(targets) == names()
    assert all(target.name == name for name, target in targets.items())
    assert "host" not in targets


@pytest.mark.parametrize(
    ("name", "close"), [("rk3589", "rk3588"), ("RK-3576", "rk3576"), ("orin-nano-super", "orin-nano@super")]
)
def test_an_unknown_name_is_answered_with_the_closest_and_all_known(name: str, close: str) -> None:
    with pytest.raises(UnknownTargetError) as caught:
        load_target(name)
    assert f"did you mean {close}?" in str(caught.value)
    assert "cortex-a76" in str(caught.value)
    assert "host" in str(caught.value)


def test_an_unknown_name_close_to_nothing_gets_no_guess() -> None:
    with pytest.raises(UnknownTargetError) as caught:
        load_target("zzzzzz")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "@", "../common/rknn", "common/rknn", "rk3588.toml", "host@fast"])
def test_no_name_reaches_beyond_the_catalogue(name: str) -> None:
    with pytest.raises(UnknownTargetError):
        load_target(name)


def test_an_unknown_mode_lists_the_modes() -> None:
    with pytest.raises(UnknownTargetError, match="its modes: rk3588@ddr-5472, rk3588@ddr-4224"):
        load_target("rk3588@turbo")
    with pytest.raises(UnknownTargetError, match="its modes: none"):
        load_target("edge-tpu@turbo")


def test_names_are_not_case_sensitive() -> None:
    assert load_target(" RK3588 ").name == "rk3588"


def test_a_user_adds_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIPWISE_TARGETS", str(_folder(tmp_path, gateway=BOARD)))
    target = load_target("gateway")
    assert "gateway" in names()
    assert target.memory_bytes is not None
    assert target.memory_bytes.value == 8 * 2**30
    assert target.read_bps is not None
    assert target.read_bps.value == 33.792e9
    assert target.chip.name == "rk3588"


def test_a_board_needs_a_chip_that_exists(tmp_path: Path) -> None:
    folder = _folder(tmp_path, gateway=BOARD.replace("rk3588", "rk3599"))
    with pytest.raises(InputError, match=r"gateway\.toml: chip: there is no chip 'rk3599'"):
        load_target("gateway", [folder])


def test_a_board_on_a_board_is_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path, gateway=BOARD, other=BOARD.replace('"gateway"', '"other"').replace("rk3588", "gateway"))
    with pytest.raises(InputError, match="there is no chip 'gateway'"):
        load_target("other", [folder])


def test_a_board_has_no_modes_to_choose(tmp_path: Path) -> None:
    with pytest.raises(UnknownTargetError, match="the board gateway has no modes"):
        load_target("gateway@ddr-5472", [_folder(tmp_path, gateway=BOARD)])


def test_a_users_chip_counts_more_than_ours(tmp_path: Path) -> None:
    folder = _folder(tmp_path, rk3588='name = "rk3588"\nvendor = "Me"\nengines = ["rknn"]\n')
    assert load_target("rk3588", [folder]).chip.vendor == "Me"
    assert load_target("rk3588").chip.vendor == "Rockchip"


def test_a_wrong_file_does_not_spoil_the_others(tmp_path: Path) -> None:
    folder = _folder(tmp_path, broken="name = ")
    assert load_target("rk3588", [folder]).name == "rk3588"
    with pytest.raises(InputError, match=r"broken\.toml"):
        load_target("broken", [folder])
    with pytest.raises(InputError, match=r"broken\.toml"):
        catalog([folder])


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent: is no folder"):
        names([tmp_path / "absent"])
