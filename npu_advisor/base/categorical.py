"""Columns of text: every distinct text once, and for each row which of them it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from npu_advisor.base.numbering import Numbering

if TYPE_CHECKING:
    import pandas as pd

Bools = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]


class Categorical:
    """``codes`` (n) into ``categories`` (k distinct str, an object array); -1 is missing.

    What ``pandas.Categorical`` is, without its import: that takes longer than a small profile.
    """

    __slots__ = ("categories", "codes")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, codes: npt.NDArray[Any], categories: Iterable[str]) -> None:
        """ValueError for codes that stand for nothing, and for equal categories."""
        self.categories = objects(categories)
        if codes.dtype.kind != "i" or (len(codes) and not -1 <= codes.min() <= codes.max() < len(self.categories)):
            raise ValueError("codes are whole numbers from -1 to the number of categories less one")
        if len({*self.categories}) < len(self.categories):
            raise ValueError("categories are distinct")
        self.codes = codes.astype(_narrowest(len(self.categories)), copy=False)

    @classmethod
    def of(cls, values: Any) -> Categorical:
        """The column of these texts, categories in the order met; None, NaN and "" are missing.

        ValueError for what is no text.
        """
        if isinstance(values, Categorical):
            return cls.merged(values.codes, values.categories) if "" in values.categories else values
        numbers = Numbering()
        codes = numbers.of(np.asarray(values, dtype=object).tolist())
        return cls.merged(codes, map(_text, numbers))

    @classmethod
    def merged(cls, codes: npt.NDArray[Any], labels: Iterable[str | None]) -> Categorical:
        """``codes`` into ``labels``, of which equal ones become one category; None and "" are missing."""
        numbers = Numbering({None: -1, "": -1})
        of_label = numbers.of([*labels])
        return cls._trusted(np.append(of_label, np.int32(-1)), objects(numbers.new))[codes]

    @classmethod
    def _trusted(cls, codes: npt.NDArray[Any], categories: Objects) -> Categorical:
        made = cls.__new__(cls)
        made.codes, made.categories = codes.astype(_narrowest(len(categories)), copy=False), categories
        return made

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str | None]:
        return iter(np.asarray(self).tolist())

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> str | None: ...

    @overload
    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> Categorical: ...

    def __getitem__(self, rows: Any) -> Categorical | str | None:
        """The texts at ``rows``: positions, a mask or a slice; of one position the text, None where missing."""
        codes = self.codes[rows]
        if np.ndim(codes):
            return Categorical._trusted(codes, self.categories)
        return self.categories[codes] if codes >= 0 else None

    def __eq__(self, text: object) -> Bools:  # type: ignore[override]
        """Where the column holds ``text``; nowhere that it is missing."""
        if not isinstance(text, str):
            return NotImplemented
        (found,) = np.nonzero(self.categories == text)
        return np.asarray(self.codes == found[0]) if len(found) else np.zeros(len(self), bool)

    def __ne__(self, text: object) -> Bools:  # type: ignore[override]
        return ~(self == text) if isinstance(text, str) else NotImplemented

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Objects:
        """An object array of str, None where missing."""
        texts = np.array([*self.categories, None], dtype=object)
        found: Objects = texts[self.codes]
        return found

    def with_codes(self, codes: npt.NDArray[Any]) -> Categorical:
        """Other ``codes`` into the same categories."""
        return Categorical._trusted(codes, self.categories)

    def remove_unused_categories(self) -> Categorical:
        """Only the categories that some row holds, in their order."""
        used = np.bincount(self.codes[self.codes >= 0], minlength=len(self.categories)) > 0
        if used.all():
            return self
        places = np.append(np.where(used, np.cumsum(used) - 1, -1), -1)
        return Categorical._trusted(places, self.categories[used])[self.codes]

    def to_pandas(self) -> pd.Categorical:
        """The same as pandas has it."""
        import pandas as pd

        return pd.Categorical.from_codes(self.codes, categories=pd.Index(self.categories, dtype=object))


def objects(values: Iterable[Any]) -> Objects:
    """An array of these as they are: numpy itself would look into them."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        return values
    listed = [*values]
    made = np.empty(len(listed), dtype=object)
    made[:] = listed
    return made


def _text(value: Any) -> str | None:
    """A text as it is; None for None and NaN."""
    if isinstance(value, str):
        return value
    if value is not None and value == value:
        raise ValueError(f"{value!r} is no text")
    return None


def _narrowest(categories: int) -> np.dtype[Any]:
    return np.min_scalar_type(-max(categories, 1))
