"""FlatTable: one table of a FlatBuffer, read without its schema and without trust in any of its offsets.

Layout: https://flatbuffers.dev/internals. A table starts with the distance back to its vtable; the vtable has its own
size, the table's size, and for each field the distance from the table's start (0 if absent). Vectors, strings and other
tables are reached by a u32 distance forward from where that distance stands.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from io import RawIOBase

from chipwise.errors import ModelFormatError

# The longest name of a tensor or operator that is believed.
_MAX_TEXT_BYTES = 1 << 16


class FlatBytes:
    """A FlatBuffer inside a file, read piece by piece, every read checked against its end.

    Offsets may point many times at the same bytes. So what is copied out is counted, and more than half of what the
    buffer holds is refused: a small file cannot ask for much memory.

    Args:
        stream: The file, without a buffer of its own: pieces are small and lie far apart.
        start: Where the FlatBuffer starts in it.
        length: The FlatBuffer's bytes.
        where: The file's name, for errors.
    """

    def __init__(self, stream: RawIOBase, start: int, length: int, where: str) -> None:
        self._stream = stream
        self._start = start
        self._length = length
        self._where = where
        self._left_bytes = length // 2

    def root(self) -> FlatTable:
        """The table that the buffer's first word points to."""
        return self.table(self.number("I", 0))

    def table(self, start: int) -> FlatTable:
        """The table that starts at an offset."""
        vtable = start - self.number("i", start)
        count = (self.number("H", vtable) - 4) // 2
        if count < 0:
            raise self.damaged()
        return FlatTable(self, start, vtable, count)

    def number(self, code: str, start: int) -> int:
        """One whole number of struct's format ``code`` at an offset."""
        value: int = self.unpack(code, start)[0]
        return value

    def unpack(self, code: str, start: int) -> tuple[int, ...]:
        """Numbers of struct's format ``code`` at an offset; floats where the code says so."""
        return struct.unpack(f"<{code}", self.copy(start, struct.calcsize(f"<{code}")))

    def copy(self, start: int, count: int) -> bytes:
        """``count`` bytes from an offset on."""
        if start < 0 or start + count > self._length:
            raise self.damaged()
        self._stream.seek(self._start + start)
        piece = self._stream.read(count)
        if piece is None or len(piece) != count:
            raise self.damaged("the file ends before they do")
        return piece

    def charge(self, count: int) -> None:
        """Count bytes that are copied out.

        Raises:
            ModelFormatError: More was copied than half of what the buffer holds.
        """
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise self.damaged("it refers to the same bytes again and again")

    def damaged(self, why: str = "an offset leads out of it") -> ModelFormatError:
        """The error for content that no compiler writes."""
        return ModelFormatError(f"the model's tables are damaged: {why}", where=self._where, remedy="build it again")


@dataclass(frozen=True)
class FlatTable:
    """One table; its fields are known by their number in the schema, from 0.

    Attributes:
        flat: The buffer it lies in.
        start: Where it starts, in bytes.
        vtable: Where its vtable starts, in bytes.
        count: How many fields the vtable lists.
    """

    flat: FlatBytes
    start: int
    vtable: int
    count: int

    def _place(self, field: int) -> int | None:
        if field >= self.count:
            return None
        distance = self.flat.number("H", self.vtable + 4 + 2 * field)
        return self.start + distance if distance else None

    def _target(self, field: int) -> int | None:
        place = self._place(field)
        return None if place is None else place + self.flat.number("I", place)

    def number(self, field: int, code: str) -> int:
        """A scalar; 0 where the field is absent, as FlatBuffers leaves out defaults."""
        place = self._place(field)
        return 0 if place is None else self.flat.number(code, place)

    def text(self, field: int) -> str:
        """A string; empty where the field is absent.

        Raises:
            ModelFormatError: It leads out of the buffer, is not UTF-8, or longer than any name.
        """
        target = self._target(field)
        if target is None:
            return ""
        try:
            count = self.flat.number("I", target)
            if count > _MAX_TEXT_BYTES:
                raise self.flat.damaged(f"a name of {count} bytes")
            text = self.flat.copy(target + 4, count).decode()
        except UnicodeDecodeError as e:
            raise self.flat.damaged("a name in it is not UTF-8") from e
        # One wide character makes all of a text's characters wide.
        self.flat.charge(sys.getsizeof(text))
        return text

    def numbers(self, field: int, code: str) -> tuple[int, ...]:
        """A vector of 4-byte numbers: ``I``, ``i`` or ``f`` (floats then); empty where the field is absent."""
        target = self._target(field)
        if target is None:
            return ()
        count = self.flat.number("I", target)
        self.flat.charge(4 * count)
        return self.flat.unpack(f"{count}{code}", target + 4)

    def length(self, field: int) -> int:
        """How many elements a vector says it has; 0 where the field is absent."""
        target = self._target(field)
        return 0 if target is None else self.flat.number("I", target)

    def child(self, field: int) -> FlatTable | None:
        """The table a field refers to; None where the field is absent."""
        target = self._target(field)
        return None if target is None else self.flat.table(target)

    def element(self, field: int, index: int) -> FlatTable:
        """One element of a vector of tables.

        Raises:
            ModelFormatError: The vector has no such element, or it leads out of the buffer.
        """
        target = self._target(field)
        if target is None or index >= self.flat.number("I", target):
            raise self.flat.damaged("it refers to an element that is not there")
        place = target + 4 + 4 * index
        return self.flat.table(place + self.flat.number("I", place))
