"""What many tests here begin with."""

import shutil

import pytest

from evaluators import standalone
from evaluators.__main__ import main
from tests.evaluators.evaluations import fetched, overrides, write_source
from tests.support.openrlhf import make_untrained


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
