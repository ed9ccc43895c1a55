"""The evaluation stage: draw what is missing, grade it meanwhile, and compute pass@k.

In: a stage's spec.json. Out: for each benchmark draws, a layer of grades for each grader, and
pass@k, each in a file of its own, so that a new k or a new grader never draws again.

`evaluate` at the top is the whole story: check what stands there (the second half of this file),
take over the draws of an identical evaluation under the run root that is finished (`takeover`),
else start an engine (`backends`) and draw (`sample`), grade as draws arrive (`grading`), score
(`fgrpo_bench.analysis.scoring`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.analysis.scoring import count_stored, score
from fgrpo_bench.core import registry
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.files.whole import now, quarantine, read_record, write_json
from fgrpo_bench.kinds.benchmarks import grader_names, load_problems, passk_path
from fgrpo_bench.kinds.evaluate import EvaluationFacts, EvaluationMarker, EvaluationSpec
from fgrpo_bench.specs import BenchmarkSpec, EvalSpec, Placement, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.draws import Design, DesignedSince, DrawsRecord
from fgrpo_bench.stages.stage import StageRun, Stopped
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, read_table, write_table

from .backends import make_engine
from .grading import Grading
from .grading_processes import GradeWorkers, grade_workers
from .records import Draw, Sampler, SamplingEngine, SamplingTarget, check_few_shot
from .sample import complete_draws
from .takeover import identity, offer, take_over


def evaluate(
    stored: StageSpec,
    run: StageRun,
    *,
    device: str,
    placement: Placement | None,
    bar: Bar | None,
    root: Path | None,
    batch_size: int | None = None,
) -> EvaluationFacts:
    """Run an evaluation stage; returns facts for its completion marker.

    bar: shows the progress in place of lines; None prints lines. root: folder of all runs, where
    draws are taken over from; None takes none. batch_size: draws at once; None is the sampler's own
    number.
    """
    run.quiet = bar is not None and bar.shown
    spec = stored.as_kind(EvaluationSpec)
    sampling_target = SamplingTarget.from_spec(
        spec, device=device, placement=placement, batch_size=batch_size
    )
    evaluation, design = sampling_target.evaluation, sampling_target.evaluation.stopping
    if sampling_target.sha256 is None:
        root = None  # nobody knows whether a server's name stood for the same weights elsewhere

    @cache
    def engine() -> SamplingEngine:
        started = make_engine(sampling_target)
        if run.stopping:  # an engine takes minutes to start, and nothing else looks meanwhile
            raise Stopped("the engine was only being started; what was drawn before is saved")
        return started

    draws_made: dict[str, int] = {}
    graded: dict[str, dict[str, Any]] = {}
    manifests: dict[str, DrawsRecord] = {}
    identities: dict[str, str] = {}
    former = None if run.former is None else EvaluationMarker.parsed(run.former.as_json())

    def say(name: str, done: int, total: int, pass_at_1: float | None, rate: float) -> None:
        numbers = {"tokens_per_second": rate}
        if pass_at_1 is not None:
            numbers["pass_at_1"] = pass_at_1
        if bar is not None:
            bar(name, done, total, numbers)
        run.progress(step=done, of=total, **numbers)

    def evaluate_on(name: str, benchmark: BenchmarkSpec) -> None:
        paths = run.paths.benchmark(name)
        problems = load_problems(
            benchmark, sampling_target.settings["task"], spec.data_folder(name)
        )
        check_few_shot(evaluation.few_shot or (), problems)
        # in the order of making: draws whose origin nobody knows go first, then what rests on them
        clear_draws(paths, run.recorded)
        clear_tables(paths)
        manifest = check_manifest(paths, problems, sampling_target.sha256, spec.mark(name))
        manifest = with_former(paths, manifest, former, name)
        manifest = with_design(paths, manifest, evaluation)
        identities[name] = identity(sampling_target, name, problems)
        if root is not None:
            manifest = take_over(paths, manifest, identities[name], root=root)
        session = _Session(paths, manifest, engine)
        with GradeWorkers(problems, workers=grade_workers()) as workers:
            main, *_ = layers = [
                Grading(
                    paths,
                    problems,
                    grader,
                    workers=workers,
                    decides=grader == benchmark.grader and not design.is_fixed,
                )
                for grader in grader_names(benchmark)
            ]

            def on_draws(done: int, total: int, draws: Sequence[Draw]) -> None:
                session.add(draws)
                for layer in layers:
                    layer.add(draws)
                if done < total:  # the last line is the table's, once all is graded
                    say(name, done, total, main.pass_at_1, session.tokens_per_second)
                if run.stopping and done < total:
                    raise Stopped(f"{done} of {total} draws are saved")

            draws, draws_made[name] = complete_draws(
                paths,
                problems,
                design=design,
                grading=main,
                seed=spec.draw_seed,
                sampler=session.sampler,
                on_draws=on_draws,
            )
            rate = session.tokens_per_second
            manifests[name] = replace(session.manifest, identity=identities[name])
            if manifests[name] != session.manifest:
                write_json(paths.manifest, manifests[name].as_json())
            for layer in layers:
                layer.finish(draws)
                at = passk_path(paths, benchmark, layer.grader)
                counts = count_stored(paths.grades(layer.version), design, draws=paths.draws)
                table = score(counts, list(evaluation.ks), design, problems=problems)
                write_table(at, table, PASSK)
                if layer is main and draws_made[name]:
                    first = table.filter(pl.col("k") == 1)["pass_at_k"].mean()
                    pass_at_1 = first if isinstance(first, float) else None
                    say(name, len(draws), len(draws), pass_at_1, rate)
                run.register_outputs(paths.grades(layer.version), at)
            run.register_outputs(paths.manifest, paths.draws)
            if bar is not None:
                bar.close()
            graded[name] = {layer.version: layer.tally.facts() for layer in layers}

    for name, benchmark in evaluation.benchmarks.items():
        evaluate_on(name, benchmark)
    if root is not None:
        for name, of_draws in identities.items():
            offer(run.paths.benchmark(name), of_draws, root=root)
    return EvaluationFacts(
        step=spec.looks_at[1],
        weights_sha256=sampling_target.sha256,
        draws_made=draws_made,
        taken_from={
            name: manifest.taken_from for name, manifest in manifests.items() if manifest.taken_from
        },
        grading=graded,
        engines={name: known.engines for name, known in manifests.items()},
    )


class _Session:
    """What one engine draws on a benchmark at a stretch.

    manifest: what the draws belong to; it gets the engine. start: starts the engine; called only if
    a draw is missing.
    """

    def __init__(
        self, paths: BenchmarkPaths, manifest: DrawsRecord, start: Callable[[], SamplingEngine]
    ) -> None:
        has_draws = paths.draws.exists() or paths.shards.exists()
        # else what is said of them is of lost draws
        self.manifest = manifest if has_draws else replace(manifest, engines=(), taken_from=None)
        self._paths, self._start = paths, start
        self._tokens = 0
        self._begun: float | None = None

    def sampler(self) -> Sampler:
        """The engine's, which is recorded before its first draw."""
        engine = self._start()
        self._begun = time.monotonic()
        engines = self.manifest.engines
        if engine.facts not in engines:
            engines = (*engines, engine.facts)
        self.manifest = replace(self.manifest, engines=engines, **registry.record())
        write_json(self._paths.manifest, self.manifest.as_json())
        return engine.draw

    def add(self, draws: Sequence[Draw]) -> None:
        """These were made."""
        self._tokens += sum(draw.n_tokens for draw in draws)

    @property
    def tokens_per_second(self) -> float:
        """Sampled tokens by wall time since the engine was started; 0 before."""
        if self._begun is None:
            return 0.0
        return self._tokens / max(time.monotonic() - self._begun, 1e-9)


