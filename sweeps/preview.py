"""`plan`: what a declaration asks for, what of it exists, and what the rest would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fgrpo_bench import engines
from fgrpo_bench.analysis.results import averages_of
from fgrpo_bench.documents.terminal import aligned
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.kinds import KINDS
from fgrpo_bench.specs import SlurmProfile, to_dict
from fgrpo_bench.stages.states import read_stages
from fgrpo_bench.stats.power import Smallest, advice, smallest_range
from sweeps.estimate import FILTERED, PROCESSORS, TEXT_BYTES, plan_cost
from sweeps.plan import Plan, plan_record
from sweeps.status import first_undone
from sweeps.text import counted, duration, short_path

if TYPE_CHECKING:
    from fgrpo_bench.analysis.power import DetectableEffect, SeedVariance

TO_DO = {None: "-", "waiting": "to do"}
"""What is shown in place of a state."""


def preview(plan: Plan, paths: RunPaths) -> dict[str, Any]:
    """The whole answer as JSON types; reads files and writes none. `render` puts it into words."""
    record = plan_record(plan)
    states = {stage.name: stage.state for stage in read_stages(paths, record.stages)}
    stages = {stage.name: stage for stage in plan.stages}
    methods = {point.point_id: point.cell.method for point in plan.points}
    points = []
    for point in record.points:
        base = point.algorithm is None
        making = stages[point.train]
        judging = first_undone([states[at.evaluate] for at in point.checkpoints])
        points.append(
            {
                "point_id": point.point_id,
                "group_size": point.group_size,
                "focal_gamma": point.focal_gamma,
                "seed": point.seed,
                "method": "Base" if base else methods[point.point_id],
            }
            | {"fingerprint": making.fingerprint}
            | {"warmup": states[making.name if base else making.needs[0]]}
            | {"train": None if base else states[making.name], "evaluate": judging}
        )
    declaration, spreads = plan.declaration, seed_variances(plan, paths)
    to_run = [stage for stage in plan.stages if states[stage.name] != "done"]
    counts = Counter(stage.kind for stage in to_run)
    return {
        "sweep": paths.sweep,
        "question": declaration.sweep.question,
        "experiment": paths.experiment,
        "version": paths.version,
        "profile": declaration.profile.name,
        "folder": str(paths.folder),
        "points": points,
        "points_total": len(plan.points),
        "stages_total": len(plan.stages),
        "stages_to_run": {kind: counts[kind] for kind in KINDS},
        "cost": plan_cost(plan, paths, to_run),
        "saving": saving(plan),
        "memory": engines.engine_for(plan.points[0].train).memory(plan.points, declaration.profile),
        "digits": engines.engine_for(plan.points[0].train).digits(declaration.profile),
        "can_show": can_show(plan, spreads),
        "family": plan.family.name,
        "at_equal_pass_at_1": plan.family.at_equal_pass_at_1,
        "comparisons": [
            {"column": column, "k": k, "new": pair.new.label, "old": pair.old.label}
            for column, k, pair in plan.family.comparisons
        ],
        "replicates": declaration.sweep.replicates,
        "power": [asdict(item) | {"words": str(item)} for item in power(plan, spreads)],
        "warnings": list(plan.warnings),
    }


def saving(plan: Plan) -> str | None:
    """How long a run's save takes, in a line; None where nobody can tell."""
    profile = plan.declaration.profile
    if not isinstance(profile, SlurmProfile):
        return None
    saves = engines.engine_for(plan.points[0].train).save(plan.points[0], profile)
    return None if saves is None else str(saves)


def seed_variances(plan: Plan, paths: RunPaths) -> dict[str, SeedVariance]:
    """How far seeds are taken to differ on every benchmark and average of a plan."""
    from fgrpo_bench.analysis.power import seed_variances_for  # a tenth of a second, for Polars

    return seed_variances_for(paths, list(_sizes(plan)))


def can_show(plan: Plan, spreads: Mapping[str, SeedVariance]) -> list[str]:
    """What the planned draws can tell apart at the largest k, and whether they or the training
    seeds limit it, a line a benchmark and an average of a domain; none for benchmarks whose size
    only the fetch tells."""
    evaluation = plan.points[0].evaluation
    k = evaluation.ks[-1]
    lines = []
    for column, sizes in _sizes(plan).items():
        if n_problems := _sizes_or_none(sizes):
            limit = _with_seeds(plan, column, spreads[column], n_problems)
            line = advice(design=evaluation.stopping, k=k, n_problems=n_problems, with_seeds=limit)
            lines.append(f"{column}: {line}")
    return lines


def _with_seeds(
    plan: Plan, column: str, spread: SeedVariance, n_problems: list[int]
) -> Smallest | None:
    """What a comparison at the largest k shows with the planned seeds, corrected where it is of the
    family; None with a single seed."""
    k, family, n_seeds = plan.points[0].evaluation.ks[-1], plan.family, _n_seeds(plan)
    if n_seeds < 2:
        return None
    is_in_family = column in family.columns and k in family.ks
    size = len(family.comparisons) or 1
    return smallest_range(
        n_seeds=n_seeds,
        parts=spread.at(k, n_problems),
        family=size if is_in_family else 1,
        degrees=spread.degrees,
    )


