"""The cheapest design for a wanted precision, and the command that names it."""

import pytest

from fgrpo_bench import StagedDesign
from fgrpo_bench.stats.designs import beta_rates, cheapest_design, fewest_draws
from fgrpo_bench.stats.power import advice, half_width, main, worst_variance

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


def test_quantiles_have_the_mean_of_their_distribution():
    assert beta_rates(0.5, 1.5).mean() == pytest.approx(0.25, abs=1e-3)


def test_power_takes_a_design_and_knows_its_coin_flip():
    design = StagedDesign(stages=(16, 64), enough=4)
    fixed = StagedDesign(stages=(64,), enough=1)
    assert worst_variance(fixed, 16) == worst_variance(64, 16)
    assert worst_variance(design, 16) > worst_variance(64, 16)
    assert half_width(n_samples=design, k=64, n_problems=9) == pytest.approx(0.98 / 3, rel=1e-3)
    said = advice(n_samples=design, k=64, n_problems=9)
    assert "of 9 problems from 16 to 64 draws each" in said and said.endswith("draw 2k")
    assert "coin flip" not in advice(n_samples=design, k=32, n_problems=9)


def test_the_command_names_the_design_and_what_fixed_draws_would_take(capsys):
    asked = ["--k", "1", "16", "--problems", "100", "--half-width", "0.025", "--design"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert said.startswith("pass@1, 16 +-2.5 points at 95%, rates as of Beta(0.5, 0.5): stages [")
    assert main([*asked, "--beta", "0.2", "5"]) == 0
    assert "Beta(0.2, 5.0): " in capsys.readouterr().out
    assert main([*asked[:-2], "1e-4", "--design"]) == 0
    assert "not even 4096 draws" in capsys.readouterr().out
    for wrong in (["--beta", "0", "1"], ["--half-width", "2"]):
        with pytest.raises(SystemExit):
            main([*asked, *wrong])
    with pytest.raises(SystemExit):
        main(["--k", "16", "--problems", "100", "--design"])
    assert "--design needs the --half-width" in capsys.readouterr().err
