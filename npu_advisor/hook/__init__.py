"""Advice by itself when a profile has been written: handlers for profilers, callbacks for training frameworks.

Nothing here imports torch before it is called, and nothing raises into the training loop.
"""

from npu_advisor.hook.frameworks import lightning_callback, trainer_callback
from npu_advisor.hook.handler import trace_handler

__all__ = ["lightning_callback", "trace_handler", "trainer_callback"]
