"""What MLflow should hold for a sweep, told from its files and locks: no clock, no MLflow.

One experiment a sweep and experiment name (`groupsize/countdown`). In it a run a point, base models
included, with training curves, pass@k of its checkpoints and its tables and files; above them a
parent run a cell, with mean and interval over its seeds and where along k it falls behind its base
models; and a run with the files of the report. The same files always give the same digests and
states (`source`), so a second sync finds nothing to do.

MLflow renders descriptions as Markdown, so every name and sentence in them is escaped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any
from urllib.parse import quote

import polars as pl

from fgrpo_bench.analysis import LEVEL, Analysis, stored
from fgrpo_bench.analysis.checkpoints import key_of, rule_in_words
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import PointResult, SweepResults, load_results
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.command.runs import find_runs
from fgrpo_bench.documents.html import html
from fgrpo_bench.documents.markdown import escape_markdown, markdown_blocks
from fgrpo_bench.documents.table import Block, Line, Outline, Paragraph, Table, with_interval
from fgrpo_bench.files.paths import EVALUATIONS, RunPaths
from fgrpo_bench.files.spec import read_spec, read_spec_of
from fgrpo_bench.report.captions import title
from fgrpo_bench.report.narrative import answered, effect, explained, over_all_k
from fgrpo_bench.report.tables import interval_table
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.stored import TrainStageSpec, seedless_fingerprint, trained_with
from fgrpo_bench.stages.attempts import logs, tail
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.plan import read_sweep
from fgrpo_bench.tracking.source import Mean, Source, digest_of, report_files

IDENTITY = ("sweep", "experiment", "version", "point_id", "fingerprint")
"""Tags that together name one run; the run's MLflow name and id play no part."""
NOTE = "mlflow.note.content"
"""Tag: the description of a run or experiment, as Markdown."""
COLOR = "mlflow.runColor"
"""Tag: the colour of a run in MLflow's charts."""
VIEW = "mlflow.sharedViewState."
"""Before the name of a view in an experiment's tag: which runs and columns a page of them shows."""
LONGEST = 5000
"""Characters of an experiment's tag that MLflow takes; a run's may be longer."""
UNCERTAINTY = "uncertainty/"
"""Before the names of the ends of intervals. It sorts behind benchmarks, `eval/` and `train/`, so
that a list in alphabetical order begins with the estimates."""
ENDS = ("low", "high")
"""Of an interval, as the names of metrics end."""
OPEN = "open"
"""Tag in place of the metric where a first loss has no such end."""
LOG_LINES = 40
"""Of every log, in an artifact."""
LARGEST = 1.7976931348623157e308
"""MLflow's stand-in for infinity."""
ANSWER = "answer.html"
"""The report's page that MLflow opens on: the answer and the main table."""
TABLE = "pass_at_k.json"
"""The table of a cell, and of the report that of every cell."""
POINTS, CELLS, REPORT = "point", "cell", "report"
"""Values of the tag `kind`."""


@dataclass(frozen=True, order=True)
class MetricPoint:
    """One value of a metric's history, e.g. MetricPoint("train/reward", 40, 1767323004000, 0.25)"""

    key: str
    step: int
    """Rollout batch; for `<benchmark>/pass_at_k` the k."""
    timestamp: int
    """Milliseconds since 1970, from the files."""
    value: float
    """Finite or nan."""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """One MLflow run as it should be: a point, a cell over its seeds, or the report."""

    name: str
    """The point_id."""
    title: str
    """What MLflow calls it, e.g. `F-GRPO N=8 gamma=1, seed 11`."""
    start: int
    """When training began, milliseconds since 1970."""
    end: int | None
    """When the evaluation was complete, milliseconds since 1970; None while it is not."""
    params: Mapping[str, str]
    tags: Mapping[str, str]
    points: tuple[MetricPoint, ...] = field(repr=False)
    """Sorted; at most one for a key and step."""
    artifacts: Mapping[str, bytes] = field(repr=False)
    """Contents by path within the run's artifacts."""
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict, repr=False)
    """By path likewise, `.json`: what `mlflow.load_table` opens."""
    failed: bool = False
    """Whether a stage of it failed and is not at work again."""

    @property
    def status(self) -> str:
        """MLflow's word: RUNNING, FAILED or FINISHED. A failed run has no end, because MLflow
        takes none back, and it may go on."""
        if self.end is not None:
            return "FINISHED"
        return "FAILED" if self.failed else "RUNNING"

    @property
    def identity(self) -> tuple[str, ...]:
        """The values of IDENTITY."""
        return tuple(self.tags[key] for key in IDENTITY)


