"""``PROF_*/device_*/info.json.*``: what the raw recording beside the parsed files says about its chip."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from npu_advisor.readers.comm import read_json
from npu_advisor.readers.notes import UnreadableFileError

_NAME = re.compile(r"info\.json(\.\d+)?")
_WHERE = ("PROF_*/device_*/info.json*", "device_*/info.json*")
# The record is a few KB in the first folders; whoever has thousands of them has something else.
_MOST, _LARGEST = 64, 1 << 20


def device_record(folder: Path) -> Mapping[str, Any] | None:
    """The chip's record (``DeviceInfo``) in the raw recording under a rank's folder; None when there is none."""
    for pattern in _WHERE if folder.is_dir() else ():
        for path in sorted(islice(folder.glob(pattern), _MOST)):
            if _NAME.fullmatch(path.name) and path.is_file() and path.stat().st_size <= _LARGEST:
                found = _first_device(path)
                if found is not None:
                    return found
    return None


def _first_device(path: Path) -> Mapping[str, Any] | None:
    try:
        loaded = read_json(path)
    except UnreadableFileError:
        return None  # it adds to what is known, nothing depends on it
    devices = loaded.get("DeviceInfo") if isinstance(loaded, dict) else None
    return devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], dict) else None
