"""Put the overlay into a copy of a trace, and write either as gzip where the name asks for it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from npu_advisor.base.errors import ConfigError, ProfileError
from npu_advisor.base.messages import say

_GZIP = b"\x1f\x8b"
# The end of a trace: nothing but white space follows its last bracket.
_TAIL = 4096


def write_overlay(text: str, path: str, merge_with: Mapping[int, Path] | None) -> None:
    """Write the overlay (a JSON list) to ``path``; with ``merge_with`` behind the events of these traces, by rank.

    ConfigError when the file cannot be written, ProfileError when a trace has no end to add to.
    """
    target, traces = Path(path), dict(merge_with or {})
    if target.exists() and target.resolve() in [trace.resolve() for trace in traces.values()]:
        raise ConfigError(say("trace.onto_itself", path=path), None, say("trace.onto_itself_do"))
    try:
        with _opened(target) as out, _whole(target):
            if not traces:
                out.write(text.encode("utf-8", "replace"))
            elif len(traces) == 1:
                _merge(text, next(iter(traces.values())), out)
            else:
                _merge_all(text, traces, out)
    except OSError as error:
        raise ConfigError(say("error.cannot_write", path=path, reason=error.strerror or str(error))) from error


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Leaves no half of a file behind."""
    try:
        yield
    except BaseException:
        if path.is_file():
            path.unlink()
        raise


def _opened(path: Path) -> IO[bytes]:
    """A file to write, compressed where its name ends so. Without a time in it: equal reports are equal files."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.GzipFile(path, "wb", mtime=0))
    return path.open("wb")


def _merge(text: str, trace: Path, out: IO[bytes]) -> None:
    with trace.open("rb") as probe:
        packed = probe.read(2) == _GZIP
    with gzip.open(trace, "rb") if packed else trace.open("rb") as source:
        head = source.read(1 << 16)
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            _append_to_list(text, trace, head, cast("IO[bytes]", source), out)
        else:
            _append_to_object(text, trace, head, cast("IO[bytes]", source), out)


def _append_to_list(text: str, trace: Path, head: bytes, source: IO[bytes], out: IO[bytes]) -> None:
    """Copy the list up to its last bracket, then the events: the trace is never held in memory."""
    held = head
    while block := source.read(1 << 20):
        held += block
        out.write(held[:-_TAIL])
        held = held[-_TAIL:]
    body = held.rstrip()
    if not body.endswith(b"]"):
        raise ProfileError(trace, say("trace.no_end", path=str(trace)), code="trace_truncated")
    body = body[:-1].rstrip()
    events = text.strip()[1:]
    empty = body.lstrip(b"\xef\xbb\xbf \t\r\n") == b"["
    out.write(body + (b"" if empty else b",\n") + events.encode("utf-8", "replace") + b"\n")


def _append_to_object(text: str, trace: Path, head: bytes, source: IO[bytes], out: IO[bytes]) -> None:
    """Traces of torch.profiler keep their events in ``traceEvents``."""
    try:
        data = json.loads((head + source.read()).decode("utf-8", "replace"))
        data["traceEvents"] += json.loads(text)
    except (ValueError, KeyError, TypeError) as error:
        raise ProfileError(trace, say("trace.no_end", path=str(trace)), code="trace_truncated") from error
    out.write(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def _merge_all(text: str, traces: Mapping[int, Path], out: IO[bytes]) -> None:
    from npu_advisor.cli.merge_ranks import merged_ranks

    own = {int(event["pid"]) for event in json.loads(text)}
    out.write(b"[")
    for piece in merged_ranks(traces, own):
        out.write(piece)
    events = text.strip()[1:]
    out.write((b"" if events == "]" else b",\n") + events.encode("utf-8", "replace") + b"\n")


def traces_of(paths: Sequence[str], ranks: Sequence[int]) -> dict[int, Path]:
    """The traces under ``paths`` by rank (of the ``ranks`` that are asked for, all where none is).

    ConfigError when there is none, one in pieces, or several that no rank tells apart.
    """
    from npu_advisor.readers import locate_all

    sources = [source for source in locate_all(paths) if not ranks or source.rank_hint in (*ranks, -1)]
    found = [source for source in sources if "trace" in source.files]
    if not found or any(source.parts.get("trace") for source in found):
        raise ConfigError(say("trace.none", path=", ".join(paths)), None, say("trace.none_do"))
    traces = {source.rank_hint: source.files["trace"] for source in found}
    if len(traces) < len(found) or (len(found) > 1 and -1 in traces):
        raise ConfigError(say("trace.many", n=len(found)), None, say("trace.many_do"))
    return dict(sorted(traces.items()))
