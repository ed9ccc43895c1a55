"""What is compared: evaluated checkpoints, those of a sweep with what it declares and trained.

In: the folder of a sweep, or evaluated checkpoints from anywhere. Out: Results, or SweepResults
with its training runs (PointResult). Analysis, report, tracking and dashboards read stored files
through here and need no YAML for it. Next: analysis.evaluated, one checkpoint; analysis.frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

import polars as pl

from fgrpo_bench.analysis.evaluated import (
    NOT_EVALUATED,
    EvaluatedCheckpoint,
    from_evaluation,
)
from fgrpo_bench.command.runs import choose_run, split_name
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data.layouts import DUMP
from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import EVALUATIONS, TOGETHER, RunPaths, StagePaths
from fgrpo_bench.files.records import NAMES, Record, SchemaError
from fgrpo_bench.files.whole import damaged, reading_fields
from fgrpo_bench.kinds.evaluate import EvaluationSpec, stopping
from fgrpo_bench.specs.cell import BASE, cell_key, from_columns
from fgrpo_bench.stages.draws import Design
from fgrpo_bench.stages.markers import has_valid_marker
from fgrpo_bench.stages.plan import PointRecord, SweepRecord, check_seal, read_plan, read_sweep
from fgrpo_bench.stages.tables import METRICS, PASSK, metrics_table, read_table
from fgrpo_bench.stats.staged import StagedDesign


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint that is evaluated."""

    step: int
    """Rollout batches behind it; 0 for a base model."""
    evaluate: StagePaths
    """Its evaluation."""
    fingerprint: str
    """Of the evaluation by the plan."""


@dataclass(frozen=True, kw_only=True)
class PointResult(EvaluatedCheckpoint):
    """A checkpoint that a sweep made, with the training run that it is of.

    It is the one that stands for the run: the last, unless fgrpo_bench.analysis.checkpoints chose
    another.
    """

    point_id: str
    seed: int
    train: StagePaths
    checkpoints: tuple[Checkpoint, ...]
    """All of the run that are evaluated, by rising step."""
    train_fingerprint: str
    """By the plan."""

    @property
    def name(self) -> str:
        return self.point_id

    @property
    def run_checkpoints(self) -> tuple[PointResult, ...]:
        return tuple(map(self.at, self.checkpoints))

    @property
    def is_trained(self) -> bool:
        """Whether the training stage has its completion marker; ValueError where it is another's. A
        marker that is damaged is none."""
        return has_valid_marker(self.train, fingerprint=self.train_fingerprint)

    @property
    def missing_reason(self) -> str:
        if self.train.done.exists() and not self.is_trained:
            return f"{self.train.done} is damaged"
        if (of_evaluation := super().missing_reason) != NOT_EVALUATED:
            return of_evaluation
        return f"trained, {NOT_EVALUATED}" if self.is_trained else "not trained"

    def at(self, checkpoint: Checkpoint) -> PointResult:
        """The same run with another checkpoint standing for it."""
        return replace(
            self,
            step=checkpoint.step,
            evaluate=checkpoint.evaluate,
            evaluate_fingerprint=checkpoint.fingerprint,
        )

    def metrics(self) -> pl.DataFrame:
        """Training metrics so far (tables.METRICS); no rows where there are none."""
        return metrics_so_far(self.train)


def metrics_so_far(stage: StagePaths) -> pl.DataFrame:
    """Metrics of a training stage (tables.METRICS): of a finished one as it left them, else those
    of the steps that are stored; no rows where there are none.

    Of rows that a run appends one that is being written, or damaged, is passed over.
    """
    if stage.step_rows.exists() and not stage.done.exists():
        rows = filter(_is_step_row, read_lines(stage.step_rows))
        return metrics_table({row["step"]: row for row in rows}.values())
    if not stage.metrics.exists():
        return METRICS.to_frame()
    return read_table(stage.metrics, METRICS)