@dataclass(frozen=True, kw_only=True)
class DesiredRun:
    """A run that MLflow should hold. Its state is computed only where its digest is another than
    that which MLflow has of it."""

    name: str
    """Of the run."""
    digest: str
    """Of everything that the state is computed from."""
    state: Callable[[], RunState] = field(repr=False, compare=False)
    parent: str | None = None
    """Name of the run under which it is listed."""


@dataclass(frozen=True, kw_only=True)
class ExperimentState:
    """One MLflow experiment as it should be."""

    name: str
    digest: str | None
    """Of everything that the tags are computed from; None where these runs do not speak for it."""
    tags: Callable[[], Mapping[str, str]] = field(repr=False, compare=False)
    runs: tuple[DesiredRun, ...]
    """Parents before their children."""


def desired_experiment(paths: RunPaths) -> ExperimentState:
    """What MLflow should hold for one sweep; points that have not begun have no run yet.

    Raises FileNotFoundError where the sweep was never run and ValueError for a damaged file.
    """
    source = Source(load_results(paths))
    runs = _with_cells(source, desired_points(source))
    digest = digest_of(source.origin, source.rule, stored.VERSION, stored.digest_of(source.results))
    report = _report_wanted(source, runs, digest)
    return ExperimentState(
        name=experiment_name(paths),
        digest=digest if paths == _latest(paths) else None,
        tags=lambda: {
            NOTE: experiment_note(source.analysis),
            **{f"{VIEW}{kind}": _view(source.analysis, kind) for kind in (CELLS, POINTS)},
            "mlflow.experimentKind": "custom_model_development",
        },
        runs=runs if report is None else (*runs, report),
    )


def experiment_name(paths: RunPaths) -> str:
    """e.g. `groupsize/countdown`; `evaluations` of those without a sweep."""
    return "evaluations" if paths.sweep == EVALUATIONS else f"{paths.sweep}/{paths.experiment}"


def desired_points(source: Source, points: Collection[str] | None = None) -> list[DesiredRun]:
    """The runs of the points that have begun, without their parents.

    points: point_ids of those that are wanted; None wants all.
    """
    return [
        DesiredRun(
            name=point.point_id,
            digest=source.digest(point),
            state=partial(_point_run, source, point),
        )
        for point in source.results.points
        if (points is None or point.point_id in points) and source.has_begun(point)
    ]


def _latest(paths: RunPaths) -> RunPaths:
    """The version that was run last: it speaks for the experiment that all versions share."""
    runs = find_runs(paths.root, paths.sweep, experiment=paths.experiment)
    versions = [run for run in runs if run.sweep_json.exists()]
    return max(versions, key=lambda run: (read_sweep(run).created, run == paths))


def _view(analysis: Analysis, kind: str) -> str:
    """The runs of a kind by pass@k at the largest k, with the columns of both ends and no others,
    so that they stand on a screen; in the form of MLflow's page of runs."""
    first, last = analysis.ends[0], analysis.ends[-1]
    columns = analysis.headline
    names = [f"{column}/pass_at_{k}" for column in columns for k in dict.fromkeys((last, first))]
    if kind == CELLS:
        names += [f"{UNCERTAINTY}{c}/pass_at_{last}_{end}" for c in columns for end in ENDS]
    selected = [f"metrics.`{name}`" for name in names]
    view = {
        "searchFilter": f"tags.kind = '{kind}'",
        "orderByKey": selected[0],
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "selectedColumns": selected,
    }
    return json.dumps(view)


def experiment_note(analysis: Analysis) -> str:
    """Description of the experiment: the answer, the table of the headline, where the files are,
    and as much of the report's other words as MLflow takes."""
    paths = analysis.results.of_sweep().paths
    return _shortened(
        _words(
            analysis,
            f"A view of the files in {paths.sweep}/{paths.experiment}/{paths.version} under the "
            "run root. Runs of kind cell are means over training seeds with intervals; below them "
            "are the points, one a seed; the run named report has the tables and figures.",
        ),
        LONGEST,
    )


