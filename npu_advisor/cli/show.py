"""``npu-advisor show``: the tables of the report for the terminal and for scripts."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.lang import choose_language
from npu_advisor.base.messages import say
from npu_advisor.cli.choices import LANGUAGES, choice
from npu_advisor.cli.output import can_show_glyphs, note, use_color, width_of, write_report
from npu_advisor.cli.progress import ProgressBar
from npu_advisor.report.options import Options

if TYPE_CHECKING:
    from npu_advisor.engine.listing import Query
    from npu_advisor.views import TableView

KINDS = ("kernels", "operators", "memory", "steps", "communication", "timeline")
FORMATS = ("table", "json", "csv", "parquet")
# Rows of a table for people; files hold all.
TOP = 20


@dataclass(frozen=True)
class Show:
    """The options of one listing, as given. ``top`` 0 keeps every row, None what the format usually holds."""

    what: str
    paths: tuple[str, ...]
    by: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    where: str | None = None
    top: int | None = None
    form: str = "table"
    output: str | None = None
    lang: str = "auto"
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    quiet: bool = False

    def check(self) -> None:
        """ConfigError for a value that no run can use."""
        choice("--lang", self.lang, LANGUAGES)
        choice("--format", self.form, FORMATS)
        choice("show", self.what, KINDS)
        if not self.paths:
            raise ConfigError(say("error.no_path"), None, say("error.no_path_do"))
        if self.form == "parquet":
            if find_spec("pyarrow") is None:
                raise ConfigError(say("show.no_pyarrow"), None, say("show.no_pyarrow_do"))
            if self.output in (None, "-"):
                raise ConfigError(say("show.parquet_file"), None, say("show.parquet_file_do"))

    def query(self) -> Query:
        """The question to the engine."""
        from npu_advisor.engine.listing import Query

        top = (TOP if self.form == "table" else 0) if self.top is None else self.top
        return Query(self.what, self.where, self.by or None, self.sort, top or None)


def show(request: Show) -> int:
    """Write the listing; 0."""
    from npu_advisor.api import listing

    request.check()
    lang = choose_language(request.lang, os.environ)
    with ProgressBar(lang, request.quiet) as progress:
        path = request.paths[0] if len(request.paths) == 1 else list(request.paths)
        table = listing(path, request.query(), ranks=request.ranks, steps=request.steps, progress=progress)
    if request.form == "parquet":
        _write_parquet(table, str(request.output))
        return 0
    stream = sys.stdout if request.output in (None, "-") else None
    options = Options(
        lang=lang, width=width_of(stream), color=use_color(stream, os.environ), utf8=can_show_glyphs(stream)
    )
    from npu_advisor.report.listing import listing_csv, listing_json, render_listing

    if request.form == "table":
        write_report(render_listing(table, options), request.output)
        if not table.rows and not request.quiet:
            note(say("show.no_rows").pick(lang) + "\n")
    else:
        text = listing_json(table) if request.form == "json" else listing_csv(table)
        write_report(text, request.output, utf8=True)
    return 0


def _write_parquet(table: TableView, path: str) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {column.key: [row[index] for row in table.rows] for index, column in enumerate(table.columns)}
    try:
        pyarrow.parquet.write_table(pyarrow.table(columns), Path(path))
    except OSError as error:
        raise ConfigError(say("error.cannot_write", path=path, reason=error.strerror or str(error))) from error
