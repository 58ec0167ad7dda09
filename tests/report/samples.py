"""Reports made by hand: one with everything, one empty, one hostile, and the odd shapes between them."""

from __future__ import annotations

from npu_advisor.base.terms import Basis, Effort, Severity, Text
from npu_advisor.findings import (
    After,
    CodeFrame,
    Evidence,
    Finding,
    JointSaving,
    Link,
    Location,
    NotTheCause,
    Outcome,
    ProfileFacts,
    RankFacts,
    RankInfo,
    Reference,
    Remark,
    Replay,
    Report,
    Saving,
    StartShift,
    Step,
    Suggestion,
    Tool,
    TopKernel,
)

TOOL = Tool(version="9.9.9")
STEP_US = 120_000.0
HERE = Location(
    path="/train/vision/train.py",
    line=41,
    function="epoch",
    how="forward",
    local_path="/checkout/vision/train.py",
    code=CodeFrame(
        first_line=40,
        lines=[
            "for batch, target in loader:",
            "    loss = criterion(model(batch.float()), target)  # one step",
            "    loss.backward()",
        ],
    ),
)


def both(en: str, zh: str | None = None) -> Text:
    return Text(en=en, zh=zh if zh is not None else en)


def bound(us: float, joint: float | None = None, step_us: float = STEP_US) -> Saving:
    return Saving(
        us_per_step=us,
        low_us_per_step=0.0,
        high_us_per_step=us,
        joint_us_per_step=us if joint is None else joint,
        share=us / step_us,
        basis=Basis.UPPER_BOUND,
        assumes=both("every gap closes", "所有间隙都消失"),
    )


def hidden() -> Saving:
    """A saving of nothing now (it would even cost a little), and of something once the first finding is fixed."""
    return Saving(
        us_per_step=-12.5,
        low_us_per_step=-20.0,
        high_us_per_step=0.0,
        joint_us_per_step=1_400.0,
        share=-0.0001,
        basis=Basis.REPLAYED,
        after=[
            After(fingerprints=["print-dispatch-gap"], us_per_step=1_400.0),
            After(fingerprints=["print-kernel-copy"], us_per_step=300.0),
        ],
    )


def finding(rule_id: str, severity: Severity, **changes: object) -> Finding:
    fields: dict[str, object] = {
        "rule_id": rule_id,
        "category": rule_id.partition("-")[0],
        "severity": severity,
        "title": both("Something happens", "出现问题"),
        "message": both("It takes 1.00 ms.", "耗时 1.00 ms。"),
        "rank": 0,
        "step": None,
        "recorded_us": 1000.0,
        "saving": None,
        "location": None,
        "fingerprint": f"print-{rule_id}",
    }
    return Finding.model_validate(fields | changes)


