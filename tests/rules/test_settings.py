from __future__ import annotations

from pathlib import Path

import pytest

from npu_advisor.base.errors import ConfigError
from npu_advisor.cli.app import main
from npu_advisor.rules import loader
from npu_advisor.rules.choice import chosen_rules
from npu_advisor.rules.settings import find_settings


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NPU_ADVISOR_RULES", raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.chdir(tmp_path)


def project(folder: Path, section: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(section, encoding="utf-8")
    return folder


SECTION = """
[tool.npu-advisor]
rules = ["perf/rules"]
select = ["layout-*", "memory-peak"]
ignore = ["memory-*"]
[tool.npu-advisor.params.layout-transdata]
min_share = "1%"
"""


def test_the_nearest_section_above_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, SECTION)
    (tmp_path / "perf/rules").mkdir(parents=True)
    below = project(tmp_path / "src/model", "[project]\nname = 'x'\n")
    monkeypatch.chdir(below)
    found = find_settings(Path.cwd())
    assert (found.path, found.rules) == (tmp_path / "pyproject.toml", (tmp_path / "perf/rules",))
    rules = {rule.id: rule for rule in chosen_rules().load()}
    assert {rule.category for rule in rules.values()} == {"layout"}
    assert rules["layout-transdata"].values["min_share"] == 0.01


def test_options_replace_the_choice_and_folders_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, SECTION)
    monkeypatch.setenv("NPU_ADVISOR_RULES", "a:b")
    chosen = chosen_rules(["c"], select=["kernel-*"])
    assert chosen.dirs == (str(tmp_path / "perf/rules"), "a", "b", "c")
    assert (chosen.select, chosen.ignore) == (("kernel-*",), ("memory-*",))


def test_without_a_section_nothing_is_set(tmp_path: Path) -> None:
    project(tmp_path, "[tool.ruff]\nline-length = 3\n")
    assert find_settings(tmp_path).params == {}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("[tool.npu-advisor]\nselekt = []", "has no key 'selekt'; did you mean 'select'?"),
        ("[tool.npu-advisor]\nrules = 'x'", "'rules' in [tool.npu-advisor] is a list of texts"),
        ("[tool.npu-advisor]\nignore = [1]", "'ignore' in [tool.npu-advisor] is a list of texts"),
        ("[tool.npu-advisor]\nparams = 1", "'params' in [tool.npu-advisor] is a table"),
        ("[tool.npu-advisor.params]\nx = 1", "'x' in [tool.npu-advisor] is a table"),
        ("[tool]\nnpu-advisor = 3", "[tool.npu-advisor] is a table"),
        ("[tool.npu-advisor\n", "is not TOML"),
        ("[tool.npu-advisor.params.layout-transdat]\nx = 1", "unknown rule 'layout-transdat'; did you mean"),
        (
            "[tool.npu-advisor.params.layout-transdata]\nmin_shar = 1",
            "no parameter 'min_shar'; did you mean 'min_share'?",
        ),
        ("[tool.npu-advisor.params.layout-transdata]\nmin_share = true", "not like the default 0.0"),
        ("[tool.npu-advisor]\nrules = ['nowhere']", "no such folder of rules"),
    ],
)
def test_a_wrong_setting_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], section: str, message: str
) -> None:
    project(tmp_path, section)
    assert main(["rules", "explain", "memory-peak"]) == 2
    assert message in capsys.readouterr().err


def test_a_choice_of_no_rule_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path, "[tool.npu-advisor]\nselect = ['layot-*']")
    assert main(["rules", "list"]) == 2
    assert "no rule matches 'layot-*'" in capsys.readouterr().err


def test_cases_are_run_with_the_parameters_of_the_file(tmp_path: Path) -> None:
    project(tmp_path, SECTION.replace("1%", "99%").replace('rules = ["perf/rules"]', ""))
    assert main(["rules", "test"]) == 0


class _Point:
    """An entry point as :mod:`importlib.metadata` gives it."""

    def __init__(self, name: str, value: object) -> None:
        self.name, self.value = name, value

    def load(self) -> object:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def test_other_packages_bring_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [_Point("second", tmp_path / "b"), _Point("first", lambda: str(tmp_path / "a"))]
    monkeypatch.setattr(loader, "entry_points", lambda group: points if group == "npu_advisor.rules" else [])
    assert loader.plugin_dirs() == [tmp_path / "a", tmp_path / "b"]
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "a/own.yaml").write_text("overrides: layout-transdata\ntitle: {en: Mine, zh: 我的}\n", encoding="utf-8")
    titles = {rule.id: rule.title.en for rule in loader.load_rules()}
    assert titles["layout-transdata"] == "Mine"


def test_a_broken_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "entry_points", lambda group: [_Point("acme", ImportError("no module acme"))])
    with pytest.raises(ConfigError, match="'acme' cannot be used: ImportError: no module acme"):
        loader.load_rules()
