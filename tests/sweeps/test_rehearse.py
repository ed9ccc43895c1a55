"""Rehearsals: all of an experiment but its model and its sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.engines.openrlhf import tiny as tiny_models
from fgrpo_bench.specs import PretrainedSpec, config
from sweeps import rehearse
from sweeps.plan import make_plan
from tests.pages.dry import recipe
from tests.support.plans import loaded, shipped

TINY = PretrainedSpec(name="tiny", path="tiny", revision=None, parameters=100_000)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched for a model."""
    monkeypatch.setattr(tiny_models, "tiny", lambda model, _: replace(TINY, name=model.name))


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped("experiment"))
def test_an_experiment_is_planned_with_its_problems_prompt_and_reward(
    name: str, tmp_path: Path
) -> None:
    if loaded("smoke", f"experiment={name}").experiment.train.engine != "openrlhf":
        with pytest.raises(ValueError, match=f"sweep run smoke experiment={name}"):
            rehearse.rehearsed(loaded("rehearsal", f"experiment={name}"), tmp_path)
        return
    reward = "countdown-partial" if name == "rehearsal" else "choice"
    asked = loaded(
        "rehearsal",
        f"experiment={name}",
        f"experiment.train.reward={reward}",
        "experiment.train.overlong_buffer_tokens=7",
    )
    declared = rehearse.rehearsed(asked, tmp_path)
    train, whole = declared.experiment.train, asked.experiment.train
    for field in ("dataset", "eval_dataset", "task", "prompt", "reward", "learning_rate", "extra",
                  "temperature", "updates_per_batch", "prompt_tokens"):  # fmt: skip
        assert getattr(train, field) == getattr(whole, field), field
    assert train.steps <= 4 and train.prompts_per_step <= 16 and train.response_tokens <= 32
    assert train.pretrained is None or train.pretrained.parameters == TINY.parameters
    benchmarks = declared.experiment.evaluation.benchmarks
    assert benchmarks.keys() == asked.experiment.evaluation.benchmarks.keys()
    assert all(benchmark.n_problems <= 8 for benchmark in benchmarks.values())
    make_plan(declared)
    words = rehearse.summary(declared, asked)
    typed = ("experiment.evaluation.n_samples=64", "version=v1")
    assert list(rehearse.lowered(typed, declared, asked)) == [
        f"{typed[0]} is for the run: its rehearsal has {declared.experiment.evaluation.n_samples}"
    ]
    assert f"rehearsal of {name}, with its problems, prompt, reward and evaluation, but " in words


def test_what_runs_here_as_it_is_has_no_rehearsal(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sweep run smoke experiment=countdown"):
        rehearse.rehearsed(config.load("rehearsal", ["experiment=countdown"]), tmp_path)


def test_make_rehearses_the_experiment_that_is_named() -> None:
    (plain,) = recipe(("rehearse", "PROFILE=local"))
    (named,) = recipe(("rehearse", "PROFILE=local", "EXPERIMENT=mine"))
    assert plain[2:5] == ("sweeps", "run", "rehearsal")
    assert named[2:5] == ("sweeps", "rehearse", "mine") and named[5:] == plain[5:]
