"""profiler_info*.json and profiler_metadata.json: what the recording says about itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npu_advisor.model.profile import Form, ProfileInfo
from npu_advisor.readers.comm import read_json
from npu_advisor.readers.device import device_record
from npu_advisor.readers.notes import Notes, UnreadableFileError

_RANK_IN_NAME = re.compile(r"^(?:profiler_info|ascend_(?:pytorch|mindspore)_profiler)_(\d{1,9})\.(?:json|db)$")


def whole(value: object) -> int | None:
    """A rank as the writers give it (7 or "7"); None when it is no number of at most nine digits."""
    text = str(value).strip()
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def rank_in_name(name: str) -> int | None:
    """The rank in ``profiler_info_3.json`` or ``ascend_pytorch_profiler_3.db``."""
    found = _RANK_IN_NAME.match(name)
    return int(found[1]) if found else None


def rank_of(info: Any, names: list[str]) -> int:
    """The rank: ``rank_id`` of profiler_info, else the digits of a file's name, else -1."""
    given = whole(info.get("rank_id")) if isinstance(info, Mapping) else None
    if given is not None and given >= 0:
        return given
    named = (rank_in_name(name) for name in names)
    return next((rank for rank in named if rank is not None), -1)


def read_info(path: str, form: Form, rank: int, files: Mapping[str, Path], notes: Notes) -> ProfileInfo:
    """What the info and metadata files among ``files`` say; a damaged one is reported and left out."""
    info, metadata = (_object(files.get(role), notes) for role in ("info", "metadata"))
    config = _sub(info, "config")
    common, experimental = _sub(config, "common_config"), _sub(config, "experimental_config")
    schedule = _sub(common, "schedule")
    environment = _sub(metadata, "ENV_VARIABLES")
    device = device_record(Path(path))
    return ProfileInfo(
        path=path,
        rank=rank,
        form=form,
        level=_text(experimental.get("_profiler_level")),
        torch_npu=_text(info.get("torch_npu_version")),
        cann=_text(info.get("cann_version")),
        with_stack=_switch(common.get("with_stack")),
        record_shapes=_switch(common.get("record_shapes")),
        profile_memory=_switch(common.get("profile_memory")),
        aic_metrics=_text(experimental.get("_aic_metrics")),
        activities=tuple(str(name).rpartition(".")[2] for name in _listed(common.get("activities"))),
        schedule={
            str(key).lstrip("_"): number for key, value in schedule.items() if (number := whole(value)) is not None
        },
        env={str(key): str(value) for key, value in environment.items() if value is not None},
        metadata={key: value for key, value in metadata.items() if key != "ENV_VARIABLES"}
        | ({} if device is None else {"DeviceInfo": device}),
    )


def _object(path: Path | None, notes: Notes) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        loaded = read_json(path)
    except UnreadableFileError as error:
        notes.unreadable(path.name, error.reason)
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _sub(loaded: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = loaded.get(key)
    return value if isinstance(value, dict) else {}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str) and value else None


def _switch(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
