"""Run the whole product over hostile input and check what holds for any input at all."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from npu_advisor import Report, session
from npu_advisor.base.lang import Lang
from npu_advisor.cli.app import main
from npu_advisor.report.json import load_report
from npu_advisor.report.options import Options
from npu_advisor.report.terminal import render_terminal

FINE, NO_PROFILE = 0, 3
SECONDS_PER_MB = 10.0
# Damage may make a name of half a file, but no message quotes it whole.
LONGEST_STDERR = 30_000
# Figures of the report are rounded to the ns.
ROUNDING_US = 0.001


@dataclass(frozen=True)
class Run:
    """One run: exit code, report, the terminal pages in both languages, stderr and the processor time it took (s)."""

    exit_code: int
    report: dict[str, Any]
    pages: dict[str, str]
    stderr: str
    seconds: float


class TooSlowError(BaseException):
    """The product did not come back in time; nothing in it may catch this."""


def run_product(path: Path, seconds: float = SECONDS_PER_MB) -> Run:
    """The command line on ``path`` with JSON output, and the terminal pages of that report.

    Any exception but the ones the command line turns into an exit code comes out; so does a Python warning, which a
    user would see on stderr, and a run that takes longer than ``seconds`` of processor time, or several times that by
    the clock.
    """
    errors, out = io.StringIO(), io.BytesIO()
    stdout = io.TextIOWrapper(out, encoding="utf-8")
    began = time.process_time()
    with warnings.catch_warnings(), _at_most(seconds):
        warnings.simplefilter("error")
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(stdout):
            code = main([str(path), "--format", "json", "--lang", "en"])
        took = time.process_time() - began
        data = json.loads(out.getvalue(), parse_constant=_not_json)
        report = load_report(out.getvalue().decode())
        pages = {lang: _page(report, lang) for lang in ("en", "zh")} if code == FINE else {}
    return Run(code, data, pages, errors.getvalue(), took)


def _page(report: Report, lang: Lang) -> str:
    return render_terminal(report, Options(lang=lang, width=100))


def _not_json(text: str) -> NoReturn:
    raise AssertionError(f"{text} is not JSON")


# A busy machine takes longer by the clock; a reader that waits for ever takes no time of the processor.
_PATIENCE = 6


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):
        yield
        return

    def late(*_: object) -> NoReturn:
        raise TooSlowError(f"longer than {seconds:g} s")

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, _PATIENCE * seconds),
    )
    before = [signal.signal(number, late) for number, _, _ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def check(made: Run) -> None:
    """What holds for the report of any input."""
    assert made.exit_code in (FINE, NO_PROFILE), made.exit_code
    assert "Traceback" not in made.stderr
    failed = [rule for rule in made.report["rules"] if rule["outcome"] == "failed"]
    assert not failed, failed
    if made.exit_code == NO_PROFILE:
        assert made.stderr, "refused without a word"
        assert made.report["diagnostics"] or not made.report["steps"]
    assert len(made.stderr) < LONGEST_STDERR, made.stderr[:1000]
    for remark in made.report["diagnostics"]:
        assert remark["code"], remark
        assert remark["message"], remark
        assert all(remark["message_text"].values()), remark
    for step in made.report["steps"]:
        check_step(step)
    check_savings(made.report)
    for page in made.pages.values():
        assert_inert(page)
    assert_inert(made.stderr)


def check_step(step: dict[str, Any]) -> None:
    """Every microsecond of a step has one owner, and none is negative."""
    parts = [
        step[f"{name}_us"] for name in ("compute", "exposed_communication", "free", "prepare", "after_last_kernel")
    ]
    assert all(part is not None and part >= 0 for part in parts), step
    assert abs(sum(parts) - step["duration_us"]) <= 6 * ROUNDING_US, step
    assert step["communication_us"] >= step["exposed_communication_us"] - ROUNDING_US, step
    owners = step["idle_owners"]
    assert all(us >= 0 for us in owners.values()), step
    idle = step["free_us"] + step["prepare_us"]
    if any(owners.values()):
        assert abs(sum(owners.values()) - idle) <= (len(owners) + 2) * ROUNDING_US, step
    assert sum(step["waiting_for_rank_us"].values()) <= step["exposed_communication_us"] + 0.1, step


def check_savings(report: dict[str, Any]) -> None:
    """No finding and no sum of findings promises more than the step; the parts of upper bounds add up.

    A replayed part is what the joint saving loses without that fix: it may exceed the fix alone, never the whole.
    """
    joint = report["saving"]
    assert joint["joint_us_per_step"] >= 0
    assert 0 <= joint["share"] <= 1 + 1e-6, joint
    for finding in report["findings"]:
        saving = finding["saving"]
        if saving is None:
            continue
        assert 0 <= saving["low_us_per_step"] <= saving["us_per_step"] + ROUNDING_US, finding
        assert saving["us_per_step"] <= saving["high_us_per_step"] + ROUNDING_US, finding
        most = saving["us_per_step"] if saving["basis"] == "upper_bound" else joint["joint_us_per_step"]
        assert -ROUNDING_US <= saving["joint_us_per_step"] <= most + ROUNDING_US, finding
        assert saving["share"] <= 1 + 1e-6, finding
    if len(report["profile"]["ranks"]) == 1 and joint["basis"] == "upper_bound":
        parts = [finding["saving"]["joint_us_per_step"] for finding in report["findings"] if finding["saving"]]
        assert abs(sum(parts) - joint["joint_us_per_step"]) <= (len(parts) + 1) * ROUNDING_US, report["findings"]


_ACTIVE = {chr(code) for code in (*range(32), *range(127, 160), 0xAD, 0x61C, *range(0x200B, 0x2010))}
_ACTIVE |= {chr(code) for code in (*range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)}
_ACTIVE -= {"\n", "\t"}


def assert_inert(text: str) -> None:
    """Nothing in it that a terminal acts on."""
    found = sorted(set(text) & _ACTIVE)
    assert not found, [hex(ord(char)) for char in found]
    assert not [char for char in set(text) if "\ud800" <= char <= "\udfff"]


@contextlib.contextmanager
def rules_read_once() -> Iterator[None]:
    """Keep the shipped rules and their plans between runs: making them takes half of a run on a small profile."""
    plans = session.rank_rules(dirs=(), params=None, select=(), ignore=())
    with mock.patch.object(session, "rank_rules", return_value=plans):
        yield
