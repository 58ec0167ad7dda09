"""The raw tables of a profile in one file of numpy arrays, and back: nothing in it is code, so it may be anybody's.

An array per column (texts: their codes), and ``head``, a JSON text: what a profile says about itself, what is missing,
and the texts that the codes stand for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import IO, Any

import numpy as np
from pydantic import TypeAdapter

from npu_advisor.base.categorical import Categorical
from npu_advisor.base.terms import Text
from npu_advisor.model.profile import Diagnostic, Profile, ProfileInfo
from npu_advisor.model.schema import SCHEMA
from npu_advisor.model.table import Table

HEAD = "head"


@dataclass(frozen=True)
class _Head:
    """``lengths`` is by table, ``texts`` by table and column."""

    info: ProfileInfo
    diagnostics: list[Diagnostic]
    absent: dict[str, Text]
    lengths: dict[str, int]
    texts: dict[str, dict[str, list[Any]]]


@cache
def _adapter() -> TypeAdapter[_Head]:
    return TypeAdapter(_Head)


def save(profile: Profile, file: IO[bytes]) -> None:
    """Write ``profile`` as a reader left it. Raises OSError, and ValueError for texts that UTF-8 cannot hold."""
    arrays: dict[str, Any] = {}
    texts: dict[str, dict[str, list[Any]]] = {}
    tables = profile.stored
    for name, table in tables.items():
        texts[name] = {}
        for column in table.stored:
            values = table[column]
            if isinstance(values, Categorical):
                texts[name][column] = values.categories.tolist()
                values = values.codes
            arrays[f"{name}/{column}"] = values
    lengths = {name: len(table) for name, table in tables.items()}
    head = _Head(profile.info, profile.diagnostics, profile.absent, lengths, texts)
    packed = json.dumps(_adapter().dump_python(head, mode="json"), ensure_ascii=False).encode()
    np.savez(file, allow_pickle=False, **{HEAD: np.frombuffer(packed, np.uint8)}, **arrays)


def load(file: IO[bytes]) -> Profile:
    """The profile that ``save`` wrote. Raises OSError, ValueError, KeyError or BadZipFile for anything else."""
    with np.load(file, allow_pickle=False) as arrays:
        head = _adapter().validate_python(json.loads(arrays[HEAD].tobytes()))
        columns: dict[str, dict[str, Any]] = {name: {} for name in head.lengths}
        for key in arrays.files:
            name, slash, column = key.partition("/")
            if not slash:
                continue
            values: Any = arrays[key]
            labels = head.texts[name].get(column)
            if labels is not None:
                values = Categorical(values, labels)
            columns[name][column] = values
    rank = head.info.rank
    tables = {name: Table(SCHEMA[name], columns[name], head.lengths[name], rank) for name in columns}
    profile = Profile(head.info, tables, head.diagnostics)
    profile.absent.update(head.absent)
    return profile
