"""Find, read and combine rule files; every fault of form is collected and reported at once.

What an expression means is not known here (rules may not import the model): :mod:`npu_advisor.engine.lint` checks it.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

import npu_advisor
from npu_advisor.base.errors import ConfigError, RuleError, RuleProblem
from npu_advisor.base.messages import say
from npu_advisor.base.units import parse_quantity
from npu_advisor.rules.source import Document, Origin, Place, nearest, read_document
from npu_advisor.rules.spec import ListSpec, Param, ReferenceSpec, Rule

PLUGINS = "npu_advisor.rules"
LISTS, REFERENCES = "lists.yaml", "references.yaml"
_Entry = TypeVar("_Entry", ListSpec, ReferenceSpec)
_KINDS = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping (key: value)",
    "model_type": "must be a mapping (key: value)",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "greater_than": "must be above 0",
}


def shipped_dir() -> Path:
    """The folder of the rules that come with the package: inside a wheel, beside the package in a checkout."""
    package = Path(npu_advisor.__file__).parent
    inside = package / "_rules"
    return inside if inside.is_dir() else package.parent / "rules"


def plugin_dirs() -> list[Path]:
    """The rule folders of other packages: entry points of the group ``npu_advisor.rules``, ordered by name.

    Each is a folder or a function without arguments that returns one. ConfigError for one that cannot be used.
    """
    return [_plugin_dir(point) for point in sorted(entry_points(group=PLUGINS), key=lambda point: point.name)]


def _plugin_dir(point: EntryPoint) -> Path:
    try:
        value = point.load()
        return Path(value() if callable(value) else value)
    except (ImportError, AttributeError, TypeError, ValueError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(say("settings.bad_plugin", name=point.name, error=reason)) from error


def load_rules(
    dirs: Sequence[str | Path] = (),
    params: Mapping[str, Mapping[str, Any]] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> list[Rule]:
    """The shipped rules, those of installed packages and those of ``dirs`` (later ones may say ``overrides``), by id.

    ``params`` is rule id -> name -> value; ``select`` and ``ignore`` are globs over ids.
    RuleError with every problem of every file; ConfigError for a parameter or glob that fits no rule.
    """
    return load_rule_dirs([shipped_dir(), *plugin_dirs(), *map(Path, dirs)], params, select, ignore)


def load_rule_dirs(
    dirs: Sequence[Path],
    params: Mapping[str, Mapping[str, Any]] | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> list[Rule]:
    """As :func:`load_rules`, from exactly these folders."""
    rules, problems = read_rules(dirs)
    if problems:
        raise RuleError(problems)
    _set_params(rules, params or {})
    return _chosen(rules, select, ignore)


def read_rules(dirs: Sequence[Path]) -> tuple[list[Rule], list[RuleProblem]]:
    """The rules of ``dirs`` whose form is right, and every fault of the others. ConfigError for a missing folder."""
    for folder in dirs:
        if not folder.is_dir():
            raise ConfigError(say("rules.no_dir", path=folder))
    loading = _Loading()
    for folder in dirs:
        loading.add(folder)
    return loading.finish(), loading.problems


def rule_files(folder: Path) -> list[Path]:
    """The rule files below ``folder``, in order; tests and shared lists left out."""
    found = [*folder.rglob("*.yaml"), *folder.rglob("*.yml")]
    return sorted(
        p for p in found if not p.name.endswith((".test.yaml", ".test.yml")) and p.name not in (LISTS, REFERENCES)
    )


def display_name(path: Path) -> str:
    """``path`` as messages show it: relative to the working directory where it lies below."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


@dataclass
class _Raw:
    """One rule before validation: plain data and its places."""

    data: dict[str, Any]
    origin: Origin


