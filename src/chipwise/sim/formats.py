"""The files of a virtual board: what the kernel of such a board would print for the model's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chipwise.sim.virtual_board import VirtualBoard
from chipwise.telemetry.devfreq import FOLDER as DEVFREQ
from chipwise.telemetry.tegrastats import PATH as TEGRASTATS
from chipwise.telemetry.thermal import FOLDER as THERMAL

Files = Mapping[str, Callable[[], str]]
"""Path to what its file says now. The paths of a board do not change."""

# What a file of the kernel can say: see docs of `chipwise.telemetry`.
_RKNPU = "sys/kernel/debug/rknpu"
_NO_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def files_of(board: VirtualBoard) -> Files:
    """All files of a board in its format."""
    common = {**_zones(board), **_devfreq(board), **_memory(board)}
    return {**common, **(_rknpu(board) if board.spec.format == "rockchip" else _tegrastats(board))}


def cap_path(board: VirtualBoard) -> str:
    """The file through which the user sets the highest clock."""
    return f"{DEVFREQ}/{board.spec.device}/max_freq"


def _zones(board: VirtualBoard) -> Files:
    numbers, found = board.spec.parameters, {}
    trips = (("passive", numbers.passive_c.value), ("critical", numbers.critical_c.value))
    for n, zone in enumerate(board.spec.zones):
        base = f"{THERMAL}/thermal_zone{n}"
        kind = zone if zone.endswith("-thermal") else f"{zone}-thermal"
        found[f"{base}/type"] = _constant(kind)
        found[f"{base}/temp"] = _zone(board, zone)
        for t, (name, temp_c) in enumerate(trips):
            found[f"{base}/trip_point_{t}_type"] = _constant(name)
            found[f"{base}/trip_point_{t}_temp"] = _constant(_milli(temp_c))
    return found


def _devfreq(board: VirtualBoard) -> Files:
    base = f"{DEVFREQ}/{board.spec.device}"
    rockchip = board.spec.format == "rockchip"
    return {
        f"{base}/cur_freq": lambda: f"{board.clock_hz:.0f}\n",
        f"{base}/max_freq": lambda: f"{board.cap_hz:.0f}\n",
        f"{base}/available_frequencies": _constant(" ".join(f"{hz:.0f}" for hz in board.clocks_hz)),
        f"{base}/governor": _constant("rknpu_ondemand" if rockchip else "nvhost_podgov"),
        # Rockchip's stays at 100 under its own governor; Jetsons have no such file.
        **({f"{base}/load": lambda: f"100@{board.clock_hz:.0f}Hz\n"} if rockchip else {}),
    }


def _memory(board: VirtualBoard) -> Files:
    total = int(board.spec.parameters.memory_bytes.value) // 1024

    def meminfo() -> str:
        free = total - board.used_bytes // 1024
        return f"MemTotal:       {total:8d} kB\nMemFree:        {free:8d} kB\nMemAvailable:   {free:8d} kB\n"

    return {
        "proc/meminfo": meminfo,
        "proc/pressure/cpu": lambda: _NO_PRESSURE,
        "proc/pressure/memory": lambda: _NO_PRESSURE,
    }


def _rknpu(board: VirtualBoard) -> Files:
    cores = board.spec.cores

    def load() -> str:
        percent = round(100 * board.accelerator_load)
        if cores == 1:
            return f"NPU load:  {percent}%\n"
        return f"NPU load: {','.join(f'  Core{n}: {percent:2d}%' for n in range(cores))},\n".replace("  Core", " Core")

    return {
        f"{_RKNPU}/load": load,
        f"{_RKNPU}/freq": lambda: f"{board.clock_hz:.0f}\n",
        f"{_RKNPU}/version": _constant("RKNPU driver: v0.9.8"),
        f"{_RKNPU}/power": _constant("on"),
    }


def _tegrastats(board: VirtualBoard) -> Files:
    total = int(board.spec.parameters.memory_bytes.value) >> 20

    def line() -> str:
        temps = " ".join(f"{zone}@{temp_c:.3f}C" for zone, temp_c in board.temps_c.items())
        cores = ",".join([f"{round(100 * board.cpu_load)}%@1497"] * 6)
        power = round(1000 * board.power_w)
        return (
            f"RAM {board.used_bytes >> 20}/{total}MB (lfb 1x4MB) CPU [{cores}] EMC_FREQ 0%@204 "
            f"GR3D_FREQ {round(100 * board.accelerator_load)}%@[{board.clock_hz / 1e6:.0f}] "
            f"{temps} VDD_IN {power}mW/{power}mW\n"
        )

    return {TEGRASTATS: line}


def _zone(board: VirtualBoard, zone: str) -> Callable[[], str]:
    return lambda: f"{_milli(board.temps_c[zone])}\n"


def _constant(text: str) -> Callable[[], str]:
    return lambda: f"{text}\n"


def _milli(temp_c: float) -> str:
    return f"{temp_c * 1000:.0f}"
