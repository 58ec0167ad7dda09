from __future__ import annotations

from pathlib import Path

import pytest
from rulekit import rule_text, write

import npu_advisor
from npu_advisor.base.errors import ConfigError, RuleError
from npu_advisor.base.terms import Effort, Severity
from npu_advisor.rules.loader import load_rule_dirs, load_rules, rule_files, shipped_dir

FIND = "- from: kernels\n- where: dur_us > $min_us\n"
PARAMS = "min_us: {default: 20, unit: us, doc: short ones are noise}\n"


def problems_of(folder: Path) -> str:
    with pytest.raises(RuleError) as caught:
        load_rule_dirs([folder])
    return str(caught.value)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is also the working directory, so that messages name files briefly."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_rule_knows_its_file_and_category(here: Path) -> None:
    path = write(here, rule_text(FIND, params=PARAMS), "layout/layout-sample.yaml")
    rule = load_rule_dirs([here])[0]
    assert (rule.id, rule.category, rule.path) == ("layout-sample", "layout", path)
    assert rule.test_path == path.with_name("layout-sample.test.yaml")
    assert [stage.name for stage in rule.find] == ["from", "where"]
    assert rule.values == {"min_us": 20}
    assert rule.suggest[0].effort is Effort.ONE_LINE
    assert rule.emit.at is None and rule.emit.fix is None


def test_everything_a_rule_may_say(here: Path) -> None:
    emit = """
      emit:
        at: source
        recorded: us
        fix: {scale: kernels, by: 0.5}
        claim: lost_us
        severity: {at_most: medium}
        message: {en: "{us:us}", zh: "{us:us}"}
        evidence: {by: source, agg: {us: sum(dur_us)}, top: 3}
      references: [a-page]
      applies: {cann: ">=8.0", device: "Ascend910B*"}
    """
    suggest = "suggest:\n  - {effort: local, en: a, zh: b, before: x, after: y, when: us > 1}\n"
    write(here, "a-page: {title: A page, url: 'https://example.org/a'}\n", "references.yaml")
    write(here, rule_text(FIND, emit=emit, params=PARAMS, suggest=suggest))
    rule = load_rule_dirs([here])[0]
    assert rule.emit.fix is not None
    assert (rule.emit.fix.kind, rule.emit.fix.table, rule.emit.fix.expression) == ("scale", "kernels", "0.5")
    assert rule.emit.severity is not None and rule.emit.severity.at_most is Severity.MEDIUM
    assert rule.emit.evidence is not None and rule.emit.evidence.by == ["source"]
    assert rule.known_references["a-page"].url == "https://example.org/a"
    assert rule.suggest[0].when == "us > 1"


def test_shared_lists_and_their_docs(here: Path) -> None:
    write(here, "short: [a, b]\nlong:\n  doc: what it is\n  values: [c]\n", "lists.yaml")
    write(here, rule_text(FIND, params=PARAMS))
    lists = load_rule_dirs([here])[0].lists
    assert {name: entry.values for name, entry in lists.items()} == {"short": ["a", "b"], "long": ["c"]}
    assert lists["long"].doc == "what it is"


