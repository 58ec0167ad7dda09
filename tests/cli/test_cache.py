from __future__ import annotations

from pathlib import Path

import pytest

from npu_advisor.cli.app import main

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"


def test_a_second_run_uses_it_until_it_is_cleared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = str(tmp_path / "kept")
    said = []
    for _ in range(2):
        main([str(DEMO), "--format", "json", "-q", "--cache", kept])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert main(["cache", "info", "--cache", kept]) == 0
    assert "ranks kept: 1, reports: 1" in capsys.readouterr().out
    assert main(["cache", "clear", "--cache", kept]) == 0
    assert main(["cache", "info", "--cache", kept, "--lang", "zh"]) == 0
    assert "rank 数：0，报告数：0" in capsys.readouterr().out