def _words(analysis: Analysis, about: str) -> str:
    """The answer in the report's own words, its main numbers, which checkpoints they are of, and
    what the answer rests on, as Markdown.

    about: a sentence on what the reader has before them.
    """
    checkpoints = rule_in_words(analysis.results, analysis.rule)
    blocks: list[Block] = [
        *answered(analysis),
        *(interval_table(analysis, column) for column in analysis.headline),
        Paragraph(text=f"Checkpoints: {checkpoints}."),
        Paragraph(text=about),
        *explained(analysis),
        *over_all_k(analysis),
    ]
    return markdown_blocks(blocks)


def _shortened(text: str, longest: int) -> str:
    """The text up to a line's end where it is too long for MLflow, and where to read on.

    >>> _shortened("a line\\nanother", 80)
    'a line\\nanother'
    """
    if len(text) <= longest:
        return text
    left = "\n\nThe report has the rest."
    return text[: text.rfind("\n", 0, longest - len(left))].rstrip() + left


def _identity(results: SweepResults, name: str, mark: str) -> dict[str, str]:
    paths = results.paths
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "point_id": name,
        "fingerprint": mark,
    }


def _source_tags(results: SweepResults) -> dict[str, str]:
    """Where a run comes from: the command, and the commit where there is one."""
    record = results.record
    named = {
        "mlflow.source.name": f"sweeps run {results.paths.sweep}",
        "mlflow.source.type": "LOCAL",
    }
    if record.git_commit is not None:
        commit = record.git_commit
        named |= {"git_commit": commit, "mlflow.source.git.commit": commit}
        named["git_dirty"] = str(record.git_dirty).lower()
    return named


def readable(value: float) -> float:
    """With the four digits that a person reads in a column; the tables have all of them.

    >>> readable(0.123456)
    0.1235
    """
    return float(f"{value:.4g}")


# A point: training curves, pass@k of its checkpoints, tables and files.


def _point_run(source: Source, point: PointResult) -> RunState:
    """The run of a point that has begun."""
    results, cell = source.results, key_of(point)[0]
    start, end = source.span(point)
    failed = point.point_id in source.failed
    points = [*_training(point.metrics())]
    for checkpoint in map(point.at, point.checkpoints):
        if checkpoint.is_evaluated:
            points += _scores(source, checkpoint)
    files, tables = {"spec.json": point.train.spec.read_bytes()}, {}
    if end is not None:
        chosen = source.chosen(point)
        means = source.means_of(chosen)
        points += [MetricPoint(f"{m.column}/pass_at_k", m.k, end, readable(m.value)) for m in means]
        tables = _tables(chosen, means, unscored(chosen, results.benchmarks))
        files |= _files(results, chosen)
    return RunState(
        name=point.point_id,
        title=f"{source.cells[cell].label}, seed {point.seed}",
        start=start or 0,
        end=end,
        params=_params(results, point),
        tags={
            **_identity(results, point.point_id, read_spec(point.train).fingerprint),
            "evaluation_fingerprint": point.evaluation_spec().fingerprint,
            "kind": POINTS,
            "state": _state(point, failed=failed),
            "method": point.method,
            NOTE: _point_note(results, point),
            COLOR: source.colors[cell],
            **_source_tags(results),
        },
        points=tuple(sorted(points)),
        artifacts=files,
        tables=tables,
        failed=failed,
    )


def _training(metrics: pl.DataFrame) -> Iterator[MetricPoint]:
    """Training curves and evaluations during training, by step."""
    curves = metrics.sort("step")
    steps, times = curves["step"].to_list(), curves["time_ms"].to_list()
    for column in curves.drop("step", "time_ms").columns:
        name = column.removeprefix("eval_")
        key = f"train/{name}" if name == column else f"eval/{name}"
        for step, time, value in zip(steps, times, curves[column].to_list(), strict=True):
            if value is not None:
                yield MetricPoint(key, step, time, _bounded(float(value)))


def _bounded(value: float) -> float:
    """As MLflow stores it: infinities become the largest double; nan stays."""
    return value if math.isnan(value) else max(-LARGEST, min(LARGEST, value))


