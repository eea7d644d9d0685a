"""The machine that verified, as a report shows it."""

from __future__ import annotations

from chipwise.target.host.machine import Machine


def hardware(machine: Machine) -> dict[str, str]:
    """The machine's properties by name, those that are known."""
    cores = f"{machine.threads} of {machine.logical_cores}" if machine.quota_cpus else f"{machine.logical_cores}"
    known = {
        "board": machine.board,
        "cpu": machine.cpu.model,
        "cores": cores,
        "clock": f"{machine.clock_hz / 1e9:.2f} GHz" if machine.clock_hz else "",
        "memory": f"{machine.memory_bytes / 2**30:.1f} GiB" if machine.memory_bytes else "",
    }
    return {name: text for name, text in known.items() if text}


def hardware_line(machine: Machine) -> str:
    """The machine in a few words, for a measurement."""
    return f"{machine.board or machine.cpu.model}, {machine.threads} cores"
