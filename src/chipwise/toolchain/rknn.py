"""Rockchip's rknn-toolkit2: the versions that work together, found by trying them."""

from __future__ import annotations

from chipwise.toolchain.runners import RKNN_JOB
from chipwise.toolchain.spec import InstallStep, Licence, Pin, ToolchainSpec


def _pins(*texts: str) -> tuple[Pin, ...]:
    return tuple(Pin.parse(text) for text in texts)


RKNN = ToolchainSpec(
    name="rknn",
    purpose="compile ONNX to .rknn and simulate it without a board",
    chips=("rk3588", "rk3576", "rk3566", "rk3568", "rk3562", "rk2118", "rv1126b", "rv1103", "rv1106"),
    licence=Licence(
        name="RKNN SDK License of Rockchip (proprietary; for use with Rockchip products)",
        url="https://github.com/airockchip/rknn-toolkit2/blob/master/LICENSE",
        proprietary=True,
    ),
    # The wheel exists for 3.8 to 3.12, scipy 1.17.1 from 3.11 on.
    pythons=((3, 11), (3, 12)),
    machines=("x86_64", "aarch64"),
    steps=(
        # What it declares clashes with everything newer, so pip must not follow it.
        InstallStep("the toolkit", _pins("rknn-toolkit2==2.5.0"), size_bytes=220_000_000, no_deps=True),
        InstallStep(
            "what the toolkit imports",
            _pins(
                "numpy==1.26.4",
                "protobuf==4.25.4",
                "onnx==1.18.0",
                "onnxruntime==1.23.2",
                "psutil==7.2.2",
                "ruamel.yaml==0.19.1",
                "tqdm==4.70.1",
                "fast-histogram==0.14",
                "scipy==1.17.1",
                "opencv-python-headless==4.11.0.86",
            ),
            size_bytes=470_000_000,
        ),
        InstallStep("torch", _pins("torch==2.13.0"), size_bytes=800_000_000),
        # Last, for torch pulls a newer one that no longer has the pkg_resources the toolkit imports.
        InstallStep("an older setuptools", _pins("setuptools<81"), size_bytes=10_000_000),
    ),
    imports=("pkg_resources", "rknn.api"),
    runner=RKNN_JOB,
    proof_timeout_s=300.0,
    # "E RKNN:" alone is no failure: "Unkown op target: 0" appears on good builds.
    error_line=r"^E (?!RKNN:)",
)
