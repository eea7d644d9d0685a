"""What the chip benchmarks found, as results/rockchip_models.json and results/rockchip_emulation.json keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Way = Literal["chipwise", "toolkit"]


@dataclass(frozen=True)
class Agreement:
    """Outputs against ONNX Runtime in float32, over the samples held out; of several outputs the worst of each.

    Attributes:
        whole: Cosine of all values taken as one vector.
        mean: Mean over channels of a channel's cosine.
        min: The worst channel's.
        kl_mean_nats: Of next-token distributions; None for what is no language model.
        top1_agreement: Likewise.
    """

    whole: float | None
    mean: float | None
    min: float | None
    kl_mean_nats: float | None = None
    top1_agreement: float | None = None


@dataclass(frozen=True)
class ModelBuild:
    """One model in one scheme on one chip.

    Attributes:
        model: Its name.
        chip: The target.
        scheme: The recipe.
        way: ``chipwise`` for `chipwise build`; ``toolkit`` for the vendor's defaults on the file as exported.
        refused: Why there is no compiled file; empty if there is one.
        gate: ``passed`` or ``failed``; empty where none was held.
        agreement: What the simulator computed; None without it.
        size_bytes: Of the .rknn files.
        npu_operators: Operators on the NPU.
        cpu_operators: Those left to the CPU.
        build_s: Wall time of the whole command, verification included; for the toolkit of building and simulating.
        peak_bytes: Most memory of the toolkit's processes.
        repaired: What was changed so that the gate held, in words; empty if nothing was.
    """

    model: str
    chip: str
    scheme: str
    way: Way
    refused: str = ""
    gate: str = ""
    agreement: Agreement | None = None
    size_bytes: int | None = None
    npu_operators: int | None = None
    cpu_operators: int | None = None
    build_s: float | None = None
    peak_bytes: int | None = None
    repaired: str = ""


@dataclass(frozen=True)
class ModelWords:
    """What a model of the table is, and what its data are."""

    name: str
    words: str


@dataclass(frozen=True)
class RockchipModels:
    """results/rockchip_models.json.

    Attributes:
        date: When the last of it was measured.
        toolkit: The toolkit and its version.
        models: The models.
        builds: The builds.
    """

    date: str
    toolkit: str
    models: tuple[ModelWords, ...]
    builds: tuple[ModelBuild, ...]


@dataclass(frozen=True)
class Compared:
    """Emulated and simulated arithmetic on the same graph, calibration and inputs.

    Attributes:
        model: The model.
        chip: The chip.
        scheme: The recipe.
        samples: Samples compared.
        emulated: The emulation against float32.
        simulated: The vendor's simulator against float32.
        refused: Why one of them computed nothing; empty if both did.
    """

    model: str
    chip: str
    scheme: str
    samples: int
    emulated: Agreement | None
    simulated: Agreement | None
    refused: str = ""


@dataclass(frozen=True)
class RockchipEmulation:
    """results/rockchip_emulation.json.

    Attributes:
        date: When the last of it was measured.
        toolkit: The toolkit and its version.
        compared: The models.
    """

    date: str
    toolkit: str
    compared: tuple[Compared, ...]