def test_tests_and_shared_files_are_no_rules(here: Path) -> None:
    for name in ("a-b.yaml", "a-b.test.yaml", "lists.yaml", "references.yaml", "sub/c-d.yml"):
        write(here, "", name)
    assert [path.name for path in rule_files(here)] == ["a-b.yaml", "c-d.yml"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "suggest:",
            "sugest:",
            "layout-sample.yaml:1:1: error: missing key 'suggest'\n    id: layout-sample\n    ^\n"
            "layout-sample.yaml:11:1: error: unknown key 'sugest'; did you mean 'suggest'?\n    sugest:\n    ^^^^^^",
        ),
        (
            "- where:",
            "- wher:",
            "layout-sample.yaml:8:5: error: unknown stage 'wher'; did you mean 'where'?\n      - wher: dur_us "
            "> $min_us\n"
            "        ^^^^",
        ),
        (
            "effort: one-line",
            "effort: oneline",
            "layout-sample.yaml:12:14: error: 'effort' is one of profile, environment, one-line, local, rework;"
            " did you mean 'one-line'?"
            "\n      - {effort: oneline, en: Do this., zh: 这样做。}\n                 ^^^^^^^",
        ),
        (
            "{en: Why., zh: 原因。}",
            "{en: Why.}",
            "layout-sample.yaml:3:1: error: missing key 'zh'\n    docs: {en: Why.}\n    ^",
        ),
        (
            "default: 20,",
            "default: {a: 1},",
            "layout-sample.yaml:5:12: error: must be a text, a number or a truth value\n"
            "      min_us: {default: {a: 1}, unit: us, doc: short ones are noise}\n               ^^^^^^^",
        ),
        (
            "emit:\n  message: {en: Found it., zh: 已发现。}",
            "emit: 3",
            "layout-sample.yaml:9:7: error: 'emit' must be a mapping (key: value)\n    emit: 3\n          ^",
        ),
        (
            "find:\n  - from: kernels\n  - where: dur_us > $min_us",
            "find: []",
            "layout-sample.yaml:6:7: error: 'find' must not be empty\n    find: []\n          ^^",
        ),
        (
            "emit:\n",
            "emit:\n  fix: {scale: kernels}\n",
            "layout-sample.yaml:10:3: error: a 'scale' fix has 'scale' and 'by', nothing else\n"
            "      fix: {scale: kernels}\n      ^^^",
        ),
        (
            "emit:\n",
            "emit:\n  fix: {remove: a, close: b}\n",
            "layout-sample.yaml:10:3: error: a fix is exactly one of remove, scale, cap, close, overlap, fuse, avoid, "
            "memory\n"
            "      fix: {remove: a, close: b}\n      ^^^",
        ),
        (
            "emit:\n",
            "emit:\n  severity: {at_most: low, is: low}\n",
            "layout-sample.yaml:10:3: error: severity is one of {at_most: ...}, {at_least: ...} and {is: ...}\n"
            "      severity: {at_most: low, is: low}\n      ^^^^^^^^",
        ),
        (
            "id: layout-sample",
            "id: layout-other",
            "layout-sample.yaml:1:5: error: id 'layout-other' must be the file's name, 'layout-sample'\n"
            "    id: layout-other\n        ^^^^^^^^^^^^",
        ),
        (
            "id: layout-sample",
            "id: Layout",
            "layout-sample.yaml:1:5: error: 'id' does not look right: 'Layout'\n    id: Layout\n        ^^^^^^",
        ),
        (
            "emit:\n",
            "references: [no-page]\nemit:\n",
            "layout-sample.yaml:9:14: error: unknown reference 'no-page'\n    references: [no-page]\n"
            "                 ^^^^^^^",
        ),
        (
            "  - from: kernels\n",
            "  - {from: kernels, limit: 3}\n",
            "layout-sample.yaml:7:5: error: a stage has exactly one key, not 2\n      - {from: kernels, limit: 3}\n"
            "        ^^^^^^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "  - from: kernels\n",
            "  - from: kernels\n  - limit: 0\n",
            "layout-sample.yaml:8:12: error: 'limit' must be above 0\n      - limit: 0\n               ^",
        ),
        (
            "  min_us:",
            "  min-us:",
            "layout-sample.yaml:5:3: error: 'min-us' is not a name (letters, digits and _)\n"
            "      min-us: {default: 20, unit: us, doc: short ones are noise}\n      ^^^^^^",
        ),
    ],
)
def test_faults_of_form(here: Path, old: str, new: str, problem: str) -> None:
    text = rule_text(FIND, params=PARAMS)
    assert old in text
    write(here, text.replace(old, new))
    assert problem in problems_of(here)


def test_all_problems_of_all_files_come_together(here: Path) -> None:
    write(here, rule_text(FIND, params=PARAMS).replace("suggest:", "sugest:"))
    write(here, "- just\n- a list\n", "layout-other.yaml")
    write(here, "a: [", "layout-third.yaml")
    (here / "layout-bytes.yaml").write_bytes(b"\xff\xfe\x00")
    found = problems_of(here)
    assert "layout-other.yaml:1:1: error: a rule file is a mapping (key: value)" in found
    assert "layout-third.yaml:1:5: error: not YAML: expected the node content, but found '<stream end>'" in found
    assert "layout-bytes.yaml:1:1: error: cannot read this file: not UTF-8 text" in found
    assert "unknown key 'sugest'" in found and "missing key 'suggest'" in found


