"""Operations of a training run, by which a GPU is priced."""

from dataclasses import replace

import pytest

from fgrpo_bench.kinds.flops import parameters, training
from fgrpo_bench.specs import config
from sweeps.plan import expand

PAPER = expand(config.load("maze", ["experiment=maze"]))


def test_the_weights_of_the_papers_maze_model_are_counted() -> None:
    assert parameters(PAPER[0].train.model, 32) == 3_944_704


def test_a_run_takes_four_forward_passes_over_its_groups() -> None:
    """By hand, without attention: 2 operations a weight and token, sampled once and learned from
    at three times that."""
    by_size = {point.group_size: training(point) for point in PAPER}
    a_draw = (by_size[128] - by_size[64]) / 64 / 256 / 20_000
    tokens = a_draw / (4 * (2 * 3_944_704 + 4 * 4 * 256 * 325))
    assert tokens == pytest.approx(31, abs=0.5)  # 28 moves in most mazes, done and end
    half = replace(PAPER[0].train, steps=10_000)
    assert training(replace(PAPER[0], train=half)) == pytest.approx(training(PAPER[0]) / 2)


def test_a_published_model_has_no_such_count() -> None:
    declared = config.load("groupsize", ["experiment=qwen2.5-7b", "profile=slurm-8gpu"])
    assert training(expand(declared)[0]) is None
