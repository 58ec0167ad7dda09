"""The form of a rule's test file, ``<id>.test.yaml``: small profiles, and what the rule must say of each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from npu_advisor.base.errors import RuleProblem
from npu_advisor.rules.loader import display_name, validate
from npu_advisor.rules.source import Origin, read_document
from npu_advisor.rules.spec import Form, Rule


class Case(Form):
    """One profile and the findings it must give.

    ``given`` holds tiny tables, ``profile`` names a recorded one (``real/<folder>``). ``peers`` are the tables of
    further ranks (1, 2, ...), ``runs`` those of the same rank in other runs; only ``compare`` sees them. Each
    member of ``expect`` is compared as a subset: ``severity``, ``recorded_us``, ``at`` and any column of the finding's
    row.
    """

    name: str
    given: dict[str, list[dict[str, Any]]] | None = None
    peers: list[dict[str, list[dict[str, Any]]]] = Field(default_factory=list)
    runs: list[dict[str, list[dict[str, Any]]]] = Field(default_factory=list)
    profile: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    outcome: Literal["fired", "clean", "skipped"] | None = None
    expect: list[dict[str, Any]]

    @model_validator(mode="after")
    def _one_input(self) -> Case:
        if (self.given is None) == (self.profile is None):
            raise ValueError("a case has either 'given' or 'profile'")
        if self.given is None and (self.peers or self.runs):
            raise ValueError("'peers' and 'runs' stand beside 'given'")
        return self


class TestFile(Form):
    """All cases of one rule."""

    __test__ = False  # not a test class, whatever pytest makes of its name

    rule: str
    cases: Annotated[list[Case], Field(min_length=1)]

    @property
    def fires(self) -> bool:
        """Whether a case expects a finding."""
        return any(case.expect for case in self.cases)

    @property
    def silent(self) -> bool:
        """Whether a case that the rule looks at expects none."""
        return any(not case.expect and case.outcome != "skipped" for case in self.cases)


def read_cases(rule: Rule) -> tuple[TestFile | None, list[RuleProblem]]:
    """The cases beside ``rule`` and every fault of their form, the lack of a firing and a silent case included."""
    path = rule.test_path
    if not path.is_file():
        message = f"rule '{rule.id}' has no cases; write {path.name} beside it"
        return None, [rule.origin.span(("id",)).problem(message)]
    return parse_cases(path, rule.id)


def parse_cases(path: Path, rule_id: str) -> tuple[TestFile | None, list[RuleProblem]]:
    """As :func:`read_cases`, from ``path``."""
    document = read_document(path, display_name(path))
    problems = list(document.problems)
    found = validate(TestFile, document.data, document.origin, (), problems)
    if found is None:
        return None, problems
    return found, problems + _faults(found, document.origin, rule_id)


def _faults(found: TestFile, origin: Origin, rule_id: str) -> list[RuleProblem]:
    problems = []
    if found.rule != rule_id:
        problems.append(origin.span(("rule",)).problem(f"these are cases of '{found.rule}', the rule is '{rule_id}'"))
    cases = origin.span(("cases",), key=True)
    if not found.fires:
        problems.append(cases.problem("no case fires; a rule needs at least one case that expects a finding"))
    if not found.silent:
        problems.append(cases.problem("no case is silent; a rule needs at least one case with 'expect: []'"))
    return problems
