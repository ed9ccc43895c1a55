"""What is scored beside a benchmark's pass@k: other graders, rare correct answers.

In: results and the checkpoint that stands for each cell. Out: the rows of `other_graders` and
`likelihood` (Delta NLL). Next: frames.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import polars as pl

from fgrpo_bench.analysis.checkpoints import At, frame_key
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results, SweepResults
from fgrpo_bench.analysis.rows import CellRow, Likelihood, OtherGrader
from fgrpo_bench.analysis.scoring import mean_bound
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.kinds.likelihood import LikelihoodMarker
from fgrpo_bench.paper.published import published_delta_nll
from fgrpo_bench.stages.markers import has_valid_marker, read_marker_as
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.tables import BOUNDS, N_DRAWN


def other_graders(
    results: Results, chosen: Sequence[At], problems: Mapping[str, Collection[str]]
) -> Iterator[OtherGrader]:
    """A row a benchmark, further grader, cell and k; none where a cell has no grades of it.

    problems: those of each benchmark that count.
    """
    for benchmark in results.judged_twice:
        graders = {
            name: None
            for checkpoint in results.checkpoints
            for name in checkpoint.extra_grader_versions(benchmark)
        }
        for grader in graders:
            for cell, step in chosen:
                graded = [
                    checkpoint
                    for checkpoint in results.checkpoints
                    if frame_key(checkpoint) == (cell, step)
                    and grader in checkpoint.extra_grader_versions(benchmark)
                ]
                if graded:
                    yield from _grader_rows(graded, benchmark, grader, cell, problems[benchmark])


def _grader_rows(
    checkpoints: Sequence[EvaluatedCheckpoint],
    benchmark: str,
    grader: str,
    cell: str,
    problems: Collection[str],
) -> Iterator[OtherGrader]:
    tables = [
        checkpoint.extra_passk(benchmark, grader).with_columns(n_drawn=N_DRAWN)
        for checkpoint in checkpoints
    ]
    values = (
        pl.concat(tables)
        .filter(pl.col("problem_id").is_in(list(problems)))
        .group_by("k", "problem_id")
        .agg(
            pl.col("pass_at_k", *BOUNDS).mean(),
            with_value=pl.col("pass_at_k").count(),
            drawn=pl.col("n_drawn").sum(),
            scored=pl.col("n_scored").filter(pl.col("n_drawn").is_not_null()).sum(),
        )
        .sort("k", "problem_id")  # so that sums are in one order, and the digits the same
    )
    complete = pl.col("with_value") == len(checkpoints)
    means = values.group_by("k", maintain_order=True).agg(
        pl.col("pass_at_k").filter(complete).mean(),
        *map(mean_bound, BOUNDS),
        unscored=1 - pl.col("scored").sum() / pl.col("drawn").sum(),
    )
    for k, mean, all_wrong, all_right, unscored in means.iter_rows():
        yield OtherGrader(
            benchmark=benchmark,
            grader=grader,
            versions=tuple(
                sorted(
                    {
                        checkpoint.extra_grader_versions(benchmark)[grader]
                        for checkpoint in checkpoints
                    }
                )
            ),
            cell=cell,
            k=k,
            pass_at_k=mean,
            n_seeds=len(checkpoints),
            unscored=unscored,
            all_wrong=all_wrong,
            all_right=all_right,
        )


def likelihood_stages(sweep: SweepResults) -> Iterator[tuple[str, int, StagePaths]]:
    """point_id, step and stage of every checkpoint whose likelihoods are done."""
    plan = read_plan(sweep.paths)
    for point in plan.points:
        for checkpoint in point.checkpoints:
            if checkpoint.likelihood is not None:
                stage = StagePaths(sweep.paths.folder / checkpoint.likelihood)
                if has_valid_marker(
                    stage, fingerprint=plan.fingerprints.get(checkpoint.likelihood)
                ):
                    yield point.point_id, checkpoint.step, stage


def likelihoods(sweep: SweepResults, cells: Sequence[CellRow]) -> Iterator[Likelihood]:
    """A row a cell with a score; a set without an answer has none."""
    markers = {
        (point, step): read_marker_as(LikelihoodMarker, stage)
        for point, step, stage in likelihood_stages(sweep)
    }
    for cell in cells:
        scored = {}
        for point in sorted(sweep.points, key=lambda point: point.seed):
            if frame_key(point) != (cell.cell, cell.step):
                continue
            marker = markers.get((point.point_id, point.step))
            if marker is not None and marker.delta_nll is not None:
                scored[point.seed] = marker.delta_nll, marker.n_rare
        if scored:
            by_seed = tuple(delta_nll for delta_nll, _ in scored.values())
            yield Likelihood(
                cell=cell.cell,
                seeds=tuple(scored),
                by_seed=by_seed,
                mean=sum(by_seed) / len(by_seed),
                n_rare=tuple(n_rare for _, n_rare in scored.values()),
                published=published_delta_nll(cell.setting),
            )
