from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic import Settings

from npu_advisor import Report, analyze

TRAIN = Path(__file__).parents[2] / "fixtures" / "demo" / "train.py"
RULE = "dispatch-dequeue-gap"


@pytest.fixture(scope="module")
def profile(generated: Callable[[Settings], Path]) -> Path:
    return generated(Settings(steps=2, plant=["dispatch", "native_optimizer"], seed=3))


def _analyzed(profile: Path, script: str, folder: Path) -> Report:
    (folder / "train.py").write_text(script, encoding="utf-8")
    return analyze(profile, source_root=[str(folder)])


def _blamed_line(report: Report) -> int:
    (found,) = [found for found in report.findings if found.rule_id == RULE]
    assert found.location is not None
    return found.location.line


@pytest.mark.parametrize(
    "comment", [f"# npu-advisor: ignore[{RULE}] known, see #12", f"#npu-advisor:ignore[x, {RULE}]"]
)
def test_a_comment_on_the_line_leaves_the_finding_out(profile: Path, tmp_path: Path, comment: str):
    lines = TRAIN.read_text(encoding="utf-8").splitlines()
    before = _analyzed(profile, "\n".join(lines), tmp_path)
    lines[_blamed_line(before) - 1] += f"  {comment}"
    after = _analyzed(profile, "\n".join(lines), tmp_path)
    assert RULE not in {found.rule_id for found in after.findings}
    (left_out,) = after.suppressed
    assert left_out.finding.rule_id == RULE and left_out.finding.saving is not None
    assert left_out.reason == ("known, see #12" if "known" in comment else "")
    assert after.saving.joint_us_per_step < before.saving.joint_us_per_step
    assert next(rule.outcome for rule in after.rules if rule.id == RULE) == "fired"


def test_a_comment_alone_on_the_line_above_counts(profile: Path, tmp_path: Path):
    lines = TRAIN.read_text(encoding="utf-8").splitlines()
    line = _blamed_line(_analyzed(profile, "\n".join(lines), tmp_path))
    lines[line - 2] = f"        # npu-advisor: ignore[{RULE}]"
    assert len(_analyzed(profile, "\n".join(lines), tmp_path).suppressed) == 1


@pytest.mark.parametrize("comment", ["# npu-advisor: ignore[optimizer-native]", "# npu-advisor: ignore", "# ignore"])
def test_a_comment_that_does_not_name_the_rule_changes_nothing(profile: Path, tmp_path: Path, comment: str):
    lines = TRAIN.read_text(encoding="utf-8").splitlines()
    line = _blamed_line(_analyzed(profile, "\n".join(lines), tmp_path))
    lines[line - 1] += f"  {comment}"
    report = _analyzed(profile, "\n".join(lines), tmp_path)
    assert not report.suppressed and _blamed_line(report) == line
