"""Budgets: how they are written, what they are checked against, and when a build fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from places import DEMO

from npu_advisor.base.errors import ConfigError
from npu_advisor.budgets import check, parse_budgets, violated
from npu_advisor.cli.app import main
from npu_advisor.findings import ProfileFacts, RankFacts, RankInfo, Report, Step, Tool, TopKernel


def _step(rank: int, number: int, us: float, **changed: Any) -> Step:
    parts = {"compute_us": 0.5 * us, "communication_us": 0.2 * us, "exposed_communication_us": 0.2 * us}
    parts |= {"free_us": 0.2 * us, "prepare_us": 0.1 * us, "after_last_kernel_us": 0.0}
    return Step(rank=rank, step=number, duration_us=us, idle_owners={"sync": 0.3 * us}, **(parts | changed))


def _report(scale: float = 1.0) -> Report:
    return Report(
        tool=Tool(version="0"),
        profile=ProfileFacts(
            path="runs/small", ranks=[RankInfo(rank=rank, path=f"runs/small/{rank}", form="text") for rank in (0, 1)]
        ),
        steps=[_step(0, 1, 100 * scale), _step(0, 2, 140 * scale), _step(1, 1, 200 * scale)],
        facts=[RankFacts(rank=0, peak_allocated_bytes=2**30), RankFacts(rank=1)],
        top_kernels=[
            TopKernel(rank=0, type="MatMulV3", calls=9, total_us=90.0, share=0.9),
            TopKernel(rank=0, type="TransData", calls=1, total_us=10.0, share=0.1),
        ],
    )


def _checked(table: dict[str, Any], baseline: Report | None = None) -> list[tuple[str, int | None, str, float | None]]:
    results = check(parse_budgets(table, "budget.toml"), _report(), baseline)
    return [(each.metric, each.rank, each.outcome, each.over) for each in results]


def test_a_limit_holds_for_every_rank_over_the_mean_of_its_steps() -> None:
    assert _checked({"step_us": {"max": "150 us"}}) == [
        ("step_us", 0, "kept", 0.0),
        ("step_us", 1, "violated", 50.0),
    ]
    assert _checked({"step_us": {"max": 150, "rank": 0, "step": 2}}) == [("step_us", 0, "kept", 0.0)]
    assert _checked({"step_us": {"max": 130, "rank": 0, "step": 2}}) == [("step_us", 0, "violated", 10.0)]
    assert _checked({"step_us": {"max": 1, "rank": 7}}) == [("step_us", 7, "not_checked", None)]


def test_metrics_of_every_kind() -> None:
    assert _checked({"idle_share": {"max": "25 %", "rank": 0}})[0][2:] == ("violated", pytest.approx(0.05))
    assert _checked({"idle_owner_us": {"sync": {"max": 30, "rank": 0}}})[0][2:] == ("violated", pytest.approx(6.0))
    assert _checked({"kernel_share": {"TransData": {"max": "1 %", "rank": 0}}})[0][2:] == (
        "violated",
        pytest.approx(0.09),
    )
    assert _checked({"kernel_share": {"Cast": {"max": "1 %", "rank": 0}}})[0][2] == "kept"
    assert _checked({"kernel_share": {"Cast": {"max": "1 %", "rank": 1}}})[0][2] == "not_checked"
    assert _checked({"peak_allocated_bytes": {"max": "1 GB"}}) == [
        ("peak_allocated_bytes", 0, "kept", 0.0),
        ("peak_allocated_bytes", 1, "not_checked", None),
    ]
    assert _checked({"findings": {"high": {"max": 0}}}) == [("findings.high", None, "kept", 0.0)]


def test_a_budget_is_for_the_profiles_that_its_pattern_names() -> None:
    assert _checked({"step_us": [{"max": 1, "profile": "*large*"}, {"max": 300, "profile": "*small*", "rank": 0}]}) == [
        ("step_us", 0, "kept", 0.0)
    ]


def test_regressions_are_against_the_baseline() -> None:
    table = {"step_us": {"max_regression": "3 %", "rank": 0}}
    assert _checked(table)[0][2] == "not_checked"
    assert _checked(table, _report())[0][2] == "kept"
    assert _checked(table, _report(0.98))[0][2] == "kept"
    assert _checked(table, _report(0.95))[0][2:] == ("violated", pytest.approx(120 - 114 * 1.03))
    assert _checked({"step_us": {"max_regression": "5 us", "rank": 0}}, _report(0.95))[0][2] == "violated"
    # Of a share, percents are points.
    assert _checked({"idle_share": {"max_regression": "1 %", "rank": 0}}, _report())[0][2] == "kept"


def test_only_errors_fail() -> None:
    report = _report()
    warning = check(parse_budgets({"step_us": {"max": 1, "level": "warning"}}, "x"), report)
    assert {each.outcome for each in warning} == {"violated"} and not violated(warning)
    assert violated(check(parse_budgets({"step_us": {"max": 1}}, "x"), report))
    assert not violated(check(parse_budgets({"step_us": {"max_regression": 1}}, "x"), report))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"stp_us": {"max": 1}}, "budget stp_us: no such metric; did you mean 'step_us'?"),
        ({"step_us": 5}, "budget step_us: must be a table with max or max_regression"),
        ({"step_us": {"level": "error"}}, "budget step_us: must be a table with max"),
        ({"step_us": {"max": "3 apples"}}, "budget step_us: max = '3 apples' does not fit here"),
        ({"step_us": {"max": True}}, "budget step_us: max = True does not fit here"),
        ({"step_us": {"max": 1, "rnk": 0}}, "budget step_us: unknown key rnk; did you mean 'rank'?; known: max"),
        ({"step_us": {"max": 1, "level": "fatal"}}, "budget step_us: level must be error or warning, not 'fatal'"),
        ({"step_us": {"max": 1, "rank": "0"}}, "budget step_us: rank = '0' does not fit here"),
        ({"step_us": {"max": "-1 ms"}}, "budget step_us: max = '-1 ms' does not fit here"),
        ({"findings": {"high": {"max": 0, "rank": -1}}}, "budget findings.high: rank = -1 does not fit here"),
        ({"step_us": {"mx": 1}}, "budget step_us: unknown key mx"),
        ({"idle_owner_us": {"snyc": {"max": 1}}}, "budget idle_owner_us.snyc: no such metric"),
        ({"idle_share": {"max": 20}}, 'budget idle_share: max = 20 is more than the whole: write percents as "20 %"'),
        ({"peak_allocated_bytes": {"max": 1, "step": 3}}, "budget peak_allocated_bytes: a step has no such figure"),
        ({"findings": {"grave": {"max": 1}}}, "budget findings.grave: no such metric"),
        ({"kernel_share": 5}, "budget kernel_share: must be followed by a name"),
        (["step_us"], "budget budget: must be a table"),
    ],
)
def test_what_is_wrong_is_named(table: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_budgets(table, "my.toml")
    assert str(caught.value).startswith(f"my.toml, {words}")


# ---- from the command line ------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _main(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = main([str(DEMO), "--select", "layout-transdata", "--lang", "en", *options])
    return (code, *capsys.readouterr())


def test_a_violated_budget_of_the_project_fails_the_build(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.npu-advisor.budget]\nstep_us = {max = "1 ms"}\n', encoding="utf-8")
    code, out, _ = _main(capsys)
    assert code == 1
    line = next(line for line in out.splitlines() if "step_us" in line)
    assert "over" in line and "1.00 ms" in line
    code, out, _ = _main(capsys, "-f", "json")
    assert code == 1 and json.loads(out)["budgets"][0]["outcome"] == "violated"


def test_a_file_takes_its_place(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.npu-advisor.budget]\nstep_us = {max = "1 ms"}\n', encoding="utf-8")
    for text in ("step_us = {max = '1 s'}", "[budget]\nstep_us = {max = '1 s'}"):
        (project / "other.toml").write_text(text, encoding="utf-8")
        code, out, _ = _main(capsys, "--budget", "other.toml")
        assert code == 0 and "kept" in out
    (project / "empty.toml").write_text("", encoding="utf-8")
    code, _, err = _main(capsys, "--budget", "empty.toml")
    assert code == 2 and "empty.toml holds no budget" in err
    code, _, err = _main(capsys, "--budget", "none.toml")
    assert code == 2 and "cannot read the budget file none.toml" in err
    (project / "other.toml").write_text("step_us = {", encoding="utf-8")
    assert _main(capsys, "--budget", "other.toml")[0] == 2


def test_a_regression_against_a_saved_report(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "b.toml").write_text('step_us = {max_regression = "3 %"}', encoding="utf-8")
    assert _main(capsys, "-f", "json", "-o", "base.json")[0] == 0
    code, out, _ = _main(capsys, "--budget", "b.toml", "--baseline", "base.json", "-f", "markdown")
    assert code == 0 and "### Budgets" in out
    base = json.loads((project / "base.json").read_text(encoding="utf-8"))
    for step in base["steps"]:
        step["duration_us"] *= 0.9
    (project / "base.json").write_text(json.dumps(base), encoding="utf-8")
    code, out, _ = _main(capsys, "--budget", "b.toml", "--baseline", "base.json", "-f", "markdown")
    assert code == 1 and "**over**" in out