@dataclass(frozen=True, kw_only=True)
class StepRow(Record):
    """Of a line of a training run's step_rows, what there must be; all else are numbers or null."""

    step: int
    time_ms: int
    seconds: float
    tokens: int


def _is_step_row(line: Any) -> bool:
    try:
        row = StepRow.parsed(line)
    except SchemaError:
        return False
    numbers = [row.further.get(name) for name in METRICS]
    return all(type(number) in (int, float, NoneType) for number in numbers)


@dataclass(frozen=True, kw_only=True)
class Results:
    """Evaluated checkpoints that are compared with each other, wherever they come from."""

    checkpoints: tuple[EvaluatedCheckpoint, ...]
    """One a label and seed, that which stands for its run; base models first."""
    evaluation: dict[str, Any] = field(repr=False)
    """What all of them were asked (fgrpo_bench.specs.EvalSpec as JSON); without what differs, apart
    from benchmarks and k, which are those in common."""
    place: RunPaths | None = field(default=None, repr=False, kw_only=True)
    """What names them in addresses of pages; None for a sweep, and for those that have none."""

    @property
    def address(self) -> RunPaths:
        """Where their pages, report and exports are: of a sweep its run. ValueError for checkpoints
        without a place."""
        return self.place or self.require_sweep().paths

    @property
    def folder(self) -> Path:
        """What the names of their stored files begin at; ValueError likewise."""
        is_run = self.address.sweep != EVALUATIONS
        return self.address.folder if is_run else self.address.root / EVALUATIONS

    @property
    def every(self) -> tuple[EvaluatedCheckpoint, ...]:
        """These and the earlier ones of their runs, by rising step within each."""
        return tuple(item for checkpoint in self.checkpoints for item in checkpoint.run_checkpoints)

    @property
    def sweep(self) -> SweepResults | None:
        """What a sweep adds: its question, its training runs and its plan; None without one."""
        return None

    def require_sweep(self) -> SweepResults:
        """What a sweep adds, for what cannot do without; ValueError without one."""
        if self.sweep is None:
            names = ", ".join(dict.fromkeys(checkpoint.label for checkpoint in self.checkpoints))
            raise ValueError(
                f"{names} were evaluated without a sweep, and this needs the folder, plan or "
                "training of one: name a sweep"
            )
        return self.sweep

    @property
    def remote_code(self) -> tuple[str, ...]:
        """Names of the models whose own code was allowed to run (trust_remote_code)."""
        return tuple(
            checkpoint.name
            for checkpoint in self.checkpoints
            if checkpoint.evaluation_spec().trust_remote_code
        )

    @property
    def stopping(self) -> StagedDesign | None:
        """When a problem stops, as it was declared; None where each checkpoint was asked for its
        own."""
        return None

    @property
    def benchmarks(self) -> list[str]:
        """Names of the benchmarks that all are evaluated on."""
        return sorted(self.evaluation["benchmarks"])

    @property
    def judged_twice(self) -> list[str]:
        """Benchmarks with further graders beside their own."""
        return [
            name
            for name in self.benchmarks
            if self.evaluation["benchmarks"][name].get("extra_graders")
        ]

    @property
    def domains(self) -> dict[str, list[str]]:
        """As `domains_of`; likewise below."""
        return domains_of(self.evaluation)

    @property
    def averages(self) -> dict[str, tuple[str, ...]]:
        return averages_of(self.evaluation)

    @property
    def columns(self) -> tuple[str, ...]:
        """Averages and benchmarks as tables have them: each average before its benchmarks."""
        titles = {names[0]: title for title, names in self.averages.items()}
        return tuple(
            name
            for benchmarks in self.domains.values()
            for name in (titles.get(benchmarks[0]), *benchmarks)
            if name is not None
        )

    @property
    def headline(self) -> tuple[str, ...]:
        return headline_of(self.evaluation)


