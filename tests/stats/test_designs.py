"""The cheapest design for a wanted precision, and the command that names it."""

import re

import pytest

from fgrpo_bench import StagedDesign
from fgrpo_bench.analysis.power import main
from fgrpo_bench.stats import power, staged
from fgrpo_bench.stats.power import advice, draws_needed, half_width, worst_variance
from fgrpo_bench.stats.staged import (
    beta_rates,
    cheapest_design,
    fewest_draws,
    fixed_design,
)

RATES = beta_rates(0.5, 0.5)[2::5]


def variance(design, k):
    return design.draw_moments(k=k, success_rate=RATES)[1].mean()


def test_it_is_precise_enough_and_cheaper_than_the_fewest_fixed_draws():
    ks, most = (1, 16), 0.003
    fixed = fewest_draws(ks=ks, rates=RATES, variance=most)
    ends = [variance(StagedDesign(stages=(n,), enough=1), 16) for n in (fixed - 1, fixed)]
    assert ends[1] <= most < ends[0]
    design = cheapest_design(ks=ks, rates=RATES, variance=most, fixed=fixed)
    assert all(variance(design, k) <= most for k in ks)
    assert design.expected_draws(RATES).mean() < 0.8 * fixed
    sooner = StagedDesign(stages=design.stages, enough=design.enough // 2)
    assert variance(sooner, 1) > most


def test_where_fewer_draws_than_any_first_stage_are_enough_they_are_fixed():
    few = fewest_draws(ks=(4,), rates=RATES, variance=0.03)
    design = cheapest_design(ks=(4,), rates=RATES, variance=0.03, fixed=few)
    assert few < 16 and design.stages == (few,)
    assert fewest_draws(ks=(4,), rates=RATES, variance=1e-9) is None


def test_all_numbers_up_to_the_most_are_tried(monkeypatch):
    """Doubling from 3 on passes over 40."""
    monkeypatch.setattr(staged, "MOST_FIXED", 40)
    monkeypatch.setattr(power, "MOST_DRAWS", 40)
    rates = RATES[:3]
    most = fixed_design(39).draw_moments(k=3, success_rate=rates)[1].mean()
    assert fewest_draws(ks=(3,), rates=rates, variance=most) == 39
    assert fewest_draws(ks=(3,), rates=rates, variance=most / 2) is None
    widest = half_width(design=fixed_design(39), k=3, n_problems=9)
    assert draws_needed(k=3, n_problems=9, target_half_width=widest) == 39
    assert draws_needed(k=3, n_problems=9, target_half_width=widest / 2) is None


def test_no_design_is_tried_that_would_be_refused():
    design = cheapest_design(ks=(1,), rates=RATES[:3], variance=0.1, fixed=9_000)
    assert design.stages[-1] <= 16_384


def test_quantiles_have_the_mean_of_their_distribution():
    assert beta_rates(0.5, 1.5).mean() == pytest.approx(0.25, abs=1e-3)


def test_power_takes_a_design_and_knows_its_coin_flip():
    design = StagedDesign(stages=(16, 64), enough=4)
    assert worst_variance(design, 16) > worst_variance(fixed_design(64), 16)
    assert half_width(design=design, k=64, n_problems=9) == pytest.approx(0.98 / 3, rel=1e-3)
    said = advice(design=design, k=64, n_problems=9)
    assert "of 9 problems from 16 to 64 draws each" in said and said.endswith("draw 2k")
    assert "coin flip" not in advice(design=design, k=32, n_problems=9)


def test_the_command_names_the_design_and_what_fixed_draws_would_take(capsys):
    asked = ["--k", "1", "16", "--problems", "100", "--half-width", "0.025", "--design"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert said.startswith("pass@1, 16 +-2.5 points at 95%, rates as of Beta(0.5, 0.5): stages [")
    assert main([*asked, "--beta", "0.2", "5"]) == 0
    assert "Beta(0.2, 5.0): " in capsys.readouterr().out
    assert main([*asked[:-2], "1e-4", "--design"]) == 0
    assert "not even 4096 draws" in capsys.readouterr().out


def test_the_design_is_precise_enough_at_every_k_that_was_asked_for(capsys):
    asked = ["--problems", "100", "--half-width", "0.025", "--design"]
    draws = []
    for ks in (["16"], ["1", "16"]):
        assert main(["--k", *ks, *asked]) == 0
        said = re.search(r"stages \[(.*)\], enough (\d+): (\d+) draws", capsys.readouterr().out)
        stages, enough = [int(n) for n in said[1].split(", ")], int(said[2])
        design, rates = StagedDesign(stages=stages, enough=enough), beta_rates(0.5, 0.5)
        for k in map(int, ks):
            sd = (design.draw_moments(k=k, success_rate=rates)[1].mean() / 100) ** 0.5
            assert 1.959964 * sd <= 0.025
        draws.append(int(said[3]))
    assert draws[1] >= draws[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            ["--half-width", "2", "--design"],
            "'--half-width': 2: must be a fraction between 0 and 1",
        ),
        (
            ["--half-width", "nan", "--design"],
            "'--half-width': nan: must be a fraction between 0 and",
        ),
        (["--half-width", "0.1", "--design", "--beta", "0", "1"], "0: must be a number from 0.01"),
        (["--half-width", "0.1", "--design", "--beta", "x", "1"], "x: must be a number from 0.01"),
        (["--half-width", "0.1", "--beta", "0.2", "5"], "--beta is for --design alone"),
        (["--half-width", "0.1", "--k", "1.5"], "1.5: must be a whole number from 1 to 100,000"),
        (["--n-samples", "8"], "--n-samples 8 is less than --k 16"),
        (["--design"], "--design needs the --half-width that is wanted, e.g. 0.01"),
        ([], "nothing was asked: give --difference, e.g. 0.05, or --seeds, e.g. 3, or --n-"),
    ],
)
def test_what_makes_no_sense_is_refused_with_value_rule_and_remedy(wrong, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--k", "16", "--problems", "100", *wrong])
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_help_has_examples(capsys):
    assert main(["--help"]) == 0
    assert "--k 1 256 --problems 500 --half-width 0.01 --design" in capsys.readouterr().out
