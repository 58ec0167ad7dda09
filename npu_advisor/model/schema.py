"""Every table and column of a profile: kind, unit, meaning, and which file and profiler switch provides it.

This is the one vocabulary that readers fill, the graph links, rules query and users see.  A column that the input
does not hold is *absent*: a rule that needs it is skipped with the text of ``needs``, never taken for clean.

Kinds, and what a table gives for them:

``int``   int64, missing = the column's ``missing`` (-1 unless said otherwise)
``float`` float64, missing = NaN
``text``  a ``Categorical`` of str, missing = code -1
``bool``  bool, missing = False
``key``   int64 row position in ``target``, missing = -1

Times are int64 nanoseconds since the epoch (``start_ns``, ``dur_ns``); every table with them also answers
``end_ns`` (int64) and ``dur_us`` (float64), computed on demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npu_advisor.base.terms import IDLE_OWNERS

Kind = Literal["int", "float", "text", "bool", "key"]

# Profiler switches, as a user types them.
STACK = "with_stack=True"
SHAPES = "record_shapes=True"
MEMORY = "profile_memory=True"
LEVEL1 = "profiler_level=Level1"
LEVEL2 = "profiler_level=Level2"
PIPE = "profiler_level=Level1, aic_metrics=PipeUtilization"
CPU = "activities including ProfilerActivity.CPU"
NPU = "activities including ProfilerActivity.NPU"
L2 = "l2_cache=True"
GC = "gc_detect_threshold=1"
STEPS = "schedule=torch_npu.profiler.schedule(..., active=2)"
SCHEDULE = "schedule=..., and prof.step() in the loop"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    ``needs`` is the profiler switch that yields it; ``optional`` columns never make a rule ``skipped`` (a finding
    without a source line is still a finding).
    """

    name: str
    kind: Kind
    doc: str
    unit: str = ""
    target: str = ""
    needs: str = ""
    optional: bool = False
    missing: int = -1


