"""Run the cases of a rule: tiny tables written in YAML, or a recorded profile, against what the rule must say.

The loader of recorded profiles and the linking of given ones are handed in: the engine may not import readers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from npu_advisor.base.frame import parse_frame
from npu_advisor.engine.compile import compile_rule
from npu_advisor.engine.run import RawFinding, RuleResult, run_rule
from npu_advisor.findings import Finding
from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.schema import SCHEMA, Column, TableSpec
from npu_advisor.model.table import Table
from npu_advisor.rules.cases import Case
from npu_advisor.rules.loader import with_params
from npu_advisor.rules.source import nearest
from npu_advisor.rules.spec import Rule

Load = Callable[[Path], Profile]
Finish = Callable[[Profile], Profile]
Price = Callable[[Profile, RuleResult], Sequence[Finding]]
Row = dict[str, Any]
_KINDS: dict[str, type | tuple[type, ...]] = {
    "int": int,
    "key": int,
    "float": (int, float),
    "text": (str, type(None)),
    "bool": bool,
}
REAL = "NPU_ADVISOR_REAL_PROFILES"


class CaseError(ValueError):
    """A case is written wrongly."""


@dataclass(frozen=True)
class CaseResult:
    """How one case ended; ``message`` says what differs, or why it was skipped."""

    rule_id: str
    name: str
    status: Literal["passed", "failed", "skipped"]
    message: str = ""


def run_case(
    rule: Rule,
    case: Case,
    load_profile: Load,
    finish: Finish,
    price: Price | None = None,
    real: Path | None = None,
) -> CaseResult:
    """Run ``rule`` on the case's profile and compare.

    ``real`` is the folder of recorded profiles (default: environment ``NPU_ADVISOR_REAL_PROFILES``); without ``price``
    severities are not compared.
    """
    try:
        if case.profile is not None:
            path = real_path(case.profile, real)
            if path is None or not path.exists():
                return CaseResult(rule.id, case.name, "skipped", f"no recorded profile {case.profile}; set {REAL}")
            profile = load_profile(path)
        else:
            profile = case_profile(rule, case, finish)
        found = differences(rule, case, profile, price)
    except CaseError as error:
        found = [str(error)]
    return CaseResult(rule.id, case.name, "failed" if found else "passed", "; ".join(found))


def case_profile(rule: Rule, case: Case, finish: Finish) -> Profile:
    """The profile of a case with given tables, its other ranks and runs included."""
    profile = given_profile(case.given or {}, finish, rule)
    profile.peers = [given_profile(one, finish, rule, rank) for rank, one in enumerate(case.peers, 1)]
    profile.runs = [given_profile(one, finish, rule) for one in case.runs]
    return profile


def differences(rule: Rule, case: Case, profile: Profile, price: Price | None = None) -> list[str]:
    """What ``rule`` says of ``profile`` otherwise than the case expects."""
    rule = with_params(rule, case.params) if case.params else rule
    return _differences(case, run_rule(rule, profile), profile, price)


def real_path(name: str, real: Path | None = None) -> Path | None:
    """The recorded profile ``real/<folder>``, None when there is no folder of recorded profiles."""
    kind, _, rest = name.partition("/")
    if kind != "real" or not rest or ".." in Path(rest).parts:
        raise CaseError(f"profile '{name}' is not 'real/<folder>'")
    root = real or (Path(os.environ[REAL]) if os.environ.get(REAL) else None)
    return None if root is None else root / rest


# --- given tables ----------------------------------------------------------------------------------------------------


def given_profile(
    given: Mapping[str, Sequence[Mapping[str, Any]]], finish: Finish, rule: Rule | None = None, rank: int = 0
) -> Profile:
    """A profile of the given tables, finished; CaseError for what the schema does not know.

    Columns that ``rule`` needs and the case does not name hold missing values.
    """
    tables = {}
    for name, rows in given.items():
        if name not in SCHEMA:
            raise CaseError(f"unknown table '{name}'{nearest(name, SCHEMA)}")
        tables[name] = _Given(SCHEMA[name], rows, one_step=len(given.get("steps", ())) == 1).table(rank)
    profile = finish(Profile(ProfileInfo(path="given", rank=rank), tables))
    for requirement in compile_rule(rule).requirements if rule else ():
        for name in requirement.tables:
            table = profile.table(name)
            column = table.spec.column(requirement.column)
            if name in given and column and column.name not in table.present and profile.has(name):
                profile.put(table.with_columns(**{column.name: _default(column, len(table))}))
    return profile


def _default(column: Column, length: int) -> Any:
    values = {"float": np.nan, "text": None, "bool": False}
    dtype = object if column.kind == "text" else None
    return np.full(length, values.get(column.kind, column.missing), dtype=dtype)


class _Given:
    """The rows of one given table on their way to columns."""

    def __init__(self, spec: TableSpec, rows: Sequence[Mapping[str, Any]], *, one_step: bool) -> None:
        self.spec = spec
        self.rows = [self._named(dict(row), index) for index, row in enumerate(rows)]
        if spec.timed:
            self._place()
        if spec.name == "ops" and any("parent" in row for row in self.rows):
            self._number()
        names = dict.fromkeys(name for row in self.rows for name in row)
        if one_step and spec.column("step") and "step" not in names:
            for row in self.rows:
                row["step"] = 0

    def table(self, rank: int) -> Table:
        columns: dict[str, Any] = {}
        for name in dict.fromkeys(name for row in self.rows for name in row):
            column = self.spec.column(name) or Column(name, "text", "")
            empty = _default(column, 1)[0]
            values = [row.get(name, empty) for row in self.rows]
            for value in values:
                if not isinstance(value, _KINDS[column.kind]) and value is not empty:
                    raise CaseError(f"table '{self.spec.name}': column '{name}' cannot be {value!r}")
            columns[name] = np.array(values, dtype=object) if column.kind == "text" else values
        try:
            return Table.build(self.spec.name, columns, rank=rank)
        except (ValueError, OverflowError) as error:
            raise CaseError(f"table '{self.spec.name}': {error}") from error

    def _named(self, row: Row, index: int) -> Row:
        """``row`` in schema columns: times in ns, the row's label checked and dropped."""
        label = self.spec.name.removesuffix("s")
        labelled = label != self.spec.name and label in row and self.spec.column(label) is None
        if labelled and row.pop(label) != index:
            raise CaseError(f"'{label}' labels a row of '{self.spec.name}' and must be its position, {index}")
        out: Row = {}
        for name, value in row.items():
            in_ns = f"{name[:-3]}_ns" if name.endswith("_us") else ""
            stored = {column.name for column in self.spec.columns}
            if in_ns in stored and name not in stored:
                if not isinstance(value, int | float):
                    raise CaseError(f"table '{self.spec.name}': column '{name}' cannot be {value!r}")
                out[in_ns] = round(value * 1000)
            elif name in stored or (self.spec.name == "profile" and name.startswith("env.")):
                out[name] = value
            else:
                raise CaseError(f"table '{self.spec.name}' has no column '{name}'{nearest(name, self.spec.names)}")
        return out

    def _place(self) -> None:
        """Rows without a start follow each other on their lane; children begin with their parent."""
        cursor: dict[tuple[Any, ...], int] = {}
        for row in self.rows:
            row.setdefault("dur_ns", 0)
            lane = tuple(row.get(name, -1) for name in ("pid", "track", "tid", "stream", "parent"))
            parent = row.get("parent", -1) if self.spec.name == "ops" else -1
            if 0 <= parent < len(self.rows):
                cursor.setdefault(lane, self.rows[parent].get("start_ns", 0))
            row.setdefault("start_ns", cursor.get(lane, 0))
            cursor[lane] = row["start_ns"] + row["dur_ns"]

    def _number(self) -> None:
        """Pre-order numbers and depth from the given parents."""
        children: dict[int, list[int]] = {}
        for index, row in enumerate(self.rows):
            children.setdefault(row.setdefault("parent", -1), []).append(index)
        stack, numbers = [(index, 0) for index in reversed(children.get(-1, []))], 0
        order = []
        while stack:
            index, depth = stack.pop()
            self.rows[index] |= {"pre": numbers, "last": numbers, "depth": depth}
            order.append(index)
            numbers += 1
            stack += [(child, depth + 1) for child in reversed(children.get(index, []))]
        if numbers < len(self.rows):
            raise CaseError("the parents of 'ops' form a circle or name a row that is not there")
        for index in reversed(order):
            parent = self.rows[index]["parent"]
            if parent >= 0:
                self.rows[parent]["last"] = max(self.rows[parent]["last"], self.rows[index]["last"])


