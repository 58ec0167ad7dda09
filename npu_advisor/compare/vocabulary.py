"""Common names of ops and classes of kernels, for profiles of different devices; the lists are in vocabulary.yaml."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

OTHER = "other"


class _Class(NamedTuple):
    name: str
    kernels: re.Pattern[str] | None
    ops: re.Pattern[str] | None
    unless_ops: re.Pattern[str] | None


def common_name(op: str) -> str:
    """The name of ``op`` that all devices share, itself where it is no other device's op."""
    names: dict[str, str] = _vocabulary()["same_ops"]
    return names.get(op, op)


@lru_cache(maxsize=65536)
def kernel_class(kernel: str, op: str) -> str:
    """The class of work of a kernel type launched by ``op`` (empty: unknown): matmul, attention, norm, ...

    ``other`` where neither is known.
    """
    for one in _classes():
        known = one.kernels is not None and one.kernels.search(kernel)
        if known and not (one.unless_ops is not None and one.unless_ops.search(op)):
            return one.name
    return next((one.name for one in _classes() if one.ops is not None and one.ops.search(op)), OTHER)


def class_names() -> list[str]:
    """Every class, in the order of the list, ``other`` last."""
    return [*(one.name for one in _classes()), OTHER]


@lru_cache(maxsize=1)
def wrapper_modules() -> frozenset[str]:
    """Classes of modules that only hold the user's: they come and go with the way of running it."""
    return frozenset(_vocabulary()["wrapper_modules"])


@lru_cache(maxsize=1)
def _vocabulary() -> dict[str, Any]:
    text = files("npu_advisor.compare").joinpath("vocabulary.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@lru_cache(maxsize=1)
def _classes() -> list[_Class]:
    return [
        _Class(entry["name"], *(_any_of(entry.get(key, [])) for key in ("kernels", "ops", "unless_ops")))
        for entry in _vocabulary()["classes"]
    ]


def _any_of(patterns: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE) if patterns else None
