"""Staged designs for tests: any small one, every end of one, and a sweep whose problems stop."""

from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import strategies as st

from fgrpo_bench import StagedDesign
from fgrpo_bench.analysis.results import PointResult, SweepResults, load_results
from fgrpo_bench.analysis.scoring import count, score
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.draws import Design, DesignedSince, DrawsRecord
from fgrpo_bench.stages.markers import Marker, write_marker
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, write_table
from fgrpo_bench.stats.staged import DrawPath
from tests.support.dashboard import GRADER
from tests.support.synthetic import write_sweep


def paths(design):
    """Every end of a design: draws, correct ones, and the path to it."""
    for n, c in np.stack(design.ends(), axis=1).tolist():
        before = max((stage for stage in design.stages if stage < n), default=0)
        yield n, c, DrawPath(before, n - before, design.enough)


@st.composite
def designs(draw: st.DrawFn, most: int = 9) -> StagedDesign:
    stages = draw(st.sets(st.integers(1, most), min_size=1, max_size=4))
    return StagedDesign(stages=sorted(stages), enough=draw(st.integers(1, 4)))


DESIGN = StagedDesign(stages=(2, 4, 8), enough=2)
OTHER = StagedDesign(stages=(4, 8), enough=3)
STAGED = [
    "experiment.evaluation.n_samples=8",
    "experiment.evaluation.ks=[1,4,8]",
    "+experiment.evaluation.design={stages:[2,4,8],enough:2}",
    "experiment.evaluation.benchmarks.countdown.n_problems=24",
    "experiment.train.steps=20",
    "sweep.grid.algorithm=[grpo]",
    "sweep.grid.focal_gamma=[0.0,1.0]",
    "sweep.grid.seed=[11,12]",
]
"""Overrides of a small sweep whose problems stop by DESIGN."""
OPEN, UNDER_OTHER = "p007", "grpo-n8-g1-s12"
"""A problem of the first GRPO run whose judgements ask for more draws, and a run under OTHER."""
ALL_DRAWN = "base-s12"
"""A run whose draws were all made, before problems stopped."""


def verdicts(point_id: str, n_problems: int) -> dict[str, list[str]]:
    """Verdicts of every problem's draws, of which a design makes the first ones; some unscored.

    OPEN is solved too late to stop in its first stages."""
    rng = np.random.default_rng(list(point_id.encode()))
    rates = rng.beta(0.4, 1.2, n_problems)
    drawn = rng.random((n_problems, DESIGN.stages[-1]))
    judged = np.where(drawn < rates[:, None], "correct", "incorrect")
    judged[rng.random(drawn.shape) < 0.02] = "unscored"
    judged[3, :4] = ["unscored", "correct", "incorrect", "correct"]
    judged[int(OPEN[1:])] = ["incorrect"] * 6 + ["correct"] * 2
    return {f"p{i:03d}": own.tolist() for i, own in enumerate(judged)}


def made(design: StagedDesign, of: list[str]) -> list[str]:
    """The verdicts of the draws that a design makes, one stage after the other."""
    for stage in design.stages:
        if of[:stage].count("correct") >= design.enough:
            return of[:stage]
    return of


def staged_sweep(root: Path) -> SweepResults:
    """Two seeds of GRPO and F-GRPO at N = 8 whose problems stop by DESIGN, one run by OTHER, and a
    problem whose draws are not all there. Grades are of GRADER."""
    results = write_sweep(root, "gamma", STAGED)
    for point in results.points:
        design = OTHER if point.point_id == UNDER_OTHER else DESIGN
        judge(point, design, open_problem=point.point_id == "grpo-n8-g0-s11")
    return load_results(results.paths)


def judge(point: PointResult, design: StagedDesign, *, open_problem: bool) -> None:
    """Draws, grades and pass@k of a point, its marker and the facts of its draws."""
    rows = []
    for name, of in verdicts(point.point_id, 24).items():
        own = of if point.point_id == ALL_DRAWN else made(design, of)
        own = own[: 4 if open_problem and name == OPEN else None]
        rows += [
            (name, draw, verdict, f"{verdict}!", None, GRADER) for draw, verdict in enumerate(own)
        ]
    grades = pl.DataFrame(rows, schema=GRADES, orient="row")
    paths = point.evaluate.benchmark("countdown")
    draws = grades.select(
        "problem_id",
        "draw",
        seed=pl.int_range(pl.len()),
        response=pl.col("extracted"),
        n_tokens=pl.lit(5),
        finish_reason=pl.lit("stop"),
        end_token=pl.lit(1),
    ).cast(dict(DRAWS))
    write_table(paths.draws, draws, DRAWS)
    write_table(paths.grades(GRADER), grades, GRADES)
    ks = read_json(point.evaluate.spec)["evaluation"]["ks"]
    write_table(paths.passk(), score(count(grades, design, draws=draws), ks, design), PASSK)
    marker = read_json(point.evaluate.done)
    asked = Design(stages=tuple(design.stages), enough=design.enough)
    marker["target"] |= {"design": asked.as_json(), "graders": {"countdown": GRADER}}
    write_marker(point.evaluate, Marker.parsed(marker))
    designs = [DesignedSince(since=None, n_samples=8, design=asked)]
    if design == OTHER:
        designs.insert(0, DesignedSince(since=None, n_samples=None, design=None))
    manifest = DrawsRecord(
        fingerprint=marker["fingerprint"],
        weights_sha256=None,
        prompts_sha256="p",
        designs=tuple(designs),
    )
    write_json(paths.manifest, manifest.as_json())
