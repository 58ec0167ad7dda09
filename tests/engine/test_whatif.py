"""What-if questions: the new step against the replay asked by hand, and what is said when there is no answer."""

from __future__ import annotations

import numpy as np
import pytest
from places import DEMO, PROFILES, needs_profiles

import npu_advisor
from npu_advisor import load_profile
from npu_advisor.api import load_profiles, whatif
from npu_advisor.base.errors import ConfigError, RuleError
from npu_advisor.engine import savings
from npu_advisor.graph.replay import Replayer, merge

SLOW = 'scale kernels where type == "MaskedSelect" by 0.5'
CASTS = 'remove kernels where type == "TransData"'


def _step_us(path: object) -> float:
    return float(load_profile(path).table("steps")["dur_us"].mean())  # type: ignore[arg-type]


def test_the_new_step_is_the_old_one_less_what_the_replay_says() -> None:
    (run,) = whatif(DEMO, SLOW, CASTS).runs
    replayer = Replayer(load_profiles(DEMO))
    types = replayer.profiles[0].table("kernels").strings("type")
    slow, casts = (np.flatnonzero(types == name) for name in ("MaskedSelect", "TransData"))
    first = replayer.fixer(0).variants("scale", "kernels", slow, np.full(len(slow), 0.5))
    second = replayer.fixer(0).variants("remove", "kernels", casts)
    assert first is not None
    assert second is not None
    alone, joint = replayer.price(first.expected) / 1000, replayer.price([first.expected, second.expected]) / 1000
    assert alone > 100
    assert run.new_step_us == pytest.approx(_step_us(DEMO) - joint)
    assert [effect.rows for effect in run.edits] == [{"0": len(slow)}, {"0": len(casts)}]
    assert [effect.saving and effect.saving.us_per_step for effect in run.edits] == [
        pytest.approx(alone),
        pytest.approx(replayer.price(second.expected) / 1000),
    ]
    # What stays is priced on top of the edits.
    done = merge([first.expected, second.expected])
    finding = next(one for one in run.findings if one.rule_id == "kernel-top-cost")
    rest = replayer.fixer(0).variants("cap", "kernels", slow, np.full(len(slow), 0.0))
    assert rest is not None
    assert finding.saving is not None
    on_top = replayer.price([done, rest.expected]) / 1000 - joint
    assert finding.saving.us_per_step == pytest.approx(on_top, abs=1.0)
    assert finding.saving.us_per_step < run.unedited_us_per_step[finding.fingerprint]


def test_a_report_answers_and_order_does_not_matter() -> None:
    report = npu_advisor.analyze(DEMO)
    one, other = report.whatif(SLOW, CASTS), report.whatif(CASTS, SLOW)
    assert one.runs[0].new_step_us == other.runs[0].new_step_us
    assert one.runs[0].new_step_us == whatif(DEMO, SLOW, CASTS).runs[0].new_step_us
    unedited = {each.fingerprint: each.saving.us_per_step for each in report.findings if each.saving}
    assert unedited.items() <= one.runs[0].unedited_us_per_step.items()
    assert report == npu_advisor.analyze(DEMO)


def test_no_edit_changes_nothing_and_matches_nothing_says_so() -> None:
    (run,) = whatif(DEMO, 'remove kernels where type == "Nope"').runs
    (effect,) = run.edits
    assert run.new_step_us == run.step_us
    assert effect.rows == {"0": 0}
    assert effect.saving is None
    assert effect.reason is not None
    assert "matches no row" in effect.reason.en


def test_a_longer_kernel_makes_a_longer_step() -> None:
    (run,) = whatif(DEMO, 'scale kernels where type == "MaskedSelect" by 2').runs
    assert run.new_step_us is not None
    assert run.new_step_us > run.step_us + 100
    assert run.edits[0].saving is not None
    assert run.edits[0].saving.us_per_step < -100


def test_a_cap_is_what_was_asked_for() -> None:
    """Half of each kernel, said in two ways."""
    scaled = whatif(DEMO, "scale kernels by 0.5").runs[0]
    capped = whatif(DEMO, "cap kernels at dur_us / 2 us").runs[0]
    assert capped.new_step_us == pytest.approx(scaled.new_step_us)
    assert capped.low_new_step_us == capped.high_new_step_us == capped.new_step_us


@needs_profiles
def test_a_column_that_is_not_there_is_named_with_how_to_record_it() -> None:
    path = PROFILES / "npu-alexnet-text-l0" / "rank0_ascend_pt"
    (run,) = whatif(path, 'remove kernels where contains(input_shapes, "64")').runs
    (effect,) = run.edits
    assert effect.reason is not None
    assert "input_shapes" in effect.reason.en
    assert effect.enable


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ConfigError):
        whatif(DEMO, "scale kernels by dur_us - 1000000")
    with pytest.raises(RuleError):
        whatif("no such folder", "scale kernels by -1")


@pytest.mark.parametrize("limit", ["MAX_ERROR", "MAX_ANCHORED"])
def test_a_replay_that_is_not_believed_gives_no_figure(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, limit, -1.0)
    answer = whatif(DEMO, SLOW)
    (run,) = answer.runs
    assert not answer.believed
    assert run.reason is not None
    assert (run.new_step_us, run.saving, run.findings) == (None, None, [])
    assert run.edits[0].rows == {"0": 2}
    assert run.replay


@needs_profiles
def test_a_real_run_of_two_ranks() -> None:
    """AlexNet waits for another rank: its loader matters, its conversions do not."""
    loader = 'remove ops where startswith(name, "enumerate(DataLoader)")'
    (run,) = whatif(PROFILES / "npu-alexnet-text-l1", loader, CASTS).runs
    assert run.ranks == [0, 1]
    waited, hidden = (effect.saving for effect in run.edits)
    assert waited is not None
    assert hidden is not None
    assert 3000 < waited.us_per_step < 5000
    assert hidden.us_per_step < 100
    assert run.new_step_us == pytest.approx(run.step_us - waited.us_per_step, abs=100)
    loaders = [one for one in run.findings if one.rule_id == "data-loader"]
    assert all(one.saving is not None and one.saving.us_per_step < 300 for one in loaders)


@needs_profiles
def test_level0_text_and_its_database_agree() -> None:
    loader = 'remove ops where startswith(name, "enumerate(DataLoader)")'
    told = []
    for form in ("text", "db"):
        (run,) = whatif(PROFILES / f"npu-alexnet-{form}-l0" / "rank0_ascend_pt", loader).runs
        assert run.edits[0].saving is not None
        told.append(run.edits[0].saving.us_per_step)
    assert told[0] == pytest.approx(told[1], rel=0.1)
