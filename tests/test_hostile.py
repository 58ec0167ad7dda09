"""Input that means harm, or is merely odd: nothing of it acts on the terminal, hangs the run or changes the input."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attack import Run, assert_inert, check, run_product
from places import CASES, DEMO, PROFILES, needs_cases, needs_profiles
from synthetic import Settings

from npu_advisor import analyze
from npu_advisor.base.errors import ProfileError
from npu_advisor.base.frame import Frame
from npu_advisor.cli.app import main
from npu_advisor.engine import sourcefile
from npu_advisor.engine.places import Roots, location
from npu_advisor.report.json import load_report
from npu_advisor.report.options import Options
from npu_advisor.report.terminal import render_terminal

SMALL = Settings(
    steps=1,
    layers=1,
    world=2,
    counters=False,
    plant=["transdata:ms=2,n=2", "mem_peak", "dispatch:us=250,n=20"],
    truth_steps=1,
)
EVIL = "\x1b[31m\x1b]0;owned\x07[red]x[/red]\u202egpj\u200b\x9b2J\x08"
OUTPUT = "ASCEND_PROFILER_OUTPUT"

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs FIFOs and devices")


@pytest.fixture
def profile(generated: Callable[[Settings], Path], tmp_path: Path) -> Path:
    """A copy of a small profile, to spoil."""
    shutil.copytree(generated(SMALL), tmp_path / "profile")
    return tmp_path / "profile"


@pytest.fixture(params=["trace_view.json", "kernel_details.csv", "operator_memory.csv", "memory_record.csv"])
def part(request: pytest.FixtureRequest, profile: Path) -> Path:
    """One file of that profile."""
    return next(profile.rglob(request.param))


def _replace(folder: Path, old: str, new: str) -> int:
    """Put ``new`` for ``old`` in every file, escaped as its form asks; how many files had it."""
    changed = 0
    for path in folder.rglob("*"):
        if path.suffix not in (".json", ".csv"):
            continue
        text = path.read_text(encoding="utf-8")
        if old in text:
            changed += 1
            path.write_text(
                text.replace(old, json.dumps(new)[1:-1] if path.suffix == ".json" else new), encoding="utf-8"
            )
    return changed


# ---- what a terminal would act on -----------------------------------------------------------------------------------

_OWN_STYLE = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;[^;\x1b]*;[^\x1b]*\x1b\\")


@pytest.mark.parametrize("old", ["TransData", "aten::ones", "train.py", "forward", "hcom_allReduce"])
def test_names_do_nothing_to_the_terminal(old: str, profile: Path) -> None:
    assert _replace(profile, old, EVIL + old)
    run = run_product(profile)
    check(run)
    report = load_report(json.dumps(run.report))
    for lang in ("en", "zh"):
        for color in (False, True):
            page = render_terminal(report, Options(lang=lang, color=color, show_all=True))
            assert_inert(_OWN_STYLE.sub("", page) if color else page)
            if old == "aten::ones":
                assert "[red]x[/red]" in page, "the name is not told as it was recorded"


@pytest.mark.parametrize(
    "name", [EVIL.replace("/", ""), "name with blanks", "模型 训练", "line\nbreak", "-rf", "[red]", "%s {x}"]
)
def test_a_path_of_any_name_is_read(name: str, profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = profile.parent / name
    profile.rename(odd)
    run = run_product(odd)
    check(run)
    assert run.exit_code == 0
    assert run.report["profile"]["path"] == str(odd)
    # Damage names the file: no more of the path reaches the terminal than it can take.
    next(odd.rglob("trace_view.json")).write_text("[", encoding="utf-8")
    damaged = run_product(odd)
    check(damaged)
    assert "trace_view.json" in damaged.stderr
    shutil.rmtree(odd)
    odd.mkdir()
    check(run_product(odd))


def test_half_a_surrogate_pair_reaches_no_report(profile: Path) -> None:
    """JSON can spell one; no UTF-8 can carry it."""
    for path in profile.rglob("*.json"):
        data = path.read_bytes().replace(b"train.py", b"tr\\udfffain.py").replace(b"allReduce", b"all\\ud800Reduce")
        path.write_bytes(data.replace(b'"rank_id"', b'"\\uDBFFrank_id"'))
    run = run_product(profile)
    check(run)
    assert "tr\ufffdain.py" in json.dumps(run.report["findings"], ensure_ascii=False)
    json.dumps(run.report, ensure_ascii=False).encode()


@posix_only
def test_a_path_that_is_no_utf8(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = profile.parent / os.fsdecode(b"caf\xe9")
    profile.rename(odd)
    check(run_product(odd))
    target = odd.parent / "report.json"
    for form in ("json", "terminal"):
        assert main([str(odd), "-f", form, "-o", str(target)]) == 0
        target.read_bytes().decode()
    assert main([str(odd) + "x"]) == 3
    capsys.readouterr()


def test_a_leading_dash_is_a_path_behind_two_dashes(
    profile: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profile.rename(profile.parent / "-rf")
    monkeypatch.chdir(profile.parent)
    assert main(["--", "-rf"]) == 0
    assert main(["./-rf"]) == 0
    capsys.readouterr()


# ---- what would keep a reader for ever -----------------------------------------------------------------------------


def test_links_that_lead_in_a_circle_or_nowhere(profile: Path) -> None:
    expected = run_product(profile).report["facts"]
    (profile / "loop").symlink_to(profile, target_is_directory=True)
    (profile / "deep").mkdir()
    (profile / "deep" / "up").symlink_to(profile, target_is_directory=True)
    (profile / "self").symlink_to(profile / "self")
    (profile / "gone.json").symlink_to(profile / "nothing.json")
    run = run_product(profile)
    check(run)
    assert run.report["facts"] == expected


def test_a_deep_folder_of_unrelated_files(tmp_path: Path) -> None:
    folder = tmp_path
    for depth in range(10):
        for number in range(20):
            (folder / f"notes{number}.json").write_text('{"loss": [1, 2, 3]}', encoding="utf-8")
            (folder / f"table{number}.csv").write_text("epoch,loss\n1,0.5\n", encoding="utf-8")
        folder = folder / f"level{depth}"
        folder.mkdir()
    run = run_product(tmp_path)
    check(run)
    assert run.exit_code == 3
    assert run.report["diagnostics"][0]["code"] == "nothing_found"


@posix_only
@pytest.mark.parametrize(
    "name", ["trace_view.json", "kernel_details.csv", "communication.json", "profiler_info_0.json"]
)
def test_a_pipe_in_place_of_a_file(name: str, profile: Path) -> None:
    path = next(profile.rglob(name))
    path.unlink()
    os.mkfifo(path)
    check(run_product(profile))


@posix_only
@pytest.mark.parametrize("name", ["trace_view.json", "memory_record.csv", "profiler_metadata.json"])
def test_an_endless_device_in_place_of_a_file(name: str, profile: Path) -> None:
    path = next(profile.rglob(name))
    path.unlink()
    path.symlink_to("/dev/zero")
    check(run_product(profile))


@posix_only
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/dev/null", "socket"])
def test_no_file_at_all_is_refused(kind: str, tmp_path: Path) -> None:
    path = Path(kind) if kind.startswith("/") else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    run = run_product(path)
    check(run)
    assert run.exit_code == 3


@posix_only
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "folder", "/proc/kmsg"])
def test_a_recorded_source_path_that_is_no_file(kind: str, profile: Path, tmp_path: Path) -> None:
    path = Path(kind) if kind.startswith("/") else tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    stack = json.loads((profile / "truth.json").read_text(encoding="utf-8"))["plants"]["mem_peak"]["frames"][0]
    assert _replace(profile, stack.partition("(")[0], str(path))
    run = run_product(profile)
    check(run)
    locations = [finding["location"] for finding in run.report["findings"] if finding["location"]]
    assert str(path) in {location["path"] for location in locations}
    assert all(location["local_path"] is None for location in locations)


def test_only_python_files_are_quoted(profile: Path, tmp_path: Path) -> None:
    """A profile from elsewhere must not put lines of other files of this machine into a report."""
    secret = tmp_path / "id_rsa"
    secret.write_text("the secret\n" * 2000, encoding="utf-8")
    stack = json.loads((profile / "truth.json").read_text(encoding="utf-8"))["plants"]["mem_peak"]["frames"][0]
    assert _replace(profile, stack.partition("(")[0], str(secret))
    run = run_product(profile)
    assert str(secret) in json.dumps(run.report["findings"])
    assert not any("the secret" in page for page in run.pages.values())


def test_a_source_file_of_endless_lines_is_not_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sourcefile, "MAX_SOURCE_BYTES", 1000)
    path = tmp_path / "train.py"
    path.write_text("x = 1\n" * 100, encoding="utf-8")
    found = location(Frame(str(path), 3), "own", Roots())
    assert found is not None and found.local_path == str(path)
    path.write_text("x = 1\n" * 1000, encoding="utf-8")
    found = location(Frame(str(path), 3), "own", Roots())
    assert found is not None and found.local_path is None


_BOMB = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from npu_advisor.cli.app import main
sys.exit(main([sys.argv[1], "--format", "json"]))
"""


