"""A sweep with every method at the learning rate that suited it best on other seeds."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from fgrpo_bench.analysis.question import NONE_DECLARED
from fgrpo_bench.specs import config
from sweeps.cli import main
from sweeps.plan import make_plan
from tests.support.plans import loaded
from tests.support.planted import log_odds, rate_of
from tests.support.report import forget, small_sweep

METHODS = ["sweep.grid.algorithm=[grpo,nsr,dr_grpo]", "sweep.cells=[]", "version=rates"]
ONE = ["sweep.grid.algorithm=[grpo]", *METHODS[1:]]
SEED, RATES = "sweep.grid.seed=[10]", "sweep.grid.learning_rate_factor=[0.5,1,2]"
BEST = {"grpo": 2.0, "nsr": 0.5}
"""Where pass@1 is planted highest; it is the same everywhere for the third."""


def rates(point, rng, n_problems):
    is_best = point.cell and BEST.get(point.cell.algorithm) == point.cell.learning_rate_factor
    return np.full(n_problems, 0.9 if is_best else 0.3)


def whole(point, rng, n_problems):
    return np.ones(n_problems)


def tune(results, capsys):
    code = main(["tune", "methods", f"run_root={results.paths.root}", "version=rates"])
    return code, capsys.readouterr()


@pytest.mark.slow
def test_it_takes_the_learning_rate_with_the_highest_pass_at_1(tmp_path, capsys):
    results = small_sweep(tmp_path, "methods", *METHODS, SEED, RATES, success_rates=rates)
    code, said = tune(results, capsys)
    assert code == 0
    conf = shutil.copytree(config.CONF, tmp_path / "conf")
    (conf / "sweep" / "methods-tuned.yaml").write_text(said.out)
    declared = config.load("methods-tuned", conf=conf)
    assert declared.sweep.name == "methods-tuned" and declared.experiment.name == "countdown"
    factors = {cell.algorithm: cell.learning_rate_factor for cell in declared.sweep.cells}
    assert factors == {"grpo": 2.0, "nsr": 0.5, "dr_grpo": 1.0}
    plan = make_plan(declared)
    assert {point.seed for point in plan.points} == set(loaded("methods").sweep.grid.seed)
    assert plan.family.name == NONE_DECLARED, "as the sweep that it tunes"
    paper = make_plan(config.load("methods-tuned", ["experiment=qwen2.5-7b"], conf=conf))
    assert {point.algorithm.name for point in paper.points} == {"grpo", "nsr"}


ON_PATHS = [
    *("experiment.checkpoints=every", "experiment.train.save_every=4", "version=rates"),
    "sweep.grid.algorithm=[grpo,maxrl]",
]
SLOW = {("maxrl", 2.0)}
"""Paths that do not reach the pass@1 at which all methods are compared, by algorithm and factor."""
KEPT = {("maxrl", 0.5)}
"""Paths on which no problem is forgotten."""


def along_paths(point, rng, n_problems):
    base = log_odds(np.random.default_rng([4, point.seed]).beta(0.7, 3.0, n_problems))
    if point.cell is None:
        return rate_of(base)
    at = (point.cell.algorithm, point.cell.learning_rate_factor)
    rates = rate_of(base + (0.3 if at in SLOW else 1.0) * point.step / 20)
    hardest = np.argsort(base)[: n_problems // 4]
    rates[hardest] *= 1.0 if at in KEPT else 1 - point.step / 20
    return rates


@pytest.mark.slow
@pytest.mark.rare
def test_a_sweep_at_equal_pass_at_1_is_tuned_by_what_is_kept_there(tmp_path, capsys):
    """GRPO stays at every rate, and each method is compared with all of them."""
    results = small_sweep(
        tmp_path, "frontier", *ON_PATHS, "sweep.grid.seed=[41]",
        "sweep.grid.learning_rate_factor=[0.5,1,2]", "sweep.family.ks=null",
        "experiment.train.steps=20", success_rates=along_paths,
    )  # fmt: skip
    run = [f"run_root={results.paths.root}", "version=rates"]
    assert main(["tune", "frontier", *run]) == 0
    said = capsys.readouterr().out
    assert "# highest pass@32 at a pass@1 of " in said and "not reached at 2" in said
    conf = shutil.copytree(config.CONF, tmp_path / "conf")
    (conf / "sweep" / "frontier-tuned.yaml").write_text(said)
    declared = config.load("frontier-tuned", conf=conf)
    assert declared.experiment == loaded("frontier").experiment, "with what frontier sets in it"
    plan = make_plan(declared)
    by_method: dict[tuple[str, float], set[float]] = {}
    for point in plan.points:
        method = point.algorithm.name, point.focal_gamma
        by_method.setdefault(method, set()).add(point.learning_rate_factor)
    assert by_method["grpo", 0.0] == {0.25, 0.5, 1.0, 2.0}
    assert by_method["maxrl", 0.0] == {0.5}, "keeps most of those that reach it"
    assert by_method["grpo", 0.5] == {1.0}, "of equal ones the nearest to the experiment's"
    assert {point.seed for point in plan.points} == set(loaded("frontier").sweep.grid.seed)
    assert plan.family.at_equal_pass_at_1
    olds = {pair.old.cell for pair in plan.family.pairs}
    assert olds == {"grpo-n8-g0-lr0.25", "grpo-n8-g0-lr0.5", "grpo-n8-g0", "grpo-n8-g0-lr2"}
    assert len(plan.family.pairs) == 4 * 3


@pytest.mark.slow
def test_of_equal_ones_it_takes_the_one_nearest_to_the_experiments(tmp_path, capsys):
    results = small_sweep(tmp_path, "methods", *METHODS, SEED, RATES, success_rates=whole)
    code, said = tune(results, capsys)
    assert code == 0 and said.out.count("learning_rate_factor: 1.0}") == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["sweep.grid.seed=[10,12]"], "seed 12 chooses the learning rates and is one of"),
        ([SEED], "grpo-n8-g0 was run at one learning rate alone: try several with"),
        ([SEED, RATES, "experiment.evaluation.ks=[8,32]"], "the smallest k of this run is 8"),
    ],
)
def test_what_a_choice_cannot_rest_on_is_refused(tmp_path, capsys, overrides, said):
    results = small_sweep(tmp_path, "methods", *ONE, *overrides, success_rates=whole)
    code, told = tune(results, capsys)
    assert code == 2 and said in told.err and not told.out


@pytest.mark.slow
def test_a_choice_from_results_that_are_not_whole_is_refused(tmp_path, capsys):
    results = small_sweep(tmp_path, "methods", *METHODS, SEED, RATES, success_rates=whole)
    forget(results, "nsr-n8-g0-lr2-s10")
    code, said = tune(results, capsys)
    assert code == 2 and "nsr-n8-g0-lr2 has" in said.err and "run the sweep to its end" in said.err