@dataclass
class _Loading:
    """Everything read so far, and what is wrong with it."""

    problems: list[RuleProblem] = field(default_factory=list)
    raws: dict[str, _Raw] = field(default_factory=dict)
    lists: dict[str, ListSpec] = field(default_factory=dict)
    references: dict[str, ReferenceSpec] = field(default_factory=dict)

    def add(self, folder: Path) -> None:
        """Read every file below ``folder``."""
        self.lists |= self._shared(folder / LISTS, ListSpec)
        self.references |= self._shared(folder / REFERENCES, ReferenceSpec)
        for path in rule_files(folder):
            document = read_document(path, display_name(path))
            self.problems += document.problems
            if not isinstance(document.data, dict):
                if not document.problems:
                    self.problems.append(RuleProblem(display_name(path), 1, 1, "a rule file is a mapping (key: value)"))
                continue
            self._place(folder, path, document)

    def _shared(self, path: Path, model: type[_Entry]) -> dict[str, _Entry]:
        if not path.is_file():
            return {}
        document = read_document(path, display_name(path))
        self.problems += document.problems
        out: dict[str, _Entry] = {}
        if document.data is not None and not isinstance(document.data, dict):
            self.problems.append(RuleProblem(display_name(path), 1, 1, "this file is a mapping (name: entry)"))
            return {}
        for name, value in (document.data or {}).items():
            entry = validate(model, value, document.origin, (name,), self.problems)
            if entry is not None:
                out[name] = entry
        return out

    def _place(self, folder: Path, path: Path, document: Document) -> None:
        data, origin = document.data, document.origin
        overridden = data.get("overrides")
        if isinstance(overridden, str):
            self._override(overridden, data, origin)
            return
        name = data.get("id")
        if not isinstance(name, str):
            name = f"\0{path}"  # validated, and refused, like any other
        elif name in self.raws:
            other = display_name(self.raws[name].origin.path)
            message = f"rule '{name}' exists already in {other}; to change it say 'overrides: {name}'"
            self.problems.append(origin.span(("id",)).problem(message))
            return
        else:
            self._check_name(folder, path, name, origin)
        self.raws[name] = _Raw(data, origin)

    def _override(self, name: str, data: dict[str, Any], origin: Origin) -> None:
        if name not in self.raws:
            message = f"overrides unknown rule '{name}'{nearest(name, self.raws)}"
            self.problems.append(origin.span(("overrides",)).problem(message))
            return
        if data.get("id", name) != name:
            self.problems.append(origin.span(("id",)).problem(f"a rule that overrides '{name}' keeps its id"))
            return
        base = self.raws[name]
        merged = {**base.data, **data}
        base_params, new_params = base.data.get("params"), data.get("params")
        if isinstance(base_params, dict) and isinstance(new_params, dict):
            merged["params"] = dict(base_params)
            for key, param in new_params.items():
                old = base_params.get(key)
                both = isinstance(old, dict) and isinstance(param, dict)
                merged["params"][key] = {**(old or {}), **param} if both else param
        self.raws[name] = _Raw(merged, base.origin.merged(origin))

    def _check_name(self, folder: Path, path: Path, name: str, origin: Origin) -> None:
        if path.stem != name:
            self.problems.append(origin.span(("id",)).problem(f"id '{name}' must be the file's name, '{path.stem}'"))
        elif path.parent != folder and path.parent.name != name.partition("-")[0]:
            message = f"rule '{name}' must lie in the folder '{name.partition('-')[0]}', not '{path.parent.name}'"
            self.problems.append(origin.span(("id",)).problem(message))

    def finish(self) -> list[Rule]:
        """Validate what was read; rules that fail only add problems."""
        rules = []
        for raw in self.raws.values():
            rule = validate(Rule, raw.data, raw.origin, (), self.problems)
            if rule is None:
                continue
            for index, name in enumerate(rule.references):
                if name not in self.references:
                    message = f"unknown reference '{name}'{nearest(name, self.references)}"
                    self.problems.append(raw.origin.span(("references", index)).problem(message))
            rules.append(rule.bind(raw.origin, self.lists, self.references))
        self.problems = sorted(dict.fromkeys(self.problems), key=lambda p: (p.file, p.line, p.column))
        return sorted(rules, key=lambda rule: rule.id)


_Model = TypeVar("_Model", bound=BaseModel)


