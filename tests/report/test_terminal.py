from __future__ import annotations

import re

import pytest
from report.samples import REPORTS, both, bound, finding, ranks_report, rich_report, window_report
from rich.cells import cell_len

from npu_advisor.base.terms import Basis, Severity
from npu_advisor.base.units import format_us
from npu_advisor.findings import CodeFix, CodeFrame, JointSaving, Outcome, RankFacts, Report, TextEdit
from npu_advisor.report.options import Options
from npu_advisor.report.terminal import render_terminal


def render(report: Report, **changes: object) -> str:
    options = {"base": "/checkout"} | changes
    return render_terminal(report, Options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", REPORTS)
def test_snapshot(snapshot, name, lang, width):
    snapshot(f"{name}-{lang}-{width}.txt", render(REPORTS[name](), lang=lang, width=width))


def test_snapshot_of_everything_in_ascii(snapshot):
    text = render(rich_report(), show_all=True, utf8=False)
    assert text.isascii()
    snapshot("rich-all-ascii.txt", text)


def test_snapshot_in_colour(snapshot):
    snapshot("rich-colour.txt", render(rich_report(), color=True))


# The snippet and the replacement code are for copying, and a path stays whole so that it can be clicked.
COPIED = re.compile(r"^ {3}[│|] |^ {10}[-+] |^ {10}d{100}")


@pytest.mark.parametrize("width", [60, 80, 93, 100, 120])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_than_the_page(name, lang, width):
    for line in render(REPORTS[name](), lang=lang, width=width, show_all=True).splitlines():
        assert cell_len(line) <= width or COPIED.match(line), line


def test_page_is_never_wider_than_120_cells():
    assert render(rich_report(), width=400) == render(rich_report(), width=120)


def test_nothing_precedes_the_verdict_and_nothing_is_coloured_without_colour():
    text = render(rich_report())
    assert text.startswith(" Step 7 takes 120 ms and the device computes for 31.3 ms of it (26.0 %).\n")
    assert "\x1b" not in text


def test_ledger_names_every_microsecond_once():
    text = render(rich_report())
    block = text.split("\n\n")[1]
    figures = [float(amount) for amount in re.findall(r"([\d.]+) ms +[\d.]+ %", block)]
    assert sum(figures) == pytest.approx(120.0, abs=0.05 * len(figures))
    assert len(figures) == 9


def test_bar_has_one_cell_for_each_percent_of_the_page():
    bar = render(rich_report(), width=100).splitlines()[3]
    assert cell_len(bar) == 99
    assert bar.count("█") == pytest.approx(98 * 31.25 / 120, abs=1)


def test_findings_keep_the_order_of_the_report_and_small_ones_are_folded():
    text = render(rich_report())
    order = [text.index(name) for name in ("dispatch-gap", "kernel-copy", "layout-convert", "memory-peak")]
    assert order == sorted(order)
    assert "kernel-small" not in text and "3 more below 0.5 % (--all)" in text
    everything = render(rich_report(), show_all=True)
    assert "kernel-small" in everything and "Capture the static part." in everything and "(--all)" not in everything


def test_more_than_ten_findings_are_folded_and_counted():
    many = [finding(f"kernel-number-{index}", Severity.LOW) for index in range(14)]
    text = render(rich_report().model_copy(update={"findings": many}))
    assert "kernel-number-9" in text and "kernel-number-10" not in text and "4 more (--all)" in text


def test_a_bound_is_never_called_a_saving():
    text = render(rich_report())
    assert "at most 28.0 ms" in text and "saves" not in text


def test_a_replayed_saving_carries_its_spread_and_zero_says_so():
    base = rich_report().findings[0]
    assert base.saving is not None
    sure = {"basis": Basis.REPLAYED, "us_per_step": 15_200.0, "low_us_per_step": 14_700.0, "high_us_per_step": 15_700.0}
    replayed = base.model_copy(update={"saving": base.saving.model_copy(update=sure)})
    nothing = base.model_copy(
        update={"saving": base.saving.model_copy(update=sure | {"us_per_step": -3.0, "share": 0.0})}
    )
    joint = JointSaving(joint_us_per_step=15_200.0, share=0.1267, basis=Basis.REPLAYED)
    text = render(rich_report().model_copy(update={"findings": [replayed, nothing], "saving": joint}))
    assert "saves 14.7-15.7 ms" in text and "saves nothing now" in text
    assert "2 findings; all fixed together save 15.2 ms of the step (12.7 %)." in text


def test_what_is_small_alone_but_counts_in_the_total_is_said():
    saving = bound(1_000.0).model_copy(update={"basis": Basis.REPLAYED})
    small = saving.model_copy(update={"us_per_step": 0.0, "share": 0.0})
    found = [finding("a-b", Severity.LOW, saving=saving), finding("c-d", Severity.INFO, saving=small)]
    joint = JointSaving(joint_us_per_step=2_000.0, share=0.0167, basis=Basis.REPLAYED)
    text = " ".join(render(rich_report().model_copy(update={"findings": found, "saving": joint})).split())
    assert "1 finding; fixed together with those below 0.5 % it saves 2.00 ms of the step (1.7 %)." in text
    assert "More than one by one" in text
    alone = joint.model_copy(update={"joint_us_per_step": 1_000.0})
    text = render(rich_report().model_copy(update={"findings": found[:1], "saving": alone}))
    assert "1 finding; its fix saves 1.00 ms" in text and "More than" not in text


def test_a_finding_on_the_recording_has_no_figure():
    found = finding("profile-x", Severity.INFO, values={"peak_allocated_bytes": 2**30})
    text = render(rich_report().model_copy(update={"findings": [found]}), show_all=True)
    assert "Something happens" in text and "1,024 MB" not in text and "1.00 ms\n" not in text


def test_a_finding_about_memory_shows_bytes_and_no_bound():
    line = next(line for line in render(rich_report()).splitlines() if "memory peak" in line)
    assert line.endswith("1,536 MB") and "at most" not in line


def test_a_finding_without_a_line_says_why():
    assert "no line: launched by aten::conv2d, which no line called" in render(rich_report())


def _at(**changes: object) -> Report:
    report = rich_report()
    place = report.findings[0].location
    assert place is not None
    found = report.findings[0].model_copy(update={"location": place.model_copy(update=changes)})
    return report.model_copy(update={"findings": [found]})


def test_code_frame_only_where_the_source_can_be_read():
    assert "41 │ loss = criterion" in render(_at())
    assert "loss = criterion" not in render(_at(code=None))


def test_the_lines_around_are_shown_with_all():
    assert "for batch" not in render(_at()) and "for batch" in render(_at(), show_all=True)
    assert "42 │     loss.backward()" in render(_at(), show_all=True)


def test_code_that_does_not_fit_the_recorded_line_is_not_shown():
    code = CodeFrame(first_line=40, lines=["def other():", "    pass"], fits=False)
    text = render(_at(code=code), width=120)
    assert "pass" not in text and "The code of train.py here does not fit the recorded line" in text


def test_a_local_file_is_a_link_when_colours_are_on():
    text = render(rich_report(), color=True)
    assert "\x1b]8;;file:///checkout/vision/train.py\x1b\\" in text
    assert text == render(rich_report(), color=True)


def test_foreign_text_cannot_act_on_the_terminal():
    for lang in ("en", "zh"):
        text = render(REPORTS["hostile"](), lang=lang, show_all=True)
        assert not set(text) & set("\x1b\x07\u202e\u2028\r")
        assert "[bold red]x[/bold red]" in text and "\\x1b[31m" in text and "<script>" in text


def test_several_ranks_open_with_the_slowest_and_findings_name_theirs():
    text = render(ranks_report())
    assert text.startswith(" Steps 4-5 take 80.0 ms on average on rank 1, the longest of 3 ranks,")
    assert [line.split()[1] for line in text.splitlines() if "computes" in line and "rank" in line[:6]] == [
        "1",
        "2",
        "0",
    ]
    assert "run · rank 1 · step 5" in text


def test_many_ranks_are_folded_and_the_fastest_stays():
    text = render(ranks_report(20))
    assert "12 more ranks between these (--all)" in text and " rank 0 " in text
    assert render(ranks_report(20), show_all=True).count("computes 37.5 %") == 1


def test_an_idle_device_without_findings_is_not_called_healthy():
    text = render(window_report())
    assert text.startswith(" The recorded window lasts 9.00 ms") and "✔" not in text


def test_green_line_needs_a_rule_that_was_checked():
    healthy = REPORTS["healthy"]()
    assert render(healthy).startswith(" ✔ Nothing above 0.5 % of the step.")
    unchecked = [Outcome(id="a-b", title=rule.title, outcome="skipped") for rule in healthy.rules]
    failed = [*healthy.rules, Outcome(id="c-d", title=healthy.rules[0].title, outcome="failed")]
    for rules in (unchecked, failed):
        assert "✔" not in render(healthy.model_copy(update={"rules": rules}))


def test_damage_is_said_in_the_report_itself():
    assert "What can be trusted" in render(REPORTS["empty"]())
    assert "What can be trusted" not in render(rich_report())


def test_what_is_long_on_every_rank_is_told_once():
    item = rich_report().not_the_cause[0]
    again = item.model_copy(update={"rank": 2, "duration_us": 40_000.0})
    report = ranks_report().model_copy(update={"not_the_cause": [item, again]})
    told = [line for line in render(report).splitlines() if "meter.update" in line]
    assert len(told) == 1 and "rank 2" in told[0] and "40.0 ms host" in told[0]
    assert render(report, show_all=True).count("meter.update") == 2


def test_numbers_come_from_the_report():
    report = rich_report()
    step = report.steps[0].model_copy(update={"compute_us": 20_000.0, "free_us": 44_500.0})
    text = render(report.model_copy(update={"steps": [step]}))
    assert f"computes for {format_us(20_000.0)} of it (16.7 %)" in text


@pytest.mark.parametrize(
    ("applicability", "hint"),
    [("safe", "PATH --diff shows"), ("unsafe", "PATH --diff --unsafe shows"), ("display-only", None)],
)
def test_a_finding_says_when_a_program_can_make_the_change(applicability: str, hint: str | None):
    report = rich_report()
    edit = TextEdit(start_line=1, start_column=1, end_line=1, end_column=1, text="x")
    fix = CodeFix(codemod="mask-to-where", applicability=applicability, title=both("t"), path="a.py", edits=[edit])
    fixed = report.findings[0].model_copy(update={"fixes": [fix]})
    text = render_terminal(report.model_copy(update={"findings": [fixed]}), Options(width=100))
    assert "npu-advisor fix" not in render_terminal(report, Options(width=100))
    assert ("npu-advisor fix" in text) == (hint is not None)
    assert hint is None or hint in text


def test_a_recording_of_the_host_alone_tells_nothing_of_an_idle_device():
    report = window_report()
    step = report.steps[0].model_copy(update={"compute_us": 0.0, "free_us": 0.0, "prepare_us": 9_000.0, "step": 3})
    text = render(report.model_copy(update={"steps": [step], "facts": [RankFacts(rank=-1, kernels=0, host_ops=9)]}))
    assert text.startswith(" Recorded steps: 3, 9.00 ms each on average.")
    assert "Only the host was recorded" in text and "before first kernel" not in text
