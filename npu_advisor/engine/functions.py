"""The functions of the expression language. Text predicates look at categories, never at rows."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from npu_advisor.base.numbering import Numbering
from npu_advisor.base.shapes import tensor_bytes, tensor_dims, tensor_sizes
from npu_advisor.engine.regex import Searcher
from npu_advisor.engine.values import Array, Kind, Value, boolean, number


@dataclass(frozen=True)
class Function:
    """A function: kinds of its arguments (``|`` alternatives), kind of its result; ``variadic`` repeats the last."""

    arguments: tuple[str, ...]
    result: Kind
    call: Callable[..., Value]
    doc: str
    variadic: bool = False


def _texts(value: Value | Sequence[str]) -> list[str]:
    """A constant text or a list as Python strings."""
    if isinstance(value, Value):
        assert value.categories is not None
        return [str(value.categories[int(value.data)])]
    return [str(item) for item in value]


def _predicate(test: Callable[[str], bool]) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        assert value.categories is not None
        truth = np.fromiter((test(str(name)) for name in value.categories), bool, len(value.categories))
        return boolean(np.append(truth, False)[value.data])

    return apply


def _glob(value: Value, patterns: Value | Sequence[str]) -> Value:
    found = [re.compile(fnmatch.translate(pattern)) for pattern in _texts(patterns)]
    return _predicate(lambda name: any(regex.match(name) for regex in found))(value)


def _matches(value: Value, pattern: Value) -> Value:
    regex = Searcher(_texts(pattern)[0])
    return _predicate(lambda name: regex.search(name) is not None)(value)


def _contains(value: Value, parts: Value | Sequence[str]) -> Value:
    wanted = _texts(parts)
    return _predicate(lambda name: any(part in name for part in wanted))(value)


def _startswith(value: Value, prefixes: Value | Sequence[str]) -> Value:
    wanted = tuple(_texts(prefixes))
    return _predicate(lambda name: name.startswith(wanted))(value)


def _extract(value: Value, pattern: Value) -> Value:
    """The first group of the pattern (without one, what it matched) in each text; missing where it matches nothing."""
    assert value.categories is not None
    searcher = Searcher(_texts(pattern)[0])
    found = [searcher.search(str(name)) for name in value.categories]
    parts = [None if match is None else match[1] if searcher.regex.groups else match[0] for match in found]
    numbers = Numbering({None: -1})
    codes = numbers.of([*parts, None]).astype(np.int64)
    return Value("text", codes[value.data], categories=np.array(numbers.new, dtype=object))


def _both_missing(left: Value, right: Value) -> Array:
    return np.asarray(left.is_missing | right.is_missing)


def _extreme(pick: Callable[[Array, Array], Array]) -> Callable[..., Value]:
    def apply(*values: Value) -> Value:
        out = values[0]
        for value in values[1:]:
            out = number(pick(out.data, value.data), _both_missing(out, value))
        return out

    return apply


_min, _max = _extreme(np.minimum), _extreme(np.maximum)


def divide(left: Value, right: Value) -> Value:
    """Left / right; x / 0 is missing."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return number(np.true_divide(left.data, right.data), _both_missing(left, right))


def _numel(shapes: Value) -> Value:
    assert shapes.categories is not None
    sizes = [tensor_sizes(str(name)) for name in shapes.categories]
    sums = np.array([np.nan if size is None else sum(size) for size in sizes] + [np.nan])
    return number(sums[shapes.data])


def _of_shapes(shapes: Value, pick: Callable[[list[tuple[int, ...]]], float]) -> Value:
    """``pick`` applied to each distinct shapes text; missing where it cannot be read or ``pick`` finds nothing."""
    assert shapes.categories is not None
    read = [tensor_dims(str(name)) for name in shapes.categories]
    found = np.array([*(np.nan if dims is None else pick(dims) for dims in read), np.nan])
    return number(found[shapes.data])


def _first_tensor(axis: int) -> Callable[[Value], Value]:
    return lambda shapes: _of_shapes(shapes, lambda tensors: float(tensors[0][axis]) if tensors[0] else np.nan)


def _nbytes(shapes: Value, dtypes: Value) -> Value:
    assert shapes.categories is not None and dtypes.categories is not None
    return number(tensor_bytes(shapes.data, shapes.categories, dtypes.data, dtypes.categories))


FUNCTIONS: dict[str, Function] = {
    "glob": Function(("text", "pattern"), "bool", _glob, "the whole text fits a pattern of * ? [ ], or any of a list"),
    "matches": Function(("text", "regex"), "bool", _matches, "a regular expression is found somewhere in the text"),
    "contains": Function(("text", "pattern"), "bool", _contains, "the text holds this part, or any of a list"),
    "startswith": Function(("text", "pattern"), "bool", _startswith, "the text starts so, or with any of a list"),
    "extract": Function(("text", "regex"), "text", _extract, "the part of the text that the first group matches"),
    "isnull": Function(("any",), "bool", lambda value: boolean(value.is_missing), "the value is missing"),
    "has": Function(
        ("path",), "bool", lambda value: value, "the profile recorded this column; naming it here does not require it"
    ),
    "abs": Function(("num",), "num", lambda value: number(np.abs(value.data), value.missing), "without its sign"),
    "min": Function(("num", "num"), "num", _min, "the smaller of its arguments", variadic=True),
    "max": Function(("num", "num"), "num", _max, "the larger of its arguments", variadic=True),
    "clip": Function(
        ("num", "num", "num"), "num", lambda x, low, high: _min(_max(x, low), high), "x kept between two bounds"
    ),
    "ratio": Function(("num", "num"), "num", divide, "a / b"),
    "numel": Function(("text",), "num", _numel, "elements of all tensors of a shapes column"),
    "leading_dim": Function(("text",), "num", _first_tensor(0), "the first dim of the first tensor of a shapes column"),
    "last_dim": Function(("text",), "num", _first_tensor(-1), "the last dim of the first tensor of a shapes column"),
    "nbytes": Function(("text", "text"), "num", _nbytes, "bytes of all tensors of a shapes and its dtypes column"),
}
UNITS = {"nbytes": "bytes", "ratio": "share"}
