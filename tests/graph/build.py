"""A tiny profile made by hand: times in us, tables by keyword, strings and numbers as a reader leaves them."""

from npu_advisor.graph.links import link
from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.table import Table


def profile(rank=0, **tables):
    """A linked profile; each table is a list of row dicts with ``at`` and ``us`` for start and duration."""
    made = {}
    for name, rows in tables.items():
        columns = {}
        for key in {key for row in rows for key in row}:
            values = [row.get(key) for row in rows]
            if key == "at":
                columns["start_ns"] = [int(value * 1000) for value in values]
            elif key == "us":
                columns["dur_ns"] = [int((value or 0) * 1000) for value in values]
            else:
                missing = -1 if any(isinstance(value, int) for value in values) else None
                columns[key] = [missing if value is None else value for value in values]
        made[name] = Table.build(name, columns, rank)
    return link(Profile(ProfileInfo("test", rank), made))


MAIN, QUEUE, CANN, STREAM = 0, 1, 2, 3
TRACKS = [
    {"process": "Python", "thread": "main", "pid": 1, "tid": 100},
    {"process": "Python", "thread": "queue", "pid": 1, "tid": 200},
    {"process": "CANN", "thread": "queue", "pid": 2, "tid": 200},
    {"process": "Ascend Hardware", "thread": "Stream 2", "pid": 3, "tid": 2},
]


def arrow(category, number, start, end):
    """Both ends of a flow arrow; an end is (track, us)."""
    return [
        {"category": category, "id": number, "finish": finish, "track": track, "at": at}
        for finish, (track, at) in ((False, start), (True, end))
    ]
