"""`fgrpo-bench data` against a local publisher: once for all, resumed, pinned, gated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluators.__main__ import main
from fgrpo_bench.files.paths import DataPaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs import config
from fgrpo_bench.stages.digests import with_checksum
from sweeps import freeze
from sweeps.freeze import check_conflicts
from sweeps.plan import make_plan
from tests.support.publisher import COMMIT, Publisher, publisher

AIME = "datasets/math-ai/aime25/test.jsonl"
GPQA = "datasets/Idavidrein/gpqa/gpqa_diamond.csv"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    with publisher() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        rows = [{"problem": f"What is {i}?", "answer": str(i), "id": str(i)} for i in range(30)]
        running.files[AIME] = "".join(json.dumps(row) + "\n" for row in rows).encode()
        yield running


def fetch(root: Path, *arguments: str) -> int:
    return main(["data", "--root", str(root), *arguments])


def only(root: Path) -> DataPaths:
    (folder,) = (root / "_data").iterdir()
    return DataPaths(folder)


@pytest.mark.slow
def test_a_benchmark_is_fetched_once_and_its_revision_is_told_and_another_file_refused(
    tmp_path, here, capfd
):
    assert fetch(tmp_path, "aime25") == 0
    lock = read_json(only(tmp_path).lock)
    assert (lock["source"]["revision"], lock["result"]["rows"]) == (COMMIT, 30)
    asked = len(here.asked)
    assert fetch(tmp_path, "aime25") == 0
    assert len(here.asked) == asked
    capfd.readouterr()
    assert fetch(tmp_path) == 0
    lines = {line.split()[0]: line for line in capfd.readouterr().out.splitlines()}
    assert f"30 rows of {COMMIT[:12]}" in lines["aime25"]
    assert lines["aime24"].split()[3] == "-"
    assert "countdown" not in lines
    assert len(here.asked) == asked
    paths = only(tmp_path)
    (paths.folder / "DONE.json").unlink()
    (paths.source / "test.jsonl").write_text('{"problem": "other", "answer": "1"}\n' * 30)
    assert fetch(tmp_path, "aime25") == 1
    assert "it is not the file that was meant" in capfd.readouterr().err


@pytest.mark.slow
def test_a_sweep_finds_what_was_fetched_and_its_own_folder_is_a_link_to_it(tmp_path, here):
    assert fetch(tmp_path, "aime25") == 0
    (tmp_path / "another" / "large" / "disk").mkdir(parents=True)
    (tmp_path / "groupsize").symlink_to(tmp_path / "another" / "large" / "disk")
    overrides = ["experiment=qwen2.5-7b", "evaluation@experiment.evaluation=in-domain"]
    plan = make_plan(config.load("groupsize", [*overrides, f"run_root={tmp_path}"]))
    paths = freeze.run_paths(plan.declaration)
    freeze.freeze(paths, plan, nothing_to_run=False)
    linked = paths.folder / "_data" / "aime25"
    (fetched,) = (tmp_path / "_data").glob("aime25-*")
    assert linked.is_symlink() and linked.resolve() == fetched.resolve()
    frozen = read_json(linked / "spec.json")
    (stage,) = [stage for stage in plan.stages if stage.name == "_data/aime25"]
    assert frozen == with_checksum(stage.spec.as_json()) == read_json(fetched / "spec.json")
    assert (linked / "DONE.json").exists()
    assert not (paths.folder / "_data/amc23/DONE.json").exists()
    check_conflicts(paths, plan)
    freeze.freeze(paths, plan, nothing_to_run=False)
    assert fetch(tmp_path, "aime25") == 0


@pytest.mark.slow
def test_a_gated_benchmark_says_what_to_do_and_a_token_opens_it(tmp_path, here, capfd, monkeypatch):
    header = ["Record ID", "Question", "Correct Answer"]
    header += [f"Incorrect Answer {i}" for i in (1, 2, 3)]
    lines = [",".join(header), *(f"rec{i},black quartz {i},w,x,y,z" for i in range(198))]
    here.files[GPQA] = "\n".join(lines).encode()
    here.token = "hf_secret"
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert fetch(tmp_path, "gpqa") == 1
    said = capfd.readouterr()
    page = f"{here.address}/datasets/Idavidrein/gpqa"
    assert f"Idavidrein/gpqa is gated, or does not exist: accept its terms at {page}" in said.err
    assert "HF_TOKEN=<token>" in said.err
    monkeypatch.setenv("HF_TOKEN", here.token)
    assert fetch(tmp_path, "gpqa") == 0
    said = capfd.readouterr()
    assert "black quartz" not in said.out + said.err
    assert here.token not in said.out + said.err
    assert only(tmp_path).problems.exists()


@pytest.mark.slow
def test_a_local_file_takes_its_columns_and_needs_no_publisher(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(f'{{"id": {i}, "problem": "p", "answer": "{i}"}}\n' for i in range(40)))
    keys = [f"path={file}", "prompt_key=problem"]
    assert fetch(tmp_path / "runs", "amc23", *keys) == 0
    spec = read_json(only(tmp_path / "runs").folder / "spec.json")
    same = f"{{source: file, repository: null, path: {file}, prompt_key: problem}}"
    overrides = ["experiment=qwen2.5-7b", "evaluation@experiment.evaluation=in-domain"]
    overrides += [f"experiment.evaluation.benchmarks.amc23.dataset={same}"]
    stages = make_plan(config.load("groupsize", overrides)).stages
    (stage,) = [stage for stage in stages if stage.name == "_data/amc23"]
    assert stage.spec.as_json() == spec


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("countdown", "there is nothing to fetch"),
        ("aime24 amc23 path=x", "needs exactly one benchmark"),
        ("path=x", "needs exactly one benchmark"),
        ("aime24 colour=red", "colour"),
        ("aime24 limit=many", "limit = 'many'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(tmp_path, capsys, arguments, said):
    assert fetch(tmp_path, *arguments.split()) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "_data").exists()