def _scores(source: Source, point: PointResult) -> Iterator[MetricPoint]:
    """Of the checkpoint that stands for `point`, by step: pass@k at the smallest and the largest k,
    and the share of draws that the grader could not judge. Three keys a benchmark and two an
    average, however many k there are."""
    ks, judged = point.evaluation_spec().eval_spec.ks, point.evaluated().finished_ms
    for mean in source.means_of(point):
        if mean.k in (ks[0], ks[-1]):
            key = f"{mean.column}/pass_at_{mean.k}"
            yield MetricPoint(key, point.step, judged, readable(mean.value))
    for benchmark, share in unscored(point, source.results.benchmarks).items():
        yield MetricPoint(f"{benchmark}/unscored_fraction", point.step, judged, readable(share))


def unscored(point: EvaluatedCheckpoint, benchmarks: Sequence[str]) -> dict[str, float]:
    """Share of the draws up to where problems stopped that the grader could not judge, by benchmark
    with results."""
    shares, n_drawn = {}, point.asked().n_drawn
    for name in benchmarks:
        table = point.passk(name).with_columns(n_drawn=n_drawn)
        drawn, judged = table.drop_nulls("n_drawn").select("n_drawn", "n_scored").sum().row(0)
        if len(table):
            shares[name] = 1 - judged / drawn if drawn else 0.0
    return shares


def _tables(
    point: PointResult, means: Sequence[Mean], unscored: Mapping[str, float]
) -> dict[str, pl.DataFrame]:
    """pass@k of every benchmark by k, and by problem."""
    tables = {}
    for benchmark, share in unscored.items():
        passk = point.passk(benchmark)
        known = {mean.k: mean for mean in means if mean.column == benchmark}
        ks = passk["k"].unique().sort().to_list()
        tables[f"{benchmark}/pass_at_k.json"] = pl.DataFrame(
            {
                "k": ks,
                "pass_at_k": [known[k].value if k in known else None for k in ks],
                # those with a value for every seed of the cell
                "n_problems": [known[k].n_problems if k in known else 0 for k in ks],
                "unscored_fraction": [share] * len(ks),
            }
        )
        named = passk.with_columns(
            pl.format("pass_at_{}", "k").alias("name"), n_drawn=point.asked().n_drawn
        )
        counts = ["problem_id", "n_drawn", "n_scored", "n_correct"]
        problems = named.pivot("name", index=counts, values="pass_at_k")
        tables[f"{benchmark}/pass_at_k_by_problem.json"] = problems
    return tables


def _files(results: SweepResults, point: PointResult) -> dict[str, bytes]:
    """The evaluation's spec, pass@k for programs, the end of the logs and where the draws are."""
    files = {"evaluation.json": point.evaluate.spec.read_bytes()}
    for name in results.benchmarks:
        if len(point.passk(name)):
            table = point.evaluate.benchmark(name).passk
            files[f"{name}/passk.parquet"] = table.read_bytes()
    return files | {"log-tail.txt": _log_tail(point), "draws.txt": _draws(results, point)}


def _log_tail(point: PointResult) -> bytes:
    """The end of the newest log of training and of evaluation."""
    parts = []
    for stage in (point.train, point.evaluate):
        for log in logs(stage)[-1:]:
            lines = [_printable(line) for line in tail(log) if line.strip()][-LOG_LINES:]
            parts.append("\n".join([f"==> {log.relative_to(stage.folder.parent)}", *lines]))
    return ("\n\n".join(parts) + "\n").encode()


def _printable(line: str) -> str:
    """Without what a terminal would obey: a log holds what models said."""
    return "".join(character if character.isprintable() else " " for character in line)


def _draws(results: SweepResults, point: PointResult) -> bytes:
    """Where the draws are, and how they are looked at."""
    run = results.paths
    page = f"/{run.sweep}/{run.experiment}/{run.version}/draws?b={quote(point.point_id)}"
    lines = [f"Every draw beside its base model's: make dashboard, then {page}", ""]
    for name in results.benchmarks:
        if point.results_on(name) is not None:
            path = point.evaluate.benchmark(name).draws
            lines.append(f"{name}: {path.relative_to(run.root).as_posix()} under the run root")
    return ("\n".join(lines) + "\n").encode()


