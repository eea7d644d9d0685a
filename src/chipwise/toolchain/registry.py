"""ToolchainRegistry: vendor toolchains by name; packages bring more by entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from chipwise.errors import InputError, ToolchainError
from chipwise.toolchain.rknn import RKNN
from chipwise.toolchain.spec import ToolchainSpec

ENTRY_POINT_GROUP = "chipwise.toolchains"
"""Packages add toolchains by an entry point of this group that names a ToolchainSpec."""


class ToolchainRegistry:
    """Toolchains by name: the built-in ones, then those that installed packages bring."""

    def __init__(self, group: str = ENTRY_POINT_GROUP) -> None:
        self._group = group
        self._specs: dict[str, ToolchainSpec] = {}

    def register(self, spec: ToolchainSpec) -> None:
        """Add a toolchain.

        Raises:
            InputError: The name is taken.
        """
        if spec.name in self._specs:
            raise InputError(f"a toolchain named {spec.name!r} is already registered", remedy="choose another name")
        self._specs[spec.name] = spec

    def names(self) -> list[str]:
        """Every toolchain's name, sorted, whether it is installed or not."""
        return sorted({*self._specs, *self._from_packages()})

    def get(self, name: str) -> ToolchainSpec:
        """A toolchain by name. A registered one goes before a package's of the same name.

        Raises:
            InputError: There is none of that name.
            ToolchainError: The package that brings the toolchain fails to load.
        """
        return self._specs.get(name) or self._load(name)

    def _from_packages(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._group)}

    def _load(self, name: str) -> ToolchainSpec:
        point = self._from_packages().get(name)
        if point is None:
            raise InputError(f"no toolchain named {name!r}", remedy=f"known toolchains: {', '.join(self.names())}")
        try:
            spec = point.load()
        except Exception as e:  # a third party's module may raise anything at import
            raise ToolchainError(
                f"the toolchain {name!r} fails to load ({type(e).__name__}: {e})",
                where=point.value,
                remedy="repair or remove the package that brings it",
            ) from e
        if not isinstance(spec, ToolchainSpec):
            raise ToolchainError(f"the entry point of the toolchain {name!r} is no ToolchainSpec", where=point.value)
        return spec


toolchains = ToolchainRegistry()
toolchains.register(RKNN)


def get_toolchain(name: str) -> ToolchainSpec:
    """The toolchain of that name from the one registry; see ``ToolchainRegistry.get``.

    Raises:
        InputError: There is none of that name.
        ToolchainError: The package that brings the toolchain fails to load.
    """
    return toolchains.get(name)
