"""What somebody has who installs the package and has no checkout."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

import fgrpo_bench
from fgrpo_bench.__main__ import COMMANDS
from tests.evaluators.evaluations import strangers_model, write_source
from tests.support.wheel import PIP, REPOSITORY, build


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("built"))


def environment(folder: Path) -> Path:
    """The Python of an empty one."""
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


def install(python: Path, *words: str) -> None:
    subprocess.run([*PIP, "--python", str(python), "install", *words], check=True)


def of_page() -> list[str]:
    """What install.md says to install into an environment of one's own, a wheel's path being the
    dot: nothing or an extra behind it."""
    page = (REPOSITORY / "docs/start/install.md").read_text(encoding="utf-8")
    section = page.partition("## Into your own environment")[2].partition("\n## ")[0]
    return re.findall(r"^pip install '?\.(\[\w+\])?'? ", section, re.MULTILINE)


def remedy(refused: str, python: Path) -> list[str]:
    """What a refusal says to install."""
    command = shlex.split(refused.split("`")[1])
    assert command[:4] == [str(python), "-m", "pip", "install"]
    return command[4:]


ALONE = """
from importlib.util import find_spec

from fgrpo_bench import StagedDesign, compare_counts, distinct_at_k, pass_at_k

def rloo(rewards):
    n = rewards.shape[1]
    return (rewards - rewards.mean(1, keepdims=True)) * n / (n - 1)

if __name__ == "__main__":
    assert find_spec("polars") is find_spec("matplotlib") is find_spec("torch") is None
    assert pass_at_k(n_samples=4, n_correct=1, k=2) == 0.5
    assert compare_counts(old=[1, 2], new=[2, 4], n_samples=4, k=1).difference == 0.375
    assert distinct_at_k(n_samples=4, n_by_solution=[2, 1], k=1) == 0.75
    assert StagedDesign(stages=(4, 8), enough=1).pass_at_k(n_drawn=4, n_correct=4, k=1) == 1
