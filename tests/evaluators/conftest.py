"""What many tests here begin with."""

import os
import shutil
from copy import deepcopy

import pytest

from evaluators import standalone
from evaluators.__main__ import main
from fgrpo_bench.specs import config
from tests.evaluators.evaluations import fetched, overrides, write_source
from tests.support.openrlhf import make_untrained


@pytest.fixture(scope="session", autouse=True)
def composed_once():
    """The same words compose to the same configuration, but for the run root of the environment:
    once a process, as it takes longer than the rest of a test. Modules of plug-ins load anew."""
    compose, known = config.compose, {}

    def once(overrides, **where):
        if any("plugins" in word or "run_root" in word for word in overrides):
            return compose(overrides, **where)
        key = (tuple(overrides), *sorted(where.items()))
        if key not in known:
            known[key] = compose(overrides, **where)
        composed = deepcopy(known[key])
        if "run_root" in composed:
            composed["run_root"] = os.environ.get("FGRPO_RUN_ROOT", "runs")
        return composed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "compose", once)
        yield


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A small checkpoint of random weights; not to be changed."""
    return make_untrained(tmp_path_factory.mktemp("model") / "small")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A link to a scratch disk, as on many clusters, and evaluations on another one."""
    for name, folder in {"runs": "scratch/mine/runs", "runs/evals": "large"}.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / name).symlink_to(tmp_path / folder)
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    monkeypatch.delenv("FGRPO_VERDICTS", raising=False)
    return tmp_path / "runs"


@pytest.fixture
def words(root, model, tmp_path):
    """Overrides that evaluate the model on a small dataset that is fetched."""
    made = [f"checkpoint={model}", *overrides(write_source(tmp_path / "source.jsonl"))]
    fetched(root, standalone.load_request(made).evaluation)
    return made


@pytest.fixture(scope="session")
def math500(tmp_path_factory):
    """A run root where it is a file of three problems, and the words that say so; to be copied."""
    folder = tmp_path_factory.mktemp("math500")
    words = [f"path={write_source(folder / 'source.jsonl')}", "expected_rows=3"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FGRPO_RUN_ROOT", str(folder / "runs"))
        assert main(["data", "math500", *words]) == 0
    return folder / "runs", words


@pytest.fixture
def keys(root, math500):
    """The same in a test's own run root; the words that say so."""
    fetched, words = math500
    shutil.copytree(fetched, root, symlinks=True, dirs_exist_ok=True)
    return list(words)
