"""The command of the theory: what it answers, from a rate and from a sweep."""

from __future__ import annotations

import numpy as np
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.theory import expected_weight, tail_miss_probability
from fgrpo_bench.theory.__main__ import main, mean_tail_miss, measure
from sweeps import REPOSITORY
from tests.support.report import forget, small_sweep


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return small_sweep(tmp_path_factory.mktemp("measured"))


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
    results = small_sweep(tmp_path)
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


def test_the_picture_of_the_weights_is_drawn_from_the_advantages(tmp_path, capsys):
    assert main(["--weights", "--figure", "--to", str(tmp_path)]) == 0
    drawn = (tmp_path / "weights.svg").read_bytes()
    command = "run `fgrpo-bench theory --weights --figure --to docs`"
    assert (REPOSITORY / "docs" / "weights.svg").read_bytes() == drawn, command


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--weights", "pkpo:k=9"], "k=9 of pkpo: must be a whole number from 1 to 8"),
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
def test_what_has_no_answer_is_an_error_on_one_line(asked, said, tmp_path, capsys):
    assert main([*asked, "--root", str(tmp_path), "--to", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