class Bar:
    """One bar after another, a benchmark each, on standard error; nothing where that is no
    terminal."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._bar: Any = None
        self._task: Any = None

    @property
    def shown(self) -> bool:
        """Whether somebody can see it."""
        return sys.stderr.isatty()

    def __call__(self, name: str, done: int, total: int, numbers: dict[str, float]) -> None:
        """Say how many draws of a benchmark are made."""
        if not self.shown:
            return
        if name != self._name:
            self.close()
            self._name, self._bar = name, _bar(name)
            self._task = self._bar.add_task(name, total=total, completed=done, words="")
        words = f"{numbers['tokens_per_second']:,.0f} tok/s"
        if "pass_at_1" in numbers:
            words += f"  pass@1 {100 * numbers['pass_at_1']:.1f}"
        self._bar.update(self._task, completed=done, words=words)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._name = None


def _bar(name: str) -> Any:
    """A bar on standard error that has begun; a narrow terminal shortens the bar first."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    bar = Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(min_width=len(name))),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        console=Console(stderr=True),
        expand=True,
        redirect_stdout=False,  # what an engine prints is nothing to draw around
        redirect_stderr=False,
    )
    bar.start()
    return bar


# What stands where an evaluation begins: draws of another origin are refused, and what is damaged
# is moved aside, so that it alone is made again. The order is that of making: draws rest on what
# draws.json says of them, grades on draws. A file that is moved aside keeps its content under a
# name that nothing reads.

