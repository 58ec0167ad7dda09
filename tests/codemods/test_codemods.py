"""Each codemod: what it changes, and the code next to it that it leaves alone."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from npu_advisor.codemods import CODEMODS, apply_edits, patch
from npu_advisor.findings import JsonValue

VALUES: dict[str, JsonValue] = {"optimizer": "AdamW", "dtypes": "FLOAT"}


def changed(name: str, text: str, values: dict[str, JsonValue] | None = None) -> tuple[str, str] | None:
    """Applicability and new text for a finding at the line that ends in ``# here``; the result must be stable."""
    text = dedent(text).lstrip("\n")
    at = next(number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# here"))
    made = patch(name, text, at, values or VALUES)
    if made is None:
        return None
    new = apply_edits(text, made.edits)
    ast.parse(new)
    again = next(number for number, line in enumerate(new.splitlines(), 1) if line.endswith("# here"))
    for line in {at, again}:
        assert patch(name, new, line, values or VALUES) is None, new
    return made.applicability, new


def lines_that_differ(text: str, new: str) -> list[str]:
    old = dedent(text).strip("\n").splitlines()
    return [line for line in new.splitlines() if line not in old]


OPTIMIZER = """
    import torch, torch_npu
    from torch import optim
    def train(model):
        opt = {built}
        for batch in data:
            opt.step()  # here
"""


@pytest.mark.parametrize(
    ("built", "values", "expected"),
    [
        ("optim.AdamW(ps, lr=1e-4)", {}, "torch_npu.optim.NpuFusedAdamW(ps, lr=1e-4)"),
        ("torch.optim.AdamW(ps, 1e-4, foreach=True)", {}, "torch_npu.optim.NpuFusedAdamW(ps, 1e-4)"),
        ("torch.optim.AdamW(ps, foreach=None, lr=x,)", {}, "torch_npu.optim.NpuFusedAdamW(ps, lr=x,)"),
        ("torch.optim.AdamW(ps, capturable=False)", {}, "torch_npu.optim.NpuFusedAdamW(ps)"),
        ("torch.optim.AdamW(p for p in ps)", {}, "torch_npu.optim.NpuFusedAdamW(p for p in ps)"),
        ("optim.SGD(ps, 1e-2, 0.9)", {"optimizer": "SGD"}, "torch_npu.optim.NpuFusedSGD(ps, 1e-2, 0.9)"),
        # What the fused form lacks, or nobody can tell.
        ("torch.optim.AdamW(ps, maximize=True)", {}, None),
        ("torch.optim.AdamW(ps, fused=True)", {}, None),
        ("torch.optim.AdamW(ps, **options)", {}, None),
        ("torch.optim.AdamW(ps, foreach=args.foreach)", {}, None),
        ("torch.optim.Adam(ps)", {}, None),
        ("mine.AdamW(ps)", {}, None),
        ("torch.optim.NAdam(ps)", {"optimizer": "NAdam"}, None),
    ],
)
def test_a_native_optimizer_becomes_the_fused_one(built: str, values: dict[str, JsonValue], expected: str) -> None:
    text = OPTIMIZER.format(built=built)
    made = changed("npu-fused-optimizer", text, VALUES | values)
    if expected is None:
        assert made is None
    else:
        assert made == ("unsafe", dedent(OPTIMIZER.format(built=expected)).lstrip("\n"))


@pytest.mark.parametrize(
    "elsewhere",
    [
        "model = FSDP(model)",
        "opt.zero_grad(set_to_none=True)",
        "opt.zero_grad(True)",
        "emb = nn.Embedding(9, 9, sparse=True)",
        "opt2 = torch.optim.AdamW(other)\nopt = torch.optim.AdamW(more)",
    ],
)
def test_code_that_the_fused_optimizer_cannot_live_with_is_left_alone(elsewhere: str) -> None:
    assert (
        changed(
            "npu-fused-optimizer",
            f"import torch, torch_npu\nopt = torch.optim.AdamW(ps)\n{elsewhere}\nopt.step()  # here\n",
        )
        is None
    )


def test_of_two_optimizers_the_one_that_is_stepped_changes() -> None:
    text = """
        import torch, torch_npu
        a = torch.optim.AdamW(ps)
        self.b = torch.optim.AdamW(qs)
        scaler.step(self.b)  # here
    """
    made = changed("npu-fused-optimizer", text)
    assert made is not None
    assert lines_that_differ(text, made[1]) == ["self.b = torch_npu.optim.NpuFusedAdamW(qs)"]


def test_the_line_must_step_an_optimizer() -> None:
    assert (
        changed(
            "npu-fused-optimizer", "import torch, torch_npu\nopt = torch.optim.AdamW(ps)\nloss.backward()  # here\n"
        )
        is None
    )


def test_torch_npu_is_imported_behind_torch_where_it_is_not_yet() -> None:
    text = "import os\nimport torch  # first\nimport sys\nopt = torch.optim.AdamW(ps)\nopt.step()  # here\n"
    made = changed("npu-fused-optimizer", text)
    assert made is not None
    assert made[1].splitlines()[:4] == ["import os", "import torch  # first", "import torch_npu", "import sys"]


def test_a_comment_before_an_argument_that_goes_stays() -> None:
    text = """
        from torch.optim import AdamW
        opt = AdamW(ps, lr=1,  # found by a search
                    foreach=False)
        opt.step()  # here
    """
    made = changed("npu-fused-optimizer", text)
    assert made is not None
    assert lines_that_differ(text, made[1])[:2] == [
        "import torch_npu",
        "opt = torch_npu.optim.NpuFusedAdamW(ps, lr=1,  # found by a search",
    ]


def test_without_the_type_of_the_parameters_the_fix_is_only_shown() -> None:
    made = changed("npu-fused-optimizer", OPTIMIZER.format(built="optim.AdamW(ps)"), VALUES | {"dtypes": None})
    assert made is not None
    assert made[0] == "display-only"


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        ("optim.AdamW(ps)", "optim.AdamW(ps, fused=True)"),
        ("optim.AdamW(ps, foreach=False, lr=x)", "optim.AdamW(ps, fused=True, lr=x)"),
        ("optim.AdamW(ps, fused=args.fused)", None),
        ("optim.AdamW(ps, differentiable=True)", None),
        # One more argument would need brackets around this one.
        ("optim.AdamW(p for p in ps)", None),
    ],
)
def test_adamw_takes_fused(built: str, expected: str | None) -> None:
    made = changed("torch-fused-optimizer", OPTIMIZER.format(built=built))
    assert made == (None if expected is None else ("unsafe", dedent(OPTIMIZER.format(built=expected)).lstrip("\n")))


