"""The stored files that MLflow is a view of, and digests of them.

A digest covers everything that a run is computed from, so that nothing is computed of a run whose
digest MLflow holds already. A file that its stage's marker lists counts by the digest that stands
there, any other one is read. The digest of an analysis (fgrpo_bench.analysis.frames) is another:
one of a whole sweep, which reads every table, so that whatever is damaged is noticed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fgrpo_bench import __version__
from fgrpo_bench.analysis import Analysis, analysed, cells_of
from fgrpo_bench.analysis.checkpoints import LAST, At, frame_key
from fgrpo_bench.analysis.results import PointResult, SweepResults
from fgrpo_bench.analysis.rows import CellRow, Comparison, EqualPassAt1, Estimate, FirstLoss
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.report import provenance
from fgrpo_bench.report.cell_styles import cell_styles
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import read_stages

VERSION = 8
"""Of what is computed from the same files; another one writes every run again."""


def digest_of(*values: Any) -> str:
    """Of JSON values, and of what computes with them."""
    return fingerprint([VERSION, __version__, *values])


def report_files(paths: RunPaths) -> list[Path]:
    """Files of the report as it was written last, without what another one left beside them; empty
    without a report. ValueError where its provenance is damaged, likewise below."""
    facts = paths.report / provenance.NAME
    if not facts.exists():
        return []
    named = (paths.report / name for name in sorted(provenance.read(facts).files))
    return [facts, *(path for path in named if path.is_file())]


def rule_of(paths: RunPaths) -> str:
    """What chose the checkpoints that the report is about, so that MLflow is about the same ones;
    the last of every run without a report."""
    facts = paths.report / provenance.NAME
    return provenance.read(facts).select if facts.exists() else LAST


@dataclass(frozen=True)
class Mean:
    """pass@k of a point over the problems that have a value for every seed of its cell, so that the
    points of a cell average to it."""

    column: str
    """Benchmark or average."""
    k: int
    value: float
    n_problems: int


@dataclass(frozen=True)
class Source:
    """A sweep's results, each run at its last checkpoint, and what is computed from them."""

    results: SweepResults

    @cached_property
    def rule(self) -> str:
        """What chooses the checkpoint that stands for each run."""
        return rule_of(self.results.paths)

    @cached_property
    def analysis(self) -> Analysis:
        """Under this rule."""
        return analysed(self.results, self.rule)

    @cached_property
    def _means(self) -> Mapping[tuple[At, int], Sequence[Mean]]:
        """By cell, step and seed."""
        means: dict[tuple[At, int], list[Mean]] = {}
        for row in self.analysis.rows("estimates"):
            if row.by_seed:
                for seed, value in zip(row.seeds, row.by_seed, strict=True):
                    mean = Mean(row.column, row.k, value, row.n_problems)
                    means.setdefault(((row.cell, row.step), seed), []).append(mean)
        return means

    def means_of(self, point: PointResult) -> Sequence[Mean]:
        """Of a point at its checkpoint; none where that is not evaluated."""
        return self._means.get((frame_key(point), point.seed), ()) if point.is_evaluated else ()

    def estimates_of(self, cell: str) -> Sequence[Estimate]:
        """pass@k of a cell on every benchmark and average, at the checkpoint that stands for it."""
        analysis = self.analysis
        return [row for column in analysis.columns for row in analysis.over_k(column, cell)]

    def first_losses_of(self, cell: str) -> Sequence[FirstLoss]:
        """Where along k a trained cell falls behind its base models, by column."""
        rows = (
            self.analysis.first_loss_of(column, cell, "base") for column in self.analysis.columns
        )
        return [row for row in rows if row is not None]

    def comparisons_of(self, cell: str) -> Sequence[Comparison]:
        """What a cell is asked to be compared with, on the headline."""
        analysis = self.analysis
        headline = (row for row in analysis.question_rows if row.column in analysis.headline)
        return [row for row in headline if row.new == cell]

    def on_paths(self, cell: str) -> Sequence[EqualPassAt1]:
        """The same at equal pass@1."""
        return [row for row in self.analysis.on_paths if row.new == cell]

    def chosen(self, point: PointResult) -> PointResult:
        """The point at the checkpoint that stands for it."""
        step = self.analysis.by_cell[frame_key(point)[0]].step
        return next(at for at in map(point.at, point.checkpoints) if at.step == step)

    @cached_property
    def cells(self) -> dict[str, CellRow]:
        """Every planned cell by its key, without an analysis, which costs more."""
        return cells_of(self.results)

    @cached_property
    def colors(self) -> dict[str, str]:
        """Of every cell by its key, as figures and dashboard draw it."""
        return {
            cell_style.cell: style.color
            for cell_style, style in cell_styles(list(self.cells.values())).items()
        }

    @cached_property
    def failed(self) -> set[str]:
        """point_id where a stage failed and is not at work again."""
        paths = self.results.paths
        stages = read_stages(paths, read_plan(paths).stages)
        return {stage.point_id for stage in stages if stage.state == "failed"}

    def span(self, point: PointResult) -> tuple[int | None, int | None]:
        """When the first step began, or the stage where it logs no steps, and when the evaluation
        was complete, in milliseconds since 1970; None where it has not, and is not."""
        end = point.evaluated().finished_ms if point.is_evaluated else None
        curves = point.metrics().sort("step")
        if len(curves):
            return int(curves["time_ms"][0] - 1000 * curves["seconds"][0]), end
        if not point.is_trained:
            return None, end
        marker = read_marker(point.train)
        if marker.finished_ms is None or marker.wall_seconds is None:
            return None, end
        return int(marker.finished_ms - 1000 * marker.wall_seconds), end

    def has_begun(self, point: PointResult) -> bool:
        """Whether there is something to show of a point."""
        return point.is_trained or len(point.metrics()) > 0

    def outline(self, point: PointResult) -> str:
        """Digest of what the run of its cell takes from a point: its params, when it began and when
        it ended."""
        stages = [point.train, *(checkpoint.evaluate for checkpoint in point.checkpoints)]
        begun = None if point.is_trained else self.span(point)[0]
        return digest_of(begun, [_digests(stage, [stage.spec, stage.done]) for stage in stages])

    def digest(self, point: PointResult) -> str:
        """Of everything that the run of a point is computed from."""
        checkpoints = [point.at(checkpoint) for checkpoint in point.checkpoints]
        files = [_digests(point.train, [point.train.step_rows, point.train.metrics])]
        for checkpoint in checkpoints:
            benchmarks = [checkpoint.evaluate.benchmark(name) for name in self.results.benchmarks]
            tables = [file for paths in benchmarks for file in (paths.manifest, paths.passk())]
            files.append(_digests(checkpoint.evaluate, tables))
        return digest_of(
            *(self.origin, self.outline(point), point.point_id in self.failed, files),
            [[astuple(mean) for mean in self.means_of(checkpoint)] for checkpoint in checkpoints],
            self.chosen(point).step if point.is_evaluated else None,
            self.colors[frame_key(point)[0]],
        )

    @cached_property
    def origin(self) -> Sequence[Any]:
        """What every run says of its sweep."""
        results, recorded = self.results, self.results.record
        return [
            *(str(results.paths.folder.resolve()), results.model, results.benchmarks),
            *(recorded.git_commit, recorded.git_dirty),
        ]


def _digests(stage: StagePaths, files: Iterable[Path]) -> list[str | None]:
    """Of files of a stage; None for one that is not there."""
    try:
        listed = read_marker(stage).outputs
    except (FileNotFoundError, ValueError):  # a damaged marker is none
        listed = {}
    digests: list[str | None] = []
    for file in files:
        try:
            output = listed.get(file.relative_to(stage.folder).as_posix())
            if output is not None and output.bytes == file.stat().st_size:
                digests.append(output.sha256)
            else:
                digests.append(sha256_file(file))
        except (FileNotFoundError, NotADirectoryError):
            digests.append(None)
    return digests