def power(plan: Plan, spreads: Mapping[str, SeedVariance]) -> list[DetectableEffect]:
    """What the family detects with its training seeds at its smallest and its largest k, an entry
    for each of its columns."""
    from fgrpo_bench.analysis.power import detectable_effect

    family, sizes = plan.family, _sizes(plan)
    return [
        detectable_effect(
            column=column,
            ks=sorted({min(family.ks), max(family.ks)}),
            n_seeds=_n_seeds(plan),
            family=len(family.comparisons) or 1,
            spread=spreads[column],
            n_problems=_sizes_or_none(sizes[column]),
        )
        for column in family.columns
    ]


def _sizes_or_none(sizes: list[int | None]) -> list[int]:
    """Sizes of benchmarks where all are known, else none."""
    return [] if None in sizes else [size for size in sizes if size is not None]


def _n_seeds(plan: Plan) -> int:
    """Seeds that the cells of a comparison of the family have in common, the fewest; without a
    family those of all."""
    by_cell: dict[str, set[int]] = {}
    for point in plan.points:
        by_cell.setdefault(point.cell.name, set()).add(point.seed)
    every = set[int]().union(*by_cell.values())  # which the base models have
    pairs = plan.family.pairs
    return min(
        (
            len(by_cell.get(pair.new.cell, every) & by_cell.get(pair.old.cell, every))
            for pair in pairs
        ),
        default=len(every),
    )


def _sizes(plan: Plan) -> dict[str, list[int | None]]:
    """Problems of every benchmark and of those of each average; None is known after the fetch."""
    evaluation = plan.points[0].evaluation
    sizes = {name: [benchmark.n_problems] for name, benchmark in evaluation.benchmarks.items()}
    averages = averages_of(to_dict(evaluation))
    return sizes | {name: [sizes[name][0] for name in names] for name, names in averages.items()}


def render(answer: Mapping[str, Any], paths: RunPaths) -> str:
    """The answer as a table, a row a point, and a summary."""
    lines = [
        f"{answer['sweep']}: {answer['question']}",
        f"experiment={answer['experiment']}  version={answer['version']}  "
        f"profile={answer['profile']}  folder {short_path(paths.folder)}",
        "",
        *_table(answer["points"]),
        "",
        _stages_to_run(answer),
    ]
    lines += cost_lines(answer["cost"], answer["profile"])
    if answer["saving"]:
        lines.append(answer["saving"])
    for part in ("memory", "digits", "can_show"):
        lines += answer[part]
    lines += family_lines(answer)
    lines += [f"warning: {text}" for text in answer["warnings"]]
    return "\n".join(lines)


def _table(points: Sequence[Mapping[str, Any]]) -> list[str]:
    kinds = {"warm-up": "warmup", "train": "train", "evaluate": "evaluate"}
    rows = [["point", "method", "N", "gamma", "seed", "fingerprint", *kinds]]
    for point in points:
        row = [point["point_id"], point["method"]]
        for name in ("group_size", "focal_gamma"):  # other engines' cells may have none
            row.append("-" if point[name] is None else f"{point[name]:g}")
        row += [str(point["seed"]), point["fingerprint"][:8]]
        row += [TO_DO.get(point[kind], point[kind]) for kind in kinds.values()]
        rows.append(row)
    return aligned(rows)


def _stages_to_run(answer: Mapping[str, Any]) -> str:
    """e.g. `6 points, 15 stages: 3 done, 4 training runs, 8 evaluations to run`."""
    to_run = answer["stages_to_run"]
    kinds = [counted(to_run[name], kind.noun) for name, kind in KINDS.items() if to_run[name]]
    done = answer["stages_total"] - sum(to_run.values())
    return (
        f"{counted(answer['points_total'], 'run')}, "
        f"{counted(answer['stages_total'], 'stage')}: {done} done, "
        + (f"{', '.join(kinds)} to run" if kinds else "nothing to run")
    )


LONG = 2 * 86400
"""Seconds from which on days are told."""


def cost_lines(answer: Mapping[str, Any], profile: str) -> Iterator[str]:
    """What `plan_cost` found, a line each; profile: the name of the one planned."""
    if answer["estimated"]:
        basis = (
            f"scaled by {counted(answer['measured_stages'], 'stage')} measured here"
            if answer["measured_stages"]
            else "by the rates of sweeps/estimate.py, nothing measured here yet"
        )
        yield (
            f"estimated cost: {_days(answer['cpu_seconds'])} of processor time, "
            f"{_days(answer['wall_seconds'])} with {counted(answer['workers'], 'worker')} "
            f"({basis})"
        )
    if answer["wall_seconds"] >= LONG:
        yield (
            f"on a GPU (profile.device=cuda) it would take about "
            f"{_hours(answer['cpu_seconds'] / PROCESSORS / 3600)} GPU-hours, were that as fast as "
            f"{PROCESSORS:,} processors (assumed)"
        )
    if answer["on_gpus"] is not None:
        yield from _gpu_lines(answer["on_gpus"])
    if answer["at_most"] is not None:
        yield f"this is the most that it can cost, with {answer['at_most']}"
    yield from _download_lines(answer["downloads"])
    if answer["not_estimated"]:
        yield (
            f"cost not estimated: {counted(answer['not_estimated'], 'stage')} of kinds that "
            "sweeps/estimate.py does not know"
        )
    if answer["on_processors"]:
        yield (
            f"no GPU: profile={profile} runs {counted(answer['on_processors'], 'stage')} that are "
            "made for GPUs on processors; profile=slurm-8gpu and others of conf/profile ask for "
            "GPUs"
        )