def _params(results: SweepResults, point: PointResult) -> dict[str, str]:
    """What runs are compared by; a base model has only what applies to it."""
    evaluation = point.evaluation_spec()
    judged, warmup = evaluation.eval_spec, trained_with(point.train, "warmup")
    named: dict[str, Any] = {"model": results.model, "method": point.method}
    if point.cell is None:
        named["seed"] = point.seed
    else:
        cell = read_spec_of(TrainStageSpec, point.train).sweep_point
        named |= {
            "algorithm": cell.algorithm.name,
            "group_size": cell.group_size,
            "focal_gamma": cell.focal_gamma,
            "seed": cell.seed,
            "steps": cell.train.steps,
            "budget": cell.train.budget,
            "prompts_per_step": cell.n_prompts,
            "rollouts_per_step": cell.n_prompts * cell.group_size,
            "updates_per_batch": cell.train.updates_per_batch,
            "learning_rate": f"{cell.learning_rate:.4g}",
            "train_temperature": cell.train.temperature,
        }
    named |= {} if warmup is None else {"warmup_steps": warmup["steps"]}
    named |= {"n_samples": judged.n_samples, "eval_temperature": judged.temperature}
    if judged.design is not None:
        named |= {
            "design_stages": ", ".join(map(str, judged.design.stages)),
            "design_enough": judged.design.enough,
        }
    for name, benchmark in judged.benchmarks.items():
        named[f"{name}_n_problems"] = benchmark.n_problems or "all"
    return {key: str(value) for key, value in named.items()}


def _state(point: PointResult, *, failed: bool) -> str:
    if point.is_evaluated:
        return "evaluated"
    if failed:
        return "failed"
    return "trained" if point.is_trained else "training"


def _point_note(results: SweepResults, point: PointResult) -> str:
    """The run in words."""
    model = escape_markdown(results.model)
    cell = point.cell
    if cell is None:
        what = f"The base model {model} of seed {point.seed}, before any RL."
    else:
        weight = f"focal_gamma = {cell.focal_gamma:g}" if cell.focal_gamma else "no focal weight"
        what = (
            f"{model} trained with {cell.method}, group size N = {cell.group_size}, "
            f"{weight}, seed {point.seed}, for {point.step} steps."
        )
    curves = ", ".join(escape_markdown(f"{name}/pass_at_k") for name in results.benchmarks)
    return (
        f"{what}\n\n`train/...`: by training step. `eval/...`: small evaluations during training. "
        f"{curves}: the final evaluation, with k as the step. All pass@k are fractions, means "
        "over problems."
    )


# A cell: mean and interval over its seeds. The report: its files.


def _with_cells(source: Source, points: Sequence[DesiredRun]) -> tuple[DesiredRun, ...]:
    """Parents first, each one followed by its points, which name it as their parent.

    points: those that have begun; a cell of which none has begun has no run.
    """
    begun = {run.name: run for run in points}
    by_cell: dict[str, list[PointResult]] = {}
    for point in source.results.points:
        by_cell.setdefault(key_of(point)[0], []).append(point)
    runs = []
    for cell, planned in by_cell.items():
        members = [point for point in planned if point.point_id in begun]
        if members:
            numbers = [
                *_table_of_cell(source, cell).rows(),
                *map(astuple, source.first_losses_of(cell)),
                *map(astuple, source.comparisons_of(cell)),
                *map(astuple, source.on_paths(cell)),
            ]
            outlines = [[point.point_id, source.outline(point)] for point in members]
            mark = digest_of(source.origin, len(planned), numbers, outlines, source.colors[cell])
            state = partial(_cell_run, source, cell, members, n_planned=len(planned))
            name = _name_of_cell(members[0])
            runs.append(DesiredRun(name=name, digest=mark, state=state))
            runs += [replace(begun[point.point_id], parent=name) for point in members]
    return tuple(runs)


def _name_of_cell(member: PointResult) -> str:
    return member.point_id.removesuffix(f"-s{member.seed}")


