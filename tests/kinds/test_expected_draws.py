"""What a design is expected to draw: by stored grades, by those of base models, by the prior."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.analysis.scoring import score
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds import evaluate, expected_draws
from fgrpo_bench.kinds.flops import lengths
from fgrpo_bench.specs import config
from fgrpo_bench.stages.tables import DRAWS, PASSK, UNFINISHED, write_table
from fgrpo_bench.stats.staged import PRIOR, StagedDesign, beta_rates, draws_by_prior
from sweeps import preview, status
from sweeps.cli import main
from sweeps.plan import make_plan, plan_record

STAGED = [
    "evaluation@experiment.evaluation=pass16",
    "experiment.evaluation.design={stages:[8,32],enough:2}",
]
N_CORRECT = np.array([0, 1, 4, 16])
RATES = N_CORRECT / 32
TOKENS = np.array([5, 5, 3, 3])


def plan_of(root, *overrides, staged=True):
    chosen = STAGED if staged else STAGED[:1]
    return make_plan(config.load("smoke", [f"run_root='{root}'", *chosen, *overrides]))


def paths_of(root, sweep="smoke"):
    return RunPaths(root=root, sweep=sweep, experiment="countdown-tiny", version="v1")


def grade(folder, stage, **facts):
    """An evaluation of four problems with 32 draws each, as it is stored."""
    own = StagePaths(folder)
    names = [f"p{i}" for i in range(4)]
    counts = pl.DataFrame(
        {
            "problem_id": names,
            "n_samples": [32] * 4,
            "n_scored": [32] * 4,
            "n_correct": N_CORRECT,
            **{name: [0] * 4 for name in UNFINISHED},
            "n_unscored": pl.Series([None] * 4, dtype=pl.List(pl.Int64)),
        }
    )
    draws = pl.DataFrame(
        [
            (p, i, 0, "", int(n), "stop", 1)
            for p, n in zip(names, TOKENS, strict=True)
            for i in range(32)
        ],
        DRAWS,
        orient="row",
    )
    benchmark = own.benchmark("countdown")
    write_table(benchmark.passk, score(counts, [1, 16]), PASSK)
    write_table(benchmark.draws, draws, DRAWS)
    write_json(
        own.done,
        {
            "fingerprint": stage.fingerprint,
            "target": dict(stage.target) | {"design": None},
            "outputs": {},
            "draws_made": {"countdown": 128},
        }
        | facts,
    )


def evaluations(plan):
    return [stage for stage in plan.stages if stage.kind == evaluate.NAME]


def test_without_grades_it_is_by_the_prior_which_is_named(tmp_path):
    plan = plan_of(tmp_path)
    staged, fixed = preview.design_draws(plan, paths_of(tmp_path))
    design = plan.points[0].evaluation.stopping
    rates = beta_rates(*PRIOR)
    assert staged["draws"] == round(3 * 16 * float(design.expected_draws(rates).mean()))
    assert fixed["draws"] == 3 * 16 * 32
    assert (staged["tokens"], staged["seconds"]) == (None, None)
    variance = design.draw_moments(k=16, success_rate=rates)[1].mean() / 16
    assert staged["standard_errors"]["16"] == pytest.approx(variance**0.5)
    assert list(fixed["standard_errors"]) == ["1", "4", "16"]
    title, header, _, *rows = expected_draws.words([staged, fixed])
    assert "Beta(0.5, 0.5), since nothing is graded" in title
    assert "hours" not in header and "tokens" not in header
    assert rows[0].startswith("countdown  8, 32 until 2 are correct") and "1,536" in rows[1]
    assert rows[2].startswith("standard error of a checkpoint's mean pass@k")
    errors = [100 * each for each in fixed["standard_errors"].values()]
    assert rows[-1].split() == ["countdown", "32", *(f"{each:.2f}" for each in errors)]


def test_grades_of_the_base_model_stand_for_checkpoints_without_their_own(tmp_path):
    plan, paths = plan_of(tmp_path), paths_of(tmp_path)
    base = next(stage for stage in evaluations(plan) if stage.step == 0)
    grade(paths.folder / base.name, base, cpu_seconds=6.4)
    staged, fixed = preview.design_draws(plan, paths)
    assert (staged["graded"], staged["graded_bases"], staged["checkpoints"]) == (1, 1, 3)
    each = plan.points[0].evaluation.stopping.expected_draws(RATES)
    assert staged["draws"] == round(3 * 16 * float(each.mean()))
    assert staged["tokens"] == round(3 * 16 * float((each * TOKENS).mean()))
    a_token = 6.4 / (128 * TOKENS.mean())
    assert staged["seconds"] == pytest.approx(staged["tokens"] * a_token, abs=0.06)
    assert fixed["tokens"] == 3 * 16 * 32 * 4 and staged["unit"] == "processor"
    assert "the base models' graded draws" in expected_draws.words([staged])[0]


def test_grades_of_the_same_checkpoint_in_another_sweep_count_and_others_do_not(tmp_path):
    plan, paths = plan_of(tmp_path), paths_of(tmp_path)
    first = evaluations(plan)[0]
    elsewhere = paths_of(tmp_path, "other").folder / first.name.replace("/pass16-", "/named-")
    grade(elsewhere, replace(first, spec=replace(first.spec, fingerprint="of another checkpoint")))
    assert expected_draws.find_graded(paths, first) == {}
    gpus = {"device": "NVIDIA H100", "tensor_parallel": 2, "engines": 4}
    grade(elsewhere, first, wall_seconds=64.0, engines={"countdown": (gpus,)})
    own = expected_draws.find_graded(paths, first)["countdown"]
    assert own.rates.tolist() == RATES.tolist()
    assert own.pace == expected_draws.Pace(64.0 * 8 / (128 * TOKENS.mean()), "GPU")
    StagePaths(elsewhere).benchmark("countdown").passk.write_bytes(b"damaged")
    assert expected_draws.find_graded(paths, first) == {}


def test_a_fixed_number_of_draws_reads_nothing_and_costs_as_before(tmp_path):
    plan = plan_of(tmp_path, "experiment.evaluation.design=null", staged=False)
    assert preview.design_draws(plan, paths_of(tmp_path)) == [] == expected_draws.words([])
    stage, tokens = evaluations(plan)[0], lengths(plan.points[0].train.task).response
    seconds = evaluate.BASE * (evaluate.DRAW_SECONDS + tokens * evaluate.TOKEN_SECONDS)
    assert stage.step == 0 and evaluate.cost(stage) == pytest.approx(16 * 32 * seconds)
    staged = evaluations(plan_of(tmp_path))[0]
    expected = draws_by_prior(plan_of(tmp_path).points[0].evaluation.stopping)
    assert evaluate.cost(staged) == pytest.approx(16 * expected * seconds)
    assert 8 < expected < 32


def test_status_tells_in_a_line_what_finished_evaluations_saved(tmp_path, capsys):
    plan, paths = plan_of(tmp_path), paths_of(tmp_path)
    first = evaluations(plan)[0]
    grade(paths.folder / first.name, first)
    counts = pl.DataFrame(
        {
            "problem_id": ["p0", "p1"],
            "n_samples": [8, 32],
            "n_scored": [7, 32],
            "n_correct": [3, 1],
            **{name: [0] * 2 for name in UNFINISHED},
            "n_unscored": [[1, 0], [0, 0]],
        }
    )
    passk = score(counts, [1, 16], plan.points[0].evaluation.stopping)
    write_table(StagePaths(paths.folder / first.name).benchmark("countdown").passk, passk, PASSK)
    records = plan_record(plan).stages
    told = status.saved_draws(paths, records, {first.name})
    assert told == {"evaluations": 1, "draws": 40, "of": 64}
    (line,) = status.saved_words(told)
    assert line == ("draws: 40 in 1 finished evaluation; 24 of 64 were saved by stopping (38%)")
    assert status.saved_draws(paths, records, set()) is None
    assert status.saved_words(None) == []


def test_plan_prints_both_designs(tmp_path, capsys):
    assert main(["plan", "smoke", *STAGED, f"run_root={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert "expected draws of 3 checkpoints" in said and "8, 32 until 2 are correct" in said
    assert "pass@16 of 16 problems from 8 to 32 draws each" in said
    assert main(["plan", "smoke", *STAGED, "--json", f"run_root={tmp_path}"]) == 0
    staged, fixed = json.loads(capsys.readouterr().out)["draws"]
    assert (staged["enough"], fixed["enough"]) == (2, None)
    assert staged["draws"] < fixed["draws"] == 1536


def test_rates_of_draws_that_stopped_are_estimated_by_the_design_that_stopped_them(tmp_path):
    """Over all ends of a design, c / n is too large on average and this is the success rate."""
    plan, paths = plan_of(tmp_path), paths_of(tmp_path)
    stage = evaluations(plan)[0]
    design = StagedDesign(stages=(2, 4), enough=1)
    ways = {(2, 1): 2, (2, 2): 1, (4, 0): 1, (4, 1): 2, (4, 2): 1}  # of 16 paths of 2 or 4 draws
    share = np.array([w * 0.5**n for (n, _), w in ways.items()])  # at a success rate of 1/2
    names = [f"p{i}" for i in range(6)]
    counts = pl.DataFrame(
        {
            "problem_id": names,
            "n_samples": [*(n for n, _ in ways), None],
            "n_scored": [*(n for n, _ in ways), 2],
            "n_correct": [*(c for _, c in ways), 0],
            **{name: [0] * (len(ways) + 1) for name in UNFINISHED},
            "n_unscored": [*([0, 0] for _ in ways), None],  # the last one waits for draws
        }
    )
    grade(paths.folder / stage.name, stage)
    own = StagePaths(paths.folder / stage.name)
    write_table(own.benchmark("countdown").passk, score(counts, [4], design), PASSK)
    draws = pl.DataFrame([(p, 0, 0, "", 7, "stop", 1) for p in names], DRAWS, orient="row")
    write_table(own.benchmark("countdown").draws, draws, DRAWS)
    target = dict(stage.target) | {"design": {"stages": [2, 4], "enough": 1}}
    write_json(own.done, {"fingerprint": stage.fingerprint, "target": target, "outputs": {}})
    rates = expected_draws.read_graded(own, stage.fingerprint, ["countdown"])["countdown"].rates
    assert share.sum() == 1 and len(rates) == len(ways)
    assert rates @ share == pytest.approx(0.5, abs=1e-15)
    biased = np.array([c / n for n, c in ways])
    assert biased @ share > 0.55