Recorded = Callable[[Path], str | None]
"""sha256 of a file by the marker that stood before; None where it lists none."""
UNKNOWN = "without draws.json nobody knows what these draws were made with"


def clear_draws(paths: BenchmarkPaths, recorded: Recorded) -> None:
    """Move aside a draws.json that cannot be read, and draws that nothing says the origin of: those
    without draws.json that are not what the marker recorded."""
    if paths.manifest.exists():
        try:
            read_record(paths.manifest, DrawsRecord)
        except ValueError as error:
            _quarantine(paths.manifest, paths.damaged, str(error))
    if paths.manifest.exists():
        return
    if paths.draws.exists() and recorded(paths.draws) != sha256_file(paths.draws):
        _quarantine(paths.draws, paths.damaged, UNKNOWN)
    if paths.shards.exists():
        _quarantine(paths.shards, paths.damaged, UNKNOWN)


def clear_tables(paths: BenchmarkPaths) -> None:
    """Move aside stored draws that cannot be read, grades that cannot, and the judgements of draws
    that are gone."""
    _clear_table(paths.draws, DRAWS, paths.damaged)
    if not paths.folder.exists():
        return
    judged = [*paths.folder.glob("grades.*.parquet"), *paths.folder.glob("passk*.parquet")]
    if not paths.shards.exists():
        judged += paths.folder.glob("judging.*")
    for path in sorted(judged):
        if not paths.draws.exists():
            _quarantine(path, paths.damaged, "the draws that it judges are gone")
        elif path.name.startswith("grades."):
            _clear_table(path, GRADES, paths.damaged)


def check_manifest(
    paths: BenchmarkPaths, problems: list[Problem], sha256: str | None, mark: str
) -> DrawsRecord:
    """What the draws belong to; written before the first draw, compared before every later one.

    Raises ValueError where draws of other weights, prompts or settings stand at this address.
    """
    expected = DrawsRecord(
        fingerprint=mark,
        weights_sha256=sha256,
        prompts_sha256=fingerprint([[p.problem_id, p.prompt] for p in problems]),
    )
    if not paths.manifest.exists():
        write_json(paths.manifest, expected.as_json())
        return expected
    manifest = read_record(paths.manifest, DrawsRecord)
    stored = manifest.as_json()
    for field, value in expected.as_json().items():
        if stored[field] != value:
            raise ValueError(
                f"{paths.folder} holds draws with {field} {stored[field]}, but this "
                f"evaluation has {value}: draws of different origin are never mixed; move that "
                "folder away, or bump `version`"
            )
    return manifest


def with_former(
    paths: BenchmarkPaths, manifest: DrawsRecord, former: EvaluationMarker | None, name: str
) -> DrawsRecord:
    """What the draws belong to, with what made them by an earlier marker of the evaluation, where
    it lacks that."""
    if former is None:
        return manifest
    whole = replace(
        manifest,
        engines=manifest.engines or (former.engines or {}).get(name, ()),
        taken_from=manifest.taken_from or (former.taken_from or {}).get(name),
    )
    if whole != manifest:
        write_json(paths.manifest, whole.as_json())
    return whole


def with_design(paths: BenchmarkPaths, manifest: DrawsRecord, evaluation: EvalSpec) -> DrawsRecord:
    """What the draws belong to, with the design at the end of its list of designs, which has none
    as long as all draws were made: pass@k is exact for one that was chosen before any grade was
    seen."""
    declared, designs = evaluation.design, manifest.designs
    design = None if declared is None else Design.parsed(to_dict(declared))
    if not designs and paths.draws.exists():
        designs = (DesignedSince(since=None, n_samples=None, design=None),)
    if design == (designs[-1].design if designs else None):
        return manifest
    since = now() if designs else None
    current = DesignedSince(since=since, n_samples=evaluation.n_samples, design=design)
    manifest = replace(manifest, designs=(*designs, current))
    write_json(paths.manifest, manifest.as_json())
    return manifest


def _clear_table(path: Path, schema: pl.Schema, into: Path) -> None:
    if path.exists():
        try:
            read_table(path, schema)
        except ValueError as error:
            _quarantine(path, into, str(error))


def _quarantine(path: Path, into: Path, why: str) -> None:
    print(f"{path}: {why}\nkept as {quarantine(path, into)}, and made again", flush=True)
