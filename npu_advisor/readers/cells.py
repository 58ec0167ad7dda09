"""The cells of one column of a text file in little room: every distinct text once, or bytes where most texts differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.numbering import Numbering, factorize
from npu_advisor.base.whole import narrow
from npu_advisor.readers.numbers import Bool, Int, ns_from_text

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
        return self.each(lambda texts: np.array([not text.strip() for text in texts.tolist()], bool))

    def categorical(self) -> Categorical:
        """Stripped texts in the order met; blanks and ``N/A`` are missing."""
        if self._codes is None:
            return Categorical.of(_told(_decoded(self._texts)))
        codes, used = factorize(self._codes)
        return Categorical.merged(codes, _told(self._texts[used]))


class GrowingCells:
    """A column taken in piece by piece."""

    def __init__(self) -> None:
        self._numbers = Numbering()
        self._parts: list[npt.NDArray[Any]] = []
        self._coded: bool | None = None

    def add(self, values: Sequence[str]) -> None:
        """Append cells."""
        if not len(values):
            return
        if self._coded is None:
            self._coded = len(values) < _TELLING or 2 * len(set(values)) < len(values)
        self._parts.append(self._numbers.of(list(values)) if self._coded else _packed(values))

    def cells(self) -> Cells:
        """What was taken in."""
        if not self._coded:
            mixed = len({part.dtype.kind for part in self._parts}) > 1
            parts = [_decoded(part) if mixed else part for part in self._parts]
            return Cells(np.concatenate(parts) if parts else np.zeros(0, object))
        return Cells(_objects(list(self._numbers)), narrow(np.concatenate(self._parts)))


def joined_cells(columns: Sequence[Cells]) -> Cells:
    """One below the other."""
    grown = GrowingCells()
    for cells in columns:
        grown.add(cells.strings())
    return grown.cells()


def _packed(values: Sequence[str]) -> npt.NDArray[Any]:
    """Short ASCII texts as bytes; others as they are."""
    texts = _objects(values)
    if max(map(len, values)) > _WIDEST:
        return texts
    try:
        return texts.astype("S")
    except UnicodeEncodeError:
        return texts


def _told(texts: Iterable[str]) -> list[str]:
    stripped = [text.strip() for text in texts]
    return ["" if text == "N/A" else text for text in stripped]


def _decoded(texts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return texts.astype(str).astype(object) if texts.dtype.kind == "S" else texts


def _objects(values: Sequence[str]) -> npt.NDArray[Any]:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made
