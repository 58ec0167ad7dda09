"""A DataLoader gets worker processes that stay alive, and pinned memory."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from npu_advisor.base.messages import say
from npu_advisor.codemods.arguments import changed, keyword
from npu_advisor.codemods.code import Code, dotted, is_plain, last_name, number
from npu_advisor.codemods.patch import Patch
from npu_advisor.findings import JsonValue

WORKERS = 8
_NAMES = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
# Positions of the arguments in question, as torch has them.
_POSITION = {"num_workers": 5, "pin_memory": 7, "persistent_workers": 13}


def feed_faster(code: Code, line: int, values: Mapping[str, JsonValue]) -> Patch | None:  # noqa: ARG001 (all take them)
    """Adds ``num_workers``, ``pin_memory`` and ``persistent_workers`` where the loader that ``line`` reads is built.

    What is given stays, but for ``num_workers=0``. ``persistent_workers`` needs workers: with a number that is only
    known at run time it says so (``persistent_workers=args.workers > 0``).
    """
    call = _constructor(code, line)
    if call is None or not is_plain(call.args) or not call.args:
        return None
    add, drop = [], []
    given = _argument(call, "num_workers")
    if given is None or number(given.value) == 0:
        if given is not None and given.keyword is None:
            return None
        drop, add = ([given] if given else []), [f"num_workers={WORKERS}"]
        alive = "True"
    elif number(given.value) is not None:
        alive = "True"
    else:
        alive = f"{dotted(given.value)} > 0" if dotted(given.value) else ""
    if _argument(call, "pin_memory") is None:
        add.append("pin_memory=True")
    if _argument(call, "persistent_workers") is None and alive:
        add.append(f"persistent_workers={alive}")
    if not add:
        return None
    only_memory = all(text.startswith("pin_memory") for text in add)
    title = say("fix.loader", arguments=", ".join(add))
    return Patch("safe" if only_memory else "unsafe", title, tuple(changed(code, call, drop, add)))


def _argument(call: cst.Call, name: str) -> cst.Arg | None:
    positional = [arg for arg in call.args if arg.keyword is None]
    at = _POSITION[name]
    return keyword(call, name) or (positional[at] if len(positional) > at else None)


def _constructor(code: Code, line: int) -> cst.Call | None:
    """The only loader that the file builds, or the one of the same name as the one that ``line`` reads."""
    statement = code.statement(line)
    if isinstance(statement, cst.For):
        source: cst.CSTNode = statement.iter
    elif isinstance(statement, cst.SimpleStatementLine) and any(
        last_name(call.func) == "next" for call in code.nodes(cst.Call, statement)
    ):
        source = statement
    else:
        return None
    return code.constructor(code.calls(*_NAMES), {name.value for name in code.nodes(cst.Name, source)})
