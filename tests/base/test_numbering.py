"""Equal values get one number, whatever their hashes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_advisor.base import numbering
from npu_advisor.base.numbering import factorize, first_equal, paired

WIDE = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)


def in_order_met(values: list[int]) -> tuple[list[int], list[int]]:
    met = list(dict.fromkeys(values))
    return [met.index(value) for value in values], met


@given(st.lists(WIDE, max_size=60), st.sampled_from([np.int64, np.int16]))
def test_values_are_numbered_in_the_order_met(values: list[int], size: type[np.signedinteger]) -> None:
    given = np.array(values, np.int64).astype(size)
    numbers, distinct = factorize(given)
    assert (numbers.tolist(), distinct.tolist()) == in_order_met(given.tolist())


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 127))), st.sampled_from([np.int8, np.int64]))
def test_pairs_are_numbered_in_the_order_met(pairs: list[tuple[int, int]], size: type[np.signedinteger]) -> None:
    numbers, codes = (np.array([pair[place] for pair in pairs], kind) for place, kind in enumerate((np.int64, size)))
    met = list(dict.fromkeys(pairs))
    assert paired(numbers, codes).tolist() == [met.index(pair) for pair in pairs]


@pytest.mark.parametrize("spread", [numbering._SPREAD, np.uint64(0)], ids=["spread", "one hash for all"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(*[st.integers(0, 2) | st.integers(0, 2**64 - 1)] * 3), min_size=1, max_size=40))
def test_rows_of_one_hash_are_told_apart(spread: np.uint64, rows: list[tuple[int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "_SPREAD", spread)
        assert first_equal(np.array(rows, np.uint64)).tolist() == [rows.index(row) for row in rows]
