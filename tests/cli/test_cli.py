from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest
from places import DEMO
from report.samples import REPORTS, rich_report

import npu_advisor
from npu_advisor.base.errors import ConfigError, ProfileError, RuleError, RuleProblem
from npu_advisor.base.lang import choose_language
from npu_advisor.base.messages import MESSAGES, say
from npu_advisor.base.messages.reports import REPORTS as REPORT_TEXTS
from npu_advisor.base.terms import Text
from npu_advisor.cli import output, progress
from npu_advisor.cli.analyze import exit_code
from npu_advisor.cli.app import main
from npu_advisor.findings import Outcome, Remark, Report

TITLE = Text(en="x", zh="x")


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LC_ALL", "LC_MESSAGES", "NPU_ADVISOR_RULES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")


@pytest.fixture
def analyzes(monkeypatch):
    """Let the command get this report (or this error) instead of reading a profile; returns the calls it made."""
    import npu_advisor.api

    calls: list[tuple[object, dict[str, object]]] = []

    def give(result: Report | BaseException) -> list[tuple[object, dict[str, object]]]:
        def analyze(path: object, **options: object) -> Report:
            calls.append((path, options))
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr(npu_advisor.api, "analyze", analyze)
        return calls

    return give


def test_report_goes_to_stdout_and_nothing_else_does(analyzes, capsys):
    calls = analyzes(rich_report())
    assert main(["./result"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(" Step 7 takes 120 ms") and "\x1b" not in out
    assert err == ""
    assert calls[0][0] == "./result"


def test_options_reach_the_analysis(analyzes, capsys):
    calls = analyzes(rich_report())
    arguments = (
        "a b --select x-* --select y-z --ignore q-r --rules mine --source-root /old=new --rank 3 --rank 4 --step 7"
    )
    assert main(arguments.split()) == 0
    path, options = calls[0]
    options.pop("progress")
    assert options.pop("keep") is False and options.pop("cache") is None
    assert path == ["a", "b"]
    assert {name: list(value) for name, value in options.items()} == {
        "select": ["x-*", "y-z"],
        "ignore": ["q-r"],
        "rules": ["mine"],
        "params": [],
        "source_root": ["/old=new", str(Path.cwd())],
        "ranks": [3, 4],
        "steps": [7],
    }


def test_profiles_are_kept_only_where_views_are_shown(analyzes, capsys, tmp_path):
    calls = analyzes(rich_report())
    assert main(["x", "-f", "json"]) == 0
    assert main(["x", "-o", f"html={tmp_path / 'report.html'}"]) == 0
    assert [options["keep"] for _, options in calls] == [False, True]
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_language_option_wins_over_the_locale(analyzes, capsys, monkeypatch):
    analyzes(rich_report())
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    main(["x"])
    assert capsys.readouterr().out.startswith(" 第 7 步")
    main(["x", "--lang", "en"])
    assert capsys.readouterr().out.startswith(" Step 7")


@pytest.mark.parametrize(
    ("option", "env", "lang"),
    [
        (None, {}, "en"),
        (None, {"LANG": "zh_CN.UTF-8"}, "zh"),
        ("auto", {"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN"}, "en"),
        ("auto", {"LC_ALL": "", "LC_MESSAGES": "zh_TW", "LANG": "en"}, "zh"),
        ("zh", {"LANG": "en_US"}, "zh"),
        ("en", {"LANG": "zh_CN"}, "en"),
        (None, {"LANG": "C"}, "en"),
    ],
)
def test_choose_language(option, env, lang):
    assert choose_language(option, env) == lang


def test_json_on_stdout_and_in_a_file(analyzes, capsys, tmp_path):
    analyzes(rich_report())
    assert main(["x", "-f", "json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["tool"] == {"name": "npu-advisor", "version": "9.9.9"}
    target = tmp_path / "report.json"
    assert main(["x", "-f", "json", "-o", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == out and capsys.readouterr().out == ""


def test_json_is_utf8_whatever_the_terminal(analyzes, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    analyzes(REPORTS["hostile"]())
    main(["x", "-q", "-f", "json"])
    assert "算子名称" in json.loads(raw.getvalue().decode("utf-8"))["profile"]["path"]


def test_terminal_without_utf8_gets_ascii(analyzes, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    analyzes(rich_report())
    main(["x"])
    assert "!! HIGH" in raw.getvalue().decode("ascii")


def test_warnings_about_the_input_go_to_stderr(analyzes, capsys):
    analyzes(_damaged())
    assert main(["x"]) == 0
    out, err = capsys.readouterr()
    assert err == "error: trace_view.json ends at byte 7\nwarning: an odd value\n  file    a/kernel_details.csv\n"
    assert "What can be trusted" in out
    main(["x", "-q"])
    assert capsys.readouterr().err == ""


def _damaged() -> Report:
    return rich_report().model_copy(
        update={
            "diagnostics": [
                Remark(
                    code="trace_truncated",
                    severity="error",
                    file="a/trace_view.json",
                    message=Text(en="trace_view.json ends at byte 7", zh="trace_view.json 在第 7 字节处中断"),
                ),
                Remark(
                    code="odd",
                    severity="warning",
                    file="a/kernel_details.csv",
                    message=Text(en="an odd value", zh="异常值"),
                ),
                Remark(code="fine", severity="info", file="a", message=TITLE),
            ]
        }
    )


def test_exit_codes():
    report = rich_report()
    assert exit_code(report, None, False) == 0
    assert [exit_code(report, level, False) for level in ("high", "medium", "low", "info")] == [1, 1, 1, 1]
    low = report.model_copy(update={"findings": report.findings[3:]})
    assert [exit_code(low, level, False) for level in ("high", "medium", "low", "info")] == [0, 0, 1, 1]
    failed = low.model_copy(update={"rules": [Outcome(id="a-b", title=TITLE, outcome="failed")]})
    assert (exit_code(failed, None, False), exit_code(failed, None, True)) == (0, 2)
    assert (exit_code(_damaged(), None, False), exit_code(_damaged(), "high", True)) == (0, 3)
    cut = Remark(code="trace_truncated", severity="warning", file="t", message=TITLE)
    odd = Remark(code="bad_duration", severity="warning", file="t", message=TITLE)
    assert exit_code(report.model_copy(update={"diagnostics": [cut]}), None, True) == 3
    assert exit_code(report.model_copy(update={"diagnostics": [odd]}), None, True) == 0


def test_unreadable_profile(analyzes, capsys):
    analyzes(
        ProfileError(
            "./results",
            Text(en="nothing to analyse in ./results", zh="无"),
            Text(en="3 files", zh="3 个文件"),
            Text(en="give the folder above\nthe ranks", zh="给出上级目录"),
            code="nothing_found",
        )
    )
    assert main(["./results"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "error: nothing to analyse in ./results\n"
        "  found   3 files\n"
        "  do      give the folder above\n"
        "          the ranks\n"
        "  exit 3\n"
    )
    assert main(["./results", "-f", "json"]) == 3
    written = json.loads(capsys.readouterr().out)
    assert written["diagnostics"][0]["code"] == "nothing_found" and written["findings"] == []
    assert written["profile"] == {"path": "./results", "ranks": []}


def test_files_without_content_are_no_clean_bill(analyzes, capsys):
    analyzes(REPORTS["empty"]())
    assert main(["nowhere"]) == 3
    out, err = capsys.readouterr()
    assert out == "" and "nothing to analyse in nowhere" in err and "trace_view.json holds no events" in err
    assert main(["nowhere", "-f", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["diagnostics"][0]["code"] == "no_events"


def test_rule_problems_show_file_line_and_column(analyzes, capsys):
    line = '  - where: "算子 in $types and durr_us > 3"'
    first = RuleProblem("my/slow-copy.yaml", 11, 33, "no column 'durr_us'; did you mean 'dur_us'?", line, 7)
    second = RuleProblem("my/slow-copy.yaml", 2, 1, "unknown key 'sugest'", "sugest: []", 6)
    analyzes(RuleError([first, second]))
    assert main(["x"]) == 2
    assert capsys.readouterr().err == (
        "error: 2 problems in my/slow-copy.yaml\n"
        "  slow-copy.yaml:2:1  unknown key 'sugest'\n"
        "       2 │ sugest: []\n"
        "         │ ^^^^^^\n"
        "  slow-copy.yaml:11:33  no column 'durr_us'; did you mean 'dur_us'?\n"
        '      11 │ - where: "算子 in $types and durr_us > 3"\n'
        "         │ " + " " * 32 + "^^^^^^^\n"
        "  exit 2\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no profile was named"),
        (["x", "-f", "jsn"], "did you mean 'json'?"),
        (["x", "--fail-on", "hgh"], "did you mean 'high'?"),
        (["x", "--lang", "fr"], "--lang cannot be 'fr'"),
        (["x", "--source-root", "/old="], "--source-root needs OLD=NEW"),
        (["x", "--nope"], "--nope"),
        (["x", "--rank", "one"], "--rank"),
        (["rules", "nope"], "nope"),
        (["rules", "explain"], "ID"),
    ],
)
def test_usage_errors(arguments, said, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and said in err and err.endswith("  exit 2\n")


def test_a_file_that_cannot_be_written(analyzes, capsys, tmp_path):
    analyzes(rich_report())
    assert main(["x", "-o", str(tmp_path / "no" / "report.txt")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_interrupt_ends_quietly(analyzes, capsys):
    analyzes(KeyboardInterrupt())
    assert main(["x"]) == 130
    assert capsys.readouterr() == ("", "")


def test_closed_pipe_ends_quietly():
    program = (
        "import sys\n"
        "from npu_advisor.cli.output import write_report\n"
        "sys.stdin.read()\n"
        "write_report('x' * 10_000_000, None)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stdin.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=30) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no shell that closes a stream")
@pytest.mark.parametrize(("closed", "told"), [(">&-", ""), ("2>&-", "Steps 10-11")])
def test_what_goes_to_a_closed_stream_is_dropped(closed: str, told: str) -> None:
    command = f'"{sys.executable}" -m npu_advisor "{DEMO}" {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "env", "colored"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (None, {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"FORCE_COLOR": "0"}, False),
        (Terminal(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_only_where_it_is_seen(stream, env, colored):
    assert output.use_color(stream, env) is colored


def test_width_follows_columns(analyzes, capsys, monkeypatch):
    analyzes(rich_report())
    monkeypatch.setenv("COLUMNS", "80")
    main(["x"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"npu-advisor {npu_advisor.__version__}\n"
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--format", "--output", "--lang", "--select", "--ignore", "--rules", "--source-root", "--rank"):
        assert option in text
    for option in ("--step", "--all", "--fail-on", "--strict", "--quiet", "--version", "rules list|explain|lint|test"):
        assert option in text
    assert main(["--lang", "zh", "--help"]) == 0
    assert "要分析的 profile" in capsys.readouterr().out


def test_help_is_light():
    program = (
        "import sys, time\n"
        "from npu_advisor.cli.app import main\n"
        "assert main(['--help']) == 0\n"
        "heavy = {'pandas', 'numpy', 'networkx', 'rich', 'yaml', 'msgspec'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "print(time.process_time(), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stderr) < 0.4


def test_every_message_has_the_same_fields_in_both_languages():
    for key, texts in MESSAGES.items():
        english, chinese = ({name for _, name, _, _ in Formatter().parse(text) if name} for text in texts)
        assert all(texts) and english == chinese, key


def test_every_message_of_reports_is_used():
    table = Path(npu_advisor.base.messages.reports.__file__)
    sources = [path for path in Path(npu_advisor.__file__).parent.rglob("*.py") if path != table]
    code = "".join(path.read_text(encoding="utf-8") for path in sources)
    # These are put together from a part that varies.
    built = ("ui.piece.", "ui.not_cause.", "ui.verdict.", "ui.severity.", "ui.effort.", "ui.count.", "help.")
    built += ("ui.error", "ui.warning")
    assert [key for key in REPORT_TEXTS if key not in code and not key.startswith(built)] == []


@pytest.mark.parametrize(("tty", "seconds", "shown"), [(True, 2.0, True), (True, 0.5, False), (False, 2.0, False)])
def test_progress_shows_on_a_terminal_after_a_second(tty, seconds, shown, monkeypatch):
    clock = iter([0.0, seconds])
    stream = Terminal() if tty else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.ProgressBar("en", quiet=False) as bar:
        bar(5, 10)
    assert ("reading" in stream.getvalue()) is shown


def test_progress_says_the_share_the_time_left_and_what_comes_then(monkeypatch):
    clock = iter(range(0, 1000, 2))
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.ProgressBar("en", quiet=False) as bar:
        for done in (100, 200, 300, 400, 1000):
            bar(done, 1000)
            bar._bar.refresh()
            if done == 400:
                reading = stream.getvalue()
    assert "reading" in reading and " 40%" in reading and "0:00:0" in reading
    then = stream.getvalue()[len(reading) :].partition("analysing")[2]
    assert "analysing" not in reading and "0:00:00" in then and "%" not in then


def test_quiet_shows_no_progress(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    with progress.ProgressBar("en", quiet=True) as bar:
        bar(5, 10)
    assert stream.getvalue() == ""


def test_config_error_of_the_analysis(analyzes, capsys):
    analyzes(ConfigError(say("error.bad_choice", option="--rules", value="x")))
    assert main(["x", "--lang", "zh"]) == 2
    assert capsys.readouterr().err == "错误：--rules 不能是 'x'\n  退出码 2\n"


def test_a_file_takes_the_place_of_stdout_and_kinds_are_written_beside_it(analyzes, capsys, tmp_path):
    analyzes(rich_report())
    sarif, json_file, plain = (tmp_path / name for name in ("r.sarif", "r.json", "r.txt"))
    assert main(["x", "-o", f"sarif={sarif}", "-o", f"json={json_file}"]) == 0
    assert capsys.readouterr().out.startswith(" Step 7")
    assert json.loads(sarif.read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert json.loads(json_file.read_text(encoding="utf-8"))["schema_version"]
    assert main(["x", "-f", "markdown", "-o", str(plain), "-o", f"json={json_file}"]) == 0
    assert capsys.readouterr().out == "" and plain.read_text(encoding="utf-8").startswith("## npu-advisor")


def test_a_file_whose_name_holds_an_equals_sign_is_a_file(analyzes, capsys, tmp_path):
    analyzes(rich_report())
    path = tmp_path / "lr=3.txt"
    assert main(["x", "-o", str(path)]) == 0
    assert capsys.readouterr().out == "" and path.read_text(encoding="utf-8").startswith(" Step 7")


def test_a_baseline_is_an_earlier_json_report(analyzes, capsys, tmp_path):
    analyzes(rich_report())
    base = tmp_path / "base.json"
    main(["x", "-f", "json", "-o", str(base)])
    assert main(["x", "-f", "sarif", "--baseline", str(base)]) == 0
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert {result["baselineState"] for result in results} == {"unchanged"}
    base.write_text("{}", encoding="utf-8")
    assert main(["x", "--baseline", str(base)]) == 2
    assert f"--baseline cannot use {base}: it holds no report" in capsys.readouterr().err