LOADER = """
    from torch.utils.data import DataLoader
    loader = {built}
    for step, batch in enumerate(loader):  # here
        pass
"""


@pytest.mark.parametrize(
    ("built", "expected", "applicability"),
    [
        (
            "DataLoader(data, batch_size=8)",
            "DataLoader(data, batch_size=8, num_workers=8, pin_memory=True, persistent_workers=True)",
            "unsafe",
        ),
        (
            "DataLoader(data, num_workers=0, drop_last=True)",
            "DataLoader(data, num_workers=8, pin_memory=True, persistent_workers=True, drop_last=True)",
            "unsafe",
        ),
        (
            "DataLoader(data, num_workers=args.n)",
            "DataLoader(data, num_workers=args.n, pin_memory=True, persistent_workers=args.n > 0)",
            "unsafe",
        ),
        ("DataLoader(data, num_workers=f(x))", "DataLoader(data, num_workers=f(x), pin_memory=True)", "safe"),
        (
            "DataLoader(data, 8, True, None, None, 4, fn, True)",
            "DataLoader(data, 8, True, None, None, 4, fn, True, persistent_workers=True)",
            "unsafe",
        ),
        (
            "DataLoader(\n        (data),\n        num_workers=4,  # enough\n        pin_memory=False,\n    )",
            "DataLoader(\n        (data),\n        num_workers=4,  # enough\n        pin_memory=False,\n"
            "        persistent_workers=True,\n    )",
            "unsafe",
        ),
        ("DataLoader(data, num_workers=4, pin_memory=x, persistent_workers=y)", None, ""),
        ("DataLoader(data, **options)", None, ""),
        ("MyLoader(data)", None, ""),
    ],
)
def test_a_loader_gets_workers_and_pinned_memory(built: str, expected: str | None, applicability: str) -> None:
    made = changed("loader-workers", LOADER.format(built=built))
    wanted = None if expected is None else (applicability, dedent(LOADER.format(built=expected)).lstrip("\n"))
    assert made == wanted


def test_of_two_loaders_the_one_that_is_read_changes() -> None:
    text = """
        from torch.utils import data
        train = data.DataLoader(a)
        valid = data.DataLoader(b)
        for batch in tqdm(valid):  # here
            pass
    """
    made = changed("loader-workers", text)
    assert made is not None
    assert len(lines_that_differ(text, made[1])) == 1
    assert "DataLoader(b, num_workers" in made[1]


