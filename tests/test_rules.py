"""Every case of every shipped rule's ``.test.yaml``, one test each; and what rules say together on whole profiles."""

from __future__ import annotations

import pytest
from places import DEMO, PROFILES, needs_profiles
from rich.cells import cell_len

from npu_advisor import analyze, load_profile, load_rules
from npu_advisor.api import finish
from npu_advisor.engine.mutate import unnoticed
from npu_advisor.engine.places import Roots
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
    return price([(profile, [result])], Roots()).findings


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_cases_of_a_rule_are_well_formed(rule: Rule) -> None:
    file, problems = read_cases(rule)
    assert not problems, "\n".join(map(str, problems))
    assert file is not None
    assert file.fires
    assert file.silent


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_title_fits_its_line(rule: Rule) -> None:
    """A title stands on one line with its saving; in 100 columns that leaves it 55 cells."""
    assert cell_len(rule.title.en) <= 55
    assert cell_len(rule.title.zh) <= 55
    assert not rule.title.en.endswith(".")


@pytest.mark.parametrize(("rule", "case"), [pytest.param(r, c, id=f"{r.id}: {c.name}") for r, c in _cases()])
def test_a_case_holds(rule: Rule, case: Case) -> None:
    result = run_case(rule, case, load_profile, finish, _price, PROFILES)
    if result.status == "skipped":
        pytest.skip(result.message)
    assert result.status == "passed", result.message


CARD = ("dispatch-dequeue-gap", "kernel-top-cost", "layout-transdata", "memory-peak", "optimizer-native")


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.id in CARD], ids=lambda rule: rule.id)
def test_the_cases_of_the_first_rules_notice_every_small_change(rule: Rule) -> None:
    file, _ = read_cases(rule)
    assert file is not None
    left, tried = unnoticed(rule, file.cases, finish)
    assert tried >= 3
    assert [str(mutant.problem()) for mutant in left] == []


def test_without_all_rules_nothing_is_called_harmless() -> None:
    """The optimizer step of the demo is long under a busy device, and costs: only its rule knows."""
    assert analyze(DEMO, select=["memory-*"]).not_the_cause == []


@needs_profiles
def test_level0_is_told_apart_from_nobody_being_late() -> None:
    """Two of eight ranks at Level0: the wait for another one looks like communication."""
    found = {finding.rule_id: finding for finding in analyze(PROFILES / "npu-alexnet-db-l0").findings}
    assert found["comm-outlasts-compute"].suggestions[0].after == "profiler_level=Level1"
    # Its database does hold CANN calls, and the rules on syncs looked.
    assert "dispatch-sync-in-step" in found
    assert "could not look" not in found["profile-level0"].message.en
