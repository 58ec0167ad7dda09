"""Summaries of ranks as Parquet files: one a rank, all its tables stacked, in a folder or under an fsspec URL.

Column ``table`` says which table a row belongs to; the other columns are the union of the columns of all tables (null
where a table has none), so that any tool reads them: ``select * from 'DIR/*.parquet' where "table" = 'rank_steps'``.
The metadata of the file, under ``npu_advisor``, is JSON: the rank, where it was read, how many rows each table has. The
first row, of table ``report``, holds in column ``document`` what was found inside the rank: its findings, the ledger of
its steps and the remarks on its input, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.cluster.gathered import Gathered, rows_of
from npu_advisor.derive.ranks import SUMMARY_TABLES
from npu_advisor.model.schema import SCHEMA
from npu_advisor.model.table import Table

META = b"npu_advisor"
_BATCH, _READERS = 64, 4


def arrow() -> Any:
    """The pyarrow package; ConfigError where the extra is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(say("error.no_extra", name="pyarrow"), None, say("error.no_extra_do")) from error
    return pyarrow


@dataclass(frozen=True)
class Summary:
    """One rank: ``meta`` and ``document`` (JSON values) and its tables."""

    meta: Mapping[str, Any]
    document: Mapping[str, Any]
    tables: Sequence[Table]

    @property
    def rank(self) -> int:
        """The rank, -1 unknown."""
        return int(self.meta["rank"])


class Store:
    """A folder of summaries, local (a path) or remote (an fsspec URL)."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.files, self.root = filesystem(place)
        self.files.makedirs(self.root, exist_ok=True)

    def has(self, name: str) -> bool:
        """Whether the summary ``name`` is there and whole: files are put in their place by renaming."""
        return bool(self.files.exists(f"{self.root}/{name}"))

    def write(self, name: str, summary: Summary) -> int:
        """Write a summary and return its bytes; a reader sees all of it or nothing."""
        pa = arrow()
        buffer = pa.BufferOutputStream()
        # Small files: with zstd, or dictionaries of numbers, reading them takes three times as long.
        table = stacked(summary)
        texts = [field.name for field in table.schema if pa.types.is_string(field.type) and field.name != "document"]
        pa.parquet.write_table(table, buffer, compression="snappy", use_dictionary=texts, write_statistics=False)
        content = buffer.getvalue()
        half = f"{self.root}/.{name}.{_token()}.part"
        with self.files.open(half, "wb") as file:
            file.write(content)
        self.files.mv(half, f"{self.root}/{name}")
        return int(content.size)

    def read(self, name: str) -> Any:
        """The stacked pyarrow table of one summary, with its metadata."""
        pa = arrow()
        with self.files.open(f"{self.root}/{name}", "rb") as file:
            return pa.parquet.ParquetFile(pa.BufferReader(file.read())).read(use_threads=False)

    def document(self, name: str) -> dict[str, Any]:
        """What was found inside the rank of one summary."""
        return _document(self.read(name))

    def load(
        self, names: Sequence[str], seen: Callable[[dict[str, Any], dict[str, Any]], None]
    ) -> tuple[list[dict[str, Any]], dict[str, Table]]:
        """The metadata of summaries (and the ``name`` of each) and their tables one below the other, both by rank.

        Documents go to ``seen(meta, document)`` one by one: those of all ranks together would not fit. A rank that was
        recorded more than once counts with the summary whose name comes last: folder names hold the time of the
        recording.
        """
        pa = arrow()
        metas: dict[int, dict[str, Any]] = {}
        gathered = [Gathered(name) for name in SUMMARY_TABLES]
        with ThreadPoolExecutor(_READERS) as pool:
            for part in _chunks(sorted(names, reverse=True), _BATCH):
                new, counts = [], []
                for name, one in zip(part, pool.map(self.read, part), strict=True):
                    meta = {**json.loads(one.schema.metadata[META]), "name": name}
                    if meta["rank"] not in metas:
                        metas[meta["rank"]] = meta
                        seen(meta, _document(one))
                        new.append(one.drop_columns(["document"]))
                        counts.append([meta["rows"][table] for table in SUMMARY_TABLES])
                if new:
                    batch = pa.concat_tables(new).combine_chunks()
                    for place, table in enumerate(gathered):
                        table.add(batch, rows_of(counts, place))
                    del new, batch
        pa.default_memory_pool().release_unused()
        tables = {name: table.table() for name, table in zip(SUMMARY_TABLES, gathered, strict=True)}
        return [metas[rank] for rank in sorted(metas)], tables


def stacked(summary: Summary) -> Any:
    """The tables of a summary as one pyarrow table."""
    pa = arrow()
    schema = _schema()
    text = _json(summary.document)
    first = [pa.array([{"table": "report", "document": text}.get(field.name)], field.type) for field in schema]
    parts = [pa.Table.from_arrays(first, schema=schema), *(_arrow_of(table, schema) for table in summary.tables)]
    meta = {**summary.meta, "rows": {table.spec.name: len(table) for table in summary.tables}}
    return pa.concat_tables(parts).combine_chunks().replace_schema_metadata({META: _json(meta).encode()})


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _document(one: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(one.column("document")[0].as_buffer())
    return found


def _arrow_of(table: Table, schema: Any) -> Any:
    pa = arrow()
    count = len(table)
    arrays = []
    for field in schema:
        if field.name == "table":
            arrays.append(pa.array([table.spec.name] * count, field.type))
        elif field.name in table.present:
            values = table.strings(field.name) if pa.types.is_string(field.type) else table[field.name]
            arrays.append(pa.array(values, field.type, from_pandas=True))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _schema() -> Any:
    pa = arrow()
    kinds = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "text": pa.string()}
    fields = {"table": pa.string(), "document": pa.string()}
    for name in SUMMARY_TABLES:
        fields |= {column.name: kinds[column.kind] for column in SCHEMA[name].columns}
    return pa.schema(list(fields.items()))


def _chunks(names: Sequence[str], size: int) -> Iterator[list[str]]:
    rest = iter(names)
    while part := list(islice(rest, size)):
        yield part


def _token() -> str:
    from uuid import uuid4

    return uuid4().hex[:12]


def filesystem(place: str) -> tuple[Any, str]:
    """(file system, path on it) of a local path or URL; ConfigError where its driver is not installed."""
    try:
        import fsspec
    except ImportError as error:
        raise ConfigError(say("error.no_extra", name="fsspec"), None, say("error.no_extra_do")) from error
    try:
        files, root = fsspec.core.url_to_fs(place)
    except (ImportError, ValueError) as error:
        raise ConfigError(say("error.bad_place", place=place, reason=str(error))) from error
    return files, root.rstrip("/")
