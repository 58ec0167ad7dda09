from __future__ import annotations

from pathlib import Path

import pytest

from npu_advisor.base.frame import Frame
from npu_advisor.engine.places import Roots, location

SCRIPT = """\
import torch

@decorated
def train(model):
    # a comment
    loss = model()

    return [step(loss) for _ in range(3)]

class Net:
    width = 3

    def forward(self, x):
        return x.item()

train(Net())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "proj" / "train.py"
    path.parent.mkdir()
    path.write_text(SCRIPT, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "function", "fits"),
    [
        (6, "train", True),
        (6, "forward", False),  # another function lies there
        (6, "", True),
        (6, "<module>", False),
        (5, "train", False),  # a comment runs nothing
        (7, "train", False),
        (8, "<listcomp>", True),
        (14, "Net.forward", True),
        (11, "Net", True),
        (16, "<module>", True),
        (3, "<module>", True),  # a decorator runs outside of what it decorates
        (1, "<module>", True),
        (16, "train", False),
    ],
)
def test_code_fits_where_the_line_runs_in_the_recorded_function(script: Path, line: int, function: str, fits: bool):
    found = location(Frame(str(script), line, function), "own", Roots())
    assert found is not None and found.code is not None
    assert found.code.fits is fits
    assert found.text == SCRIPT.splitlines()[line - 1]


def test_the_frame_holds_two_lines_on_either_side(script: Path):
    found = location(Frame(str(script), 6, "train"), "own", Roots())
    assert found is not None and found.code is not None
    assert (found.code.first_line, found.code.lines) == (4, SCRIPT.splitlines()[3:8])
    first = location(Frame(str(script), 1, "<module>"), "own", Roots())
    assert first is not None and first.code is not None and first.code.first_line == 1


def test_a_file_this_python_cannot_parse_is_quoted_all_the_same(script: Path):
    script.write_text("match = = 3\nprint(x)\n", encoding="utf-8")
    found = location(Frame(str(script), 2, "main"), "own", Roots())
    assert found is not None and found.code is not None and found.code.fits and found.text == "print(x)"


@pytest.mark.parametrize("recorded", ["/home/u/proj/train.py", "C:\\users\\u\\proj\\train.py", "/train.py"])
def test_a_folder_is_searched_for_the_longest_end_of_the_path(script: Path, tmp_path: Path, recorded: str):
    decoy = tmp_path / "train.py"
    decoy.write_text(SCRIPT, encoding="utf-8")
    found = location(Frame(recorded, 6, "train"), "own", Roots(folders=(str(tmp_path),)))
    assert found is not None
    assert found.local_path == str(script if "proj" in recorded else decoy)


def test_an_end_that_does_not_fit_the_frame_is_another_file(script: Path, tmp_path: Path):
    folder = Roots(folders=(str(tmp_path),))
    for frame in (Frame("/x/proj/train.py", 6, "evaluate"), Frame("/x/proj/train.py", 60, "train")):
        found = location(frame, "own", folder)
        assert found is not None and found.local_path is None and found.code is None
    mapped = location(Frame("/x/proj/train.py", 6, "evaluate"), "own", Roots.of([f"/x={tmp_path}"]))
    assert mapped is not None and mapped.local_path == str(script) and mapped.code is not None and not mapped.code.fits


def test_an_end_never_leaves_the_folder(script: Path, tmp_path: Path):
    inner = tmp_path / "inner"
    inner.mkdir()
    found = location(Frame("/x/../proj/train.py", 6, "train"), "own", Roots(folders=(str(inner),)))
    assert found is not None and found.local_path is None


def test_roots_are_prefixes_or_folders():
    roots = Roots.of(["/old=/new", "checkout"])
    assert roots.prefixes == {"/old": "/new"} and roots.folders == ("checkout",)
