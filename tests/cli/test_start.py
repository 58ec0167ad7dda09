from __future__ import annotations

from pathlib import Path

import pytest

from npu_advisor.__main__ import profile_in


@pytest.mark.parametrize("arguments", [["{}"], ["-q", "{}"], ["{}", "-o", "report.txt"], ["--lang=zh", "{}", "other"]])
def test_a_path_that_comes_first_is_scanned_at_once(tmp_path: Path, arguments: list[str]) -> None:
    assert profile_in([argument.format(tmp_path) for argument in arguments]) == str(tmp_path)


def test_the_name_of_a_command_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").mkdir()
    assert profile_in(["rules", "list"]) is None
    assert profile_in(["./rules"]) == "./rules"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--version"],
        ["{}/none"],
        ["x" * 5000],
        ["cluster", "{}"],
        ["{}", "--cache", "auto"],
        ["{}", "--cache=auto"],
        ["--parse", "{}"],
    ],
)
def test_what_may_not_be_read_is_not_scanned(tmp_path: Path, arguments: list[str]) -> None:
    assert profile_in([argument.format(tmp_path) for argument in arguments]) is None
