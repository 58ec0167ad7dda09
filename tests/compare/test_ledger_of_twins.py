"""The record that ``verify`` keeps of generated twins against what their truth files say: one function sums up both."""

from __future__ import annotations

import pytest
from comparing import ledger


def test_the_ledger_sums_up_to_what_the_truth_says() -> None:
    record, against_truth = ledger(3, 301, layers=3)
    assert record.predictions == against_truth.predictions == 3
    assert record.counted == against_truth.counted >= 2
    assert record.inside == against_truth.inside
    for figure in ("median_error", "p90_error", "max_error"):
        assert getattr(record, figure) == pytest.approx(getattr(against_truth, figure), abs=2e-4)
