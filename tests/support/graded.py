"""A small synthetic sweep whose grades are of real draws, its weights and markers, and a report."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fgrpo_bench.analysis.results import PointResult, SweepResults, load_results
from fgrpo_bench.analysis.scoring import count, score
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.graders import get_grader
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.report.build import write_report
from fgrpo_bench.specs import BenchmarkSpec, from_dict
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, write_table
from fgrpo_bench.stats.staged import fixed_design
from tests.support.report import ONE_SEED, small_sweep


def reported_sweep(root: Path) -> SweepResults:
    """Two points and their base model, done and reported as `run` leaves them."""
    results = small_sweep(root, "smoke", ONE_SEED)
    for point in results.points:
        draw_and_grade(point)
        weights_and_markers(point)
    write_report(load_results(results.paths))
    return results


def draw_and_grade(point):
    """Real draws, grades and pass@k for a point of a synthetic sweep: some right, some wrong."""
    spec = read_json(point.evaluate.spec)
    evaluation = spec["evaluation"]
    benchmark = from_dict(BenchmarkSpec, evaluation["benchmarks"]["countdown"])
    problems = load_problems(benchmark, spec["identity"]["sampling"]["task"], None)
    n, grade = evaluation["n_samples"], get_grader("countdown")
    rows, grades, own = [], [], 1000 * sum(point.point_id.encode())
    for number, problem in enumerate(problems):
        digits, _, _ = problem.target.partition("-")
        guesses = ["+".join(digits), "*".join(digits), "what?"]
        for draw in range(n):
            response = guesses[(draw + number + point.step) % 3]
            rows.append((problem.problem_id, draw, own + draw, response, len(response), "stop", 1))
            made = grade(problem, response)
            grades.append(
                (problem.problem_id, draw, made.outcome, made.extracted, made.reason, "countdown-1")
            )
    paths = point.evaluate.benchmark("countdown")
    table = pl.DataFrame(grades, schema=GRADES, orient="row")
    draws = pl.DataFrame(rows, schema=DRAWS, orient="row")
    write_table(paths.draws, draws, DRAWS)
    write_table(paths.grades("countdown-1"), table, GRADES)
    design = fixed_design(n)
    counts = count(table, design, draws=draws)
    write_table(paths.passk(), score(counts, evaluation["ks"], design, problems=problems), PASSK)


def weights_and_markers(point: PointResult) -> None:
    """A file in place of the weights, and markers that list all files, with digests."""
    weights = point.train.checkpoint(point.step) / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(f"weights of {point.point_id}".encode())
    digest = sha256_file(weights)
    made = [weights, *filter(Path.exists, [point.train.metrics])]
    rewritten(point.train, made, step=point.step, weights_sha256=digest)
    paths = point.evaluate.benchmark("countdown")
    mark = read_json(point.evaluate.spec)["fingerprint"]
    manifest = DrawsRecord(fingerprint=mark, weights_sha256=digest, prompts_sha256="p")
    write_json(paths.manifest, manifest.as_json())
    files = [paths.manifest, paths.draws, paths.grades("countdown-1"), paths.passk()]
    rewritten(point.evaluate, files, step=point.step, weights_sha256=digest)
