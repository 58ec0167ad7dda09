"""Texts about recordings of inference: (English, Chinese)."""

INFERENCE: dict[str, tuple[str, str]] = {
    "engine.only_inference": (
        "about inference, and this recording shows no decode loop",
        "该规则针对推理，此采集中没有解码循环",
    ),
    "engine.only_training": (
        "about training, and this recording shows an inference loop",
        "该规则针对训练，此采集中是推理循环",
    ),
    "ui.unit.step": ("the step", "单步"),
    "ui.unit.iteration": ("an iteration", "单次迭代"),
    "saving.per_iteration": (
        "per iteration: the mean over {n} iterations, told from {how}",
        "按迭代计：{n} 次迭代的平均值，依据{how}划分",
    ),
    "saving.how_scopes": ("the ranges of the serving framework", "推理框架的范围标记"),
    "saving.how_graphs": ("graph replays", "图重放"),
    "saving.how_repeats": ("kernels that come back at regular distances", "等间隔重复出现的 kernel"),
}