def _cell_run(
    source: Source, key: str, members: Sequence[PointResult], *, n_planned: int
) -> RunState:
    """Its params are those that all its points share."""
    first, cell, results = members[0], source.analysis.by_cell[key], source.results
    spans = {point.seed: source.span(point) for point in members}
    ends = {seed: end for seed, (_, end) in spans.items() if end is not None}
    seeds, is_whole = ", ".join(map(str, ends)), len(ends) == n_planned
    every = [_params(results, point).items() for point in members]
    shared = [pair for pair in every[0] if all(pair in other for other in every)]
    losses = list(_first_losses(source, cell))
    timestamp = max(ends.values(), default=0)
    points = [
        *_estimates(source, cell, timestamp),
        *_at_equal_pass_at_1(source, cell, timestamp),
        *(MetricPoint(name, cell.step, timestamp, float(k)) for name, k in losses if k is not None),
    ]
    name = _name_of_cell(first)
    return RunState(
        name=name,
        title=cell.label,
        start=min(start for start, _ in spans.values() if start is not None),
        end=timestamp if is_whole else None,
        params={name: value for name, value in shared if name != "seed"},
        tags={
            **_identity(results, name, seedless_fingerprint(read_spec(first.train))),
            "kind": CELLS,
            "state": "evaluated" if is_whole else "training",
            "seeds": seeds,
            "method": cell.method,
            NOTE: _cell_note(source, cell, seeds),
            COLOR: source.colors[key],
            **{name: OPEN for name, k in losses if k is None},
            **_source_tags(results),
        },
        points=tuple(sorted(points)),
        artifacts={},
        tables={TABLE: _table_of_cell(source, key)} if ends else {},
    )


