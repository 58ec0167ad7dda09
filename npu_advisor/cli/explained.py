"""One rule for people: the text of ``rules explain ID``, and the markdown of the rule reference."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.cli.output import width_of
from npu_advisor.report.options import MAX_WIDTH
from npu_advisor.report.text import one_line, pad, wrap
from npu_advisor.rules.loader import display_name
from npu_advisor.rules.spec import Rule, SuggestionSpec

_LABEL = 13
_INDENT = 2


def explained(rule: Rule, lang: Lang) -> list[str]:
    """The lines of ``rules explain ID``."""
    width = min(MAX_WIDTH, width_of(sys.stdout)) - _INDENT
    lines = [f"{rule.id}   {one_line(rule.title.pick(lang))}", ""]
    lines += [" " * _INDENT + line for line in wrap(rule.docs.pick(lang), width)]
    lines.append("")
    lines += _rows("rules.needs", needs(rule), width, lang)
    lines += _rows("rules.parameters", [_parameter(rule, name) for name in rule.params], width, lang)
    lines += _rows("rules.example", [rule.emit.message.pick(lang)], width, lang)
    lines += _advice(rule, width, lang)
    known = rule.known_references
    lines += _rows("rules.references", [known[name].url for name in rule.references if name in known], width, lang)
    return lines + _rows("rules.file", [display_name(rule.path)], width, lang)


def _advice(rule: Rule, width: int, lang: Lang) -> list[str]:
    """Each suggestion once, with its effort in a column and its code below; conditions are left out."""
    lines: dict[str, None] = {}
    for item in rule.suggest:
        effort = pad(say(f"ui.effort.{item.effort.value}").pick(lang), _LABEL)
        text = item.zh if lang == "zh" else item.en
        for index, line in enumerate(wrap(text, width - 2 * _LABEL)):
            lines[(effort if index == 0 else " " * _LABEL) + line] = None
        for sign, code in (("-", item.before), ("+" if item.before else " ", item.after)):
            lines |= {f"{' ' * _LABEL}{sign} {line}": None for line in (code or "").splitlines()}
    label = say("rules.suggest").pick(lang)
    heads = [pad(label, _LABEL), *[" " * _LABEL] * len(lines)]
    return [f"{' ' * _INDENT}{head}{line}" for head, line in zip(heads, lines, strict=False)]


def needs(rule: Rule) -> list[str]:
    """The tables and columns a profile must hold for the rule to be checked, and the switch that records each."""
    from npu_advisor.engine.compile import compile_rule
    from npu_advisor.model.schema import SCHEMA

    needs: dict[str, None] = {}
    for requirement in compile_rule(rule).requirements:
        tables = " or ".join(requirement.tables)
        specs = [SCHEMA[name] for name in requirement.tables]
        column = specs[0].column(requirement.column) if requirement.column else None
        switch = column.needs if column is not None else specs[0].needs
        if column is None:
            needs[f"{tables}: {specs[0].files}{f'; {switch}' if switch else ''}"] = None
        elif switch and switch != specs[0].needs:
            needs[f"{tables}.{column.name}: {switch}"] = None
    return list(needs)


def _parameter(rule: Rule, name: str) -> str:
    param = rule.params[name]
    value = rule.values[name]
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name} = {shown}{f' {param.unit}' if param.unit else ''}: {param.doc}"


def _rows(key: str, texts: Sequence[str], width: int, lang: Lang) -> list[str]:
    """A label and texts beside it, wrapped; nothing when there are no texts. A URL or a path is for copying: whole."""
    lines: list[str] = []
    for text in texts:
        for line in wrap(text, width - _LABEL) if " " in text else [text]:
            label = say(key).pick(lang) if not lines else ""
            lines.append(f"{' ' * _INDENT}{pad(label, _LABEL)}{line}")
    return lines


def reference(rules: Iterable[Rule], lang: Lang) -> str:
    """All ``rules`` as one markdown page, by category."""
    lines = [f"# {say('rules.reference').pick(lang)}", "", say("rules.reference_how").pick(lang), ""]
    category = ""
    for rule in rules:
        if rule.category != category:
            category = rule.category
            lines += [f"## {category}", ""]
        lines += _page(rule, lang)
    return "\n".join(lines).rstrip("\n") + "\n"


def _page(rule: Rule, lang: Lang) -> Iterator[str]:
    def part(key: str) -> str:
        return f"**{say(key).pick(lang)}**"

    yield from (f"### {rule.id}", "", f"**{_prose(rule.title.pick(lang))}**", "", _prose(rule.docs.pick(lang)), "")
    yield from (f"{part('rules.example')}: {_prose(rule.emit.message.pick(lang))}", "")
    if needed := needs(rule):
        yield from (f"{part('rules.needs')}: {'; '.join(f'`{need}`' for need in needed)}", "")
    if rule.params:
        yield from (f"{part('rules.parameters')}:", "", *(_param(rule, name) for name in rule.params), "")
    yield from (f"{part('rules.suggest')}:", "")
    for item in rule.suggest:
        yield from _suggestion(item, lang)
    known = [rule.known_references[name] for name in rule.references if name in rule.known_references]
    if known:
        links = ", ".join(f"[{_prose(one.title)}]({one.url})" for one in known)
        yield from (f"{part('rules.references')}: {links}", "")


def _param(rule: Rule, name: str) -> str:
    param = rule.params[name]
    value = param.default
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"- `{name}` = `{shown}`{f' {param.unit}' if param.unit else ''}: {_prose(param.doc)}"


def _suggestion(item: SuggestionSpec, lang: Lang) -> Iterator[str]:
    effort = say(f"ui.effort.{item.effort.value}").pick(lang)
    yield f"- *{effort}*: {_prose(item.zh if lang == 'zh' else item.en)}"
    code = [(item.before, "-" if item.after else " "), (item.after, "+" if item.before else " ")]
    lines = [f"{sign} {line}".rstrip() for text, sign in code for line in (text or "").splitlines()]
    if lines:
        yield from ("", "  ```diff", *(f"  {line}" for line in lines), "  ```")
    yield ""


def _prose(text: str) -> str:
    """Text on one line, with nothing in it that markdown takes for markup."""
    flat = " ".join(text.split())
    for sign in ("\\", "`", "*", "_", "<", "|"):
        flat = flat.replace(sign, f"\\{sign}")
    return flat