def rich_report() -> Report:
    """One step on one rank: every section filled."""
    return Report(
        tool=TOOL,
        profile=ProfileFacts(
            path="runs/vision",
            ranks=[RankInfo(rank=0, path="runs/vision/r0_ascend_pt", form="text", level="Level1", device="Ascend-X")],
        ),
        steps=[
            Step(
                rank=0,
                step=7,
                duration_us=STEP_US,
                host_us=118_500.0,
                compute_us=31_250.125,
                communication_us=46_000.0,
                exposed_communication_us=41_000.0,
                free_us=33_249.875,
                prepare_us=12_000.0,
                after_last_kernel_us=2_500.0,
                waiting_for_rank_us={"3": 30_500.0, "6": 1_500.0},
                idle_owners={"dispatch": 28_000.0, "sync": 9_249.875, "data": 7_000.0, "gc": 1_000.0},
                critical_path={"host": 60_000.0, "waiting_for_rank": 32_000.0, "compute": 27_900.0, "sync": 100.0},
                bound_by="host",
            )
        ],
        facts=[
            RankFacts(
                rank=0,
                host_ops=8_210,
                kernels=1_204,
                kernel_time_us=33_000.5,
                kernels_linked_to_op=1_204,
                kernels_linked_to_line=1_120,
                enqueues=1_100,
                dequeues=1_100,
                device_busy_us=31_250.125,
                device_idle_us=33_249.875,
                peak_allocated_bytes=2_147_483_648,
                peak_reserved_bytes=2_415_919_104,
            )
        ],
        top_kernels=[
            TopKernel(rank=0, type="MatMulV9", calls=240, total_us=16_000.0, share=0.512),
            TopKernel(rank=0, type="FusedNorm", calls=96, total_us=6_400.0, share=0.2048),
        ],
        replay=[
            Replay(
                rank=0,
                step=7,
                recorded_us=STEP_US,
                replayed_us=123_240.0,
                error=0.027,
                anchored_share=0.3,
                start_shift=StartShift(median_us=28.4, p90_us=231.0),
            )
        ],
        saving=JointSaving(joint_us_per_step=43_900.0, share=43_900.0 / STEP_US),
        findings=_findings(),
        not_the_cause=[
            NotTheCause(
                rank=0,
                name="meter.update",
                location=HERE.model_copy(update={"line": 52}),
                duration_us=30_100.0,
                reason=both(".item() waits for the same all-reduce", ".item() 等待的是同一个 all-reduce"),
            ),
            NotTheCause(
                rank=0,
                name="AdamQ.step",
                location=HERE.model_copy(update={"line": 47}),
                duration_us=9_050.0,
                reason=both("the device has work queued for all of it", "期间设备队列中一直有任务"),
            ),
        ],
        rules=[
            *(
                Outcome(id=item.rule_id, title=item.title, outcome="fired")
                for item in _findings()
                if item.rule_id != "memory-peak"
            ),
            Outcome(id="kernel-calm", title=both("Calm"), outcome="clean"),
            Outcome(id="kernel-quiet", title=both("Quiet"), outcome="clean"),
            Outcome(
                id="aicpu-slow",
                title=both("Slow AI CPU"),
                outcome="skipped",
                reason=both("no runtime lane in this profile", "该 profile 中没有 runtime 泳道"),
                enable="profiler_level=Level2",
            ),
            Outcome(
                id="cluster-link",
                title=both("Slow link"),
                outcome="skipped",
                reason=both("1 of 8 ranks recorded", "8 张卡中只采集了 1 张"),
                enable="record every rank",
            ),
        ],
        profiler_call=(
            "experimental_config=torch_npu.profiler._ExperimentalConfig(\n"
            "    profiler_level=torch_npu.profiler.ProfilerLevel.Level2),\n"
        ),
    )


def _findings() -> list[Finding]:
    return [
        finding(
            "dispatch-gap",
            Severity.HIGH,
            title=both("The host cannot keep the device fed", "主机下发跟不上设备"),
            message=both(
                "The device idles 28.0 ms in 61 Dequeue gaps of 20 us or more; the longest takes 2.75 ms and ends "
                "in aten::index.",
                "61 处不短于 20 us 的 Dequeue 间隙使设备空闲 28.0 ms，最长一段 2.75 ms，止于 aten::index。",
            ),
            recorded_us=28_000.0,
            saving=bound(28_000.0),
            location=HERE,
            stack=["/train/vision/train.py(41): epoch", "/train/vision/train.py(90): <module>"],
            chain=[
                Link(kind="kernel", name="Index_17", start="1700000000000000.125", duration_us=12.5),
                Link(kind="dequeue", name="Dequeue@Index", start="1700000000000000.001", duration_us=4.25),
                Link(kind="op", name="aten::index", start="1699999999999990.500", duration_us=30.0),
                Link(kind="frame", name="/train/vision/train.py(41): epoch"),
            ],
            evidence=Evidence(
                columns=["source", "lost_us", "gaps"], rows=[["train.py:41", 20_000.5, 40], [None, 8e3, 21]]
            ),
            values={"lost_us": 28_000.0, "gaps": 61},
            suggestions=[
                Suggestion(
                    effort=Effort.ENVIRONMENT,
                    text=both("export TASK_QUEUE_ENABLE=2", "设置 TASK_QUEUE_ENABLE=2"),
                ),
                Suggestion(
                    effort=Effort.ONE_LINE,
                    text=both("Raise the batch size: each launch then carries more work.", "增大 batch size。"),
                ),
                Suggestion(effort=Effort.REWORK, text=both("Capture the static part.", "静态部分改用图模式。")),
            ],
            references=[Reference(title="Dispatch", url="https://example.org/dispatch")],
        ),
        finding(
            "kernel-copy",
            Severity.MEDIUM,
            title=both(
                "The input copy blocks the host until every earlier kernel has ended, whatever its stream",
                "输入拷贝阻塞主机",
            ),
            message=both("9.25 ms in aclrtSynchronizeStream.", "aclrtSynchronizeStream 耗时 9.25 ms。"),
            recorded_us=9_249.875,
            saving=bound(9_249.875),
            location=Location(path="/train/vision/data/loading.py", line=118, function="to_device", how="own"),
            suggestions=[
                Suggestion(
                    effort=Effort.LOCAL,
                    text=both("Copy without blocking:", "改为非阻塞拷贝："),
                    before="x = x.to(device)",
                    after="x = x.to(device, non_blocking=True)",
                )
            ],
        ),
        finding(
            "layout-convert",
            Severity.MEDIUM,
            title=both("Kernels that only convert layout", "存在插入的转换类算子"),
            message=both("44 kernels, 21.2 % of the computing time.", "44 个 kernel，占计算时间 21.2 %。"),
            recorded_us=6_650.125,
            saving=bound(6_650.125),
            location_missing=both("launched by aten::conv2d, which no line called", "由 aten::conv2d 下发"),
        ),
        finding(
            "memory-peak",
            Severity.LOW,
            title=both("One tensor holds most of the memory peak", "单个张量占据显存峰值的大部分"),
            message=both("1.50 GiB of 2.00 GiB are logits.", "2.00 GiB 中有 1.50 GiB 是 logits。"),
            recorded_us=None,
            values={"held_bytes": 1_610_612_736, "share": 0.75},
            location=HERE.model_copy(update={"line": 33, "how": "own"}),
        ),
        finding("kernel-small", Severity.INFO, saving=bound(100.0)),
        finding("kernel-tiny", Severity.INFO, saving=bound(50.0)),
        finding("kernel-hidden", Severity.INFO, saving=hidden()),
    ]


