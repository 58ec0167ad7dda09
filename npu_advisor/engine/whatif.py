"""What if: the step with edits applied, and what costs time then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.intervals import Floats, Ints
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Basis, Text
from npu_advisor.engine.editing import EditPlan
from npu_advisor.engine.places import Roots
from npu_advisor.engine.pricing import price
from npu_advisor.engine.rows import Rows
from npu_advisor.engine.run import guarded, missing
from npu_advisor.engine.savings import Results, Run, assumes, recorded
from npu_advisor.engine.stages import mask
from npu_advisor.findings import EditedRun, EditEffect, Finding, Saving
from npu_advisor.graph.replay import Edit, Variants, merge
from npu_advisor.model.profile import Missing, Profile


def edited(results: Results, runs: Sequence[Run], plans: Sequence[EditPlan], roots: Roots) -> list[EditedRun]:
    """Every run with the edits of ``plans`` applied; findings as in :func:`npu_advisor.engine.pricing.price`.

    ConfigError for an edit whose number is negative somewhere.
    """
    answers = []
    for run in runs:
        mine = [results[position] for position in run.positions]
        answers.append(_edited(mine, replace(run, positions=list(range(len(mine)))), plans, roots))
    return answers


def _edited(results: Results, run: Run, plans: Sequence[EditPlan], roots: Roots) -> EditedRun:
    profiles = [profile for profile, _ in results]
    touched = [_touched(profiles, run, plan) for plan in plans]
    answer = EditedRun(
        ranks=[profile.rank for profile in profiles],
        step_us=max((float(p.table("steps")["dur_us"].mean()) for p in profiles if len(p.table("steps"))), default=0.0),
        replay=[] if run.replayer is None else recorded(run.replayer),
        edits=[one.effect() for one in touched],
        reason=run.reason,
    )
    if run.replayer is None or run.reason is not None:
        return answer
    made: list[EditedRun] = []
    error = guarded(lambda: made.append(_priced(answer, results, run, touched, roots)))
    return made[0] if error is None else answer.model_copy(update={"reason": say("saving.failed", error=error)})


@dataclass
class _Touched:
    """One edit on all ranks of a run: how many rows it matched, by rank, and the edits of the graph."""

    plan: EditPlan
    rows: dict[str, int] = field(default_factory=dict)
    variants: list[Variants] = field(default_factory=list)
    absent: Missing | None = None

    def edit(self, which: str = "expected") -> Edit:
        return merge(getattr(variants, which) for variants in self.variants)

    def effect(self, saving: Saving | None = None) -> EditEffect:
        """What is told of it; ``saving`` is None where nothing is replayed."""
        reason: Text | None = None
        if not any(self.rows.values()):
            reason = self.absent.reason if self.absent else say("whatif.no_rows", table=self.plan.table)
        elif not self.variants and saving is not None:
            reason = say("whatif.not_in_graph", table=self.plan.table)
        return EditEffect(
            edit=self.plan.text,
            rows=self.rows,
            saving=saving if reason is None else None,
            reason=reason,
            enable=self.absent.enable or None if self.absent and reason is not None else None,
        )


def _touched(profiles: Sequence[Profile], run: Run, plan: EditPlan) -> _Touched:
    found = _Touched(plan)
    for position, profile in enumerate(profiles):
        absent = missing(plan.needs, profile) or profile.missing(plan.table)
        found.absent = found.absent or absent
        rows, values = _matched(profile, plan) if absent is None else (np.zeros(0, dtype=np.int64), None)
        found.rows[str(profile.rank)] = len(rows)
        if run.replayer is None or run.reason is not None:
            continue
        fixer = run.replayer.fixer(position)
        if plan.kind == "cap" and values is not None:
            # Who names a time means it: no allowance for what a replacement kernel would need.
            variants = fixer.at_most(plan.table, rows, values)
        else:
            variants = fixer.variants(plan.kind, plan.table, rows, values)
        found.variants += [variants] if variants is not None else []
    return found


def _matched(profile: Profile, plan: EditPlan) -> tuple[Ints, Floats | None]:
    """The rows that an edit is about (ascending) and the number of each; rows without a number are left out."""
    rows = Rows.start(profile, (plan.table,))
    if plan.condition is not None:
        rows = rows.take(mask(rows, plan.condition))
    assert rows.position is not None
    if plan.value is None:
        return rows.position, None
    values = plan.value.evaluate(rows).spread(len(rows))
    numbers = np.where(values.is_missing, np.nan, values.data.astype(np.float64))
    if (numbers < 0).any():
        raise ConfigError(
            say("whatif.negative", edit=plan.text, rows=int((numbers < 0).sum())), None, say("whatif.negative_do")
        )
    known = np.isfinite(numbers)
    return rows.position[known], numbers[known]


def _priced(answer: EditedRun, results: Results, run: Run, touched: Sequence[_Touched], roots: Roots) -> EditedRun:
    assert run.replayer is not None
    every = [one.edit() for one in touched]
    taken = assumes(run, run.replayer)
    ends = [[one.edit(which) for one in touched] for which in ("low", "high")]
    singles = [[edit] for column in zip(every, *ends, strict=True) for edit in column]
    others = [every[:number] + every[number + 1 :] for number in range(len(every))]
    figures = run.each_saves_us([every, *ends, *singles, *others])
    joint, rest = figures[:3], figures[3:]
    alone = [rest[3 * number : 3 * number + 3] for number in range(len(every))]
    parts = [joint[0] - without for without in rest[3 * len(every) :]]
    after = run.with_done(merge(every))
    before = price(results, roots, [run]).findings
    low, high = min(joint), max(joint)
    return answer.model_copy(
        update={
            "new_step_us": answer.step_us - joint[0],
            "low_new_step_us": answer.step_us - high,
            "high_new_step_us": answer.step_us - low,
            "saving": _saving(joint, joint[0], answer.step_us, taken),
            "edits": [
                one.effect(_saving(us, part, answer.step_us, taken))
                for one, us, part in zip(touched, alone, parts, strict=True)
            ],
            "findings": price(results, roots, [after]).findings,
            "unedited_us_per_step": {each.fingerprint: _worth(each) for each in before},
        }
    )


def _saving(us: Sequence[float], part_us: float, step_us: float, taken: Text) -> Saving:
    """From the expected saving and the ends of its range."""
    return Saving(
        us_per_step=us[0],
        low_us_per_step=min(us),
        high_us_per_step=max(us),
        joint_us_per_step=part_us,
        share=us[0] / step_us if step_us else 0.0,
        basis=Basis.REPLAYED,
        assumes=taken,
    )


def _worth(finding: Finding) -> float:
    return finding.saving.us_per_step if finding.saving else 0.0
