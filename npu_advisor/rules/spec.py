"""The form of a rule file, as pydantic models; unknown keys are refused everywhere.

Expressions stay text here: what they mean depends on the schema and is checked by the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from npu_advisor.base.terms import Effort, Severity, Text
from npu_advisor.base.units import parse_quantity
from npu_advisor.rules.source import Origin

Scalar = str | int | float | bool


def _scalar(value: object) -> object:
    if not isinstance(value, Scalar):
        raise ValueError("must be a text, a number or a truth value")
    return value


def _scalar_or_list(value: object) -> object:
    for item in value if isinstance(value, list) else [value]:
        _scalar(item)
    return value


def _expression(value: object) -> object:
    """YAML reads ``share: 1`` and ``x: true`` as a number and a bool; an expression is text."""
    if isinstance(value, bool):
        return str(value)
    return repr(value) if isinstance(value, int | float) else value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


# What a validator turns into the right kind is right in a rule file, and so in the JSON Schema.
_EXPR_FORM = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "number"}, {"type": "boolean"}]}
_NAMES_FORM = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Expr = Annotated[
    str, BeforeValidator(_expression), StringConstraints(min_length=1), WithJsonSchema(_EXPR_FORM, mode="validation")
]
Names = Annotated[list[str], BeforeValidator(_listed), WithJsonSchema(_NAMES_FORM, mode="validation")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]


class Form(BaseModel):
    """A mapping of a rule file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Param(Form):
    """A threshold or list of the rule that users may change; a text with a unit is a quantity, such as 5ms or 3%."""

    default: Annotated[Any, BeforeValidator(_scalar_or_list)]
    unit: str = ""
    doc: str

    @model_validator(mode="before")
    @classmethod
    def _quantity(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("unit") and isinstance(data.get("default"), str):
            return {**data, "default": parse_quantity(data["default"], data["unit"])}
        return data


class Gaps(Form):
    """Turn rows into the silences between neighbours on one lane."""

    lane: str
    within: str | None = None


class Cover(Form):
    """The intervals that :attr:`Stage.cover` measures each row against."""

    from_: Names = Field(alias="from", min_length=1)
    where: Expr | None = None


class Chain(Form):
    """Find sequences of events on one lane; an event has the first symbol whose condition holds."""

    lane: str
    within: str | None = None
    symbols: dict[Name, Expr] = Field(min_length=1)
    pattern: str


class Compare(Form):
    """Measure ``value`` against the other ranks, or the same rank in other runs, where they agree on ``within``."""

    across: Literal["rank", "run"]
    within: Names = Field(default_factory=list)
    value: Expr


class Join(Form):
    """Add the columns of the one row of another pipeline that agrees on the columns ``on``."""

    from_: list[Stage] = Field(alias="from", min_length=1)
    on: Names = Field(min_length=1)


class Group(Form):
    """Collapse rows that agree on ``by``; ``agg`` are the new columns."""

    by: Names = Field(default_factory=list)
    agg: dict[Name, Expr] = Field(default_factory=dict)


class Climb(Form):
    """The nearest ancestor op that satisfies ``to``, as the key column ``as``."""

    to: Expr
    as_: Name = Field(alias="as")


class Stage(Form):
    """One step of ``find``: exactly one of these keys."""

    from_: Names | None = Field(default=None, alias="from", min_length=1)
    where: Expr | None = None
    let: dict[Name, Expr] | None = None
    gaps: Gaps | None = None
    cover: dict[Name, Cover] | None = None
    chain: Chain | None = None
    climb: Climb | None = None
    under: dict[Name, Expr] | None = None
    group: Group | None = None
    compare: Compare | None = None
    join: Join | None = None
    sort: Names | None = None
    limit: Annotated[int, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _one_key(self) -> Stage:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"a stage has exactly one key, not {len(self.model_fields_set)}")
        return self

    @property
    def name(self) -> str:
        """The stage's key as written: ``from``, ``where``, ..."""
        return next(iter(self.model_fields_set)).rstrip("_")


Join.model_rebuild()

FixKind = Literal["remove", "scale", "cap", "close", "overlap", "fuse", "avoid", "memory"]
# Each edit, and the one key that it needs besides.
FIX_PARTS: dict[FixKind, str] = {
    "remove": "",
    "scale": "by",
    "cap": "us",
    "close": "",
    "overlap": "with_",
    "fuse": "",
    "avoid": "memory",
    "memory": "",
}
# Keys that an edit may have besides.
FIX_OPTIONS: dict[FixKind, str] = {"fuse": "per_parameter"}


class Fix(Form):
    """What the cure does to the event graph: exactly one of remove, scale, cap, close, overlap, fuse, avoid, memory.

    ``{fuse: ops}``: what runs below each op becomes one op for each kind of op, or with ``per_parameter`` (an
    expression over the finding's row) one kernel for each parameter. ``{avoid: ops, memory: bytes}``: the
    tensors that these ops make are not made, which frees the bytes and saves the time of making and reading them.
    ``where`` leaves only some of the rows to edit: of a matched sequence only the conversions, say.
    """

    remove: str | None = None
    scale: str | None = None
    by: Expr | None = None
    cap: str | None = None
    us: Expr | None = None
    close: str | None = None
    overlap: str | None = None
    fuse: str | None = None
    per_parameter: Expr | None = None
    with_: str | None = Field(default=None, alias="with")
    avoid: str | None = None
    memory: Expr | None = None
    where: Expr | None = None

    @model_validator(mode="after")
    def _one_edit(self) -> Fix:
        given = self.model_fields_set
        kinds = [kind for kind in FIX_PARTS if kind in given and not (kind == "memory" and "avoid" in given)]
        if len(kinds) != 1:
            raise ValueError(f"a fix is exactly one of {', '.join(FIX_PARTS)}")
        part = FIX_PARTS[kinds[0]]
        options = {FIX_OPTIONS.get(kinds[0], ""), "where" if kinds[0] != "memory" else ""}
        if given - options != {kinds[0], *filter(None, [part])}:
            needs = f" and '{part.rstrip('_')}'" if part else ""
            raise ValueError(f"a '{kinds[0]}' fix has '{kinds[0]}'{needs}, nothing else")
        return self

    @property
    def kind(self) -> FixKind:
        """Which edit this is."""
        return next(kind for kind in FIX_PARTS if kind in self.model_fields_set)

    @property
    def table(self) -> str:
        """The table whose rows are edited; empty for ``memory``."""
        tables = (self.remove, self.scale, self.cap, self.close, self.overlap, self.fuse, self.avoid)
        return next(filter(None, tables), "")

    @property
    def expression(self) -> str | None:
        """The edit's number (``by``, ``us`` or ``memory``), None where it has none."""
        return self.by or self.us or self.memory


class SeverityRule(Form):
    """``{at_most: medium}`` caps the common scale, ``{at_least: low}`` is for cures that save more than time, ``{is:
    low}`` for those that save no priceable time."""

    at_most: Severity | None = None
    at_least: Severity | None = None
    is_: Severity | None = Field(default=None, alias="is")

    @model_validator(mode="after")
    def _one(self) -> SeverityRule:
        if len(self.model_fields_set) != 1:
            raise ValueError("severity is one of {at_most: ...}, {at_least: ...} and {is: ...}")
        return self


class EvidenceSpec(Form):
    """The finding's members, grouped ``by`` columns, heaviest first."""

    by: Names = Field(default_factory=list)
    agg: dict[Name, Expr] = Field(default_factory=dict)
    top: Annotated[int, Field(gt=0, le=1000)] = 10


class Emit(Form):
    """One finding per final row.

    ``claim`` names the column of ``cover`` whose intervals are the time the finding could win; without it all of them.
    ``saves`` names the column with what the cure saves (us a step), where a table holds that: a model of the job does.
    """

    at: str | None = None
    recorded: str | None = None
    fix: Fix | None = None
    claim: str | None = None
    saves: str | None = None
    message: Text
    severity: SeverityRule | None = None
    evidence: EvidenceSpec | None = None


class SuggestionSpec(Form):
    """Advice; ``when`` is a condition on the finding's row, without it the advice always applies.

    ``codemod`` names what makes the change in the user's file, where the code there allows it.
    """

    effort: Effort
    en: str
    zh: str
    before: str | None = None
    after: str | None = None
    when: Expr | None = None
    codemod: str | None = None


class Applies(Form):
    """Versions and devices the rule is for; unknown ones do not stop it. ``kind`` any: a GPU's profile will do too.

    ``work`` is what the recording must show: ``inference`` needs a decode loop, ``training`` none of one.
    """

    kind: Literal["npu", "any"] = "npu"
    work: Literal["training", "inference"] | None = None
    cann: str | None = None
    torch: str | None = None
    torch_npu: str | None = None
    device: str | None = None


class ReferenceSpec(Form):
    """An entry of ``references.yaml``."""

    title: str
    url: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]


