"""Callbacks that profile a few steps of a training run and have them analysed: Hugging Face Trainer, Lightning."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from typing import Any

from npu_advisor.hook.handler import trace_handler

LOG = logging.getLogger("npu_advisor")
_SCHEDULE = {"skip_first": 10, "wait": 0, "warmup": 1, "active": 2, "repeat": 1}


def trainer_callback(dir_name: str = "./result", *, schedule: dict[str, int] | None = None, **options: Any) -> Any:
    """A ``transformers.TrainerCallback`` that profiles the steps of ``schedule`` (arguments of
    ``profiler.schedule``) and hands the trace to :func:`~npu_advisor.hook.trace_handler`, which takes ``options``."""
    base = importlib.import_module("transformers").TrainerCallback
    session = _Session(dir_name, schedule, options)

    def begin(self: Any, args: Any, state: Any, control: Any, **rest: Any) -> None:  # noqa: ARG001
        session.start()

    def step(self: Any, args: Any, state: Any, control: Any, **rest: Any) -> None:  # noqa: ARG001
        session.step()

    def end(self: Any, args: Any, state: Any, control: Any, **rest: Any) -> None:  # noqa: ARG001
        session.stop()

    made = type("NpuAdvisorCallback", (base,), {"on_train_begin": begin, "on_step_end": step, "on_train_end": end})
    return made()


def lightning_callback(dir_name: str = "./result", *, schedule: dict[str, int] | None = None, **options: Any) -> Any:
    """As :func:`trainer_callback`, a ``lightning.pytorch.Callback`` (or ``pytorch_lightning``'s)."""
    name = "lightning.pytorch" if importlib.util.find_spec("lightning") else "pytorch_lightning"
    base = importlib.import_module(name).Callback
    session = _Session(dir_name, schedule, options)

    def begin(self: Any, trainer: Any, module: Any) -> None:  # noqa: ARG001
        session.start()

    def step(self: Any, trainer: Any, module: Any, *rest: Any) -> None:  # noqa: ARG001
        session.step()

    def end(self: Any, trainer: Any, module: Any) -> None:  # noqa: ARG001
        session.stop()

    hooks = {"on_train_start": begin, "on_train_batch_end": step, "on_train_end": end}
    return type("NpuAdvisorCallback", (base,), hooks)()


class _Session:
    """One profiler over a training run. Whatever the profiler does wrong ends the session, not the training."""

    def __init__(self, dir_name: str, schedule: dict[str, int] | None, options: dict[str, Any]) -> None:
        self._schedule = _SCHEDULE if schedule is None else schedule
        self._handler = trace_handler(dir_name, **options)
        self._profiler: Any = None

    def start(self) -> None:
        """Build and start the profiler of the accelerator at hand."""
        self._guarded(self._start)

    def step(self) -> None:
        """Tell the profiler that a step ended."""
        if self._profiler is not None:
            self._guarded(self._profiler.step)

    def stop(self) -> None:
        """Stop the profiler; a trace that is being recorded is written."""
        if self._profiler is not None:
            profiler, self._profiler = self._profiler, None
            self._guarded(profiler.stop)

    def _start(self) -> None:
        name = "torch_npu.profiler" if importlib.util.find_spec("torch_npu") else "torch.profiler"
        module = importlib.import_module(name)
        profiler = module.profile(
            schedule=module.schedule(**self._schedule),
            on_trace_ready=self._handler,
            record_shapes=True,
            with_stack=True,
        )
        profiler.start()
        self._profiler = profiler

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Exception as error:
            self._profiler = None
            LOG.warning("npu-advisor: profiling ended early: %s: %s", type(error).__name__, error)