@dataclass(frozen=True, kw_only=True)
class SweepResults(Results):
    """Those of a sweep as its files tell it, with what it declares."""

    checkpoints: tuple[PointResult, ...]
    """Base models first, then the points in plan order."""
    evaluation: dict[str, Any] = field(init=False, repr=False)
    """The declared one."""
    paths: RunPaths
    record: SweepRecord = field(repr=False)
    """sweep.json."""

    def __post_init__(self) -> None:
        declared = self.record.declaration["experiment"]["evaluation"]
        object.__setattr__(self, "evaluation", declared)

    @property
    def sweep(self) -> SweepResults:
        return self

    @property
    def points(self) -> tuple[PointResult, ...]:
        """Its checkpoints, each with its training run."""
        return self.checkpoints

    @property
    def remote_code(self) -> tuple[str, ...]:
        pretrained = self.train.get("pretrained") or {}
        return (self.model,) if pretrained.get("trust_remote_code") else ()

    @property
    def stopping(self) -> StagedDesign:
        return stopping(self.evaluation, self.paths.sweep_json)

    @property
    def question(self) -> str:
        """What the sweep asks, in words."""
        return str(self.record.declaration["sweep"]["question"])

    @property
    def algorithms(self) -> dict[str, dict[str, Any]]:
        """The declared algorithms by name (fgrpo_bench.specs.AlgorithmSpec as JSON)."""
        declared: dict[str, dict[str, Any]] = self.record.declaration.get("algorithms", {})
        return declared

    @property
    def train(self) -> dict[str, Any]:
        """The declared training spec (fgrpo_bench.specs.TrainSpec as JSON)."""
        spec = self.record.declaration["experiment"]["train"]
        assert isinstance(spec, dict)
        return spec

    @property
    def model(self) -> str:
        """Name of the trained model."""
        train = self.train
        named = train.get("model") or train.get("pretrained") or {"name": "a model without a name"}
        return str(named["name"])


def load_for_compare(checkpoints: Sequence[EvaluatedCheckpoint]) -> Results:
    """Checkpoints from anywhere, e.g. of fgrpo_bench.analysis.evaluated.from_evaluation, on the
    benchmarks and k that all were evaluated on. Temperature, prompt and engine may differ: they
    may be what is compared.

    ValueError with the remedy for none at all, for two of one label and seed, for a label of
    several steps, where some have a seed and others none, where no benchmark or k is
    common, where a benchmark is of another dataset in one of them, and where its draws were judged
    by another grader. Of one dataset the problems and k that all have are compared, and nothing
    else is read of any (EvaluatedCheckpoint.in_common), so that pass@k of two subtracts.
    """
    _check_labels(checkpoints)
    every = [item for checkpoint in checkpoints for item in checkpoint.run_checkpoints]
    specs = [checkpoint.evaluation_spec() for checkpoint in every]
    first, *others = [spec.evaluation for spec in specs]
    names = []
    for checkpoint in checkpoints:
        has_steps = len(checkpoint.run_checkpoints) > 1
        for item in checkpoint.run_checkpoints:
            names.append(f"{item.name}, step {item.step}" if has_steps else item.name)
    benchmarks = {
        name: declared
        for name, declared in first["benchmarks"].items()
        if all(name in other["benchmarks"] for other in others)
    }
    ks = [k for k in first["ks"] if all(k in other["ks"] for other in others)]
    for what, common, offered in (
        ("benchmark", benchmarks, [sorted(other["benchmarks"]) for other in (first, *others)]),
        ("k", ks, [other["ks"] for other in (first, *others)]),
    ):
        if not common:
            listed = "\n".join(
                f"  {name}: {', '.join(map(str, item))}"
                for name, item in zip(names, offered, strict=True)
            )
            raise ValueError(
                f"no {what} is common to the checkpoints that are compared: evaluate them on the "
                f"same; they have\n{listed}"
            )
    for benchmark in benchmarks:
        problems_of_first, *other_problems = [_problems(spec, benchmark) for spec in specs]
        for name, other in zip(names[1:], other_problems, strict=True):
            if other != problems_of_first:
                raise ValueError(
                    f"{benchmark} has other problems for {names[0]} ({problems_of_first}) than for "
                    f"{name} ({other}): pass@k is compared problem by problem; evaluate both on "
                    "the same dataset"
                )
    _check_graders(every, list(benchmarks))
    # Settings that differ are no property of what is compared; none is taken for all.
    alike = {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)}
    in_common = {name: _in_common([item.passk(name) for item in every]) for name in benchmarks}
    restricted = [replace(checkpoint, in_common=in_common) for checkpoint in checkpoints]
    return Results(
        # Base models first, as in the cells of a sweep; the sort keeps the order of the others.
        checkpoints=tuple(sorted(restricted, key=lambda item: item.label != BASE)),
        evaluation=alike | {"benchmarks": benchmarks, "ks": ks},
    )


