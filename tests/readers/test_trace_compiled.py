"""Compiled code gives, of plain text, exactly the columns that the decoder gives, and hands back everything else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import flow, lanes, op, piece, task, write_trace
from places import CASES, PROFILES, REPOSITORY

from npu_advisor import analyze
from npu_advisor.readers import trace_compiled, trace_parallel, trace_seams, trace_spans
from npu_advisor.readers.trace_decode import ASCEND, Recovery, decode
from npu_advisor.readers.trace_events import POOL_OF, EventSorter, Sorted
from npu_advisor.readers.trace_seams import Block, Span

DEMO = REPOSITORY / "fixtures" / "demo"
JSON = {"ensure_ascii": False, "separators": (", ", ": ")}
pytest.importorskip("numba", reason="numba is not installed: traces are decoded")


def values(found: Sorted) -> dict[str, Any]:
    """What the columns say, whatever the order in which texts, lanes and ids were met."""
    said: dict[str, Any] = {"processes": found.processes, "threads": found.threads}
    for kind, columns in found.rows.items():
        for name, column in columns.items():
            pool = POOL_OF.get((kind, name)) or POOL_OF.get(("", name))
            told: list[Any] = column.tolist()
            if name == "track":
                told = [found.lanes[number] for number in told]
            elif pool is not None:
                told = [found.texts[pool][number] if number >= 0 else None for number in told]
            # The bits of a float: two NaN are one, two zeros are not.
            said[kind, name] = str(column.dtype), [*map(repr, told)]
    return {**said, "other_ids": found.other_ids, "slices": found.slices, "gpu": found.gpu}


def decoded(data: bytes) -> tuple[EventSorter, int]:
    sorter, recovery = EventSorter(), Recovery()
    sorter.add(decode(Block(b"[%b]" % data, 0), recovery, ASCEND))
    return sorter, recovery.events


def agree(data: bytes) -> bool:
    """Whether compiled code took ``data``; then it found what the decoder finds."""
    found = trace_compiled.sort(data, 0, len(data))
    if found is None:
        return False
    sorter, count = decoded(data)
    assert found[1] == count
    assert values(found[0].sorted()) == values(sorter.sorted())
    return True


def joined(events: list[dict[str, Any]], between: str = ", ", **style: Any) -> bytes:
    return between.join(json.dumps(event, **{**JSON, **style}) for event in events).encode()


names = st.sampled_from(
    ["aten::add", "AscendCL@x", "Enqueue", "Dequeue@x", "MatMul", "算子", 'a"b\\', "AI Core Freq", ""]
)
texts = names | st.text(max_size=9).filter(lambda text: text.isprintable())
times = st.integers(0, 2**62).map(lambda ns: f"{ns // 1000}.{ns % 1000:03d}") | st.sampled_from(["5", "-7.250", "0.5"])
whole = st.integers(-(2**62), 2**62) | st.sampled_from([-1, 0, 4294967295])
durations = st.integers(0, 10**9).map(lambda ns: ns / 1000) | st.floats(0.001, 1e15, allow_nan=False) | whole
ids = st.integers(0, 5) | st.sampled_from([3096504, 3170820320])
CATEGORIES = ["cpu_op", "user_annotation", "python_function", "enqueue", "dequeue", "GC", "Reduce", "kernel", "?"]
ARGS = {
    **dict.fromkeys(["Sequence number", "Fwd thread id", "correlation_id", "Python id", "Python parent id"], whole),
    **dict.fromkeys(["Model Id", "Physic Stream Id", "Stream Id", "Task Id", "connection_id", "count"], whole),
    **dict.fromkeys(["Input Dims", "Input type", "Call stack", "level", "Task Type", "task type"], texts),
    **dict.fromkeys(["transport type", "link type", "unknown"], texts),
    **dict.fromkeys(["size(Byte)", "MHz", "bandwidth(GB/s)"], durations),
    **dict.fromkeys(["src rank", "dst rank"], whole),
    "item_id": st.sampled_from(["0", "7"]),
    "data_type": st.sampled_from(["FP32", "INT8", "?"]),
    "name": texts | whole,
}
args = st.fixed_dictionaries({}, optional=ARGS).flatmap(
    lambda given: st.permutations([*given]).map(lambda order: {key: given[key] for key in order})
)
common = {"name": names, "pid": ids, "tid": ids, "ts": times}
slices = st.fixed_dictionaries(
    {**common, "dur": durations, "ph": st.just("X")}, optional={"cat": st.sampled_from(CATEGORIES), "args": args}
)
flows = st.one_of(
    *(
        st.fixed_dictionaries(
            {**common, "ph": st.sampled_from("sf"), "cat": st.just(category), "id": number},
            optional={"bp": st.just("e")},
        )
        for category, number in (
            ("async_npu", st.integers(0, 9)),
            ("HostToDevice", st.integers(0, 9).map(str)),
            ("another", whole | texts),
        )
    )
)
others = st.fixed_dictionaries({**common, "ph": st.sampled_from("CMi")}, optional={"args": args})
plain = st.lists(slices | flows | others, min_size=1, max_size=12)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(plain, st.sampled_from([", ", ",", " ,\n\t"]), st.sampled_from([(", ", ": "), (",", ":")]))
def test_plain_events_are_taken_and_the_columns_are_the_same(
    events: list[dict[str, Any]], between: str, separators: tuple[str, str]
) -> None:
    assert agree(joined(events, between, separators=separators))


odd = st.recursive(
    st.none() | st.booleans() | whole | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3) | st.sampled_from(["ts", "args"]), inner)
    ),
    max_leaves=4,
)
KEYS = ["ph", "bp", "name", "id", "pid", "tid", "ts", "dur", "cat", "args", "other"]


@settings(max_examples=300)
@given(plain, st.sampled_from(KEYS), odd, st.booleans(), st.integers(0, 11))
def test_a_value_of_any_kind_is_understood_or_handed_back(
    events: list[dict[str, Any]], key: str, value: Any, within: bool, number: int
) -> None:
    chosen = events[number % len(events)]
    target = chosen.setdefault("args", {}) if within else chosen
    target[key] = value
    agree(joined(events, ensure_ascii=within))


SAMPLE = [
    op("aten::add", 1, 2, **{"Call stack": "/a/b.py(3): f;\r\n/工/c.py(4): <module>", "Input Dims": "2,3"}),
    piece("x", 3, 0.1, args={"level": "acl", "item_id": "0", "connection_id": 3}),
    task("MatMul", 4, 2.1500000000000004),
    flow("async_npu", "s", 12, 5),
    flow("HostToDevice", "f", "12", 6),
    *lanes(),
]


@settings(max_examples=2000)
@given(st.data())
def test_changed_bytes_are_understood_or_handed_back(data: st.DataObject) -> None:
    text = bytearray(joined(SAMPLE, ensure_ascii=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        new = data.draw(st.sampled_from(b'"\\{}[],:-.0189eEuntx \n\0\x1f\x7f\xff') | st.just(None))
        text[at : at + 1] = b"" if new is None else bytes([new])
    agree(bytes(text))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('"dur": 2', '"dur": 2e0'),
        ('"dur": 2', '"dur": 02'),
        ('"dur": 2', '"dur": 2.'),
        ('"dur": 2', '"dur": NaN'),
        ('"dur": 2', '"dur": null'),
        ('"dur": 2', '"dur": true'),
        ('"dur": 2', '"dur": "2"'),
        ('"dur": 2', '"dur": 2, "more": [1]'),
        ('"dur": 2', '"dur": 99999999999999999999'),
        ('"dur": 2', '"d\\u0075r": 2'),
        ('"ph": "X"', '"ph": "X", "args": {}'),
        ('"ph": "X"', '"ph": "\\u0058"'),
        ('"ts": "', '"ts": " '),
        ('"ts": "', '"ts": "9999999'),
        ("aten::add", "aten::\\ud83d\\ude00"),
        ("aten::add", "aten::\\x"),
        ("aten::add", "aten::\t"),
    ],
)
def test_what_is_not_the_grammar_of_the_writers_is_handed_back(was: str, now: str) -> None:
    text = joined(SAMPLE).decode()
    assert agree(text.encode())
    assert was in text
    assert not agree(text.replace(was, now, 1).encode())


def test_texts_of_one_hash_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = trace_compiled._grammar()
    assert grammar is not None
    monkeypatch.setattr(grammar, "weights", np.zeros_like(grammar.weights))
    assert agree(joined([op(f"op{number % 37:02d}", number, 1) for number in range(200)]))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Spans of 40 kB for files of any size; of each, whether compiled code took it."""
    monkeypatch.setattr(trace_parallel, "LARGE", 0)
    monkeypatch.setattr(trace_seams.spans_of, "__defaults__", (40_000,))
    monkeypatch.setenv("NPU_ADVISOR_SCANNER", "compiled")
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", "1")
    taken: list[bool] = []

    def sort(data: bytes, low: int, high: int, real: Any = trace_compiled.sort) -> tuple[EventSorter, int] | None:
        found: tuple[EventSorter, int] | None = real(data, low, high)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(trace_compiled, "sort", sort)
    return taken


