"""A native optimizer becomes a fused one.

What the fused forms take and refuse follows their source: ``torch_npu.optim.NpuFused*`` accept fp32 and fp16
parameters, keep them and their gradients in one combined tensor each (so gradients must not become None, and neither
sparse gradients nor frameworks that own the flat buffer fit), and know fewer arguments than ``torch.optim``.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from npu_advisor.base.messages import say
from npu_advisor.codemods.arguments import changed, keyword
from npu_advisor.codemods.code import Code, dotted, is_plain, last_name
from npu_advisor.codemods.patch import Patch
from npu_advisor.findings import JsonValue, TextEdit

_ADAM = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad")
# What both torch.optim.X and torch_npu.optim.NpuFusedX take, in the order that both have.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "Adadelta": ("params", "lr", "rho", "eps", "weight_decay"),
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "RMSprop": ("params", "lr", "alpha", "eps", "weight_decay", "momentum", "centered"),
    "SGD": ("params", "lr", "momentum", "dampening", "weight_decay", "nesterov"),
}
# How torch runs the update; the fused form needs none of it, provided that it is off or only about speed.
_SPEED = ("foreach", "fused")
_OFF = ("maximize", "capturable", "differentiable")
_OWNERS = frozenset(
    {"FSDP", "FullyShardedDataParallel", "fully_shard", "ZeroRedundancyOptimizer", "DistributedOptimizer", "deepspeed"}
)


def npu_fused(code: Code, line: int, values: Mapping[str, JsonValue]) -> Patch | None:
    """``torch.optim.AdamW(...)`` -> ``torch_npu.optim.NpuFusedAdamW(...)``, wherever in the file it is built.

    Shown only, when the recording does not tell the type of the parameters.
    """
    name = str(values["optimizer"])
    call = _constructor(code, line, name)
    if call is None or _refuses(code) or not is_plain(call.args):
        return None
    drop = _to_drop(call, ARGUMENTS[name])
    if drop is None:
        return None
    module = code.module_name("torch_npu")
    fused = f"{module or 'torch_npu'}.optim.NpuFused{name}"
    edits = [code.replaced(call.func, fused), *changed(code, call, drop, [])]
    if module is None:
        imported = _import(code, code.span(call).start_line)
        if imported is None:
            return None
        edits.append(imported)
    known = values["dtypes"] is not None
    return Patch("unsafe" if known else "display-only", say("fix.npu_fused", name=name, fused=fused), tuple(edits))


def torch_fused(code: Code, line: int, values: Mapping[str, JsonValue]) -> Patch | None:
    """``torch.optim.AdamW(...)`` -> ``torch.optim.AdamW(..., fused=True)``."""
    call = _constructor(code, line, "AdamW") if values["optimizer"] == "AdamW" else None
    if call is None or not is_plain(call.args) or not call.args or keyword(call, "fused") is not None:
        return None
    differentiable, foreach = keyword(call, "differentiable"), keyword(call, "foreach")
    if differentiable is not None and not _is_one_of(differentiable, "False"):
        return None
    drop = [foreach] if foreach is not None else []
    return Patch("unsafe", say("fix.torch_fused"), tuple(changed(code, call, drop, ["fused=True"])))


def _constructor(code: Code, line: int, name: str) -> cst.Call | None:
    """Where the file builds the optimizer that ``line`` steps: the only one of its class, or that of the same name."""
    if name not in ARGUMENTS:
        return None
    statement = code.statement(line)
    stepped = _stepped(code, statement) if isinstance(statement, cst.SimpleStatementLine) else set()
    if not stepped:
        return None
    return code.constructor(code.calls(f"torch.optim.{name}", f"torch.optim.{name.lower()}.{name}"), stepped)


def _stepped(code: Code, statement: cst.SimpleStatementLine) -> set[str]:
    """The names that ``x.step()`` or ``scaler.step(x)`` in the statement may step."""
    names = set()
    for call in code.nodes(cst.Call, statement):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "step":
            names |= {last_name(call.func.value), *(last_name(arg.value) for arg in call.args)}
    return names - {""}


def _to_drop(call: cst.Call, known: tuple[str, ...]) -> list[cst.Arg] | None:
    """The arguments that the fused form does not take and does not need; None when it needs one that it lacks."""
    if not call.args or sum(arg.keyword is None for arg in call.args) > len(known):
        return None
    drop = []
    for arg in call.args:
        name = arg.keyword.value if arg.keyword else None
        if name is None or name in known:
            continue
        harmless = _is_one_of(arg, "True", "False", "None") if name in _SPEED else _is_one_of(arg, "False", "None")
        if name not in (*_SPEED, *_OFF) or not harmless or arg is call.args[0]:
            return None
        if name == "fused" and _is_one_of(arg, "True"):
            return None
        drop.append(arg)
    return drop


def _is_one_of(arg: cst.Arg, *words: str) -> bool:
    return isinstance(arg.value, cst.Name) and arg.value.value in words


def _refuses(code: Code) -> bool:
    """Whether the file holds what the combined tensors cannot live with."""
    if any(name.value in _OWNERS for name in code.nodes(cst.Name)):
        return True
    for call in code.nodes(cst.Call):
        sparse = keyword(call, "sparse")
        if sparse is not None and not _is_one_of(sparse, "False"):
            return True
        if last_name(call.func) == "zero_grad" and not all(_is_one_of(arg, "False") for arg in call.args):
            return True
    return False


def _import(code: Code, before: int) -> TextEdit | None:
    """``import torch_npu`` behind the last import of torch at the top of the file."""
    last = None
    for statement in code.module.body:
        if isinstance(statement, cst.SimpleStatementLine) and code.span(statement).end_line < before:
            part = statement.body[0]
            names = [dotted(alias.name) for alias in part.names] if isinstance(part, cst.Import) else []
            if isinstance(part, cst.ImportFrom) and part.module is not None and not part.relative:
                names = [dotted(part.module)]
            if any(name.split(".")[0] == "torch" for name in names):
                last = statement
    if last is None:
        return None
    # Behind a comment on the same line as well.
    end = code.span(last).end_line
    column = len(code.line(end)) + 1
    return TextEdit(start_line=end, start_column=column, end_line=end, end_column=column, text="\nimport torch_npu")