"""
"""What is there with what the wheel always asks for."""


def started(python: Path, words: str, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """The installed command in a folder, which sees no checkout."""
    command = [str(python.with_name("fgrpo-bench")), *words.split()]
    environ = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"} | variables
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environ, cwd=folder, **pipes)


def told(python: Path, words: str, folder: Path, *, code: int = 0, **variables: str) -> str:
    """What it prints, or where it refuses, the last line on stderr."""
    process = started(python, words, folder, **variables)
    out, err = process.communicate(timeout=600)
    assert process.returncode == code, err
    return err.splitlines()[-1] if code else out


def test_citation_and_changelog_name_this_version_its_date_and_licence() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = next(line for line in changes.splitlines() if line.startswith("## "))
    assert heading == f"## {fgrpo_bench.__version__} - {citation['date-released']}"
    assert citation["version"] == fgrpo_bench.__version__
    assert citation["license"] == project["license"]


@pytest.mark.slow
def test_the_wheel_holds_library_evaluators_and_declarations_below_one_name(wheel: Path) -> None:
    folders = {"fgrpo_bench": "fgrpo_bench"}
    folders |= {name: f"fgrpo_bench/{name}" for name in ("evaluators", "conf")}
    sources = {
        f"{below}/{path.relative_to(REPOSITORY / name).as_posix()}": path
        for name, below in folders.items()
        for path in (REPOSITORY / name).rglob("*")
        if path.suffix in (".py", ".yaml")
        or path.name in ("published.csv", "SKILL.md")
        or path.parent.name == "vectors"
    }
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as packed_source:
        inside = {name.partition("/")[2] for name in packed_source.getnames()}
    assert {"CITATION.cff", "CHANGELOG.md", "LICENSE"} <= inside
    with ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
        assert names == set(sources)
        assert all(packed.read(name) == path.read_bytes() for name, path in sources.items())


@pytest.mark.slow
def test_the_installed_package_evaluates_and_compares_without_a_checkout(
    wheel: Path, tmp_path: Path
) -> None:
    """By the commands of install.md, in an empty folder. compare runs where only what the wheel
    asks for is installed; figures are drawn once what their refusal names is. evaluate runs in an
    environment that reads this one's packages by a .pth file, so that no second torch is installed:
    pip says that they are all that its extra, and its refusal, ask for."""
    bare, full = environment(tmp_path / "bare"), environment(tmp_path / "full")
    plain, with_analysis, with_figures, with_all = (f"{wheel}{extra}" for extra in of_page())
    install(bare, "--no-deps", str(wheel))
    assert told(bare, "--version", tmp_path) == f"fgrpo-bench {fgrpo_bench.__version__}\n"
    assert f"has no numpy, scipy, typer, polars, pydantic: run `{bare} -m pip install" in (
        told(bare, "compare a b", tmp_path, code=2)
    )
    install(bare, plain)
    (tmp_path / "mine.py").write_text(ALONE)
    alone = [str(bare), str(tmp_path / "mine.py")]
    subprocess.run(alone, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, check=True)
    assert "pass@k" in told(bare, "skill", tmp_path)
    conform = "conform --function mine:rloo --advantage rloo"
    assert "equal" in told(bare, conform, tmp_path, PYTHONPATH=str(tmp_path))
    refused = told(bare, "compare a b", tmp_path, code=2)
    assert "has no polars: run `" in refused  # typer brings pydantic
    install(bare, *remedy(refused, bare))
    install(bare, "--no-index", "--dry-run", with_analysis)
    refusal = "Error: {} is not part of the installed package: run it in a checkout of fgrpo-bench"
    for name, (place, _) in COMMANDS.items():
        if place.startswith(("sweeps.", "dashboards.")):
            assert told(bare, name, tmp_path, code=2) == refusal.format(name)

    help_ = told(bare, "--help", tmp_path)
    examples = help_.partition("examples:")[2]
    assert "fgrpo-bench evaluate out/my-model" in examples
    assert "fgrpo-bench sweep" not in examples and "fgrpo-bench dashboard" not in examples
    refused = told(bare, "report groupsize", tmp_path, code=1)
    assert "the folder of runs of a checkout of fgrpo-bench" in refused
    assert "sweep run" not in refused

    strangers_model(tmp_path / "my-model")
    write_source(tmp_path / "mine.jsonl")
    words = "evaluate my-model --data mine.jsonl -n 4 --max-tokens 8 --seed {} --name {}"
    refused = told(bare, words.format(0, "a"), tmp_path, code=2)
    assert "has no matplotlib, hydra-core, math-verify, pyyaml, safetensors, torch, tr" in refused
    install(full, "--no-deps", str(wheel))
    (packages,) = full.parents[1].glob("lib/python3*/site-packages")
    (packages / "of_tests.pth").write_text(sysconfig.get_path("purelib"))
    install(full, "--no-index", "--dry-run", with_all, *remedy(refused, bare))
    both = [started(full, words.format(*each), tmp_path) for each in ((0, "a"), (1, "b"))]
    for process in both:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        assert ", 12 draws: " in out

    in_checkout = subprocess.run(
        [sys.executable, "-m", "fgrpo_bench", "compare", "a", "b"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    compared = told(bare, "compare a b", tmp_path)
    assert compared == in_checkout.stdout and "b minus a, pass@k in percent" in compared
    assert "pass@k" in told(bare, "report evals/a+b --format md", tmp_path)
    for drawn in ("compare a b --html x.html", "report evals/a+b"):
        refused = told(bare, drawn, tmp_path, code=2)
        assert "has no matplotlib: run " in refused
    install(bare, *remedy(refused, bare))
    install(bare, "--no-index", "--dry-run", with_figures)
    for drawn in ("compare a b --html x.html", "report evals/a+b"):
        assert told(bare, drawn, tmp_path)
    assert (tmp_path / "x.html").stat().st_size > 10_000