def empty_report() -> Report:
    """Nothing could be read."""
    return Report(
        tool=TOOL,
        profile=ProfileFacts(path="nowhere", ranks=[]),
        diagnostics=[
            Remark(
                code="no_events",
                severity="error",
                file="nowhere/trace_view.json",
                message=both("trace_view.json holds no events", "trace_view.json 中没有事件"),
            )
        ],
    )


def hostile_report() -> Report:
    """Names that try to act on the terminal, to break the layout, or to leave their place."""
    bad = (
        "<script>alert(1)</script> [bold red]x[/bold red] \x1b[31m\x1b]8;;http://evil\x07 "
        "\u202egnp.exe\u2028\r\n算子名称"
    )
    name = bad + " very_long_name" * 40
    place = Location(path=f"/srv/{bad}/" + "d" * 300 + ".py", line=999_999_999, function=name, how="own")
    return Report(
        tool=TOOL,
        profile=ProfileFacts(path=bad, ranks=[RankInfo(rank=0, path=bad, form="text", device=name)]),
        steps=[
            Step(
                rank=0,
                step=1,
                duration_us=10_000.0,
                compute_us=2_000.0,
                communication_us=0.0,
                exposed_communication_us=0.0,
                free_us=8_000.0,
                prepare_us=0.0,
                after_last_kernel_us=0.0,
                idle_owners={"dispatch": 7_000.0, bad: 1_000.0},
            )
        ],
        facts=[RankFacts(rank=0, kernels=10, kernels_linked_to_line=0)],
        top_kernels=[TopKernel(rank=0, type=name, calls=1, total_us=2_000.0, share=1.0)],
        saving=JointSaving(joint_us_per_step=7_000.0, share=0.7),
        findings=[
            finding(
                "dispatch-" + "x" * 120,
                Severity.HIGH,
                title=both(name, name),
                message=both(name * 3, "算" * 400),
                saving=bound(7_000.0, step_us=10_000.0),
                location=place,
                chain=[Link(kind="kernel", name=name)],
                suggestions=[Suggestion(effort=Effort.LOCAL, text=both(name), before=bad, after="\x07" + bad)],
            ),
            finding("layout-x", Severity.LOW, location_missing=both(name, name)),
        ],
        not_the_cause=[NotTheCause(rank=0, name=name, location=place, duration_us=9.0, reason=both(name, name))],
        rules=[
            Outcome(id="r" * 90, title=both(name), outcome="skipped", reason=both(name, name), enable=bad),
            Outcome(id="failing", title=both(name), outcome="failed", reason=both(name, name)),
        ],
        diagnostics=[Remark(code="x", severity="error", file=bad, message=both(name, name))],
    )