def _table_of_cell(source: Source, key: str) -> pl.DataFrame:
    """Means and ends of intervals with all their digits."""
    names = ("column", "k", "mean", "low", "high", "n_problems")
    rows = [[getattr(row, name) for name in names] for row in source.estimates_of(key)]
    types = dict.fromkeys(("mean", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, names, schema_overrides=types, orient="row")


def _estimates(source: Source, cell: CellRow, timestamp: int) -> Iterator[MetricPoint]:
    """Nine keys a benchmark or average: pass@k at both ends and as a curve over k, each with its
    interval."""
    for row in source.estimates_of(cell.cell):
        values = (
            ("", "", row.mean),
            (UNCERTAINTY, "_low", row.low),
            (UNCERTAINTY, "_high", row.high),
        )
        for prefix, suffix, exact in values:
            if exact is not None:
                name, value = f"{prefix}{row.column}/pass_at", readable(exact)
                yield MetricPoint(f"{name}_k{suffix}", row.k, timestamp, value)
                if row.k in source.analysis.ends:
                    yield MetricPoint(f"{name}_{row.k}{suffix}", cell.step, timestamp, value)


def _at_equal_pass_at_1(source: Source, cell: CellRow, timestamp: int) -> Iterator[MetricPoint]:
    """Three keys a pair and k: what the cell keeps more than another at the highest pass@1 that
    both reach, with its interval."""
    for row in source.on_paths(cell.cell):
        name = f"{row.column}/pass_at_{row.k}_at_equal_pass_at_1_minus_{row.old}"
        for prefix, suffix, exact in (
            ("", "", row.difference),
            (UNCERTAINTY, "_low", row.low),
            (UNCERTAINTY, "_high", row.high),
        ):
            if exact is not None:
                key = f"{prefix}{name}{suffix}"
                yield MetricPoint(key, cell.step, timestamp, readable(exact))


def _first_losses(source: Source, cell: CellRow) -> Iterator[tuple[str, int | None]]:
    """The first k at which a trained cell is behind its base models, by the band over all k: the
    ends of its set, None for one that is open."""
    for row in source.first_losses_of(cell.cell):
        yield f"{UNCERTAINTY}{row.column}/pass_at_k_first_loss_low", row.low
        yield f"{UNCERTAINTY}{row.column}/pass_at_k_first_loss_high", row.high


def _cell_note(source: Source, cell: CellRow, seeds: str) -> str:
    """What the cell is, what it is better and worse than, its numbers, and the metrics' names."""
    analysis = source.analysis
    of = f"seeds {seeds}" if seeds else "no seed yet"
    ends = analysis.ends
    table = Table(
        title=f"pass@k in percent with {LEVEL:.0%} intervals",
        header=("", *(f"pass@{k}" for k in ends)),
        rows=tuple(
            (column, *(with_interval(row.mean, row.low, row.high) for row in estimates))
            for column in analysis.columns
            for estimates in [[analysis.estimate(column, cell, k) for k in ends]]
        ),
    )
    sections: dict[str, list[Line]] = {}
    for row in (*source.comparisons_of(cell.cell), *source.on_paths(cell.cell)):
        title = f"{row.column}: {row.group}, {row.name}"
        sections.setdefault(title, []).append((f"pass@{row.k}, {row.verdict}", effect(row)))
    for loss in source.first_losses_of(cell.cell):
        title = f"{loss.column}: against the base models at all k together"
        sections[title] = [(f"{LEVEL:.0%} band", loss.words)]
    outline = Outline(sections=tuple((title, tuple(lines)) for title, lines in sections.items()))
    blocks: list[Block] = [
        Paragraph(
            text=f"{cell.label} at step {cell.step} over its training seeds, which are the runs "
            f"below. Means and {LEVEL:.0%} intervals over problems and seeds are of {of}."
        ),
        *([outline] if sections else []),
        table,
    ]
    names = (
        "`<benchmark>/pass_at_k`: the curve, with k as its step; the ends of its interval are "
        f"`{UNCERTAINTY}...` with \\_low and \\_high. All pass@k are fractions."
    )
    losses = (
        " ..._first\\_loss\\_low and \\_high: the first k at which training is behind the base "
        f"models lies between them, at {LEVEL:.0%} over all k together; `{OPEN}` as a tag is an "
        "end without a k, so that there may be no loss."
    )
    return f"{markdown_blocks(blocks)}\n\n{names}{'' if cell.is_base else losses}"


def _report_wanted(source: Source, runs: Sequence[DesiredRun], digest: str) -> DesiredRun | None:
    """The report's tables and figures as artifacts; None where it was not written or no run has
    begun.

    digest: of what its words are computed from.
    """
    files = report_files(source.results.paths)
    if not runs or not files:
        return None
    contents = [[path.name, sha256_file(path)] for path in files]
    begun = [run.name for run in runs if run.parent is not None]
    return DesiredRun(
        name=REPORT,
        digest=digest_of(digest, contents, [run.digest for run in runs if run.parent is None]),
        state=partial(_report_run, source, begun),
    )


def _report_run(source: Source, begun: Sequence[str]) -> RunState:
    paths = source.results.paths
    spans = [source.span(point) for point in source.results.points if point.point_id in begun]
    ends = [end for _, end in spans if end is not None]
    is_whole = len(ends) == len(spans) and not source.analysis.missing
    mark = fingerprint([REPORT, paths.sweep, paths.experiment, paths.version])
    about = (
        f"Under Artifacts: {TABLE}, every cell at every k; report.md in words, report.tex for a "
        "paper, results.csv for your own plots, and the figures."
    )
    analysis = source.analysis
    first = [
        *answered(analysis),
        *(interval_table(analysis, column) for column in analysis.headline),
        Paragraph(text=about),
    ]
    return RunState(
        name=REPORT,
        title=REPORT,
        start=min(start for start, _ in spans if start is not None),
        end=max(ends) if is_whole else None,
        params={},
        tags={
            **_identity(source.results, REPORT, mark),
            "kind": REPORT,
            NOTE: _shortened(_words(analysis, about), LONGEST),
            **_source_tags(source.results),
        },
        points=(),
        artifacts={
            ANSWER: html(title(analysis), first, {}).encode(),
            **{
                path.relative_to(paths.report).as_posix(): path.read_bytes()
                for path in report_files(paths)
            },
        },
        tables={TABLE: _table_of_report(analysis)},
    )


def _table_of_report(analysis: Analysis) -> pl.DataFrame:
    """A row a benchmark or average and cell: pass@k at the largest k first and at the smallest,
    each with its interval, then at the k between. Fractions with the digits that a person reads."""
    ends, ks = tuple(reversed(analysis.ends)), analysis.ks
    rows = []
    for column, cell in product(analysis.columns, analysis.by_cell.values()):
        row: dict[str, str | float | None] = {"cell": cell.label, "benchmark": column}
        for k in dict.fromkeys((*ends, *ks)):
            estimate, name = analysis.estimate(column, cell, k), f"pass_at_{k}"
            row[name] = _rounded(estimate.mean)
            if k in ends:
                row |= {f"{name}_low": _rounded(estimate.low)}
                row |= {f"{name}_high": _rounded(estimate.high)}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else readable(value)
