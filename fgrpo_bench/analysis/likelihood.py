"""Delta NLL of rare correct answers of the checkpoints that stand for their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fgrpo_bench.analysis.published import published_delta_nll
from fgrpo_bench.analysis.read import key_of
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.kinds.likelihood import LikelihoodMarker
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.markers import read_marker_of, stands
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.stages.plan import read_plan


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """Delta NLL: mean rise of the negative log-likelihood of rare correct answers, nats a token."""

    cell: str
    seeds: tuple[int, ...]
    by_seed: tuple[float, ...]
    mean: float
    n_rare: tuple[int, ...]
    """Answers, by seed."""
    published: str | None
    """The paper's figure of the same algorithm, N and gamma, as printed."""


def stages(sweep: SweepResults) -> Iterator[tuple[str, int, StagePaths]]:
    """point_id, step and stage of every checkpoint whose likelihoods are done."""
    plan = read_plan(sweep.paths)
    for point in plan.points:
        for checkpoint in point.checkpoints:
            if checkpoint.likelihood is not None:
                stage = StagePaths(sweep.paths.folder / checkpoint.likelihood)
                if stands(stage, fingerprint=plan.fingerprints.get(checkpoint.likelihood)):
                    yield point.point_id, checkpoint.step, stage


def likelihoods(sweep: SweepResults, cells: Sequence[CellRow]) -> Iterator[Likelihood]:
    """A row a cell with a score; a set without an answer has none."""
    markers = {
        (point, step): read_marker_of(LikelihoodMarker, stage)
        for point, step, stage in stages(sweep)
    }
    for cell in cells:
        own = {
            point.seed: (marker.delta_nll, marker.n_rare)
            for point in sorted(sweep.points, key=lambda point: point.seed)
            if key_of(point) == (cell.cell, cell.step)
            and (marker := markers.get((point.point_id, point.step))) is not None
            and marker.delta_nll is not None
        }
        if own:
            by_seed = tuple(delta_nll for delta_nll, _ in own.values())
            yield Likelihood(
                cell=cell.cell,
                seeds=tuple(own),
                by_seed=by_seed,
                mean=sum(by_seed) / len(by_seed),
                n_rare=tuple(n_rare for _, n_rare in own.values()),
                published=published_delta_nll(cell.setting),
            )