def validate(
    model: type[_Model], data: object, origin: Origin, at: Place, problems: list[RuleProblem]
) -> _Model | None:
    """``data``, written at ``at``, as ``model``; None when its faults were added to ``problems``."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems += [_problem(model, dict(fault), origin, at) for fault in error.errors(include_url=False)]
        return None


def _problem(model: type[BaseModel], fault: dict[str, Any], origin: Origin, at: Place) -> RuleProblem:
    """One pydantic fault as a problem with a place."""
    # Members of a union and dict keys show up in pydantic's location; the file has no such places.
    loc: Place = (*at, *(part for part in fault["loc"] if part != "[key]"))
    while loc and not origin.knows(loc) and fault["type"] != "missing":
        loc = loc[:-1]
    kind, name = fault["type"], str(loc[-1]) if loc else ""
    if kind == "extra_forbidden":
        known = _keys_at(model, loc[len(at) : -1])
        return origin.span(loc, key=True).problem(f"unknown {_thing(loc)} '{name}'{nearest(name, known)}")
    if kind == "missing":
        return origin.span(loc[:-1], key=True).problem(f"missing key '{name}'", width=1)
    if kind == "string_pattern_mismatch" and "[key]" in fault["loc"]:
        return origin.span(loc, key=True).problem(f"'{name}' is not a name (letters, digits and _)")
    if kind == "string_pattern_mismatch":
        return origin.span(loc).problem(f"'{name}' does not look right: {fault['input']!r}")
    if kind in ("enum", "literal_error"):
        choices = str(fault["ctx"]["expected"]).replace(" or ", ", ")
        known = [part.strip(" '") for part in choices.split(",")]
        return origin.span(loc).problem(f"'{name}' is one of {', '.join(known)}{nearest(str(fault['input']), known)}")
    if kind == "value_error":
        return origin.span(loc, key=isinstance(loc[-1], str) if loc else False).problem(str(fault["ctx"]["error"]))
    return origin.span(loc).problem(f"'{name}' {_KINDS.get(kind, fault['msg'])}")


def _thing(loc: Place) -> str:
    return "stage" if len(loc) in (3, 6) and loc[-3] in ("find", "from") else "key"


def _keys_at(model: type[BaseModel], loc: Place) -> list[str]:
    """The keys that the model allows at ``loc``."""
    current: Any = model
    for part in loc:
        current = _unwrapped(current)
        fields = _fields(current)
        if fields is not None:
            current = fields.get(str(part))
        else:
            arguments = typing.get_args(current)
            current = arguments[-1] if arguments else None
    return [*(_fields(_unwrapped(current)) or ())]


def _fields(annotation: Any) -> dict[str, Any] | None:
    """The keys of a model and what stands behind them; None for any other type."""
    # Of list[str] Python 3.10 says that it is a class, and then that no subclass can be asked for.
    fields = getattr(annotation, "model_fields", None)
    return None if fields is None else {info.alias or name: info.annotation for name, info in fields.items()}


def _unwrapped(annotation: Any) -> Any:
    """``annotation`` without Annotated and without its None alternative."""
    while True:
        arguments = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
        if hasattr(annotation, "__metadata__") or (
            len(arguments) == 1 and typing.get_origin(annotation) not in (list, dict)
        ):
            annotation = arguments[0]
        else:
            return annotation


def _set_params(rules: list[Rule], params: Mapping[str, Mapping[str, Any]]) -> None:
    places = {rule.id: index for index, rule in enumerate(rules)}
    for rule_id, values in params.items():
        if rule_id not in places:
            raise ConfigError(say("rules.params_unknown_rule", id=rule_id, hint=nearest(rule_id, places)))
        rules[places[rule_id]] = with_params(rules[places[rule_id]], values)


def with_params(rule: Rule, values: Mapping[str, Any]) -> Rule:
    """A copy of ``rule`` with parameters changed. ConfigError for an unknown one or a value that does not fit."""
    bound = {}
    for name, value in values.items():
        if name not in rule.params:
            raise ConfigError(say("rules.unknown_param", id=rule.id, name=name, hint=nearest(name, rule.params)))
        bound[name] = _param_value(rule.id, name, rule.params[name], value)
    return rule.model_copy().bind(rule.origin, rule.lists, rule.known_references, bound)


def _param_value(rule_id: str, name: str, param: Param, value: Any) -> Any:
    """``value`` in the kind of the parameter's default; ``5ms`` and ``3%`` are understood."""
    default, error = param.default, f"not like the default {param.default!r}"
    if isinstance(default, bool) and isinstance(value, bool):
        return value
    if isinstance(default, list) and isinstance(value, list | tuple):
        return list(value)
    if isinstance(default, str) and isinstance(value, str):
        return value
    if isinstance(default, int | float) and not isinstance(default, bool):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        if isinstance(value, str):
            try:
                return parse_quantity(value, param.unit)
            except ValueError as problem:
                error = str(problem)
    raise ConfigError(say("rules.bad_param", id=rule_id, name=name, value=value, error=error))


def _chosen(rules: list[Rule], select: Sequence[str], ignore: Sequence[str]) -> list[Rule]:
    ids = [rule.id for rule in rules]
    for pattern in (*select, *ignore):
        if not any(fnmatchcase(rule_id, pattern) for rule_id in ids):
            raise ConfigError(say("rules.no_match", pattern=pattern, hint=nearest(pattern, ids)))
    return [
        rule
        for rule in rules
        if (not select or any(fnmatchcase(rule.id, pattern) for pattern in select))
        and not any(fnmatchcase(rule.id, pattern) for pattern in ignore)
    ]
