"""A finished sweep on disk with planted truths, written through the project's own types."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import numpy as np
import polars as pl

from fgrpo_bench.analysis.results import PointResult, SweepResults, load_results
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import now, read_json, write_json
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stages.markers import Marker, write_marker
from fgrpo_bench.stages.tables import METRICS, PASSK, write_table
from fgrpo_bench.stats.passk import pass_at_k
from sweeps.freeze import stored_declaration
from sweeps.plan import plan_record
from tests.support.plans import planned

SMALL = [
    "experiment.evaluation.n_samples=64",
    "experiment.evaluation.ks=[1,8,32]",
    "experiment.evaluation.benchmarks.countdown.n_problems=24",
    "experiment.train.steps=20",
]
"""Overrides that keep a synthetic sweep small."""

THREE_SEEDS = ("sweep.grid.seed=[11,12,13]", "sweep.family.ks=null")
"""Overrides of the sweep groupsize beside those given: fewer points, and two ks."""

SuccessRates = Callable[[PointResult, np.random.Generator, int], np.ndarray]


def falling_with_group_size(
    point: PointResult, rng: np.random.Generator, n_problems: int
) -> np.ndarray:
    """Success rates [n_problems]: problems drop to zero as N grows, fewer under focal weighting."""
    base = np.random.default_rng(1).beta(0.4, 1.2, n_problems)
    if point.cell is None:
        return base
    lost = 0.03 * point.cell.group_size / (1 + 4 * point.cell.focal_gamma)
    kept = np.random.default_rng([2, point.seed]).random(n_problems) > min(lost, 0.8)
    return np.where(kept, np.minimum(1.5 * base, 0.98), 0.0)


def write_sweep(
    root: Path,
    sweep: str = "groupsize",
    overrides: Sequence[str] | None = None,
    success_rates: SuccessRates = falling_with_group_size,
) -> SweepResults:
    """Plan, specs, metrics, markers and pass@k of a whole sweep, loaded back.

    The same sweep, with the same function of success rates, is composed and written once a process
    and copied from then on.
    """
    chosen = list(SMALL if overrides is None else overrides)
    if sweep == "groupsize":
        chosen += [given for given in THREE_SEEDS if not _sets(chosen, given.partition("=")[0])]
    return copy(_written_once(sweep, tuple(chosen), success_rates), root)


def _sets(overrides: Sequence[str], key: str) -> bool:
    """Whether an override sets a key, or what holds it."""
    keys = {override.partition("=")[0].lstrip("+") for override in overrides}
    return key in keys or key.rpartition(".")[0] in keys


def copy(results: SweepResults, root: Path) -> SweepResults:
    """The same sweep under another root, to be changed."""
    paths = replace(results.paths, root=root)
    shutil.copytree(results.paths.folder, paths.folder, dirs_exist_ok=True)
    return load_results(paths)


def template_root() -> Path:
    """A new folder for what is made once a process to be copied; gone when the process ends."""
    return Path(mkdtemp(dir=_templates().name))


@cache
def _templates() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="fgrpo-sweeps-")


@cache
def _written_once(
    sweep: str, overrides: tuple[str, ...], success_rates: SuccessRates
) -> SweepResults:
    root = template_root()
    paths, plan = planned(root, sweep, *overrides)
    declaration = plan.declaration
    write_json(paths.plan, with_checksum(plan_record(plan).as_json()))
    write_json(
        paths.sweep_json,
        with_checksum(
            {
                "declaration": stored_declaration(declaration),
                "git_commit": "0" * 40,
                "git_dirty": False,
                "versions": {"python": "3.11.0", "torch": "2.13.0"},
                "created": now(),
            }
        ),
    )
    for stage in plan.stages:
        write_json(paths.folder / stage.name / "spec.json", stage.spec.as_json())
    for point in load_results(paths).points:
        for checkpoint in point.checkpoints:
            _evaluate(point.at(checkpoint), declaration.experiment.evaluation.ks, success_rates)
        if point.cell is not None:
            train, size = declaration.experiment.train, point.cell.group_size
            a_step = train.rollouts_per_step or train.prompts_per_step * size
            made = metrics(point.step, point.seed, rollouts_per_step=a_step)
            write_table(point.train.metrics, made, METRICS)
        _mark(point.train)
    return load_results(paths)


def _evaluate(point: PointResult, ks: tuple[int, ...], success_rates: SuccessRates) -> None:
    spec = read_json(point.evaluate.spec)
    evaluation = spec["evaluation"]
    rng = np.random.default_rng([3, point.seed, 0 if point.cell is None else point.cell.group_size])
    for name, benchmark in evaluation["benchmarks"].items():
        n, problems = evaluation["n_samples"], benchmark["n_problems"]
        correct = rng.binomial(n, success_rates(point, rng, problems))
        table = pl.DataFrame(
            {
                "problem_id": np.tile([f"p{i:03d}" for i in range(problems)], len(ks)),
                "k": np.repeat(ks, problems),
                "n_scored": np.full(problems * len(ks), n),
                "n_correct": np.tile(correct, len(ks)),
                "n_cut_off": np.zeros(problems * len(ks), int),
                "n_correct_cut_off": np.zeros(problems * len(ks), int),
                "n_by_place": np.zeros(problems * len(ks), int),
                "n_unscored": [[0]] * (problems * len(ks)),
                "cluster": [None] * (problems * len(ks)),
            }
            | dict.fromkeys(
                ("pass_at_k", "pass_at_k_low", "pass_at_k_high"),
                np.concatenate([pass_at_k(n_samples=n, n_correct=correct, k=k) for k in ks]),
            ),
            schema=PASSK,
        )
        write_table(point.evaluate.benchmark(name).passk(), table, PASSK)
    _mark(point.evaluate)


def _mark(stage: StagePaths) -> None:
    spec = read_json(stage.spec)
    write_marker(
        stage,
        Marker(
            fingerprint=spec["fingerprint"],
            target=spec["target"],
            finished="2026-01-02T03:04:05+00:00",
            finished_ms=1767323045000,
            wall_seconds=12.5,
            cpu_seconds=11.25,
            outputs={},
        ),
    )


def metrics(steps: int, seed: int, *, rollouts_per_step: int = 256) -> pl.DataFrame:
    """Training metrics (tables.METRICS) of a run whose reward rises."""
    rng = np.random.default_rng(seed)
    step = np.arange(1, steps + 1)
    every = step % 5 == 0
    return (
        pl.DataFrame(
            {
                "step": step,
                "time_ms": 1767323000000 + 100 * step,
                "seconds": rng.uniform(0.05, 0.1, steps),
                "seconds_generation": rng.uniform(0.02, 0.04, steps),
                "seconds_experience": np.full(steps, np.nan),
                "seconds_training": rng.uniform(0.02, 0.04, steps),
                "seconds_sync": np.full(steps, np.nan),
                "seconds_evaluation": np.where(every, 0.3, np.nan),
                "gpus": np.zeros(steps),
                "reward": 0.15 + 0.1 * step / steps + rng.normal(0, 0.01, steps),
                "success_rate": 0.15 + 0.1 * step / steps + rng.normal(0, 0.01, steps),
                "active_fraction": 0.6 + rng.normal(0, 0.02, steps),
                "wrong_repeated_fraction": np.full(steps, 0.05),
                "wrong_different_fraction": np.full(steps, 0.25),
                "right_repeated_fraction": 0.1 * step / steps,
                "right_different_fraction": np.zeros(steps),
                "solution_entropy": 0.6 - 0.4 * step / steps,
                "focal_weight": 0.7 + rng.normal(0, 0.02, steps),
                "entropy": 0.5 - 0.2 * step / steps,
                "clip_fraction": rng.uniform(0.0, 0.1, steps),
                "rollout_kl": rng.normal(0, 1e-7, steps),
                "reference_kl": None,
                "loss": rng.normal(0, 0.01, steps),
                "grad_norm": rng.uniform(0.5, 1.0, steps),
                "learning_rate": np.full(steps, 2e-4),
                "response_tokens": np.full(steps, 8.0),
                "truncated_fraction": np.zeros(steps),
                "unscored_fraction": np.zeros(steps),
                "rollouts": rollouts_per_step * step,
                "tokens": 2048 * step,
                "optimizer_steps": 2 * step,
                "eval_pass_at_1": np.where(every, 0.2, np.nan),
                "eval_pass_at_n": np.where(every, 0.8, np.nan),
            }
        )
        .with_columns(pl.col("^eval_.*$", "^seconds_.*$").fill_nan(None))
        .cast(dict(METRICS))
    )
