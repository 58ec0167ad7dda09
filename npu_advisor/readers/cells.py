"""The cells of one column of a text file in little room: every distinct text once, or bytes where most texts differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_advisor.base.categorical import Categorical, objects
from npu_advisor.base.numbering import Numbering, factorize, first_equal
from npu_advisor.base.whole import narrow
from npu_advisor.readers.csvbytes import WIDEST, unquoted, width_of
from npu_advisor.readers.numbers import Bool, Int, characters, ns_from_text

# Fewer cells than this say nothing about how many texts a column has.
_TELLING = 1024
# Longer texts are kept as they are: bytes of a fixed width take the room of the longest in every row.
_WIDEST = 48


class Cells:
    """``texts`` (str, or bytes of ASCII) and for each cell which of them it holds; without ``codes`` each its own."""

    def __init__(self, texts: npt.NDArray[Any], codes: npt.NDArray[Any] | None = None) -> None:
        self._texts, self._codes = texts, codes

    @classmethod
    def of(cls, values: Sequence[str]) -> Cells:
        """The column of these texts."""
        column = GrowingCells()
        column.add(values)
        return column.cells()

    def __len__(self) -> int:
        return len(self._texts if self._codes is None else self._codes)

    def __getitem__(self, rows: Any) -> Cells:
        """The cells at ``rows``: positions or a mask."""
        return Cells(self._texts[rows]) if self._codes is None else Cells(self._texts, self._codes[rows])

    def each(self, convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """What ``convert`` makes of the texts, cell by cell; it sees every distinct one once."""
        made = convert(self._texts)
        return made if self._codes is None else made[self._codes]

    def nanoseconds(self) -> tuple[Int, Bool]:
        """As ``ns_from_text``."""
        value, ok = ns_from_text(self._texts)
        return (value, ok) if self._codes is None else (value[self._codes], ok[self._codes])

    def strings(self, rows: Any = slice(None)) -> list[str]:
        """The cells at ``rows`` as str."""
        chosen = self._texts[rows] if self._codes is None else self._texts[self._codes[rows]]
        found: list[str] = _decoded(chosen).tolist()
        return found

    def blank(self) -> Bool:
        """Which cells hold nothing but blanks."""
        return self.each(_blank)

    def categorical(self) -> Categorical:
        """Stripped texts in the order met; blanks and ``N/A`` are missing."""
        texts = _decoded(self._texts)
        if self._codes is None:
            return Categorical.of(_told(texts))
        codes, used = factorize(self._codes)
        return Categorical.merged(codes, _told(texts[used]))


class GrowingCells:
    """A column taken in piece by piece."""

    def __init__(self) -> None:
        self._numbers = Numbering()
        self._parts: list[npt.NDArray[Any]] = []
        self._coded: bool | None = None

    def add(self, values: Sequence[str]) -> None:
        """Append cells."""
        met = Numbering()
        codes = met.of([*values])
        self._take([text.encode("utf-8", "replace") for text in met], codes)

    def add_bytes(self, cells: npt.NDArray[Any], quoted: bool = False) -> None:
        """Append cells in UTF-8, ``S`` of a multiple of 8 or bytes objects; ``quoted``: as ``csvbytes`` has them."""
        if not len(cells):
            return
        quoted = quoted and _starts_quoted(cells)
        if self._coded is False and not quoted:
            self._parts.append(_texts(cells))
            return
        texts, codes = _distinct(cells)
        self._take([*map(unquoted, texts)] if quoted else texts, codes)

    def _take(self, texts: list[bytes], codes: npt.NDArray[np.int32]) -> None:
        """Append for each code its text."""
        if not len(codes):
            return
        if self._coded is None:
            self._coded = len(codes) < _TELLING or 2 * len(texts) < len(codes)
        if self._coded:
            numbers = self._numbers.of(texts)
            self._parts.append(numbers.astype(np.min_scalar_type(-len(self._numbers)))[codes])
        else:
            self._parts.append(_texts(_fixed(texts))[codes])

    def cells(self) -> Cells:
        """What was taken in."""
        if self._coded:
            return Cells(_texts(_fixed([*self._numbers])), narrow(np.concatenate(self._parts)))
        mixed = len({part.dtype.kind for part in self._parts}) > 1
        parts = [_decoded(part) if mixed else part for part in self._parts]
        return Cells(np.concatenate(parts) if parts else np.zeros(0, object))


def joined_cells(columns: Sequence[Cells]) -> Cells:
    """One below the other."""
    grown = GrowingCells()
    for cells in columns:
        grown.add(cells.strings())
    return grown.cells()


def _distinct(cells: npt.NDArray[Any]) -> tuple[list[bytes], npt.NDArray[np.int32]]:
    """The distinct cells, and which of them each is."""
    if cells.dtype.kind != "S":
        met = Numbering()
        codes = met.of(cells.tolist())
        return [*met], codes
    first = first_equal(cells.view(np.uint64).reshape(len(cells), -1))
    met_first = first == np.arange(len(cells), dtype=np.int32)
    numbers = np.cumsum(met_first, dtype=np.int32) - np.int32(1)
    return cells[met_first].tolist(), numbers[first]


def _fixed(texts: list[bytes]) -> npt.NDArray[Any]:
    """As ``S`` of a multiple of 8, or bytes objects where one is long or has what ``S`` does not keep."""
    longest = max(map(len, texts), default=0)
    if longest > WIDEST or any(b"\0" in text for text in texts):
        return objects(texts)
    return np.array(texts, f"S{width_of(longest)}")


def _texts(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """ASCII of one width as it is, without room that no cell needs; else str objects."""
    if cells.dtype.kind == "S":
        chars = characters(cells)
        if chars.max(initial=0) < 128:
            longest = int(np.flatnonzero(chars.any(axis=0)).max(initial=0)) + 1
            if longest <= _WIDEST:
                return cells.astype(f"S{longest}")
    return objects([cell.decode("utf-8", "replace") for cell in cells.tolist()])


def _starts_quoted(cells: npt.NDArray[Any]) -> bool:
    """Whether a cell begins with a quote."""
    if cells.dtype.kind == "S":
        return bool((characters(cells)[:, 0] == ord('"')).any())
    return any(cell.startswith(b'"') for cell in cells.tolist())


def _blank(texts: npt.NDArray[Any]) -> Bool:
    if texts.dtype.kind == "S":
        return np.asarray(~(characters(texts) > ord(" ")).any(axis=1))
    return np.array([not text.strip() for text in texts.tolist()], bool)


def _told(texts: Iterable[str]) -> list[str]:
    stripped = [text.strip() for text in texts]
    return ["" if text == "N/A" else text for text in stripped]


def _decoded(texts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return texts.astype(str).astype(object) if texts.dtype.kind == "S" else texts
