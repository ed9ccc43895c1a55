"""Fingerprints of every shipped plan, and what may be added to a spec without changing them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from pydantic.dataclasses import dataclass

from fgrpo_bench.specs import Declaration, config
from fgrpo_bench.specs.base import STRICT
from fgrpo_bench.specs.fingerprint import defining, fingerprint
from sweeps.plan import make_plan

OWN = {
    *("smoke", "rehearsal", "methods-tuned", "transfer-llama3.2-3b", "transfer-qwen3-4b-base"),
    "maze",
}
"""Sweeps that name their experiment; the others are meant for all that no sweep names."""


def shipped() -> dict[str, Declaration]:
    """Every sweep with every experiment that it is meant for."""
    rare = "+rare@experiment.rare=paper"
    sweeps = {name: config.load(name, ["run_root=runs", rare]) for name in config.options("sweep")}
    paper_maze = config.load("maze", ["run_root=runs", "experiment=maze"])
    named = {sweeps[name].experiment.name for name in OWN} | {paper_maze.experiment.name}
    further = {
        name: config.load("groupsize", [f"experiment={name}", rare]).experiment
        for name in config.options("experiment")
        if name not in named - {"countdown", "llama3.2-3b", "qwen3-4b-base"}
    }
    plans = {name: sweeps[name] for name in OWN} | {"maze maze": paper_maze}
    for name in sweeps.keys() - OWN:
        for experiment, spec in further.items():
            if name != "controls" or spec.train.engine == "openrlhf":
                plans[f"{name} {experiment}"] = replace(sweeps[name], experiment=spec)
    return plans


def test_fingerprints_of_every_shipped_plan(golden: Callable[[str, str], None]) -> None:
    marks = {
        name: {stage.name: stage.fingerprint for stage in make_plan(declaration).stages}
        for name, declaration in sorted(shipped().items())
    }
    golden("fingerprints.json", json.dumps(marks, indent=0) + "\n")


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Inner:
    width: int


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Before:
    steps: int
    inner: Inner


@dataclass(config=STRICT, frozen=True, kw_only=True)
class WiderInner(Inner):
    bias: bool = False


@dataclass(config=STRICT, frozen=True, kw_only=True)
class After:
    steps: int
    inner: WiderInner
    note: str | None = None
    extra: tuple[str, ...] = ()


def test_a_field_that_is_added_with_its_neutral_value_changes_no_fingerprint() -> None:
    before = defining(Before(steps=3, inner=Inner(width=8)))
    after = After(steps=3, inner=WiderInner(width=8))
    assert fingerprint(defining(after)) == fingerprint(before)
    for change in (
        {"note": "x"},
        {"extra": ("y",)},
        {"inner": WiderInner(width=8, bias=True)},
    ):
        assert fingerprint(defining(replace(after, **change))) != fingerprint(before)
    assert defining(after, ("steps",)) == defining(after, without=("inner",)) == {"steps": 3}
