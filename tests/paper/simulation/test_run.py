"""The published picture, in small in every test run and at full size in the slow ones."""

import numpy as np
import pytest

from fgrpo_bench.paper.simulation import GROUP_SIZES, Rule, Run, Settings, planned_runs, simulate
from tests.paper.simulation.dense_simulation import Dense

SMALL = Settings(n_actions=2_000, n_correct=156, steps=1_000)
"""The paper's ratio of kinds, and its logits, so that the policy begins with the same mass."""


def ends(settings: Settings, size: int, gamma: float = 0.0, rule: Rule = "adam") -> list[float]:
    """Total and retained mass after the last step, mean over two seeds."""
    runs = [Run(rule=rule, group_size=size, focal_gamma=gamma, seed=seed) for seed in (0, 1)]
    last = [simulate(settings, run)[-1][1:] for run in runs]
    return [float(np.mean(masses)) for masses in zip(*last, strict=True)]


@pytest.mark.slow
def test_retained_mass_is_high_for_small_and_for_large_groups_and_low_between() -> None:
    small, middle, large = (ends(SMALL, size) for size in (2, 32, 8_192))
    assert small[1] > 0.9
    assert middle[1] < 0.15
    assert large[1] > 0.9
    assert min(middle[0], large[0]) > small[0] > 0.6  # all of the total rises


@pytest.mark.slow
@pytest.mark.rare
def test_gamma_1_retains_more_between() -> None:
    assert ends(SMALL, 32, 1.0)[1] > ends(SMALL, 32)[1] + 0.02


@pytest.mark.slow
@pytest.mark.rare
def test_the_literal_rule_moves_nothing_at_the_stated_rate() -> None:
    total, retained = ends(SMALL, 32, rule="literal")
    assert total == pytest.approx(ends(SMALL, 2, rule="literal")[0], abs=1e-3)
    assert retained > 0.999


@pytest.mark.slow
@pytest.mark.rare
def test_masses_agree_with_the_plain_implementation_in_distribution() -> None:
    settings = Settings(n_actions=500, n_correct=40, steps=300, every=300)
    runs = [Run(rule="adam", group_size=12, focal_gamma=0.0, seed=seed) for seed in range(30)]
    ours = [simulate(settings, run)[-1][1:] for run in runs]
    theirs = []
    for run in runs[:15]:
        plain = Dense(settings, run)
        for _ in range(settings.steps):
            plain.update(plain.draw())
        theirs.append(plain.masses())
    spread = np.std(ours, axis=0, ddof=1) * np.sqrt(1 / 30 + 1 / 15)
    assert (np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)) < 4.5 * spread).all()


def test_a_run_is_a_function_of_its_settings() -> None:
    settings = Settings(n_actions=500, n_correct=40, steps=50)
    run = Run(rule="adam", group_size=12, focal_gamma=1.0, seed=1)
    first = simulate(settings, run)
    assert first == simulate(settings, run)
    assert [step for step, _, _ in first] == [0, 10, 20, 30, 40, 50]
    assert first[0][2] == 1.0


def test_the_default_grid_is_the_papers_with_a_column_of_the_literal_rule() -> None:
    runs = planned_runs(None)
    adam = [run for run in runs if run.rule == "adam"]
    assert len(adam) == 17 * 2 * 4
    assert {run.group_size for run in adam} == set(GROUP_SIZES) == {2**k for k in range(1, 18)}
    assert len(runs) - len(adam) == 17
    assert len({run.name for run in runs}) == len(runs)


@pytest.mark.parametrize("changed", [{"n_correct": 1}, {"steps": 15}, {"steps": 0}])
def test_settings_that_make_no_sense_are_refused(changed: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="|".join(changed)):
        Settings(**changed)
    with pytest.raises(ValueError, match="group_size=1"):
        Run(rule="adam", group_size=1, focal_gamma=0.0, seed=0)


@pytest.mark.rare  # the smaller picture has the same shape
@pytest.mark.slow
def test_the_picture_at_full_size() -> None:
    paper = Settings()
    retained = {size: ends(paper, size)[1] for size in (2, 1_024, 131_072)}
    assert retained[2] > 0.9
    assert retained[1_024] < 0.1
    assert retained[131_072] > 0.9
    for size in (256, 1_024, 16_384):
        assert ends(paper, size, 1.0)[1] > ends(paper, size)[1]
