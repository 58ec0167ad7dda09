"""Every case of every shipped rule's ``.test.yaml``, one test each."""

from __future__ import annotations

import pytest
from places import PROFILES

from npu_advisor import load_profile, load_rules
from npu_advisor.api import finish
from npu_advisor.engine.pricing import price
from npu_advisor.engine.run import RuleResult
from npu_advisor.engine.testing import run_case
from npu_advisor.findings import Finding
from npu_advisor.model.profile import Profile
from npu_advisor.rules.cases import Case, read_cases
from npu_advisor.rules.spec import Rule

RULES = load_rules()


def _cases() -> list[tuple[Rule, Case]]:
    found = ((rule, read_cases(rule)[0]) for rule in RULES)
    return [(rule, case) for rule, file in found if file is not None for case in file.cases]


def _price(profile: Profile, result: RuleResult) -> list[Finding]:
    return price([(profile, [result])], {}).findings


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_cases_of_a_rule_are_well_formed(rule: Rule) -> None:
    file, problems = read_cases(rule)
    assert not problems, "\n".join(map(str, problems))
    assert file is not None
    assert file.fires
    assert file.silent


@pytest.mark.parametrize(("rule", "case"), [pytest.param(r, c, id=f"{r.id}: {c.name}") for r, c in _cases()])
def test_a_case_holds(rule: Rule, case: Case) -> None:
    result = run_case(rule, case, load_profile, finish, _price, PROFILES)
    if result.status == "skipped":
        pytest.skip(result.message)
    assert result.status == "passed", result.message
