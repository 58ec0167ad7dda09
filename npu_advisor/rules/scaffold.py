"""A new rule to start from: a rule file that lints, and cases that pass."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say

_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")

_RULE = """\
# What each stage, function and aggregate means: npu-advisor rules explain --how language
# Tables and columns: npu-advisor schema tables
id: {id}
title:
  en: One type of kernel takes much of the computing time
  zh: 某一类算子占用了大量计算时间
docs:
  en: What the finding shows, why it costs time, and when it is a false alarm.
  zh: 说明该发现展示了什么、为什么耗时，以及什么情况下是误报。
params:
  types: {{default: [Sort, TopK], doc: kernel types to look for}}
  min_share: {{default: 0.05, unit: share, doc: share of the computing time below which we stay silent}}

find:
  - from: kernels
  - where: type in $types
  - group:
      by: [type]
      agg:
        total_us: sum(dur_us)
        calls: count()
        source: heaviest(source, dur_us)
  - let: {{share: total_us / profile.device_busy_us}}
  - where: share >= $min_share

emit:
  at: source
  recorded: total_us
  fix: {{remove: kernels}} # what the cure does to the step; its saving is replayed from this
  message:
    en: "{{calls:n}} {{type}} kernels take {{total_us:us}}, {{share:pct}} of the computing time."
    zh: "{{calls:n}} 个 {{type}} 算子耗时 {{total_us:us}}，占计算时间的 {{share:pct}}。"
  evidence: {{by: [source, input_shapes], agg: {{us: sum(dur_us), calls: count()}}, top: 5}}
suggest:
  - effort: local # environment, one-line, local or rework
    en: Say what to change.
    zh: 说明如何修改。
"""
_CASES = """\
# Run with: npu-advisor rules test --mutate --select {id} (and --rules DIR where no pyproject.toml names the folder)
rule: {id}
cases:
  - name: a tenth of the computing time
    given: # tiny tables; rows without a start follow each other
      steps: [{{dur_us: 1000}}]
      kernels:
        - {{type: MatMul, dur_us: 910}}
        - {{type: Sort, dur_us: 90, source: "train.py(42): sample"}}
    expect:
      - {{recorded_us: 90, calls: 1, at: "train.py:42"}}
  - name: near miss, a little less than the threshold
    given:
      steps: [{{dur_us: 1000}}]
      kernels: [{{type: MatMul, dur_us: 960}}, {{type: Sort, dur_us: 40}}]
    expect: []
  - name: silent, another type
    given:
      steps: [{{dur_us: 1000}}]
      kernels: [{{type: MatMul, dur_us: 500}}, {{type: Conv2D, dur_us: 500}}]
    expect: []
"""


def new_rule(rule_id: str, folder: Path, known: Iterable[str]) -> tuple[Path, Path]:
    """Write rule ``rule_id`` and its cases below ``folder`` and return both files.

    ConfigError for an id that is none or that a known rule has, and where a file is there already or cannot be written.
    """
    if not _ID.fullmatch(rule_id):
        raise ConfigError(say("rules.new_bad_id", id=rule_id), None, say("rules.new_bad_id_do"))
    if rule_id in known:
        raise ConfigError(say("rules.new_known", id=rule_id), None, say("rules.new_known_do", id=rule_id))
    place = folder / rule_id.partition("-")[0]
    files = place / f"{rule_id}.yaml", place / f"{rule_id}.test.yaml"
    for path in files:
        if path.exists():
            raise ConfigError(say("rules.new_exists", path=path))
    try:
        place.mkdir(parents=True, exist_ok=True)
        for path, text in zip(files, (_RULE, _CASES), strict=True):
            path.write_text(text.format(id=rule_id), encoding="utf-8")
    except OSError as error:
        raise ConfigError(say("error.cannot_write", path=place, reason=error.strerror or error)) from error
    return files
