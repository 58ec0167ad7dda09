"""A run of thousands of steps: every kernel counted, and memory that does not grow with the text of the trace."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import CASES, needs_cases

pytestmark = needs_cases
TEMPLATE = CASES / "B49-scale-template"
STEPS = 2000
# Above what a run of a hundred steps takes.
MEGABYTES_PER_MEGABYTE_OF_TRACE = 4.0

_MEASURED = """
import json, resource, sys
import npu_advisor
report = npu_advisor.analyze(sys.argv[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
facts = report.facts[0]
print(json.dumps({
    "peak_mb": peak / 1024, "kernels": facts.kernels, "kernel_time_us": facts.kernel_time_us,
    "linked": facts.kernels_linked_to_line, "steps": len(report.steps),
    "numbers": [report.steps[0].step, report.steps[-1].step],
    "findings": [finding.rule_id for finding in report.findings if finding.severity.value in ("high", "medium")],
    "failed": [rule.id for rule in report.rules if rule.outcome == "failed"],
}))
"""


def _later(text: str, us: int) -> str:
    """Every time of 16 digits before the point, ``us`` later."""
    return re.sub(r"\b(17\d{14})(\.\d{3})", lambda found: f"{int(found[1]) + us}{found[2]}", text)


def _event(event: dict[str, object], copy: int, shift_us: int) -> dict[str, object]:
    """One event of the template in step ``copy``: later, with ids of its own."""
    made = json.loads(_later(json.dumps(event), copy * shift_us))
    if isinstance(made.get("name"), str) and made["name"].startswith("ProfilerStep#"):
        made["name"] = f"ProfilerStep#{1 + copy}"
    if "id" in made and made["ph"] in "sf":
        # torch_to_npu ids are the kernel's start in ns, the other ids only have to differ.
        whole = int(made["id"]) + copy * (shift_us * 1000 if made.get("cat") == "async_npu" else 1000)
        made["id"] = str(whole) if isinstance(made["id"], str) else whole
    for key in ("correlation_id", "connection_id"):
        if key in made.get("args", {}):
            made["args"][key] = int(made["args"][key]) + copy * 1000
    return dict(made)


def _multiplied(target: Path, steps: int) -> Path:
    """The template, its one step repeated ``steps`` times."""
    shift = int(json.loads((TEMPLATE / "expected.json").read_text())["values"]["scale"]["step_shift_us"])
    (source,) = (TEMPLATE / "template").iterdir()
    folder = target / source.name / "ASCEND_PROFILER_OUTPUT"
    folder.mkdir(parents=True)
    for path in source.glob("*.json"):
        (target / source.name / path.name).write_bytes(path.read_bytes())
    output = source / "ASCEND_PROFILER_OUTPUT"
    events = json.loads((output / "trace_view.json").read_text())
    with (folder / "trace_view.json").open("w") as trace:
        trace.write("[" + ",\n".join(json.dumps(event) for event in events if event["ph"] == "M"))
        for copy in range(steps):
            for event in events:
                if event["ph"] != "M":
                    trace.write(",\n" + json.dumps(_event(event, copy, shift)))
        trace.write("]")
    head, *rows = (output / "kernel_details.csv").read_text().splitlines()
    with (folder / "kernel_details.csv").open("w") as table:
        table.write(head + "\n")
        for copy in range(steps):
            for row in rows:
                _, model, task, rest = _later(row, copy * shift).split(",", 3)
                table.write(f"{1 + copy},{model},{int(task) + 3 * copy},{rest}\n")
    return target


def _measured(path: Path) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", _MEASURED, str(path)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_thousands_of_steps(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    small = _measured(_multiplied(tmp_path / "small", 100))
    path = _multiplied(tmp_path / "large", STEPS)
    large = _measured(path)
    assert large["kernels"] == 3 * STEPS
    assert large["linked"] == 3 * STEPS
    assert large["kernel_time_us"] == pytest.approx(300.0 * STEPS)
    assert large["steps"] == STEPS
    assert large["numbers"] == [1, STEPS]
    assert large["failed"] == []
    assert large["findings"] == small["findings"]
    megabytes = sum(file.stat().st_size for file in path.rglob("trace_view.json")) / 2**20
    assert large["peak_mb"] - small["peak_mb"] < MEGABYTES_PER_MEGABYTE_OF_TRACE * megabytes, (large, small, megabytes)
