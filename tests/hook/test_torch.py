"""The hook in real training loops: torch's own profiler, and by hand (where installed) Trainer and Lightning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

LOOP = """
import logging, sys
logging.basicConfig(level=logging.INFO)
import torch
from torch.profiler import ProfilerActivity, profile, schedule
from npu_advisor.hook import trace_handler

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
    on_trace_ready=trace_handler(sys.argv[1]),
    with_stack=True,
    record_shapes=True,
) as profiler:
    for _ in range(8):
        loss = model(torch.randn(32, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()
print("trained")
"""

TRAINER = """
import sys, torch, logging
logging.basicConfig(level=logging.INFO)
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from npu_advisor.hook import trainer_callback

config = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=100)
rows = [{"input_ids": torch.randint(0, 100, (16,)), "labels": torch.tensor(i % 2)} for i in range(64)]
out = sys.argv[1] + "/out"
arguments = TrainingArguments(out, max_steps=8, per_device_train_batch_size=4, use_cpu=True, report_to=[])
schedule = {"skip_first": 1, "wait": 0, "warmup": 1, "active": 2, "repeat": 1}
callback = trainer_callback(sys.argv[1], schedule=schedule)
Trainer(BertForSequenceClassification(config), arguments, train_dataset=rows, callbacks=[callback]).train()
print("trained")
"""

LIGHTNING = """
import sys, torch, logging
logging.basicConfig(level=logging.INFO)
import lightning.pytorch as pl
from npu_advisor.hook import lightning_callback

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

schedule = {"skip_first": 1, "wait": 0, "warmup": 1, "active": 2, "repeat": 1}
callback = lightning_callback(sys.argv[1], schedule=schedule)
loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=4)
quiet = {"logger": False, "enable_checkpointing": False}
pl.Trainer(max_steps=8, accelerator="cpu", callbacks=[callback], **quiet).fit(Net(), loader)
print("trained")
"""


def _train(script: str, folder: Path) -> tuple[dict, str]:
    """The report that a training run leaves, and what the run logged."""
    run = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "trained" in run.stdout
    (report,) = folder.glob("*.advisor.json")
    return json.loads(report.read_text(encoding="utf-8")), run.stderr


def _check(report: dict, log: str) -> None:
    assert [step["step"] for step in report["steps"]] and all(step["duration_us"] > 0 for step in report["steps"])
    assert report["facts"][0]["host_ops"] > 50
    assert log.count("INFO:npu_advisor:") == 1 and ".advisor.txt" in log


def test_a_real_training_loop_leaves_a_report(tmp_path: Path):
    report, log = _train(LOOP, tmp_path)
    _check(report, log)
    assert [step["step"] for step in report["steps"]] == [2, 3, 4]


def test_hugging_face_trainer(tmp_path: Path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    _check(*_train(TRAINER, tmp_path))


def test_lightning(tmp_path: Path):
    pytest.importorskip("lightning", reason="lightning is not installed")
    _check(*_train(LIGHTNING, tmp_path))
