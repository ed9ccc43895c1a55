"""Who imports what: no circle between packages, and other people's packages only where they are
at home, so that a notebook pays for none of the heavy ones."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest

from tests import architecture

REPOSITORY = Path(__file__).parents[1]
AT_HOME = {
    "antlr4": {"fgrpo_bench.graders"},
    "deepspeed": {"fgrpo_bench.engines"},
    "huggingface_hub": {"fgrpo_bench.data", "fgrpo_bench.report", "evaluators"},
    "datasets": {"fgrpo_bench.conformance"},
    "hydra": {"fgrpo_bench.specs"},
    "jinja2": {"dashboards"},
    "langdetect": {"fgrpo_bench.graders"},
    "latex2mathml": {"dashboards"},
    "latex2sympy2_extended": {"fgrpo_bench.graders"},
    "lm_eval": {"fgrpo_bench.graders"},
    "markupsafe": {"dashboards"},
    "math_verify": {"fgrpo_bench.graders"},
    "matplotlib": {"fgrpo_bench.documents", "fgrpo_bench.paper", "fgrpo_bench.report"},
    "mlflow": {"fgrpo_bench.tracking"},
    "nltk": {"fgrpo_bench.graders"},
    "omegaconf": {"fgrpo_bench.specs"},
    "openrlhf": {"fgrpo_bench.conformance", "fgrpo_bench.engines", "fgrpo_bench.integrations"},
    "peft": {"fgrpo_bench.engines"},
    "pydantic": {"fgrpo_bench.specs", "fgrpo_bench.engines", "fgrpo_bench.tasks", "evaluators"},
    "pydantic_core": {"fgrpo_bench.specs"},
    "ray": {"fgrpo_bench.engines"},
    "rich": {"sweeps", "evaluators", "fgrpo_bench.data"},
    "safetensors": {"fgrpo_bench.engines", "evaluators"},
    "scipy": {"fgrpo_bench.stats", "dashboards"},
    "skyrl": {"fgrpo_bench.conformance", "fgrpo_bench.integrations"},
    "sqlalchemy": {"fgrpo_bench.tracking"},
    "starlette": {"dashboards"},
    "submitit": {"sweeps"},
    "sympy": {"fgrpo_bench.graders"},
    "tokenizers": {"fgrpo_bench.conformance", "fgrpo_bench.data"},
    "torch": {
        *("fgrpo_bench.engines", "fgrpo_bench.integrations", "fgrpo_bench.objectives"),
        *("fgrpo_bench.conformance", "evaluators"),
    },
    "transformers": {
        *("fgrpo_bench.conformance", "fgrpo_bench.data", "fgrpo_bench.engines"),
        "evaluators",
    },
    "trl": {"fgrpo_bench.conformance", "fgrpo_bench.integrations"},
    "typer": {
        *("fgrpo_bench.command", "fgrpo_bench.analysis", "fgrpo_bench.paper"),
        *("fgrpo_bench.report", "fgrpo_bench.tracking", "fgrpo_bench.conformance"),
        *("sweeps", "evaluators", "dashboards"),
    },
    "typing_extensions": {"fgrpo_bench.conformance"},
    "uvicorn": {"dashboards"},
    "verl": {"fgrpo_bench.conformance", "fgrpo_bench.integrations"},
    "vllm": {"fgrpo_bench.engines", "evaluators"},
    "yaml": {"fgrpo_bench.specs", "fgrpo_bench.report"},
}
"""Every package from elsewhere but NumPy and Polars, and which of ours may import it, functions
included."""

HEAVY = {"torch", "mlflow", "hydra", "matplotlib", "transformers", "ray", "vllm", "submitit"}
HEAVY |= {"trl", "verl"}
HEAVY |= {"sympy", "math_verify", "huggingface_hub", "tokenizers", "lm_eval", "nltk"}


def imported_by(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
def test_the_light_parts_import_nothing_heavy():
    """scipy.stats takes longer to import than a plan to be made."""
    light = "fgrpo_bench.analysis.results, fgrpo_bench.graders, fgrpo_bench.tasks, sweeps.plan"
    assert not (HEAVY | {"scipy.stats"}) & imported_by(f"import {light}, fgrpo_bench.data.prepare")


@pytest.mark.slow
def test_the_top_of_the_package_needs_numpy_and_scipy_alone_and_neither_before_its_first_use():
    known = packages_distributions().keys() - imported_by("import sys")

    def brought(statement):
        return {name.partition(".")[0] for name in imported_by(statement)} & known

    assert not brought("import fgrpo_bench")
    compared = "compare_counts(old=[1, 2], new=[2, 4], n_samples=8, k=1).p_value"
    needed = brought(f"from fgrpo_bench import *; {compared}")
    assert needed - {"charset_normalizer"} == {"numpy", "scipy"}  # NumPy takes it where it is


def test_nothing_imports_the_slowest_part_of_scipy():
    statement = re.compile(
        r"^ *(from scipy\.stats|import scipy\.stats|from scipy import stats)", re.M
    )
    files = [path for root in architecture.ROOTS for path in (REPOSITORY / root).rglob("*.py")]
    assert [path for path in files if statement.search(path.read_text())] == []


@pytest.mark.parametrize(("module", "install"), [("verl", "verl==0.9.1"), ("trl", "trl==1.16.0")])
def test_an_integration_without_its_package_says_what_to_install(module, install, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError, match=rf"^\S+\.{module} cannot import .*: pip install {install}$"
    ):
        import_module(f"fgrpo_bench.integrations.{module}")


def test_packages_from_elsewhere_are_imported_only_where_they_are_at_home():
    graph = grimp.build_graph(*architecture.ROOTS, include_external_packages=True, cache_dir=None)
    used = defaultdict(set)
    for module in graph.modules:
        root, *below = module.split(".")
        own = f"{root}.{below[0]}" if root == "fgrpo_bench" and below else root
        for imported in graph.find_modules_directly_imported_by(module):
            package = imported.partition(".")[0]
            if root in architecture.ROOTS and package not in {
                *architecture.ROOTS,
                "numpy",
                "polars",
            }:
                used[package].add(own)
    assert {k: v for k, v in used.items() if k not in sys.stdlib_module_names} == AT_HOME


@pytest.mark.slow
def test_a_name_with_a_leading_underscore_is_used_in_its_own_file_alone():
    files = [path for root in architecture.ROOTS for path in (REPOSITORY / root).rglob("*.py")]
    imported = [
        (path, alias.name)
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        if node.level or str(node.module).partition(".")[0] in architecture.ROOTS
        for alias in node.names
    ]
    assert len(imported) > 1000
    assert not [pair for pair in imported if re.match("_(?!_)", pair[1])]


def test_no_package_imports_one_that_stands_on_it():
    floors = architecture.floors(architecture.imports())
    assert floors["specs"] < floors["tasks"] < floors["engines"] < floors["kinds"]
    assert floors["kinds"] < floors["analysis"] < floors["report"]


def test_the_picture_of_the_architecture_is_drawn_from_the_imports(tmp_path):
    architecture.main(["--to", str(tmp_path / "drawn.svg")])
    drawn = (tmp_path / "drawn.svg").read_bytes()
    assert architecture.PICTURE.read_bytes() == drawn, "run `python -m tests.architecture`"
