"""The theory against enumeration and at the ends of its domain; the methods
whose weights are shown; and the command that answers."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.objectives.advantages import ADVANTAGES, reads_rewards_only
from fgrpo_bench.objectives.focal import focal_weight
from fgrpo_bench.paper.theory import (
    active_probability,
    expected_weight,
    low_lr_multiplier,
    most_dangerous_group_size,
    tail_miss_probability,
)
from fgrpo_bench.paper.theory.__main__ import main, mean_tail_miss, measure
from fgrpo_bench.paper.theory.weights import CURVE, METHODS, Method, lines_at
from sweeps import REPOSITORY
from tests.support.plans import is_somebodys
from tests.support.report import ONE_SEED, forget, small_sweep


def enumerated(n, mu, tau):
    """(active, active without the tail) over all groups of n from {tail, other right, wrong}."""
    chances = (tau, mu - tau, 1 - mu)
    active = missed = Fraction(0)
    for group in product(range(3), repeat=n):
        chance = Fraction(1)
        for kind in group:
            chance *= chances[kind]
        if 2 in group and set(group) != {2}:
            active += chance
            missed += chance * (0 not in group)
    return active, missed


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize(
    ("mu", "tau"), [("1/3", "1/10"), ("9/10", "1/2"), ("1/2", "1/2"), ("1/4", "0")]
)
def test_probabilities_are_those_of_every_group_enumerated(n, mu, tau):
    active, missed = enumerated(n, Fraction(mu), Fraction(tau))
    mu, tau = float(Fraction(mu)), float(Fraction(tau))
    assert active_probability(n, mu) == pytest.approx(float(active), rel=1e-13, abs=1e-16)
    assert tail_miss_probability(n, mu, tau) == pytest.approx(float(missed), rel=1e-13, abs=1e-16)


@pytest.mark.parametrize("exponent", [1, 10, 20])
def test_tiny_tails_and_huge_groups_keep_their_digits(exponent):
    n, mu, tau = 2**exponent, Fraction(3, 10**7), Fraction(1, 10**12)
    exact = (1 - tau) ** n - (mu - tau) ** n - (1 - mu) ** n if n < 2**12 else None
    found = tail_miss_probability(n, float(mu), float(tau))
    if exact is not None:
        assert found == pytest.approx(float(exact), rel=1e-9, abs=1e-300)
    else:  # (1 - 3e-7)^(2^20) by logarithms in exact arithmetic
        expected = 1 - np.exp(n * np.log1p(-3e-7)) - n * 1e-12
        assert found == pytest.approx(expected, rel=1e-6)


def test_scalars_give_floats_and_arrays_broadcast():
    assert isinstance(active_probability(4, 0.5), float)
    grid = tail_miss_probability(np.array([2, 4, 8])[:, None], np.array([0.3, 0.5]), 0.1)
    assert grid.shape == (3, 2)
    assert grid[2, 1] == tail_miss_probability(8, 0.5, 0.1)


@given(st.floats(0.01, 0.95), st.floats(0.001, 0.99))
def test_the_most_dangerous_group_size_is_the_best_of_a_full_search(mu, share):
    tau = mu * share
    values = tail_miss_probability(np.arange(2, 4097), mu, tau)
    found = most_dangerous_group_size(mu, tau, largest=4096)
    assert values[found - 2] == pytest.approx(values.max(), rel=1e-9)


def test_a_rarer_tail_is_missed_most_by_a_larger_group():
    sizes = [most_dangerous_group_size(0.3, 0.3 * share) for share in (0.2, 0.05, 0.001)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    with pytest.raises(ValueError, match="0 < tail_mass < success_rate < 1"):
        most_dangerous_group_size(0.3, 0.3)


def mean_advantage(success_rate, focal_gamma):
    """Mean absolute advantage of a large group: a right rollout has sqrt((1 - mu) / mu), a wrong
    one sqrt(mu / (1 - mu)), each times the focal weight."""
    mu = np.asarray(success_rate)
    return 2 * np.sqrt(mu * (1 - mu)) * focal_weight(mu, focal_gamma)


def test_the_mean_advantage_and_the_low_lr_multiplier_belong_together():
    mu = np.linspace(0, 1, 200_001)
    for gamma in (0.5, 1.0, 2.0):
        ratio = mean_advantage(mu, gamma).mean() / mean_advantage(mu, 0.0).mean()
        assert low_lr_multiplier(gamma) == pytest.approx(ratio, rel=1e-6)
    assert mean_advantage(0.5, 0.0) == 1.0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: active_probability(0, 0.5), "group_size=0"),
        (lambda: active_probability(2.5, 0.5), "group_size=2.5: whole numbers"),
        (lambda: active_probability(2, 1.5), "success_rate=1.5"),
        (lambda: active_probability(2, float("nan")), "success_rate=nan"),
        (lambda: tail_miss_probability(2, 0.3, 0.4), "tail_mass=0.4 with success_rate=0.3"),
    ],
)
def test_what_lies_outside_the_domain_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_every_advantage_that_is_a_function_of_the_rewards_is_shown():
    shown = {Method.parse(text).advantage for text in METHODS}
    shipped = {name for name, of in ADVANTAGES.items() if not is_somebodys(name, of)}
    assert shown == {name for name in shipped if reads_rewards_only(name)}


@pytest.mark.parametrize("group_size", [2, 4, 32])
def test_methods_that_weigh_alike_are_one_line_and_no_two_lines_look_alike(group_size):
    methods = [m for m in map(Method.parse, METHODS) if m.is_defined(group_size)]
    lines = lines_at(methods, group_size)
    assert sum(len(line.labels) for line in lines) == len(methods)
    assert len({(line.color, line.style) for line in lines}) == len(lines)
    (flat,) = (line for line in lines if np.allclose(line.values, 1, 1e-12, 0))
    alike = {"Dr. GRPO", "RLOO", "PSR", "NSR", "W-REINFORCE weight=0.1"}
    if group_size == 2:
        alike |= {"GRPO", "F-GRPO gamma=0.5", "F-GRPO gamma=1", "MaxRL (coded)", "RS-GRPO beta=2"}
        alike |= {"TailRL"}
    assert set(flat.labels) == alike


def test_a_line_is_the_expected_weight_relative_to_one_half():
    (line,) = lines_at([Method.parse("pkpo:k=4,baseline=sloo@0.5")], 8)
    options = {"group_size": 8, "focal_gamma": 0.5, "k": 4, "baseline": "sloo"}
    at = CURVE.index(0.95)
    wanted = [expected_weight("pkpo", success_rate=p, **options) for p in (CURVE[at], 0.5)]
    assert line.values[at] == pytest.approx(wanted[0] / wanted[1], rel=1e-12)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return small_sweep(tmp_path_factory.mktemp("measured"), "groupsize", ONE_SEED)


@pytest.mark.slow
def test_a_rate_is_answered_with_a_table_a_peak_and_a_figure(tmp_path, capsys):
    asked = ["--success-rate", "0.3", "--tail-share", "0.1", "0.05", "--to", str(tmp_path)]
    assert main(asked) == 0
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines()]
    row = [f"{tail_miss_probability(8, 0.3, 0.3 * share):.4f}" for share in (0.05, 0.1)]
    assert ["8", *row] in rows
    values = tail_miss_probability(np.arange(2, 4097), 0.3, 0.03)
    assert (
        f"tail of 0.1 of the correct answers: missed most often at N = {2 + values.argmax()}"
        in said
    )
    assert (tmp_path / "tail-miss-0.3.pdf").exists() and (tmp_path / "tail-miss-0.3.svg").exists()


def test_the_mean_over_problems_is_that_of_each_problem():
    rates, sizes = np.array([0.1, 0.4]), np.array([2, 8])
    expected = [np.mean([tail_miss_probability(n, mu, 0.2 * mu) for mu in rates]) for n in (2, 8)]
    assert mean_tail_miss(sizes, rates, 0.2) == pytest.approx(expected)


@pytest.mark.slow
def test_a_sweeps_own_rates_and_losses_stand_beside_the_prediction(sweep, tmp_path, capsys):
    root = str(sweep.paths.root)
    assert main(["--from-sweep", "groupsize", "--root", root, "--to", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    measured = measure(analyse(sweep))
    assert sorted(measured.lost) == [2, 4, 8, 16, 32]
    assert all(0 <= lost <= 1 for lost in measured.lost.values())
    assert measured.lost[32] > measured.lost[2]
    assert f"{measured.lost[32]:.1%}" in said and "measured: lost" in said
    assert f"mean over {len(measured.success_rates)} problems of countdown" in said
    assert (tmp_path / "tail-miss-groupsize-countdown.svg").exists()


def test_a_sweep_without_its_base_models_is_refused(tmp_path):
    results = small_sweep(tmp_path, "groupsize", ONE_SEED)
    bases = [point.point_id for point in results.points if point.cell is None]
    with pytest.raises(ValueError, match="no results of its base models on countdown"):
        measure(analyse(load_results(forget(results, *bases).paths)))


def test_the_weights_of_methods_are_printed_for_each_group_size(capsys):
    assert main(["--weights", "grpo@1", "rloo", "--group-size", "2", "8"]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    rows = {line[0]: line for line in lines if line[0] in ("F-GRPO gamma=1", "RLOO")}
    wanted = expected_weight("grpo", group_size=8, success_rate=[0.1, 0.5], focal_gamma=1.0)
    assert f"{wanted[0] / wanted[1]:.2f}" in "  ".join(rows["F-GRPO gamma=1"])
    assert " ".join(rows["RLOO"][1:]).split() == 8 * ["1.00"]


@pytest.mark.slow
def test_the_picture_of_the_weights_is_drawn_from_the_advantages(tmp_path, capsys):
    assert main(["--weights", "--figure", "--to", str(tmp_path)]) == 0
    drawn = (tmp_path / "weights.svg").read_bytes()
    command = "run `fgrpo-bench theory --weights --figure --to docs/reference`"
    assert (REPOSITORY / "docs" / "reference" / "weights.svg").read_bytes() == drawn, command


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--weights", "grpo@-1"], "the weight is defined for a gamma of at least 0"),
        (["--weights", "ds_grpo"], "for advantages that are functions of the rewards alone"),
        (["--weights", "pkpo:4"], "method 'pkpo:4': write advantage[:parameter=value,...]"),
        (["--weights", "fgrpo"], "unknown advantage 'fgrpo' (did you mean grpo?): valid ones are"),
        (["--weights", "--group-size", "1"], "a group has at least 2 rollouts"),
        (["--success-rate", "1.5"], "--success-rate 1.5: must lie between 0 and 1"),
        (["--success-rate", "0.5", "--tail-share", "1"], "shares lie between 0 and 1"),
        (["--from-sweep", "nowhere"], "no run of nowhere"),
    ],
)
def test_what_has_no_answer_is_an_error_on_one_line(asked, said, capsys):
    assert main(asked) == 1
    assert said in capsys.readouterr().err