def test_shared_files_have_faults_too(here: Path) -> None:
    write(here, "a: {title: T, url: nowhere}\n", "references.yaml")
    write(here, "- a\n", "lists.yaml")
    found = problems_of(here)
    assert "references.yaml:1:20: error: 'url' does not look right: 'nowhere'" in found
    assert "lists.yaml:1:1: error: this file is a mapping (name: entry)" in found


def test_a_rule_lies_in_the_folder_of_its_category(here: Path) -> None:
    write(here, rule_text(FIND, params=PARAMS), "kernel/layout-sample.yaml")
    assert "rule 'layout-sample' must lie in the folder 'layout', not 'kernel'" in problems_of(here)


def test_a_second_rule_of_the_same_id_must_override(here: Path) -> None:
    write(here / "one", rule_text(FIND, params=PARAMS))
    write(here / "two", rule_text(FIND, params=PARAMS))
    with pytest.raises(RuleError) as caught:
        load_rule_dirs([here / "one", here / "two"])
    message = (
        "rule 'layout-sample' exists already in one/layout-sample.yaml; to change it say 'overrides: layout-sample'"
    )
    assert caught.value.problems[0].message == message


def test_an_override_changes_only_what_it_names(here: Path) -> None:
    write(here / "one", rule_text(FIND, params=PARAMS))
    over = "overrides: layout-sample\nparams: {min_us: {default: 5}}\ntitle: {en: New, zh: 新}\n"
    write(here / "two", over, "mine.yaml")
    rule = load_rule_dirs([here / "one", here / "two"])[0]
    assert (rule.id, rule.title.en, rule.values, rule.params["min_us"].doc) == (
        "layout-sample",
        "New",
        {"min_us": 5},
        "short ones are noise",
    )
    assert rule.origin.span(("title", "en")).file == "two/mine.yaml"
    assert rule.origin.span(("find", 0)).file == "one/layout-sample.yaml"


def test_an_override_of_nothing(here: Path) -> None:
    write(here, rule_text(FIND, params=PARAMS))
    write(here / "more", "overrides: layout-sampel\n", "mine.yaml")
    with pytest.raises(RuleError) as caught:
        load_rule_dirs([here, here / "more"])
    assert "overrides unknown rule 'layout-sampel'; did you mean 'layout-sample'?" in str(caught.value)


def test_params_select_and_ignore(here: Path) -> None:
    write(here, rule_text(FIND, params=PARAMS))
    write(here, rule_text(FIND, params=PARAMS, rule_id="kernel-other"), "kernel-other.yaml")
    rules = load_rule_dirs([here], params={"layout-sample": {"min_us": "5ms"}}, select=["layout-*"])
    assert [(rule.id, rule.values["min_us"]) for rule in rules] == [("layout-sample", 5000)]
    assert [rule.id for rule in load_rule_dirs([here], ignore=["layout-*"])] == ["kernel-other"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"params": {"layout-sampel": {}}}, "unknown rule 'layout-sampel'; did you mean 'layout-sample'?"),
        (
            {"params": {"layout-sample": {"min": 1}}},
            "rule 'layout-sample' has no parameter 'min'; did you mean 'min_us'?",
        ),
        (
            {"params": {"layout-sample": {"min_us": "much"}}},
            "parameter 'min_us' of rule 'layout-sample' cannot be 'much': 'much' is not a number",
        ),
        (
            {"params": {"layout-sample": {"min_us": [1]}}},
            "parameter 'min_us' of rule 'layout-sample' cannot be [1]: not like the default 20",
        ),
        ({"select": ["nothing-*"]}, "no rule matches 'nothing-*'"),
        ({"ignore": ["layout-sampl"]}, "no rule matches 'layout-sampl'; did you mean 'layout-sample'?"),
    ],
)
def test_wrong_options(here: Path, options: dict[str, object], message: str) -> None:
    write(here, rule_text(FIND, params=PARAMS))
    with pytest.raises(ConfigError) as caught:
        load_rule_dirs([here], **options)  # type: ignore[arg-type]
    assert caught.value.what.en == message


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder of rules"):
        load_rules(dirs=[tmp_path / "none"])


def test_the_shipped_folder_in_a_checkout_and_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "npu_advisor"
    package.mkdir()
    monkeypatch.setattr(npu_advisor, "__file__", str(package / "__init__.py"))
    assert shipped_dir() == tmp_path / "rules"
    (package / "_rules").mkdir()
    assert shipped_dir() == package / "_rules"