@dataclass(frozen=True)
class TableSpec:
    """One table: what a row is, its columns, and where it comes from.

    ``called`` is what people call its rows (English, Chinese); ``files`` names the inputs (for people); ``needs`` the
    switch without which the table is absent; ``label`` the column that a key to this table is shown as.
    """

    name: str
    called: tuple[str, str]
    doc: str
    columns: tuple[Column, ...]
    files: str
    needs: str = ""
    label: str = ""

    def column(self, name: str) -> Column | None:
        """The column called ``name``, stored or computed; None when there is none."""
        return _INDEX[self.name].get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Every column a rule may use, computed ones included."""
        return tuple(_INDEX[self.name])

    @property
    def timed(self) -> bool:
        """Whether rows are intervals (have ``start_ns`` and ``dur_ns``)."""
        return any(column.name == "dur_ns" for column in self.columns)


COMPUTED = (
    Column("end_ns", "int", "start_ns + dur_ns", "ns"),
    Column("dur_us", "float", "duration", "us"),
)
# Every table answers these two; readers need not store them.
COMMON = (Column("rank", "int", "rank of this profile, -1 unknown"),)


def _text(name: str, doc: str, needs: str = "", *, optional: bool = False) -> Column:
    return Column(name, "text", doc, needs=needs, optional=optional)


def _key(name: str, target: str, doc: str, needs: str = "", *, optional: bool = True) -> Column:
    return Column(name, "key", doc, target=target, needs=needs, optional=optional)


def _us(name: str, doc: str, needs: str = "") -> Column:
    return Column(name, "float", doc, "us", needs=needs)


START = Column("start_ns", "int", "start, since the epoch", "ns")
DUR = Column("dur_ns", "int", "duration", "ns", missing=0)
# Tables of several ranks say which one a row is of.
RANK = Column("rank", "int", "the rank")
TRACK = (
    Column("track", "int", "lane in the trace: one number per (process, thread)", optional=True),
    Column("pid", "int", "process id as the writer gave it, -1 when not a number", optional=True),
    Column("tid", "int", "thread or stream id as the writer gave it, -1 when not a number", optional=True),
)
STEP = _key("step", "steps", "the step this belongs to")
SOURCE = (
    _text("source", "the user's line, `path(line): function`", STACK, optional=True),
    _text(
        "source_how", "how the line was found: own, ancestor, forward, sibling, python, backward", STACK, optional=True
    ),
)
SHAPED = tuple(
    _text(name, doc, LEVEL1)
    for name, doc in (
        ("input_shapes", "`;` between tensors, `,` between dims"),
        ("input_dtypes", "`;` between tensors"),
        ("input_formats", "`;` between tensors"),
        ("output_shapes", "`;` between tensors, `,` between dims"),
        ("output_dtypes", "`;` between tensors"),
        ("output_formats", "`;` between tensors"),
    )
)
PIPE_METRICS = (
    *(
        Column(
            f"{core}_{unit}_ratio", "float", f"busy share of the {unit} pipe of the {core} cores", "share", needs=PIPE
        )
        for core, units in (
            ("aic", ("mac", "scalar", "mte1", "mte2", "fixpipe")),
            ("aiv", ("vec", "scalar", "mte2", "mte3")),
        )
        for unit in units
    ),
    Column("cube_utilization", "float", "cube utilisation", "percent", needs=PIPE),
)

TABLES: tuple[TableSpec, ...] = (
    TableSpec(
        "profile",
        ("profile facts", "profile 信息"),
        "The profile itself: one row. Environment variables are columns `env.NAME`.",
        (
            _text("level", "Level0, Level1, Level2"),
            _text("device", "chip family, where recorded (db form)", optional=True),
            _text("torch_npu", "torch_npu version", optional=True),
            _text("cann", "CANN version", optional=True),
            Column("with_stack", "bool", "call stacks were recorded"),
            Column("record_shapes", "bool", "shapes were recorded"),
            Column("profile_memory", "bool", "memory was recorded"),
            _text("aic_metrics", "which AI Core metrics were recorded, as profiler_info spells it"),
            _text("activities", "CPU, NPU, `;` between them"),
            Column(
                "skipped_steps", "int", "steps that the schedule let pass before the recording: skip_first and wait"
            ),
            Column("warmup", "int", "steps that the schedule spent on warming up the profiler"),
            Column("steps", "int", "complete steps seen"),
            _us("step_us", "mean duration of the complete steps"),
            _us("steps_us", "summed duration of the steps"),
            _us("device_busy_us", "when a compute kernel of a step runs"),
            _us("device_idle_us", "device window minus compute and communication, summed over the steps"),
            *(_us(f"idle_{owner}_us", f"idle time owned by {owner}, summed over the steps") for owner in IDLE_OWNERS),
            Column("other_ranks", "int", "further ranks of the run that were read"),
            _us("kernel_us", "sum of the compute kernels"),
            _us("others_kernel_us", "sum of the compute kernels of another rank, median"),
            _us("others_wait_us", "what each other rank waits for this rank alone in collectives, median"),
            _text("work", "training or inference; missing where neither can be told", optional=True),
            Column("iterations", "int", "iterations of an inference loop"),
            _us("expert_us", "sum of the grouped matrix products of the experts on this rank"),
            _us("mean_expert_us", "the same, mean over all ranks that were read"),
            Column(
                "expert_lead", "float", "share of those kernels that take longer here than on any other rank", "share"
            ),
            _us("iteration_us", "mean duration of an iteration of an inference loop"),
            _us("iterations_us", "summed duration of the iterations of an inference loop"),
            Column(
                "memory_growth_bytes", "float", "the least that a complete step leaves allocated", "bytes", needs=STEPS
            ),
            Column("peak_allocated_bytes", "float", "peak of `PTA+GE`, else `PTA`", "bytes", needs=MEMORY),
            Column("peak_reserved_bytes", "float", "peak of `PTA+GE`, else `PTA`", "bytes", needs=MEMORY),
        ),
        "profiler_info*.json, profiler_metadata.json",
    ),
    TableSpec(
        "environment",
        ("environment variables", "环境变量"),
        "One environment variable that the profiler looked at when it started.",
        (_text("name", "ASCEND_LAUNCH_BLOCKING, ..."), _text("value", "as set, missing when unset")),
        "profiler_metadata.json",
    ),
    TableSpec(
        "steps",
        ("step marks", "步标记"),
        "One ProfilerStep, or one row with number -1 for the whole window where there are no markers. start/dur is the "
        "step's wall window: from the host start (or the end of the previous step, if later) to the host end (or the "
        "last device task, if later), so windows tile time and the ledger below adds up to dur.",
        (
            START,
            DUR,
            Column("number", "int", "n of ProfilerStep#n, -1 without markers"),
            _us("host_us", "duration of the ProfilerStep event on the host"),
            Column("device_start_ns", "int", "start of the first compute or communication task", "ns"),
            Column("device_end_ns", "int", "end of the last compute or communication task", "ns"),
            _us("compute_us", "union of compute kernels"),
            _us("comm_us", "union of collectives"),
            _us("exposed_comm_us", "collectives not covered by compute"),
            _us("free_us", "idle between the first and the last device task"),
            _us("prepare_us", "idle before the first device task"),
            _us("after_us", "after the last device task, until the step ends on the host"),
            Column("complete", "bool", "has device work and was not cut"),
        ),
        "trace_view.json (ProfilerStep#n), step_trace_time.csv",
        SCHEDULE,
        label="number",
    ),
    TableSpec(
        "ops",
        ("torch ops", "torch 算子事件"),
        "A torch op (cat cpu_op) on a host thread, user ranges and ProfilerStep#n included.",
        (
            _text("name", "aten::conv2d, Optimizer.step#SGD.step, ..."),
            START,
            DUR,
            *TRACK,
            Column("sequence", "int", "autograd sequence number", optional=True),
            Column("fwd_thread", "int", "logical forward thread: 0 forward op, above 0 backward", optional=True),
            _text("shapes", "input shapes, `;` between arguments", SHAPES),
            _text("dtypes", "input types, `;` between arguments", SHAPES),
            _text("stack", "call stack, innermost first", STACK, optional=True),
            _key("parent", "ops", "enclosing op on the same thread"),
            _key("forward", "ops", "the forward op of a backward op"),
            Column("depth", "int", "enclosing ops on the same thread"),
            Column("pre", "int", "pre-order number; everything under row i has pre[i] < pre <= last[i]", optional=True),
            Column("last", "int", "largest pre-order number under this op", optional=True),
            _us("self_us", "duration without child ops"),
            STEP,
            *SOURCE,
        ),
        "trace_view.json",
        CPU,
        label="name",
    ),
    TableSpec(
        "frames",
        ("Python functions", "Python 函数事件"),
        "A Python function that ran (cat python_function).",
        (
            _text("name", "`path(line): function`, `nn.Module: X`, `<built-in ...>`; the line is the definition's"),
            START,
            DUR,
            *TRACK,
            Column("python_id", "int", "the writer's id"),
            Column("python_parent", "int", "python_id of the caller, 0 root"),
        ),
        "trace_view.json",
        STACK,
        label="name",
    ),
    TableSpec(
        "enqueues",
        ("Enqueue events", "Enqueue 事件"),
        "A push into the task queue.",
        (
            _text("name", "Enqueue or Enqueue@op"),
            START,
            DUR,
            *TRACK,
            Column("correlation", "int", "pairs with the Dequeue"),
            _key("op", "ops", "innermost op around it"),
            STEP,
            *SOURCE,
        ),
        "trace_view.json",
        CPU,
        label="name",
    ),
    TableSpec(
        "dequeues",
        ("Dequeue events", "Dequeue 事件"),
        "The consumer thread executing one queue entry: the real dispatch.",
        (
            _text("name", "Dequeue@op"),
            START,
            DUR,
            *TRACK,
            Column("correlation", "int", "pairs with the Enqueue"),
            _key("enqueue", "enqueues", "the push it pops"),
            _key("op", "ops", "the op that enqueued"),
            STEP,
            *SOURCE,
        ),
        "trace_view.json",
        CPU,
        label="name",
    ),
    TableSpec(
        "apis",
        ("CANN calls", "CANN 接口事件"),
        "A CANN or runtime call on the host.",
        (
            _text("name", "without the layer prefix: aclrtSynchronizeStream, launch, ..."),
            _text("level", "acl, node, hccl, runtime, model"),
            _text("item", "kernel name of a launch", optional=True),
            START,
            DUR,
            *TRACK,
            Column("connection", "int", "joins the device tasks it launched; 0 none"),
            _key("dequeue", "dequeues", "the Dequeue around it"),
            _key("op", "ops", "the op it runs for"),
            STEP,
            *SOURCE,
        ),
        "trace_view.json",
        LEVEL1,
        label="name",
    ),
    TableSpec(
        "kernels",
        ("kernels", "kernel"),
        "A task that computed on the device. Communication, copies and event tasks are other tables.",
        (
            _text("name", "as launched, counters included"),
            _text("type", "operator type; inferred from the name where the file says N/A"),
            Column("type_inferred", "bool", "the type was inferred from the name", optional=True),
            _text("core", "AI_CORE, AI_VECTOR_CORE, MIX_AIC, MIX_AIV, AI_CPU, DSA_SQE", LEVEL1),
            _text("state", "dynamic or static", LEVEL1),
            START,
            DUR,
            *TRACK,
            Column("stream", "int", "device stream", optional=True),
            Column("task", "int", "task id (wraps at 65536)", optional=True),
            Column("model", "int", "graph the task was replayed from, -1 none", optional=True),
            Column("connection", "int", "joins the launching CANN call, -1 none", optional=True),
            Column("block_dim", "int", "cores used", needs=LEVEL1),
            _us("core_us", "time its cores worked: the longer of aicore_time and aiv_time", PIPE),
            _us("wait_us", "column Wait Time: to the end of the previous row on any stream; not a dispatch gap"),
            Column("step_id", "int", "the file's own Step Id, -1 none", optional=True),
            *SHAPED,
            *PIPE_METRICS,
            Column("launch_ns", "int", "when the host launched it, -1 unknown", "ns", optional=True),
            _us("launch_delay_us", "from launch to start; 0 where the device clock runs early"),
            Column("bad_duration", "bool", "the recorded duration is impossible, dur is 0 instead", optional=True),
            _key("api", "apis", "the launch", LEVEL1),
            _key("dequeue", "dequeues", "the Dequeue that launched it"),
            _key("op", "ops", "the op that asked for it"),
            STEP,
            *SOURCE,
        ),
        "kernel_details.csv, else trace_view.json",
        NPU,
        label="name",
    ),
    TableSpec(
        "tasks",
        ("device tasks", "设备任务"),
        "A device task that does not compute: copy, event, notify, memory set.",
        (
            _text("name", "MEMCPY_ASYNC, EVENT_WAIT, ..."),
            _text("kind", "copy, event_record, event_wait, notify, other"),
            _text("task_type", "as the writer gave it"),
            START,
            DUR,
            *TRACK,
            Column("stream", "int", "device stream", optional=True),
            Column("connection", "int", "joins the launching CANN call, -1 none", optional=True),
            Column("model", "int", "graph the task was replayed from, -1 none", optional=True),
            Column("launch_ns", "int", "when the host launched it, -1 unknown", "ns", optional=True),
            _key("api", "apis", "the launch", LEVEL1),
            _key("dequeue", "dequeues", "the Dequeue that launched it"),
            _key("op", "ops", "the op that asked for it"),
            STEP,
            *SOURCE,
        ),
        "trace_view.json",
        NPU,
        label="name",
    ),
    TableSpec(
        "comms",
        ("collectives", "通信算子"),
        "A collective or point-to-point communication as the device ran it.",
        (
            _text("name", "hcom_allReduce__586_0_1"),
            _text("type", "allReduce, send, ..."),
            _text("group", "hash or name of the communicator", optional=True),
            START,
            DUR,
            *TRACK,
            Column("connection", "int", "joins the launching CANN call, -1 none", optional=True),
            Column("step_id", "int", "the file's own Step Id, -1 none", optional=True),
            Column("bytes", "float", "data moved by this rank", "bytes", needs=LEVEL1),
            Column("payload_bytes", "float", "size of the tensor it works on", "bytes", optional=True),
            _us("transit_us", "moving data", LEVEL1),
            _us("wait_us", "waiting for peers, as communication.json books it", LEVEL1),
            _us("sync_us", "the part of wait_us before the first transfer", LEVEL1),
            _us("idle_us", "neither, as communication.json books it; often the wait for a late rank", LEVEL1),
            Column("launch_ns", "int", "when the host launched it, -1 unknown", "ns", optional=True),
            _key("api", "apis", "the launch", LEVEL1),
            _key("dequeue", "dequeues", "the Dequeue that launched it"),
            _key("op", "ops", "the op that asked for it"),
            STEP,
            *SOURCE,
        ),
        "kernel_details.csv, trace_view.json, communication.json",
        NPU,
        label="name",
    ),
    TableSpec(
        "comm_tasks",
        ("communication tasks", "通信子任务"),
        "A sub-task of a collective: Notify_Wait, Memcpy, Reduce_Inline, ...",
        (
            _text("name", "task type"),
            START,
            DUR,
            *TRACK,
            Column("src_rank", "int", "in Notify_Wait: this rank, which waits"),
            Column("dst_rank", "int", "in Notify_Wait: the rank it waits for"),
            Column("bytes", "float", "size", "bytes"),
            _text("transport", "SDMA, RDMA, LOCAL"),
            _text("link", "HCCS, PCIE, ROCE, SIO, ON_CHIP"),
            _key("comm", "comms", "the collective it belongs to"),
        ),
        "trace_view.json",
        LEVEL1,
        label="name",
    ),
    TableSpec(
        "allocs",
        ("allocations", "显存分配记录"),
        "One allocation of device memory.",
        (
            _text("name", "the op that allocated; cann::X for workspace"),
            Column("size_bytes", "float", "size", "bytes"),
            START,
            DUR,
            Column("release_ns", "int", "release, -1 still alive at the end of the window", "ns"),
            _text("component", "PTA or GE, CUDA on a GPU"),
            _key("op", "ops", "the op around the allocation"),
            STEP,
            *SOURCE,
        ),
        "operator_memory.csv",
        MEMORY,
        label="name",
    ),
    TableSpec(
        "frees",
        ("early releases", "早期释放记录"),
        "A release of memory that was allocated before the recording.",
        (
            _text("name", "the op that released"),
            Column("size_bytes", "float", "size", "bytes"),
            START,
        ),
        "operator_memory.csv",
        MEMORY,
        label="name",
    ),
    TableSpec(
        "memory",
        ("memory samples", "显存采样"),
        "One sample of the allocators, in time order.",
        (
            _text("component", "PTA, GE, PTA+GE, APP, WORKSPACE, CUDA; they overlap, never add them"),
            START,
            Column("allocated_bytes", "float", "in use", "bytes"),
            Column("reserved_bytes", "float", "held from the device", "bytes"),
            Column("active_bytes", "float", "in use or not yet reusable", "bytes"),
        ),
        "memory_record.csv",
        MEMORY,
    ),
    TableSpec(
        "module_memory",
        ("memory samples of CANN modules", "CANN 组件显存采样"),
        "Device memory held by one CANN module at one time.",
        (_text("component", "HCCL, RUNTIME, ..."), START, Column("reserved_bytes", "float", "held", "bytes")),
        "npu_module_mem.csv",
        MEMORY,
    ),
    TableSpec(
        "step_trace",
        ("step times", "step 耗时统计"),
        "One row of the profiler's own step ledger.",
        (
            Column("step_id", "int", "step number, -1 without a schedule"),
            _us("compute_us", "Computing"),
            _us("exposed_comm_us", "Communication(Not Overlapped)"),
            _us("overlapped_us", "Overlapped"),
            _us("comm_us", "Communication"),
            _us("free_us", "Free"),
            _us("stage_us", "Stage"),
            _us("bubble_us", "Bubble: waits in hcom_receive"),
            _us("prepare_us", "Preparing"),
        ),
        "step_trace_time.csv",
        NPU,
    ),
    TableSpec(
        "op_statistic",
        ("kernel statistics", "算子统计"),
        "Kernels summed by type and core, as the profiler wrote them.",
        (
            _text("type", "operator type"),
            _text("core", "core type"),
            Column("count", "int", "kernels"),
            _us("total_us", "sum of durations"),
        ),
        "op_statistic.csv",
        LEVEL1,
    ),
    TableSpec(
        "api_statistic",
        ("CANN call statistics", "CANN 接口统计"),
        "CANN calls summed by name, as the profiler wrote them.",
        (
            _text("level", "acl, node, ..."),
            _text("name", "API name"),
            Column("count", "int", "calls"),
            _us("total_us", "sum of durations"),
        ),
        "api_statistic.csv",
        LEVEL1,
    ),
    TableSpec(
        "l2_cache",
        ("L2 cache rates", "L2 cache 命中率"),
        "L2 cache rates of one kernel.",
        (
            _text("name", "kernel name"),
            Column("stream", "int", "device stream"),
            Column("task", "int", "task id"),
            Column("hit_rate", "float", "share of hits; missing on A2", "share"),
            Column("victim_rate", "float", "victim rate, may exceed 1", "share"),
        ),
        "l2_cache.csv",
        L2,
    ),
    TableSpec(
        "aicpu",
        ("AI CPU times", "AI CPU 耗时"),
        "Where the time of one AI CPU kernel went.",
        (
            _text("name", "node"),
            START,
            _us("compute_us", "compute"),
            _us("memcpy_us", "copies"),
            _us("dispatch_us", "dispatch"),
            _us("total_us", "total"),
        ),
        "data_preprocess.csv",
        LEVEL2,
    ),
    TableSpec(
        "op_details",
        ("op sums", "算子耗时汇总"),
        "The profiler's own sums per host op, in start order.",
        (
            _text("name", "op"),
            _us("host_self_us", "host, self"),
            _us("host_total_us", "host, with children"),
            _us("device_self_us", "device tasks it launched, copies and communication included"),
            _us("device_total_us", "as device_self_us, with children"),
        ),
        "operator_details.csv",
        CPU,
    ),
    TableSpec(
        "links",
        ("link traffic", "链路流量"),
        "Traffic of one link between two ranks of a group.",
        (
            _text("op", "type-top1, type-total, or the op name in older files"),
            _text("kind", "collective or p2p"),
            Column("step_id", "int", "step number, -1 without a schedule"),
            Column("src", "int", "rank inside the group"),
            Column("dst", "int", "rank inside the group"),
            _text("transport", "LOCAL, HCCS, PCIE, RDMA, SIO"),
            Column("bytes", "float", "size", "bytes"),
            _us("transit_us", "time"),
            Column("bandwidth_gbs", "float", "bandwidth", "GB/s"),
        ),
        "communication_matrix.json",
        LEVEL1,
    ),
    TableSpec(
        "counters",
        ("device counters", "设备计数器"),
        "One sample of a device counter.",
        (_text("name", "AI Core Freq, ..."), START, Column("value", "float", "in the counter's own unit")),
        "trace_view.json",
        NPU,
    ),
    TableSpec(
        "gcs",
        ("GC pauses", "GC 停顿"),
        "A pause of Python's garbage collector.",
        (START, DUR, *TRACK, STEP),
        "trace_view.json",
        GC,
    ),
    TableSpec(
        "overlap",
        ("overlap analysis", "重叠分析"),
        "The profiler's own union of computing, communication and free time.",
        (_text("name", "Computing, Communication, Communication(Not Overlapped), Free"), START, DUR, *TRACK),
        "trace_view.json",
        NPU,
    ),
    TableSpec(
        "flow_points",
        ("flow arrows", "连线"),
        "One end of a flow arrow, as written; the graph pairs them.",
        (
            _text("category", "async_task_queue, async_npu, fwdbwd, HostToDevice"),
            Column("finish", "bool", "False at the start (`s`), True at the end (`f`)"),
            Column("id", "int", "the flow's id, numbered within this profile"),
            *TRACK[:1],
            START,
        ),
        "trace_view.json",
        CPU,
    ),
    TableSpec(
        "tracks",
        ("lanes", "泳道"),
        "One lane of the trace; row = track number.",
        (
            _text("process", "Python, CANN, Ascend Hardware, ..."),
            _text("thread", "thread name"),
            Column("pid", "int", "process id, -1 when not a number"),
            Column("tid", "int", "thread id, -1 when not a number"),
        ),
        "trace_view.json",
        label="thread",
    ),
    TableSpec(
        "idle",
        ("idle times", "空闲时间"),
        "A piece of time in which the device neither computes nor communicates, with exactly one owner.",
        (
            START,
            DUR,
            _text("owner", ", ".join(IDLE_OWNERS)),
            _text("part", "free: between the step's device tasks; prepare: before the first"),
            _key("dequeue", "dequeues", "the Dequeue that ended it"),
            _key("api", "apis", "the CANN call that owns it (alloc, compile, sync)"),
            Column(
                "orders_replay",
                "bool",
                "that call only keeps a graph replay behind what came before it: no op asked for data, and the next "
                "call on its thread updates or replays a graph",
                optional=True,
            ),
            _key("op", "ops", "the op whose task ended it"),
            STEP,
            *SOURCE,
        ),
        "trace_view.json",
        CPU,
    ),
    TableSpec(
        "iterations",
        ("iterations", "推理迭代"),
        "One iteration of an inference loop: a forward pass and what follows it until the next one. Iterations tile "
        "the device's time: start/dur reach from the end of the iteration before to its own last kernel.",
        (
            START,
            DUR,
            _text("how", "what it was told from: scopes, graphs or repeats (of a kernel type)"),
            _text("kind", "graph: most of its kernels were replayed; eager"),
            _text("phase", "decode, prefill (a prompt is read, alone or beside decoding) or capture (of a graph)"),
            Column("tokens", "int", "rows of the activations, -1 unknown", needs=LEVEL1, optional=True),
            Column("kernels", "int", "compute kernels"),
            Column("replays", "int", "graphs that were replayed"),
            _us("busy_us", "union of the compute kernels"),
            _us("span_us", "first start to last end of its kernels"),
            _us("gap_us", "idle time before its first kernel; missing for the first iteration"),
            _us("eager_us", "sum of its kernels that were not replayed"),
            _us("twin_us", "of an eager decode iteration: what a replay of the same model takes at the next size"),
            Column("twin_tokens", "int", "the size of that replay", optional=True),
            STEP,
        ),
        "kernel_details.csv, trace_view.json",
        NPU,
    ),
    TableSpec(
        "iteration_gaps",
        ("gaps between iterations", "迭代间空闲"),
        "The idle time between two iterations of an inference loop.",
        (
            START,
            DUR,
            _us("host_us", "owned by dispatch and no update of a graph: the host prepares or finishes an iteration"),
            _key("iteration", "iterations", "the iteration that follows"),
            STEP,
        ),
        "kernel_details.csv, trace_view.json",
        CPU,
    ),
    TableSpec(
        "graph_updates",
        ("graph updates", "图参数更新"),
        "The host rebinds the arguments of one task of a captured graph before it is replayed. It lasts until the next "
        "update or the replay begins: the loop over the layers is part of it.",
        (
            START,
            DUR,
            _us("tiling_us", "inside GetWorkspaceSize calls: tiling is computed anew"),
            _key("iteration", "iterations", "the iteration that the replay belongs to"),
            _key("op", "ops", "the op that is rebound"),
            STEP,
            *SOURCE,
        ),
        "trace_view.json",
        LEVEL1,
    ),
    TableSpec(
        "exposed",
        ("exposed communication", "未掩盖通信"),
        "A piece of time in a step in which a collective runs and no kernel does. Of several collectives the one that "
        "started last has it.",
        (
            START,
            DUR,
            _text("type", "allReduce, allGather, ..."),
            Column("late", "bool", "this rank waits for others to arrive", optional=True),
            Column("peer", "int", "the one rank that alone is missing, -1 none or several", needs=LEVEL1),
            Column("known", "bool", "that rank was read too, and its kernels take longer than here", optional=True),
            Column("backward", "bool", "the collective was launched by a thread of autograd", optional=True),
            Column("p2p", "bool", "a send, a receive or a batch of both"),
            Column(
                "hidden_share", "float", "of all collectives of this type, the share of time under kernels", "share"
            ),
            _key("comm", "comms", "the collective"),
            _key("op", "ops", "the op that asked for the collective"),
            STEP,
            *SOURCE,
        ),
        "kernel_details.csv, trace_view.json",
        NPU,
    ),
    TableSpec(
        "roofline",
        ("kernels against the roofline", "kernel 的 roofline"),
        "One kernel, and how long it would take at 0.8 of what its chip can do.",
        (
            START,
            DUR,
            _text("type", "operator type"),
            _text("core", "AI_CORE, AI_VECTOR_CORE, MIX_AIC, MIX_AIV, ..."),
            Column("cores", "int", "cores of this kind on the chip, -1 for other kinds"),
            Column("used", "int", "cores used"),
            Column("bytes", "float", "all inputs and outputs, once", "bytes"),
            Column("operations", "float", "of matrix products in 16 bit; missing for others"),
            _us("roof_us", "the least time at 0.8 of the chip's peak; missing where the chip's rate is not known"),
            _us("over_us", "what the kernel takes beyond it"),
            _text("bound", "memory or compute: which of the two is the limit"),
            _text("chip", "the chip, or one just like it; missing where only its cores are known"),
            _text("chip_how", "known (recorded), given (by the user) or inferred (from cores and clock)"),
            _key("kernel", "kernels", "the kernel"),
            _key("op", "ops", "the op that asked for it"),
            STEP,
            *SOURCE,
        ),
        "kernel_details.csv, and PROF_*/device_*/info.json or the clock in trace_view.json",
        LEVEL1,
    ),
    TableSpec(
        "clock",
        ("clock samples", "频率采样"),
        "A stretch of time in which the AI cores had one clock.",
        (
            START,
            DUR,
            Column("mhz", "float", "clock", "MHz"),
            Column("nominal_mhz", "float", "what the chip is built for, else the fastest clock seen", "MHz"),
            _us("busy_us", "kernels on AI cores meanwhile"),
        ),
        "trace_view.json (AI Core Freq)",
        LEVEL1,
    ),
    TableSpec(
        "sequences",
        ("kernel sequences of steps", "各步的 kernel 序列"),
        "The kernels of one step, compared with the step before.",
        (
            START,
            DUR,
            Column("kernels", "int", "kernels of the step"),
            Column("replayed", "int", "those replayed from a graph"),
            Column("alike", "float", "share with the type, shapes and dtypes of the step before", "share", needs=STEPS),
            STEP,
        ),
        "kernel_details.csv",
        LEVEL1,
    ),
    TableSpec(
        "comm_split",
        ("collectives by where their time goes", "通信耗时拆分"),
        "One collective, and where its time goes.",
        (
            START,
            DUR,
            _text("type", "allReduce, send, ..."),
            _us("exposed_us", "no kernel hides it"),
            _us("hidden_us", "kernels compute meanwhile"),
            _us("late_us", "exposed, and this rank waits for others to arrive"),
            Column("bytes", "float", "data moved by this rank", "bytes", needs=LEVEL1),
            _us("transit_us", "moving data", LEVEL1),
            _us("wait_us", "waiting for peers, as communication.json books it", LEVEL1),
            _us("sync_us", "the part of wait_us before the first transfer", LEVEL1),
            _us("idle_us", "neither, as communication.json books it", LEVEL1),
            Column("largest_bytes", "float", "its largest transfer between cards", "bytes", needs=LEVEL1),
            Column("transfers", "int", "its transfers between cards", needs=LEVEL1),
            _key("comm", "comms", "the collective"),
            _key("op", "ops", "the op that asked for it"),
            STEP,
            *SOURCE,
        ),
        "kernel_details.csv, trace_view.json, communication.json",
        NPU,
        label="type",
    ),
    TableSpec(
        "transfers",
        ("transfers between cards", "卡间传输"),
        "A sub-task of a collective that moves data from card to card.",
        (
            START,
            DUR,
            _text("name", "Memcpy, Reduce_Inline, RDMASend, ..."),
            Column("bytes", "float", "size", "bytes"),
            _text("transport", "SDMA, RDMA"),
            _text("link", "HCCS, PCIE, ROCE, SIO"),
            Column("gbs", "float", "rate", "GB/s"),
            Column("aligned", "bool", "its size is a multiple of 512 bytes"),
            _us("excess_us", "lost because its size is not, against aligned transfers of the same kind"),
            _us("beside_us", "kernels compute meanwhile"),
            _key("comm", "comms", "the collective it belongs to"),
            _key("op", "ops", "the op that asked for it"),
            STEP,
            *SOURCE,
        ),
        "trace_view.json",
        LEVEL1,
        label="name",
    ),
    TableSpec(
        "bubbles",
        ("pipeline waits", "流水线等待"),
        "The waits of one step in point-to-point communication that no kernel hides.",
        (
            START,
            DUR,
            _us("wait_us", "sends and receives with nothing beside them"),
            Column("share", "float", "share of the step", "share"),
            Column("ideal_share", "float", "what an even schedule idles at least; missing if not told", "share"),
            _key("comm", "comms", "the longest of them"),
            _key("op", "ops", "the op that asked for it"),
            STEP,
            *SOURCE,
        ),
        "kernel_details.csv, trace_view.json",
        NPU,
    ),
    TableSpec(
        "fragmentation",
        ("samples of the memory pool", "显存池采样"),
        "The pool of torch's allocator between two samples.",
        (
            START,
            DUR,
            Column("reserved_bytes", "float", "held from the device", "bytes"),
            Column("allocated_bytes", "float", "in use", "bytes"),
            Column("unused_bytes", "float", "held and not in use", "bytes"),
            Column("unused_share", "float", "unused part of what is held", "share"),
            Column("most_reserved", "bool", "the sample at which the pool is largest"),
        ),
        "memory_record.csv",
        MEMORY,
    ),
    TableSpec(
        "step_memory",
        ("memory of steps", "各步显存"),
        "What one complete step leaves allocated.",
        (
            START,
            DUR,
            Column("begin_bytes", "float", "allocated when the step begins", "bytes"),
            Column("end_bytes", "float", "allocated when it ends", "bytes"),
            Column("growth_bytes", "float", "what it leaves behind", "bytes"),
            STEP,
        ),
        "memory_record.csv",
        MEMORY,
    ),
    TableSpec(
        "ranks",
        ("ranks of a job", "任务中的卡"),
        "One rank of a job over all its steps, compared with the other ranks. Peers are the ranks of the same pipeline "
        "stage, or all of them where no stages are known.",
        (
            RANK,
            _text("node", "the machine, where the folder names tell it", optional=True),
            Column("stage", "int", "pipeline stage, -1 unknown", optional=True),
            Column("peers", "int", "other ranks that it is compared with"),
            Column("steps", "int", "steps recorded"),
            _us("steps_us", "summed duration of the steps"),
            _us("kernel_us", "sum of the compute kernels, a step"),
            _us("peers_kernel_us", "the same of its peers, median"),
            Column("kernel_excess", "float", "kernel_us beyond that of its peers", "share"),
            _us("idle_us", "idle time of the device, before the first kernel included, a step"),
            _us("peers_idle_us", "the same of its peers, median"),
            _text("idle_owner", "which owner's idle time exceeds that of the peers most", optional=True),
            _us("idle_excess_us", "by how much, a step"),
            _us("late_us", "what the others of a collective wait for this rank alone, a step, median of them"),
            Column("late_share", "float", "late_us over the step", "share"),
            Column("late_steps", "float", "share of the steps in which it keeps the others waiting longest", "share"),
            _us("wait_us", "what it waits in collectives for others, a step"),
            Column("wait_share", "float", "wait_us over the step", "share"),
            _us("p2p_us", "exposed waits in sends and receives, a step"),
            Column("p2p_share", "float", "p2p_us over the step", "share"),
            Column("mhz", "float", "mean clock of the AI cores while they compute", "MHz", optional=True),
            Column("peers_mhz", "float", "the same of its peers, median", "MHz", optional=True),
            Column("clock_lack", "float", "by how much its clock is below that of its peers", "share", optional=True),
            Column("calls", "int", "kernels launched, a step"),
            Column("calls_excess", "float", "calls beyond those of its peers", "share"),
            Column("elements_excess", "float", "elements read beyond those of its peers", "share", optional=True),
            _us("expert_us", "grouped matrix products, which compute experts, a step"),
            _us("mean_expert_us", "the same, mean over the ranks that share the experts"),
            Column("expert_rows", "float", "rows that go into these (tokens), a step", optional=True),
            Column("mean_expert_rows", "float", "the same, mean over the ranks that share the experts", optional=True),
            _us("tokens_us", "what its experts compute beyond those of its peers because they get more tokens, a step"),
            Column("expert_lead", "float", "share of the steps in which its experts compute longest", "share"),
            Column("expert_ranks", "int", "ranks that share the experts"),
            _us("expert_gain_us", "what a step of the job gains if all these computed equally long"),
            _text("slow_type", "the kernel type that takes most time beyond its peers", optional=True),
            _us("slow_type_us", "how much beyond, a step"),
            _text("slow_source", "the line whose kernels take most time beyond its peers", STACK, optional=True),
            Column("spread", "float", "how much kernel_us varies between its steps: deviation over mean", "share"),
            Column("partial", "bool", "ranks of the job are missing among those read"),
            Column(
                "clock_offset_us",
                "float",
                "how far its clock is ahead of the others by the ends of shared collectives, median",
                "us",
                optional=True,
            ),
            _us("gain_us", "what a step of the job gains if its kernels took as long as those of its peers"),
            _us("job_step_us", "a step of the job, mean over the ranks"),
            _us("then_us", "that step less gain_us"),
            _us("host_gain_us", "what a step of the job gains if it idled as long as its peers"),
            _us("node_gain_us", "what a step of the job gains if all ranks of its machine were as fast as their peers"),
            Column("node_excess", "float", "least kernel_excess of the ranks of its machine", "share", optional=True),
            Column("node_ranks", "int", "ranks of its machine that were read", optional=True),
            _us("link_gain_us", "what a step of the job gains if its slowest links were as fast as those of others"),
        ),
        "the summaries of all ranks",
    ),
    TableSpec(
        "job",
        ("job", "任务"),
        "The job as a whole, one row.",
        (
            Column("world", "int", "ranks of the job, read or not"),
            Column("present", "int", "ranks that were read"),
            _us("step_us", "duration of a step, mean over the ranks"),
            _us("wait_us", "what a rank waits in collectives, a step, mean"),
            Column("wait_share", "float", "wait_us over the step", "share"),
            Column("persistence", "float", "the largest share of steps in which one rank is the latest", "share"),
            Column("kernel_spread", "float", "the longest kernel_us of a step over the mean of ranks, mean", "share"),
            Column("model_error", "float", "how far the model of the job misses the recorded step", "share"),
            _us("even_gain_us", "what a step gains if in every step all ranks computed equally long"),
            _us("uneven_us", "the longest kernel time of a step beyond the mean of the ranks, a step"),
            _us("even_stages_gain_us", "what a step gains if all pipeline stages computed equally long"),
        ),
        "the summaries of all ranks",
    ),
    TableSpec(
        "rank_steps",
        ("steps of ranks", "各卡的步"),
        "One step of one rank. In an own time of a rank nothing counts that exposed communication takes.",
        (
            RANK,
            Column("number", "int", "n of ProfilerStep#n, -1 without markers"),
            START,
            DUR,
            *(
                _us(name, doc)
                for name, doc in (
                    ("compute_us", "union of compute kernels"),
                    ("kernel_us", "sum of compute kernels"),
                    ("comm_us", "union of collectives"),
                    ("exposed_us", "collectives not covered by compute"),
                    ("p2p_us", "exposed waits in sends and receives"),
                    ("free_us", "idle between the first and the last device task"),
                    ("prepare_us", "idle before the first device task"),
                    ("after_us", "after the last device task"),
                    *((f"idle_{owner}_us", f"idle time owned by {owner}") for owner in IDLE_OWNERS),
                    ("tail_us", "own time after the last collective"),
                    ("tail_busy_us", "of it under kernels"),
                )
            ),
            Column("calls", "int", "kernels"),
            Column("mhz", "float", "mean clock of the AI cores while they compute", "MHz", optional=True),
            Column("elements", "float", "elements of the tensors that kernels read", optional=True),
            _us("expert_us", "grouped matrix products, which compute experts"),
            Column("expert_rows", "float", "rows that go into these: tokens", optional=True),
        ),
        "the summaries of all ranks",
    ),
    TableSpec(
        "rank_kernels",
        ("kernel types of ranks", "各卡的算子类型"),
        "One type of kernels on one rank, over all steps.",
        (
            RANK,
            _text("type", "kernel type"),
            Column("calls", "int", "how many"),
            _us("total_us", "summed duration"),
            _text("line", "the line with most of it, `path(line): function`", STACK, optional=True),
            Column("peers", "int", "number of the ranks that it is compared with: the stage, 0 unknown", optional=True),
        ),
        "the summaries of all ranks",
    ),
    TableSpec(
        "rank_lines",
        ("lines of ranks", "各卡的代码行"),
        "A line of the user's code on one rank with the device time it causes; the longest lines only.",
        (
            RANK,
            _text("line", "path(line): function", STACK),
            Column("calls", "int", "kernels"),
            _us("total_us", "sum"),
        ),
        "the summaries of all ranks",
    ),
    TableSpec(
        "rank_comms",
        ("collectives of ranks", "各卡的通信算子"),
        "One collective on one rank. The n-th of a group and type in a step is the n-th on every rank of the group.",
        (
            RANK,
            Column("number", "int", "n of ProfilerStep#n, -1 without markers"),
            _text("type", "allReduce, send, ..."),
            _text("group", "hash or name of the communicator", optional=True),
            _text("role", "what the group is for (tp, dp, pp, ep, ...), where the recording tells", optional=True),
            Column("peer", "int", "of a send or receive the rank on its other side, -1 unknown", optional=True),
            Column("ordinal", "int", "how many of this group, type and peer came before in the step"),
            START,
            DUR,
            Column("bytes", "float", "data moved by this rank", "bytes", optional=True),
            *(
                _us(name, doc)
                for name, doc in (
                    ("wait_us", "waiting for peers, as communication.json books it"),
                    ("transit_us", "moving data"),
                    ("exposed_us", "while no kernel runs"),
                    ("lead_us", "own time since the last collective ended, or since the step began"),
                    ("lead_busy_us", "of it under kernels"),
                    ("under_us", "own time while it runs"),
                    ("under_busy_us", "of it under kernels"),
                )
            ),
            _us("lead_expert_us", "of lead_us under grouped matrix products"),
            _us("under_expert_us", "of under_us under grouped matrix products"),
            Column("blocks", "bool", "nothing computes when it ends: what follows had to wait"),
        ),
        "the summaries of all ranks",
    ),
    TableSpec(
        "rank_links",
        ("links of ranks", "各卡的链路"),
        "Traffic from one rank over one kind of link to one rank of a group, over all steps.",
        (
            RANK,
            _text("transport", "HCCS, PCIE, RDMA, SIO"),
            Column("src", "int", "rank inside the group"),
            Column("dst", "int", "rank inside the group"),
            Column("bytes", "float", "size", "bytes"),
            _us("transit_us", "time"),
            Column("steps", "int", "steps of the recording"),
            _us("step_us", "mean duration of a step"),
        ),
        "the summaries of all ranks",
    ),
    TableSpec(
        "peak_owners",
        ("allocations at the memory peak", "显存峰值时的分配"),
        "What was alive at the peak of allocated memory: one row per allocation of the window, and one row named "
        "`(before the recording)` for the rest.",
        (
            _text("name", "the op that allocated"),
            Column("size_bytes", "float", "size", "bytes"),
            Column("share", "float", "share of the peak", "share"),
            START,
            DUR,
            Column("recorded", "bool", "allocated inside the window"),
            _text("life", "step: not released in the window; temporary: released in the same step"),
            _key("alloc", "allocs", "the allocation"),
            _key("op", "ops", "the op around the allocation"),
            STEP,
            *SOURCE,
        ),
        "operator_memory.csv and memory_record.csv",
        MEMORY,
    ),
)

_INDEX: dict[str, dict[str, Column]] = {
    spec.name: {
        column.name: column
        for column in (*spec.columns, *(COMPUTED if any(c.name == "dur_ns" for c in spec.columns) else ()), *COMMON)
    }
    for spec in TABLES
}
SCHEMA: dict[str, TableSpec] = {spec.name: spec for spec in TABLES}


def resolve(table: str, path: str) -> tuple[list[Column], Column] | None:
    """Follow a dotted path from ``table``: the key columns on the way and the last column, or None.

    ``resolve("kernels", "op.parent.name")`` gives the keys ``op``, ``parent`` and the column ``ops.name``.
    """
    spec, hops = SCHEMA.get(table), []
    parts = path.split(".")
    if spec is None:
        return None
    if table == "profile" and parts[0] == "env" and len(parts) == 2:
        return [], Column(path, "text", "environment variable at start", optional=True)
    for part in parts[:-1]:
        column = spec.column(part)
        if column is None or column.kind != "key":
            return None
        hops.append(column)
        spec = SCHEMA[column.target]
    last = spec.column(parts[-1])
    return None if last is None else (hops, last)
