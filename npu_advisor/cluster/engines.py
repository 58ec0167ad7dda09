"""Where ranks are analysed: in processes of this machine within a bound of memory, or on the workers of dask."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Any

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.messages import say
from npu_advisor.cluster.rank import Failed, Options, Result, Task, summarize

# Peak of a worker: what it takes without any profile, and how many times the bytes of the files. Measured were 157 MiB
# and 0.7 times on generated profiles of 5 to 115 MB; the rest is for what was not measured.
BASE_BYTES, TIMES_FILES = 200 << 20, 3.0
PARENT_BYTES = 200 << 20
RETRIES = 2

Work = Callable[[Task, Options], Result]


def estimated_bytes(size: int) -> int:
    """The peak memory of a worker that reads files of ``size`` bytes."""
    return BASE_BYTES + int(size * TIMES_FILES)


def fits(size: int, memory: int) -> bool:
    """Whether one worker with files of ``size`` bytes stays within ``memory`` (bytes), as far as can be told before."""
    return PARENT_BYTES + estimated_bytes(size) <= memory


def run_local(
    tasks: Sequence[Task], options: Options, memory: int, workers: int | None = None, work: Work = summarize
) -> Iterator[Result]:
    """The results of ``tasks`` as they come, from as many processes as cores and ``memory`` (bytes) allow.

    A worker keeps the memory of the largest rank it has seen; so many are started that the largest rank fits in each.
    A worker that dies takes the others of its pool along: what was in flight is done again, one at a time, and only
    the rank that dies alone as well is given up.
    """
    if not tasks:
        return
    largest = estimated_bytes(max(task.size for task in tasks))
    fit = max(1, (memory - PARENT_BYTES) // largest)
    count = max(1, min(workers or _cores(), fit, len(tasks)))
    lost: list[Task] = []
    queue = deque(tasks)
    while queue:
        yield from _pool(queue, options, count, work, lost)
    for task in lost:
        yield _alone(task, options, work)


def _pool(queue: deque[Task], options: Options, count: int, work: Work, lost: list[Task]) -> Iterator[Result]:
    """Work off ``queue`` until it is empty or the pool breaks; tasks in flight then are ``lost``."""
    running: dict[Future[Result], Task] = {}
    with _workers(count) as pool:
        try:
            while queue or running:
                # Few are handed out ahead: what waits in a pool that breaks has to be done again.
                while queue and len(running) < count + 1:
                    running[_submitted(pool, work, queue[0], options)] = queue[0]
                    queue.popleft()
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    if isinstance(future.exception(), BrokenProcessPool):
                        raise BrokenProcessPool
                    yield _result(future, running.pop(future))
        except BrokenProcessPool:
            lost += running.values()


def _alone(task: Task, options: Options, work: Work) -> Result:
    with _workers(1) as pool:
        return _result(_submitted(pool, work, task, options), task)


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool that ends with the block: where that is interrupted, at once, with what the workers have half done."""
    if hasattr(signal, "pthread_sigmask"):
        # Started later, it would lift what _submitted blocks.
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()
    others = set(active_children())
    with tempfile.TemporaryDirectory(prefix="npu-advisor-") as folder:
        pool = ProcessPoolExecutor(count, get_context("spawn"), _keep_files_in, (folder,))
        try:
            yield pool
        except BaseException:
            for worker in set(active_children()) - others:
                worker.kill()
            raise
        finally:
            # Waits: a thread of the pool that outlives this trips over its own pipes when the program ends.
            pool.shutdown(cancel_futures=True)


def _keep_files_in(folder: str) -> None:
    tempfile.tempdir = folder


def _submitted(pool: ProcessPoolExecutor, work: Work, task: Task, options: Options) -> Future[Result]:
    """Hand out a task. Workers are started by that: they inherit that Ctrl-C, which reaches the whole group of
    processes, is left to this one."""
    if not hasattr(signal, "pthread_sigmask"):
        return pool.submit(work, task, options)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(work, task, options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _result(future: Future[Result], task: Task) -> Result:
    error = future.exception()
    if error is None:
        return future.result()
    return _failed(task, error)


def _failed(task: Task, error: BaseException) -> Failed:
    if isinstance(error, BrokenProcessPool) or type(error).__name__ == "KilledWorker":
        return Failed(task.path, say("error.worker_died"), "worker_died")
    return Failed(task.path, say("error.worker_failed", error=f"{type(error).__name__}: {error}"), "worker_failed")


def run_dask(
    tasks: Sequence[Task], options: Options, scheduler: str | None, work: Work = summarize
) -> Iterator[Result]:
    """The results of ``tasks`` as they come from the workers of a dask scheduler (``tcp://host:port``).

    A worker that goes away loses its rank to another one; a rank that fails for another reason than its input is tried
    RETRIES times more. Workers need this package, and must reach the paths and the folder of summaries.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise ConfigError(say("error.no_extra", name="distributed"), None, say("error.no_extra_do")) from error
    if not scheduler:
        raise ConfigError(say("error.no_scheduler"), None, say("error.no_scheduler_do"))
    try:
        client = distributed.Client(scheduler, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(say("error.bad_scheduler", scheduler=scheduler, reason=str(error))) from error
    with client:
        futures = {client.submit(work, task, options, retries=RETRIES, pure=False): task for task in tasks}
        for future in distributed.as_completed(futures):
            task = futures.pop(future)
            if future.status == "finished":
                yield future.result()
            else:
                yield _failed(task, future.exception())
            future.release()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
