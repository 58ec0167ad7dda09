"""Files that few rules ask for: they are read when something asks for their table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from npu_advisor.model.profile import Profile
from npu_advisor.model.table import Table
from npu_advisor.readers.csvfile import looks_sound
from npu_advisor.readers.discover import RankSource
from npu_advisor.readers.notes import Notes, UnreadableFileError
from npu_advisor.readers.tables import READERS, SELDOM
from npu_advisor.readers.trace_tables import Columns


def can_wait(role: str, path: Path) -> bool:
    """Whether the file of a role is one of these and shows no damage at its ends."""
    return role in SELDOM and looks_sound(path, SELDOM[role])


def register_later(profile: Profile, source: RankSource) -> None:
    """Have ``profile`` read what was put off of ``source`` on first use."""
    for role in SELDOM:
        path, table = source.files.get(role), READERS[role][0]
        if path is not None and table not in profile.absent:
            profile.register({table: partial(_read, role, path)})


def _read(role: str, path: Path, profile: Profile) -> Table:
    """The table; what there is to say joins the profile's diagnostics."""
    table, reader = READERS[role]
    notes, columns = Notes(), Columns()
    try:
        columns = reader(path, notes)
    except UnreadableFileError as error:
        profile.absent[table] = notes.give_up(path.name, error.reason)
    profile.diagnostics.extend(notes)
    return Table.build(table, columns, profile.rank)