# --- comparison ------------------------------------------------------------------------------------------------------


def _differences(case: Case, result: RuleResult, profile: Profile, price: Price | None) -> list[str]:
    """What differs from the expectation. A rule that could not look is never taken for a silent one."""
    wanted = case.outcome or ("fired" if case.expect else "clean")
    if result.outcome in ("skipped", "failed") and result.outcome != wanted:
        return [f"the rule was {result.outcome}: {result.reason.en if result.reason else ''}"]
    found = result.raw_findings
    if len(found) != len(case.expect):
        said = "; ".join(raw.message.en for raw in found)
        return [f"{len(found)} findings, {len(case.expect)} expected" + (f": {said}" if said else "")]
    if result.outcome != wanted:
        return [f"the rule is {result.outcome}, {wanted} expected"]
    severities = {}
    if price is not None and any("severity" in expected for expected in case.expect):
        severities = {finding.message.en: finding.severity.value for finding in price(profile, result)}
    return _unmatched(case.expect, found, severities)


def _unmatched(expect: Sequence[Row], found: Sequence[RawFinding], severities: Mapping[str, str]) -> list[str]:
    """Expectations that no finding of its own meets, each with what differs in the closest one."""
    left, differences = list(found), []
    for expected in expect:
        tried = [_mismatches(expected, raw, severities.get(raw.message.en)) for raw in left]
        best = min(range(len(tried)), key=lambda index: len(tried[index]))
        if tried[best]:
            differences += tried[best]
        left.pop(best)
    return differences


def _mismatches(expected: Row, raw: RawFinding, severity: str | None) -> list[str]:
    out = []
    for key, wanted in expected.items():
        if key == "severity":
            if severity is not None and severity != wanted:
                out.append(f"severity is {severity}, not {wanted}")
        elif key == "at":
            at = _short(raw.source)
            if at != wanted and not (raw.source and wanted and _short(wanted) == at):
                out.append(f"at is {at}, not {wanted}")
        else:
            known = {**raw.values, "recorded_us": raw.recorded_us, "step": raw.step, "how": raw.how}
            if key not in known:
                out.append(f"the finding has no '{key}'{nearest(key, known)}")
            elif not _same(known[key], wanted):
                out.append(f"{key} is {known[key]}, not {wanted}")
    return out


def _short(source: str | None) -> str | None:
    frame = parse_frame(source) if source else None
    if frame is None:
        return source
    name = frame.path.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{frame.line}"


def _same(found: object, wanted: object) -> bool:
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in (found, wanted))
    if numbers:
        return math.isclose(float(found), float(wanted), rel_tol=1e-6, abs_tol=1e-3)  # type: ignore[arg-type]
    return found == wanted