def _in_common(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Problems and k of which all with results have rows, as of EvaluatedCheckpoint.in_common.
    tables: pass@k of each (tables.PASSK), without rows where one is not evaluated."""
    done = [table for table in tables if len(table)]
    rows = pl.concat(done or [PASSK.to_frame()]).group_by("problem_id", "k")
    every = rows.agg(pl.len(), has_value=pl.col("pass_at_k").is_not_null().all())
    return every.filter(pl.col("len") == len(done)).drop("len")


def evaluations(root: Path) -> dict[str, Path]:
    """Folders of the finished evaluations under a run root, by name: evals/<name>, of several there
    <name>:<evaluation>."""
    by_name: dict[str, list[Path]] = {}
    for done in sorted(root.glob(f"{EVALUATIONS}/*/eval/*/*/DONE.json")):
        by_name.setdefault(done.parents[3].name, []).append(done.parent)
    return {
        name if len(folders) == 1 else f"{name}:{folder.parent.name}": folder
        for name, folders in by_name.items()
        for folder in folders
    }


def with_digest(named: str, names: Iterable[str]) -> list[str]:
    """The name of an evaluation, where it is written without the digest behind it: the only one of
    such names. Empty where it is there as it is, and where there is none or several."""
    pattern = re.compile(re.escape(named) + r"-[0-9a-f]{8}")
    whole = [name for name in names if name == named or pattern.fullmatch(name)]
    return whole if len(whole) == 1 and whole != [named] else []


def evaluations_at(root: Path, names: Sequence[str]) -> RunPaths:
    """The address of evaluations that are looked at together."""
    return RunPaths(root=root, sweep=EVALUATIONS, experiment="+".join(names), version=TOGETHER)


def together(root: Path, names: Sequence[str]) -> Results:
    """Evaluations by their names, each under its own; of several the first is what the others are
    looked at against, as a base model is, and is still called by its name. FileNotFoundError for a
    name that there is not."""
    known = evaluations(root)
    for name in names:
        if name not in known:
            raise FileNotFoundError(
                f"there is no finished evaluation {name!r}{suggestion(name, known)} under "
                f"{root / EVALUATIONS}; there are {', '.join(known) or 'none'}"
            )
    first = BASE if len(names) > 1 else names[0]
    results = load_for_compare(
        [
            from_evaluation(known[name], first if i == 0 else name, title=name)
            for i, name in enumerate(names)
        ]
    )
    return replace(results, place=evaluations_at(root, names))


def results_at(paths: RunPaths) -> Results:
    """Those of an address: of a run, or of evaluations; raises as `load_results` and `together`."""
    if (paths.sweep, paths.version) == (EVALUATIONS, TOGETHER):
        return together(paths.root, paths.experiment.split("+"))
    return load_results(paths)


def find_results(root: Path, name: str, **parts: str | None) -> Results:
    """Those that a word means: a run as of `choose_run`, or `evals/<name>[+<name>...]`, evaluations
    without a sweep. Raises as `choose_run` and `results_at`."""
    kind, names, _ = split_name(name, **parts)
    if kind == EVALUATIONS and names:
        known = evaluations(root)
        whole = [(with_digest(part, known) or [part])[-1] for part in names.split("+")]
        return results_at(evaluations_at(root, whole))
    return load_results(choose_run(root, name, **parts))


def _check_labels(checkpoints: Sequence[EvaluatedCheckpoint]) -> None:
    if not checkpoints:
        raise ValueError("there is no checkpoint to compare: name some that were evaluated")
    known: dict[tuple[str, int | None], EvaluatedCheckpoint] = {}
    for checkpoint in checkpoints:
        other = known.setdefault((checkpoint.label.casefold(), checkpoint.seed), checkpoint)
        if other is not checkpoint:
            raise ValueError(
                f"{checkpoint.evaluate.folder} and {other.evaluate.folder} are both called "
                f"{checkpoint.name!r}: give each its own label, which differs in more than its "
                "case, or the seed that it was trained with"
            )
        first = next(
            entry for (label, _), entry in known.items() if label == checkpoint.label.casefold()
        )
        if (first.label, first.step) != (checkpoint.label, checkpoint.step):
            raise ValueError(
                f"{first.label!r} of step {first.step} and {checkpoint.label!r} of step "
                f"{checkpoint.step}: what differs in more than its seed takes a label of its own"
            )
    without = [checkpoint.name for checkpoint in checkpoints if checkpoint.seed is None]
    if without and len(without) < len(checkpoints):
        raise ValueError(
            f"{without[0]!r} has no seed, and others have one: checkpoints are compared seed by "
            "seed; give all of them a seed, or none"
        )


def _check_graders(checkpoints: Sequence[EvaluatedCheckpoint], benchmarks: Sequence[str]) -> None:
    for benchmark in benchmarks:
        versions = {
            checkpoint.name: checkpoint.judge_on(benchmark)
            for checkpoint in checkpoints
            if checkpoint.is_evaluated
        }
        if len(set(versions.values())) > 1:
            listed = ", ".join(f"{name} by {version}" for name, version in versions.items())
            raise ValueError(
                f"the draws on {benchmark} were judged by different graders ({listed}): grade them "
                "by one with `fgrpo-bench evaluate grade <evaluation>`"
            )


def _problems(spec: EvaluationSpec, benchmark: str) -> dict[str, Any]:
    """What tells which problems a benchmark's are among: a dataset, or those held out of a task."""
    declared = spec.stored_evaluation.benchmarks[benchmark]
    dataset = declared.get("dataset")
    if dataset is None:
        return {"task": spec.task}
    # The grader is compared by itself, and how many of its problems are taken may differ.
    apart = {"limit", "grader"}
    if dataset.get("layout") == DUMP:  # its problems are known by what they are, in any file
        apart |= {"path", "sha256"}
    return {"dataset": {k: v for k, v in dataset.items() if k not in apart}}


def domains_of(evaluation: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of the benchmarks by domain, in domain first; no key where there is none.

    evaluation: fgrpo_bench.specs.EvalSpec as JSON, also of versions that had no domains.
    """
    domains: dict[str, list[str]] = {}
    for name, declared in sorted(evaluation["benchmarks"].items()):
        domains.setdefault((declared or {}).get("domain", "in-domain"), []).append(name)
    return dict(sorted(domains.items()))


def averages_of(evaluation: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Benchmarks by the name of their average, in domain first; one of a domain has none."""
    return {
        f"average {domain}": tuple(benchmarks)
        for domain, benchmarks in domains_of(evaluation).items()
        if len(benchmarks) > 1
    }


def headline_of(evaluation: Mapping[str, Any]) -> tuple[str, ...]:
    """What stands for all benchmarks: the averages, and a benchmark alone in its domain."""
    return tuple(
        benchmarks[0] if len(benchmarks) == 1 else f"average {domain}"
        for domain, benchmarks in domains_of(evaluation).items()
    )


# What readers rely on of a declaration (fgrpo_bench.specs.Declaration as JSON).


@dataclass(frozen=True, kw_only=True)
class _Named(Record):
    name: str


@dataclass(frozen=True, kw_only=True)
class _Compared(Record):
    new: str
    old: str


@dataclass(frozen=True, kw_only=True)
class _Family(Record):
    pairs: tuple[str, ...] | None = None
    cells: tuple[_Compared, ...] = ()
    ks: str | tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class _Question(Record):
    name: str
    question: str
    family: _Family | None = None
    replicates: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Train(Record):
    budget: str
    rollouts_per_step: int | None = None
    prompts_per_step: int | None = None
    steps: int
    save_every: int
    updates_per_batch: int
    model: _Named | None = None
    pretrained: _Named | None = None
    task: Record | None = None


@dataclass(frozen=True, kw_only=True)
class _Benchmark(Record):
    domain: str = ""
    grader: str = ""


@dataclass(frozen=True, kw_only=True)
class _Evaluation(Record):
    benchmarks: dict[str, _Benchmark | None]
    ks: tuple[int, ...]
    n_samples: int
    design: Design | None = None


@dataclass(frozen=True, kw_only=True)
class _Experiment(Record):
    name: str
    train: _Train
    evaluation: _Evaluation


@dataclass(frozen=True, kw_only=True)
class _Profile(Record):
    dispatcher: str


@dataclass(frozen=True, kw_only=True)
class _Declaration(Record):
    sweep: _Question
    experiment: _Experiment
    algorithms: dict[str, Record] | None = None
    profile: _Profile


def read_declared(paths: RunPaths) -> SweepRecord:
    """What sweep.json says, with a declaration that results can be read by; raises as
    `read_record`, and ValueError where it was changed after it was frozen: every verdict rests on
    the family of comparisons that it declares."""
    record = read_sweep(paths)
    check_seal(paths.sweep_json, record.as_json())
    try:
        declared = _Declaration.parsed_part(record.declaration, ".declaration")
        train = declared.experiment.train
        unit = "rollouts" if train.budget == "constant_rollouts" else "prompts"
        if getattr(train, f"{unit}_per_step") is None:
            place = f".declaration.experiment.train.{unit}_per_step"
            raise SchemaError(None, NAMES[int]).within(place)
    except SchemaError as fault:
        raise damaged(paths.sweep_json, fault) from None
    return record


def load_results(paths: RunPaths) -> SweepResults:
    """A sweep's points from plan.json; FileNotFoundError where it was never run."""
    if not paths.plan.exists():
        raise FileNotFoundError(
            f"{paths.folder} holds no plan: run `fgrpo-bench sweep run {paths.sweep}` first, or "
            "name another root, experiment or version"
        )
    plan = read_plan(paths)
    marks = plan.fingerprints
    with reading_fields(paths.plan):
        cells = [from_columns(vars(point)) for point in plan.points]
    points = []
    for point, cell in zip(plan.points, cells, strict=True):
        checkpoints = _checkpoints(paths, point, marks)
        points.append(
            PointResult(
                point_id=point.point_id,
                label=cell_key(cell),
                cell=cell,
                seed=point.seed,
                step=checkpoints[-1].step,
                train=StagePaths(paths.folder / point.train),
                evaluate=checkpoints[-1].evaluate,
                checkpoints=checkpoints,
                train_fingerprint=marks.get(point.train, ""),
                evaluate_fingerprint=checkpoints[-1].fingerprint,
            )
        )
    record = read_declared(paths)
    if not record.declaration["experiment"]["evaluation"]["benchmarks"]:
        raise ValueError(
            f"{paths.sweep_json} names no benchmark: delete it and run the sweep again, which "
            "writes it anew"
        )
    return SweepResults(checkpoints=tuple(points), paths=paths, record=record)


def _checkpoints(
    paths: RunPaths, point: PointRecord, marks: Mapping[str, str]
) -> tuple[Checkpoint, ...]:
    return tuple(
        Checkpoint(
            step=checkpoint.step,
            evaluate=StagePaths(paths.folder / checkpoint.evaluate),
            fingerprint=marks.get(checkpoint.evaluate, ""),
        )
        for checkpoint in point.checkpoints
    )