@posix_only
@pytest.mark.parametrize("inner", [b"\0", b" ", b"[", b'[{"name": "', b'{"traceEvents": [{"ph": "X", "name": "a"}, '])
def test_a_small_file_that_unpacks_without_end(inner: bytes, tmp_path: Path) -> None:
    folder = tmp_path / OUTPUT
    folder.mkdir()
    with gzip.open(folder / "trace_view.json.gz", "wb", compresslevel=1) as out:
        out.write(inner)
        for _ in range(300):
            out.write(inner[-1:] * (1 << 20))
    run = subprocess.run(
        [sys.executable, "-c", _BOMB, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode in (0, 3), run.stderr
    assert "Traceback" not in run.stderr
    assert run.stderr


# ---- what cannot be read --------------------------------------------------------------------------------------------


def test_a_folder_in_place_of_a_file(part: Path, profile: Path) -> None:
    part.unlink()
    part.mkdir()
    run = run_product(profile)
    check(run)
    assert run.exit_code == 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this pathlib opens files past any patch")
def test_a_file_that_may_not_be_read_is_named(part: Path, profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _forbid(part, monkeypatch)
    run = run_product(profile)
    check(run)
    assert run.exit_code == 0
    unread = [remark for remark in run.report["diagnostics"] if remark["code"] == "file_unreadable"]
    assert [remark["file"] for remark in unread] == [part.name]
    assert "Permission denied" in run.stderr
    assert main([str(profile), "--strict", "-q", "-f", "json", "-o", os.devnull]) == 3


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this pathlib opens files past any patch")
def test_a_profile_that_may_not_be_read_is_refused(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in profile.rglob("*"):
        if path.is_file():
            _forbid(path, monkeypatch)
    with pytest.raises(ProfileError) as caught:
        analyze(profile)
    assert caught.value.code == "unreadable"
    assert caught.value.found and "Permission denied" in caught.value.found.en


def _forbid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``chmod 000`` does to anyone but root."""
    import builtins
    import io

    opened = io.open

    def refuse(file: Any, *args: Any, **options: Any) -> Any:
        if isinstance(file, (str, os.PathLike)) and Path(file) == path:
            raise PermissionError(13, "Permission denied", str(file))
        return opened(file, *args, **options)

    monkeypatch.setattr(io, "open", refuse)
    monkeypatch.setattr(builtins, "open", refuse)


# ---- the input stays as it is ---------------------------------------------------------------------------------------

_watched: list[str] = []
_opened_to_write: list[str] = []
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _watched:
        return
    paths = args[:1] if event == "open" and isinstance(args[2], int) and args[2] & _WRITES else ()
    if event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "os.utime", "os.link"):
        paths = args[:2]
    texts = [os.fsdecode(path) for path in paths if isinstance(path, (str, bytes, os.PathLike))]
    _opened_to_write.extend(f"{event} {text}" for text in texts if text.startswith(_watched[0]))


sys.addaudithook(_audit)


@pytest.fixture
def nothing_written() -> Iterator[Callable[[Path], Run]]:
    """Runs the product over a folder and checks that it leaves no trace in it, not even for a moment."""

    def run(folder: Path) -> Run:
        before = _state(folder)
        _watched[:], _opened_to_write[:] = [str(folder)], []
        result = run_product(folder, 60)
        _watched.clear()
        assert _opened_to_write == []
        assert _state(folder) == before
        return result

    yield run
    _watched.clear()


def _state(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, time of change and checksum of everything below ``folder``, and of itself."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        info = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (info.st_mode, info.st_mtime_ns, content)
    return found


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def test_nothing_is_written_beside_a_made_profile(nothing_written: Callable[[Path], Run], profile: Path) -> None:
    assert nothing_written(profile).exit_code == 0
    assert nothing_written(DEMO).exit_code == 0


@needs_profiles
@pytest.mark.parametrize("folder", _folders(PROFILES), ids=lambda path: path.name)
def test_nothing_is_written_beside_a_recorded_profile(nothing_written: Callable[[Path], Run], folder: Path) -> None:
    check(nothing_written(folder))


@needs_cases
@pytest.mark.parametrize("folder", _folders(CASES), ids=lambda path: path.name)
def test_nothing_is_written_beside_a_case(nothing_written: Callable[[Path], Run], folder: Path) -> None:
    check(nothing_written(folder))


@posix_only
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_read(profile: Path) -> None:
    folders = [profile, *(path for path in profile.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert run_product(profile).exit_code == 0
    finally:
        for folder in folders:
            folder.chmod(0o755)