class ListSpec(Form):
    """An entry of ``lists.yaml``: a list, or ``{doc, values}``."""

    doc: str = ""
    values: list[Annotated[Any, BeforeValidator(_scalar)]]

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: object) -> object:
        return {"values": value} if isinstance(value, list) else value


class Rule(Form):
    """One rule. :func:`npu_advisor.rules.loader.load_rules` makes them; ``origin`` points into the file."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)+$")]
    title: Text
    docs: Text
    params: dict[Name, Param] = Field(default_factory=dict)
    find: Annotated[list[Stage], Field(min_length=1)]
    emit: Emit
    suggest: Annotated[list[SuggestionSpec], Field(min_length=1)]
    references: list[str] = Field(default_factory=list)
    applies: Applies | None = None
    overrides: str | None = None

    _origin: Origin = PrivateAttr(default_factory=Origin)
    _values: dict[str, Any] = PrivateAttr(default_factory=dict)
    _lists: Mapping[str, ListSpec] = PrivateAttr(default_factory=dict)
    _references: Mapping[str, ReferenceSpec] = PrivateAttr(default_factory=dict)

    @property
    def category(self) -> str:
        """The first word of the id; also the rule's folder."""
        return self.id.partition("-")[0]

    @property
    def path(self) -> Path:
        """The file the rule came from."""
        return self._origin.path

    @property
    def test_path(self) -> Path:
        """Where the rule's cases are: ``<id>.test.yaml`` beside it."""
        return self.path.with_name(f"{self.path.stem}.test.yaml")

    @property
    def origin(self) -> Origin:
        """Positions of every key and value in the file."""
        return self._origin

    @property
    def values(self) -> dict[str, Any]:
        """The parameters' values, the user's overrides applied."""
        return {name: param.default for name, param in self.params.items()} | self._values

    @property
    def lists(self) -> Mapping[str, ListSpec]:
        """The shared lists, as ``$name`` in expressions."""
        return self._lists

    @property
    def known_references(self) -> Mapping[str, ReferenceSpec]:
        """Every entry of ``references.yaml`` the rule may name."""
        return self._references

    def bind(
        self,
        origin: Origin,
        lists: Mapping[str, ListSpec] | None = None,
        references: Mapping[str, ReferenceSpec] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Rule:
        """Tell the rule where it came from and what it shares with others; returns itself."""
        self._origin = origin
        self._lists, self._references = lists or {}, references or {}
        self._values = dict(values or {})
        return self
