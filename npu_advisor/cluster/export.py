"""The tables of a job for other tools, one Parquet file each in a folder or under an fsspec URL."""

from __future__ import annotations

from typing import Any

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.cluster.store import arrow, filesystem
from npu_advisor.derive.ranks import SUMMARY_TABLES
from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table

# As `npu-advisor schema tables` lists them.
TABLES = ("job", "ranks", *SUMMARY_TABLES)


def write_tables(profile: Profile, place: str) -> None:
    """Write TABLES of the profile of a job to ``place``; one without rows is a file without rows."""
    files, root = filesystem(place)
    try:
        files.makedirs(root, exist_ok=True)
        for name in TABLES:
            with files.open(f"{root}/{name}.parquet", "wb") as file:
                arrow().parquet.write_table(_columns(profile.table(name)), file)
    except OSError as error:
        raise ConfigError(say("error.cannot_write", path=place, reason=error.strerror or str(error))) from error


def _columns(table: Table) -> Any:
    """The recorded columns in the order of the schema; numbers that nobody recorded are null."""
    pa, kinds = arrow(), {column.name: column.kind for column in table.spec.columns}
    columns = {}
    for name in kinds:
        if name in table.present:
            values = table.strings(name) if kinds[name] == "text" else table[name]
            columns[name] = pa.array(values, pa.string() if kinds[name] == "text" else None, from_pandas=True)
    return pa.table(columns)