def _gpu_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    by_kind = {KINDS[kind].noun: item for kind, item in answer["by_kind"].items()}
    parts = [
        f"{counted(kind['stages'], noun)} {_hours(kind['gpu_hours'])}"
        for noun, kind in by_kind.items()
    ]
    line = f"estimated on GPUs: {_hours(answer['gpu_hours'])} GPU-hours ({', '.join(parts)})"
    if answer["wall_seconds"] is not None:
        jobs = counted(answer["jobs_at_once"], "job")
        line += f", {_days(answer['wall_seconds'])} with {jobs} at once"
    yield line if answer["requeues_at"] is None else f"{line}, waits in queues apart"
    if answer["requeues_at"] is not None:
        longest = [
            f"{noun} {_days(kind['longest']['seconds'])} on "
            f"{counted(kind['longest']['gpus'], 'GPU')}, "
            f"{counted(kind['longest']['requeues'], 'requeue')}"
            for noun, kind in by_kind.items()
        ]
        limit = f"profile.time_minutes={answer['requeues_at']}"
        yield f"  the longest at {limit}: {'; '.join(longest)}"
    yield f"  disk: {_disk_line(answer)}"
    yield f"  {answer['model']}: {answer['rates']['words']}"
    yield f"  {_assumptions(answer)}"
    if answer["of_unknown_size"]:
        names = ", ".join(answer["of_unknown_size"])
        yield f"  without draws on {names}, whose size only the fetch tells"


def _disk_line(answer: Mapping[str, Any]) -> str:
    checkpoints, responses = answer["checkpoints"], answer["responses_gb"]
    checkpoints_gb = checkpoints * answer["checkpoint_gb"]
    line = (
        f"{checkpoints_gb + responses:,.1f} GB kept ({counted(checkpoints, 'checkpoint')} of "
        f"{answer['checkpoint_gb']:,.2f} GB, responses {responses:,.1f} GB)"
    )
    if held := answer["states"] * answer["state_gb"]:
        line += (
            f", and {held:,.0f} GB while runs are at work ({counted(answer['states'], 'state')} "
            f"of {answer['state_gb']:,.1f} GB)"
        )
    return line


def _assumptions(answer: Mapping[str, Any]) -> str:
    line = (
        f"assumed: {answer['rates']['prompt']:.0f} tokens per prompt, "
        f"{answer['start_seconds']:g} s until a job computes, {TEXT_BYTES} bytes a token of a "
        "stored response"
    )
    if answer["filters"]:
        line += f", {FILTERED:g} rollouts for each that dynamic sampling keeps"
    if answer["measured_stages"]:
        line += f"; scaled by {counted(answer['measured_stages'], 'stage')} measured here"
    return line


def _download_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    parts = [f"a model of {answer['models_gb']:,.1f} GB"] if answer["models_gb"] else []
    if answer["datasets"]:
        parts.append(counted(answer["datasets"], "dataset"))
    if parts:
        yield f"plus downloads, not timed: {', '.join(parts)}"


def _days(seconds: float) -> str:
    """e.g. 4.3 days, or as `duration` where that is short."""
    return f"{seconds / 86400:,.1f} days" if seconds >= LONG else duration(seconds)


def _hours(hours: float) -> str:
    """e.g. 0.4 or 1,240."""
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"


EQUAL_PASS_AT_1_NOTE = (
    "that power is of last checkpoints; at equal pass@1 seeds may differ by more or less"
)
"""Behind the power of a family at equal pass@1."""


def family_lines(answer: Mapping[str, Any]) -> list[str]:
    """The comparisons that are the question, a line each below their family's name and size, and
    what they detect."""
    from fgrpo_bench.analysis.question import NOTHING_CORRECTED  # as in sweeps.plan

    size = counted(len(answer["comparisons"]), "comparison")
    power, first = [item["words"] for item in answer["power"]], answer["replicates"]
    if not answer["comparisons"]:
        return [NOTHING_CORRECTED, *power]
    return [
        f"the question: {answer['family']}; {size}, corrected together:",
        *(
            f"  {comparison['column']}, k = {comparison['k']}: {comparison['new']} against "
            f"{comparison['old']}"
            for comparison in answer["comparisons"]
        ),
        *([f"on other seeds than {first}, which it replicates"] if first else []),
        *power,
        *([EQUAL_PASS_AT_1_NOTE] if answer["at_equal_pass_at_1"] else []),
    ]