def test_the_report_is_the_same(spans: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DEMO, tmp_path / "demo")
    compiled = analyze(tmp_path / "demo").model_dump_json()
    assert len(spans) > 5
    assert all(spans)
    monkeypatch.setenv("NPU_ADVISOR_PROCESSES", "3")
    assert analyze(tmp_path / "demo").model_dump_json() == compiled
    monkeypatch.setenv("NPU_ADVISOR_SCANNER", "python")
    assert analyze(tmp_path / "demo").model_dump_json() == compiled


def test_damage_costs_the_compiled_scan_of_one_span(spans: list[bool], tmp_path: Path) -> None:
    (demo,) = DEMO.glob("**/trace_view.json")
    text = demo.read_bytes()
    at = text.index(b'"ts"', len(text) // 2)
    trace = write_trace(tmp_path, "")
    trace.write_bytes(text[:at] + b"\\q" + text[at + 1 :])
    for begin, end in trace_seams.spans_of(trace):
        trace_spans.part_of(Span(trace, begin, end, trace.stat().st_size), trace_spans.Reading())
    assert len(spans) > 5
    assert spans.count(False) == 1


def _recorded() -> list[Any]:
    found = [path for home in (PROFILES, CASES) for path in sorted(home.rglob("*trace_view*.json"))]
    return [pytest.param(path, id=str(path.relative_to(path.parents[3]))) for path in found]


@pytest.mark.skipif(not _recorded(), reason="no recorded profiles here")
@pytest.mark.parametrize("path", _recorded())
def test_recorded_traces_are_taken(spans: list[bool], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = path.stat().st_size
    for begin, end in trace_seams.spans_of(path):
        monkeypatch.setenv("NPU_ADVISOR_SCANNER", "compiled")
        found = trace_spans.part_of(Span(path, begin, end, size), trace_spans.Reading())
        monkeypatch.setenv("NPU_ADVISOR_SCANNER", "python")
        expected = trace_spans.part_of(Span(path, begin, end, size), trace_spans.Reading())
        assert values(found.events) == values(expected.events)
        assert found[1:] == expected[1:]
    # Damaged on purpose.
    if path.is_relative_to(PROFILES):
        assert all(spans)


SCAN = """
import sys
from pathlib import Path
from npu_advisor.readers.trace_compiled import scanner
from npu_advisor.readers.trace_seams import Span
from npu_advisor.readers.trace_spans import Reading, part_of
trace = Path(sys.argv[1])
size = trace.stat().st_size
found = part_of(Span(trace, 0, size, size), Reading())
print(found.recovery.events, len(found.events.rows["ops"]["name"]))
print(scanner().en)
"""


def _scanning(trace: Path, **environment: str) -> subprocess.Popen[str]:
    variables = {**os.environ, "NPU_ADVISOR_SCANNER": "compiled", **environment}
    command = [sys.executable, "-c", SCAN, str(trace)]
    return subprocess.Popen(command, env=variables, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def test_processes_that_compile_at_once_do_not_hurt_each_other(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, SAMPLE)
    kept = tmp_path / "kept"
    for _ in range(2):
        running = [_scanning(trace, NUMBA_CACHE_DIR=str(kept)) for _ in range(2)]
        said = [process.communicate()[0] for process in running]
        assert said[0] == said[1]
        assert said[0].startswith(f"{len(SAMPLE)} 1\nlarge traces: compiled scanner (numba ")
        assert [*kept.rglob("*.nbc")]


def test_the_standard_scanner_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for asked in ("", "compiled", "python"):
        monkeypatch.setenv("NPU_ADVISOR_SCANNER", asked)
        said.append(trace_compiled.scanner().en.partition(" (")[0])
    assert said == [
        "large traces: compiled scanner",
        "large traces: compiled scanner",
        "large traces: standard scanner",
    ]


def test_without_a_compiler_everything_is_decoded(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "numba").mkdir(parents=True)
    (broken / "numba" / "__init__.py").write_text("raise ImportError('needs another numpy')")
    for environment in ({"PYTHONPATH": str(broken)}, {"NUMBA_DISABLE_JIT": "1"}):
        said = _scanning(write_trace(tmp_path, SAMPLE), **environment).communicate()[0]
        assert said.startswith(f"{len(SAMPLE)} 1\nlarge traces: standard scanner")