@pytest.mark.parametrize(
    ("before", "after", "applicability"),
    [
        ("torch.masked_select(x, x > -1e9).view_as(x)", "torch.where(x > -1e9, x, 0)", "safe"),
        ("x.masked_select(torch.isfinite(x)).view(x.shape)", "torch.where(torch.isfinite(x), x, 0)", "safe"),
        ("x[(x > 1) & ~(x > 9)].reshape(x.shape)", "torch.where((x > 1) & ~(x > 9), x, 0)", "safe"),
        ("a + self.x[self.x != 0].sum()", "a + torch.where(self.x != 0, self.x, 0).sum()", "unsafe"),
        # The mask may have another shape, or x is not the same tensor, or the mean counts other elements.
        ("torch.masked_select(x, mask).view_as(x)", None, ""),
        ("torch.masked_select(x, y > 0).view_as(x)", None, ""),
        ("torch.masked_select(x, x > y).view_as(x)", None, ""),
        ("torch.masked_select(x, x > 0).view_as(y)", None, ""),
        ("torch.masked_select(x, x > 0).view(-1)", None, ""),
        ("torch.masked_select(f(x), f(x) > 0).view_as(f(x))", None, ""),
        ("x[x > 0].mean()", None, ""),
        ("x[x > 0].sum(0)", None, ""),
        ("x[0].sum()", None, ""),
        # A comment inside would be lost.
        ("torch.masked_select(x, x > 0,  # why\n).view_as(x)", None, ""),
    ],
)
def test_a_selection_becomes_where_only_when_it_is_equal(before: str, after: str | None, applicability: str) -> None:
    text = "import torch\ny = {}  # here\n"
    made = changed("mask-to-where", text.format(before))
    assert made == (None if after is None else (applicability, text.format(after)))


LOOP = """
    for epoch in range(9):
        for step, batch in enumerate(loader):
            loss.backward()
            {line}  # here
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("print(loss.item())", "if step % 100 == 0:\n            print(loss.item())"),
        (
            "writer.add_scalar('a', loss.item(), step)",
            "if step % 100 == 0:\n            writer.add_scalar('a', loss.item(), step)",
        ),
        ("total += loss.item()", "total += loss.detach()"),
        ("losses.append(loss.item())", "losses.append(loss.detach())"),
        ("total += 2 * loss.item()", None),
        ("value = loss.item()", None),
        ("print(loss)", None),
    ],
)
def test_values_are_read_rarely_in_the_training_loop(line: str, expected: str | None) -> None:
    made = changed("read-rarely", LOOP.format(line=line))
    assert made == (None if expected is None else ("unsafe", dedent(LOOP).lstrip("\n").replace("{line}", expected)))


@pytest.mark.parametrize(
    "text",
    [
        "for batch in loader:\n    loss.backward()\n    print(loss.item())  # here\n",
        "for i, p in enumerate(ps):\n    print(p.item())  # here\n",
        "for i, b in enumerate(l):\n    loss.backward()\n    if i % 10 == 0:\n        print(loss.item())  # here\n",
        "for i, b in enumerate(l):\n    loss.backward()\n    if i > 3: print(loss.item())  # here\n",
        "for i, b in enumerate(l):\n    loss.backward()\n    i = f(b)\n    print(loss.item())  # here\n",
        "for i, b in enumerate(l):\n    loss.backward()\n    for i in p:\n        print(i.item())  # here\n",
    ],
)
def test_without_a_step_number_or_with_a_condition_nothing_changes(text: str) -> None:
    assert changed("read-rarely", text) is None


def test_a_check_is_made_rarely_when_it_only_complains() -> None:
    text = """
        for step, batch in tqdm(enumerate(loader)):
            loss.backward()
            for p in ps:
                if {test}:  # here
                    {body}
    """
    check = "torch.isnan(p).any().item()"
    made = changed("read-rarely", text.format(test=check, body="raise ValueError"))
    assert made is not None
    assert lines_that_differ(text, made[1])[0] == f"        if step % 100 == 0 and {check}:  # here"
    made = changed("read-rarely", text.format(test=f"({check} or off)", body="raise ValueError"))
    assert made is not None
    assert f"if (step % 100 == 0 and ({check} or off)):" in made[1]
    assert changed("read-rarely", text.format(test=check, body="p.zero_()")) is None


def test_a_log_call_over_several_lines_moves_as_a_whole() -> None:
    text = "for s, b in enumerate(l):\n\tloss.backward()\n\tprint(  # here\n\t\tloss.item(),\n\t)\n"
    made = patch("read-rarely", text, 3, {})
    assert made is not None
    assert apply_edits(text, made.edits).splitlines()[2:] == [
        "\tif s % 100 == 0:",
        "\t\tprint(  # here",
        "\t\t\tloss.item(),",
        "\t\t)",
    ]


@pytest.mark.parametrize("name", CODEMODS)
@pytest.mark.parametrize("text", ["", "def (", "pass\n", "x = 1; y = 2\n", "\u00e9 = 'a'\n"])
def test_code_of_no_interest_gives_no_patch(name: str, text: str) -> None:
    assert patch(name, text, 1, VALUES) is None
    assert patch(name, text, 99, VALUES) is None


def test_edits_keep_the_line_ends_of_the_file() -> None:
    text = "import torch\r\nopt = torch.optim.AdamW(ps)\r\nopt.step()\r\n"
    made = patch("npu-fused-optimizer", text, 3, VALUES)
    assert made is not None
    new = apply_edits(text, made.edits)
    assert new.count("\r\n") == new.count("\n") == 4
