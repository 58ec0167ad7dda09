"""Small rules and small profiles for the tests of the rule language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np

from npu_advisor.engine.testing import given_profile
from npu_advisor.model.profile import Profile
from npu_advisor.rules.loader import load_rule_dirs
from npu_advisor.rules.spec import Rule

HEAD = """\
id: {id}
title: {{en: A title, zh: 标题}}
docs: {{en: Why., zh: 原因。}}
"""
TAIL = """\
suggest:
  - {effort: one-line, en: Do this., zh: 这样做。}
"""
EMIT = """\
emit:
  message: {en: Found it., zh: 已发现。}
"""


def rule_text(
    find: str, emit: str = EMIT, params: str = "", rule_id: str = "layout-sample", suggest: str = TAIL
) -> str:
    """A whole rule file around ``find`` (a list of stages, not indented)."""
    head = HEAD.format(id=rule_id)
    if params:
        head += f"params:\n{indent(dedent(params), '  ')}"
    return f"{head}find:\n{indent(dedent(find).strip(), '  ')}\n{dedent(emit)}{dedent(suggest)}"


def write(folder: Path, text: str, name: str = "layout-sample.yaml") -> Path:
    """``text`` as the file ``name`` in ``folder``."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_rule(folder: Path, find: str, **parts: Any) -> Rule:
    """The one rule of ``folder`` with these stages."""
    write(folder, rule_text(find, **parts))
    return load_rule_dirs([folder])[0]


def same(profile: Profile) -> Profile:
    """No linking at all."""
    return profile


def profile_of(**tables: Sequence[Mapping[str, Any]]) -> Profile:
    """A profile of the given rows, written as in a test file, not linked."""
    return given_profile(tables, same)


def ints(values: Any) -> list[int]:
    """An integer array as a list."""
    return [int(value) for value in np.asarray(values)]
