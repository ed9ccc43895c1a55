"""The evaluation stage: sample what is missing, grading it meanwhile, and compute pass@k.

Each of the three leaves a file of its own, so that a new k or a new grader never draws again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from evaluators.backends import make_engine
from evaluators.canaries import Session
from evaluators.grade_worker import GradeWorkers
from evaluators.grading import Grading, grade_workers
from evaluators.records import Draw, Engine, SamplingTarget
from evaluators.resume import check_manifest, clear_draws, clear_tables, with_design, with_former
from evaluators.sample import complete_draws
from evaluators.shared import SharedDraws
from fgrpo_bench.benchmarks import graders_of, load_problems
from fgrpo_bench.kinds.evaluate import EvaluationFacts, EvaluationMarker, EvaluationSpec
from fgrpo_bench.scoring import count_stored, score
from fgrpo_bench.specs import Placement
from fgrpo_bench.stages.draws import CanaryRecord
from fgrpo_bench.stages.files import write_json
from fgrpo_bench.stages.spec import StageSpec
from fgrpo_bench.stages.stage import StageRun, Stopped
from fgrpo_bench.tables import PASSK, write_table


def evaluate(
    stored: StageSpec,
    run: StageRun,
    *,
    device: str,
    placement: Placement | None,
    bar: Bar | None,
) -> EvaluationFacts:
    """Run an evaluation stage; returns facts for its completion marker.

    bar: shows the progress in place of lines; None prints lines.
    """
    run.quiet = bar is not None and bar.shown
    spec = stored.of(EvaluationSpec)
    asked = SamplingTarget.of(spec, device=device, placement=placement)
    evaluation, stopping = asked.evaluation, asked.evaluation.stopping

    @cache
    def engine() -> Engine:
        started = make_engine(asked)
        facts.update(started.facts)
        if run.stopping:
            raise Stopped("the engine was only being started; what was drawn before is saved")
        return started

    draws_made: dict[str, int] = {}
    adopted: dict[str, int] = {}
    adopted_seconds: dict[str, float] = {}
    graded: dict[str, dict[str, Any]] = {}
    canaries: dict[str, tuple[CanaryRecord, ...]] = {}
    facts: dict[str, Any] = {}
    former = None if run.former is None else EvaluationMarker.parsed(run.former.as_json())
    for name, benchmark in evaluation.benchmarks.items():
        paths = run.paths.benchmark(name)
        problems = load_problems(benchmark, asked.settings["task"], spec.data_folder(name))
        clear_draws(paths, run.recorded)
        clear_tables(paths)
        manifest = check_manifest(paths, problems, asked.sha256, spec.mark(name))
        manifest = with_former(paths, manifest, former, name)
        manifest = with_design(paths, manifest, evaluation)
        with GradeWorkers(problems, workers=grade_workers()) as workers:
            layers = [
                Grading(
                    paths,
                    problems,
                    grader,
                    workers=workers,
                    decides=stopping is not None and grader == benchmark.grader,
                )
                for grader in graders_of(benchmark)
            ]
            pace, session = Pace(), Session(paths, manifest, problems, engine)

            def tell(
                done: int,
                of: int,
                draws: Sequence[Draw],
                layers: Sequence[Grading] = layers,
                pace: Pace = pace,
                session: Session = session,
                name: str = name,
            ) -> None:
                session.add(draws)
                for layer in layers:
                    layer.add(draws)
                numbers = {"tokens_per_second": pace.tokens_per_second(draws)}
                if (share := layers[0].pass_at_1) is not None:
                    numbers["pass_at_1"] = share
                if bar is not None:
                    bar(name, done, of, numbers)
                run.progress(step=done, of=of, **numbers)
                if run.stopping and done < of:
                    raise Stopped(f"{done} of {of} draws are saved")

            with SharedDraws.of(
                asked, name, problems, run.paths, stopped=lambda: run.stopping
            ) as shared:
                draws, draws_made[name] = complete_draws(
                    paths,
                    problems,
                    n_samples=evaluation.n_samples,
                    seed=spec.draw_seed,
                    sampler=session.sampler,
                    tell=tell,
                    stopping=stopping,
                    grading=layers[0] if stopping else None,
                    shared=shared,
                )
                session.end()
                manifest = shared.publish(
                    paths.draws, draws, session.manifest, session.draw_seconds
                )
            if shared.is_open:
                write_json(paths.manifest, manifest.as_json())
            if shared.n_taken:
                adopted[name] = shared.n_taken
                if (seconds := shared.taken_seconds) is not None:
                    adopted_seconds[name] = round(seconds, 3)
            for layer in layers:
                layer.finish(draws)
                own = layer is layers[0]
                at = paths.passk if own else paths.also_passk(layer.version)
                counts = count_stored(paths.grades(layer.version), stopping)
                table = score(counts, list(evaluation.ks), stopping, problems=problems)
                write_table(at, table, PASSK)
                run.leave(paths.grades(layer.version), at)
            run.leave(paths.manifest, paths.draws)
            canaries[name] = manifest.canaries
            graded[name] = {layer.version: layer.tally.facts() for layer in layers}
    return EvaluationFacts(
        step=spec.looks_at[1],
        weights_sha256=asked.sha256,
        draws_made=draws_made,
        draws_adopted=adopted,
        adopted_seconds=adopted_seconds,
        grading=graded,
        engine=facts,
        canaries=canaries,
    )


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

    def __call__(self, name: str, done: int, of: int, numbers: dict[str, float]) -> None:
        """Say how many draws of a benchmark are made."""
        if not self.shown:
            return
        if name != self._name:
            self.close()
            self._name, self._bar = name, _bar(name)
            self._task = self._bar.add_task(name, total=of, completed=done, words="")
        words = f"{numbers['tokens_per_second']:,.0f} tok/s"
        if "pass_at_1" in numbers:
            words += f"  pass@1 {100 * numbers['pass_at_1']:.1f}"
        self._bar.update(self._task, completed=done, words=words)
        if done >= of:
            self.close()

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


class Pace:
    """How fast draws come in."""

    def __init__(self) -> None:
        self._begun: float | None = None
        self._tokens = 0

    def tokens_per_second(self, draws: Sequence[Draw]) -> float:
        """Sampled tokens a second since the first call, whose draws do not count."""
        clock = time.monotonic()
        if self._begun is None:
            self._begun = clock
            return 0.0
        self._tokens += sum(draw.n_tokens for draw in draws)
        return self._tokens / max(clock - self._begun, 1e-9)