def healthy_report() -> Report:
    """Eight steps in which the device computes and nothing was found."""
    return Report(
        tool=TOOL,
        profile=ProfileFacts(path="runs/fine", ranks=[RankInfo(rank=0, path="runs/fine", form="text")]),
        steps=[
            Step(
                rank=0,
                step=number,
                duration_us=50_000.0,
                compute_us=49_900.0,
                communication_us=0.0,
                exposed_communication_us=0.0,
                free_us=60.0,
                prepare_us=40.0,
                after_last_kernel_us=0.0,
                idle_owners={"dispatch": 100.0},
            )
            for number in range(20, 28)
        ],
        facts=[RankFacts(rank=0, kernels=4_000, kernels_linked_to_line=4_000, kernel_time_us=399_200.0)],
        top_kernels=[
            TopKernel(rank=0, type="MatMulV9", calls=2_000, total_us=263_472.0, share=0.66),
            TopKernel(rank=0, type="AttentionGrad", calls=96, total_us=51_896.0, share=0.13),
            TopKernel(rank=0, type="Attention", calls=96, total_us=23_952.0, share=0.06),
            TopKernel(rank=0, type="Cast", calls=96, total_us=952.0, share=0.0024),
        ],
        rules=[
            Outcome(id="dispatch-gap", title=both("Gap"), outcome="clean"),
            Outcome(
                id="memory-peak",
                title=both("Peak"),
                outcome="skipped",
                reason=both("no memory file"),
                enable="profile_memory=True",
            ),
        ],
    )


def ranks_report(ranks: int = 3) -> Report:
    """Two steps on every rank; rank 1 is the slowest."""
    steps = []
    for rank in range(ranks):
        for number in (4, 5):
            slow = 20_000.0 if rank == 1 else 1_000.0 * rank
            steps.append(
                Step(
                    rank=rank,
                    step=number,
                    duration_us=60_000.0 + slow,
                    compute_us=30_000.0,
                    communication_us=10_000.0,
                    exposed_communication_us=10_000.0,
                    free_us=20_000.0 + slow,
                    prepare_us=0.0,
                    after_last_kernel_us=0.0,
                    idle_owners={"data": 20_000.0 + slow},
                )
            )
    return Report(
        tool=TOOL,
        profile=ProfileFacts(
            path="runs/many", ranks=[RankInfo(rank=rank, path=f"r{rank}", form="text") for rank in range(ranks)]
        ),
        steps=steps,
        facts=[RankFacts(rank=rank, kernels=500, kernels_linked_to_line=450) for rank in range(ranks)],
        saving=JointSaving(joint_us_per_step=40_000.0, share=0.5),
        findings=[
            finding(
                "data-loader",
                Severity.HIGH,
                rank=1,
                step=5,
                title=both("The step starts by waiting for data", "单步开头在等待数据"),
                saving=bound(40_000.0, step_us=80_000.0),
                location=Location(path="main.py", line=3, function="run", how="own"),
            )
        ],
        rules=[Outcome(id="data-loader", title=both("Data"), outcome="fired")],
    )


def window_report() -> Report:
    """No step markers: one window without a number, and no owner of the idle time."""
    return Report(
        tool=TOOL,
        profile=ProfileFacts(path="serve", ranks=[RankInfo(rank=-1, path="serve", form="trace")]),
        steps=[
            Step(
                rank=-1,
                step=None,
                duration_us=9_000.0,
                compute_us=3_000.0,
                communication_us=0.0,
                exposed_communication_us=0.0,
                free_us=5_000.0,
                prepare_us=1_000.0,
                after_last_kernel_us=0.0,
            )
        ],
        facts=[RankFacts(rank=-1, kernels=30)],
        rules=[Outcome(id="dispatch-gap", title=both("Gap"), outcome="clean")],
    )


def kernels_report() -> Report:
    """``kernel_details.csv`` alone."""
    return Report(
        tool=TOOL,
        profile=ProfileFacts(path="kernel_details.csv", ranks=[RankInfo(rank=-1, path=".", form="csv")]),
        facts=[RankFacts(rank=-1, kernels=1_500, kernel_time_us=81_000.0)],
        top_kernels=[
            TopKernel(rank=-1, type="MatMulV9", calls=800, total_us=60_750.0, share=0.75),
            TopKernel(rank=-1, type="Cast", calls=700, total_us=20_250.0, share=0.25),
        ],
        rules=[
            Outcome(id="kernel-top", title=both("Top"), outcome="clean"),
            Outcome(
                id="dispatch-gap",
                title=both("Gap"),
                outcome="skipped",
                reason=both("no dequeues in this profile", "没有 dequeues"),
            ),
        ],
    )


REPORTS = {
    "rich": rich_report,
    "empty": empty_report,
    "hostile": hostile_report,
    "healthy": healthy_report,
    "ranks": ranks_report,
    "window": window_report,
    "kernels": kernels_report,
}
