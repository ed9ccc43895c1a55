"""The data stage as a command, against a local publisher and on files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.data.__main__ import main
from fgrpo_bench.files.paths import DataPaths, StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.specs import DatasetSpec
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.tables import PROBLEMS, read_table
from tests.support.publisher import COMMIT, Publisher, publisher

ID = "agentica-org/DeepScaleR-Preview-Dataset"
KEY = f"datasets/{ID}/deepscaler.json"
ROWS = [
    {"problem": "What is 1+1?", "answer": "2", "solution": "two"},
    {"problem": "What is  1+1?", "answer": "$2$", "solution": "a copy that agrees"},
    {"problem": "Half of one?", "answer": "\\frac{1}{2}", "solution": "half"},
    {"problem": "How long?", "answer": "3", "solution": "one of two answers"},
    {"problem": "How long?", "answer": "4", "solution": "the other"},
    {"problem": "No answer?", "answer": "", "solution": "none"},
    {"problem": "a b c d e f g h i j", "answer": "5", "solution": "too long"},
]
DEEPSCALER = DatasetSpec(
    name="deepscaler",
    source="huggingface",
    repository=ID,
    revision=None,
    path="deepscaler.json",
    sha256=None,
    layout="plain",
    prompt_key="problem",
    answer_key="answer",
    max_tokens=8,
    tokenizer="org/words",
    token_field="problem",
    deduplicate=True,
    limit=None,
    expected_rows=39202,
    exact_rows=False,
    grader="math",
)
LOCAL = replace(
    DEEPSCALER,
    source="file",
    repository=None,
    max_tokens=None,
    tokenizer=None,
    token_field=None,
    expected_rows=None,
)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    with publisher() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        running.files[KEY] = json.dumps(ROWS).encode()
        running.files["org/words/tokenizer.json"] = words_tokenizer().encode()
        yield running


def words_tokenizer() -> str:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer.to_str()


def stage(folder: Path, spec: DatasetSpec) -> DataPaths:
    write_json(StagePaths(folder).spec, dataset_stage(spec).spec.as_json())
    return DataPaths(folder)


def test_a_published_dataset_becomes_a_table_with_its_record(tmp_path, here, capfd):
    paths = stage(tmp_path / "a", DEEPSCALER)
    assert main([str(paths.folder)]) == 0
    table = read_table(paths.problems, PROBLEMS)
    assert table.rows() == [
        ("deepscaler-000000", "What is 1+1?", "2", "2", None),
        ("deepscaler-000002", "Half of one?", "\\frac{1}{2}", "\\frac{1}{2}", None),
    ]
    lock = read_json(paths.lock)
    assert lock["source"] == {
        "publisher": here.address,
        "repository": ID,
        "revision": COMMIT,
        "path": "deepscaler.json",
        "sha256": sha256_file(paths.source / "deepscaler.json"),
    }
    assert [(rule["rows_before"], rule["rows_after"]) for rule in lock["rules"]] == [
        (7, 6),
        (6, 5),
        (5, 3),
        (3, 2),
    ]
    assert lock["result"] == {"rows": 2, "sha256": sha256_file(paths.problems)}
    assert lock["tokenizer"]["revision"] == COMMIT
    said = capfd.readouterr().out
    assert "2 rows where 39202 were expected" in said
    assert "more than 8 tokens of org/words in the column problem dropped" in said
    done = read_json(StagePaths(paths.folder).done)
    assert (done["rows"], done["source_sha256"]) == (2, lock["source"]["sha256"])


def test_few_golds_that_are_none_are_said_of_a_publishers_training_set_and_refused_else(
    tmp_path, here, capfd
):
    solution = "We add them all and get twelve.\nThen we halve it."
    more = [{"problem": f"What is {n}?", "answer": f"{n}"} for n in range(100)]
    rows = [*ROWS, {"problem": "And now?", "answer": solution}, *more]
    here.files[KEY] = json.dumps(rows).encode()
    said = "row 7 of dataset deepscaler, column answer: it is a text of 11 words"
    training_set = stage(tmp_path / "training", DEEPSCALER)
    assert main([str(training_set.folder)]) == 0
    assert said in capfd.readouterr().out and said in read_json(training_set.lock)["answers"]
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    here.files[f"datasets/{ID}/few.json"] = json.dumps(rows[:50]).encode()
    for name, spec in {
        "file": replace(LOCAL, path=str(tmp_path / "mine.json")),
        "benchmark": replace(DEEPSCALER, exact_rows=True, expected_rows=103),
        "many of them": replace(DEEPSCALER, path="few.json"),
    }.items():
        refused = stage(tmp_path / name, spec)
        assert main([str(refused.folder)]) == 1
        assert said in capfd.readouterr().err and not refused.problems.exists()


def test_a_done_stage_and_a_fetched_source_are_not_fetched_again(tmp_path, here):
    paths = stage(tmp_path, DEEPSCALER)
    assert main([str(tmp_path)]) == 0
    asked = len(here.asked)
    assert main([str(tmp_path)]) == 0
    assert len(here.asked) == asked
    StagePaths(tmp_path).done.unlink()
    here.files.pop(KEY)
    assert main([str(tmp_path)]) == 0
    assert paths.problems.exists()


@pytest.mark.parametrize(
    "signum", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.rare)]
)
@pytest.mark.slow
def test_a_fetch_that_is_killed_in_the_middle_is_resumed(tmp_path, here, signum):
    rows = [{"problem": f"What is {i} + {'1' * 10**5}?", "answer": str(i)} for i in range(250)]
    here.files[KEY] = json.dumps(rows).encode()
    here.stall_after = 15 * 10**6  # huggingface_hub writes blocks of 10 MB
    paths = stage(tmp_path, replace(DEEPSCALER, max_tokens=64))
    first = subprocess.Popen([sys.executable, "-m", "fgrpo_bench.data", str(tmp_path)])
    try:
        arrived = wait_for_bytes(paths.source, 10**7)
        first.send_signal(signum)
        if signum == signal.SIGTERM:
            time.sleep(0.2)
            here.go_on.set()
        assert first.wait(300) == (75 if signum == signal.SIGTERM else -signal.SIGKILL)
    finally:
        first.kill()
        first.wait()
    assert not paths.problems.exists()
    here.stall_after = None
    here.go_on.set()
    assert main([str(tmp_path)]) == 0
    (resumed,) = [span for span in here.served() if span]
    assert int(resumed.removeprefix("bytes=").rstrip("-")) >= arrived
    assert len(read_table(paths.problems, PROBLEMS)) == len(rows)


def wait_for_bytes(folder: Path, enough: int) -> int:
    """Bytes of the unfinished file, once they are enough."""
    deadline = time.monotonic() + 120
    while True:
        sizes = [path.stat().st_size for path in folder.rglob(".*.part")]
        if sizes and max(sizes) >= enough:
            return max(sizes)
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_source_that_changed_since_the_first_fetch_is_refused(tmp_path, here, capfd):
    paths = stage(tmp_path, DEEPSCALER)
    assert main([str(tmp_path)]) == 0
    StagePaths(tmp_path).done.unlink()
    (paths.source / "deepscaler.json").write_text(json.dumps(ROWS[:3]))
    assert main([str(tmp_path)]) == 1
    error = capfd.readouterr().err
    pinned = read_json(paths.lock)["source"]["sha256"]
    assert f"data.lock.json pinned {pinned}: it is not the file that was meant" in error


def test_a_digest_pinned_in_the_spec_is_checked(tmp_path, here, capfd):
    wrong = "0" * 64
    stage(tmp_path, replace(DEEPSCALER, sha256=wrong))
    assert main([str(tmp_path)]) == 1
    assert f"the spec pins {wrong}" in capfd.readouterr().err


def test_a_file_damaged_on_the_way_is_refused_and_deleted(tmp_path, here, capfd):
    here.digests[KEY] = "f" * 64
    paths = stage(tmp_path, DEEPSCALER)
    assert main([str(tmp_path)]) == 1
    assert "its publisher says fff" in capfd.readouterr().err
    assert not (paths.source / "deepscaler.json").exists()


def test_a_file_that_is_not_published_is_an_error_with_its_address(tmp_path, here, capfd):
    stage(tmp_path, replace(DEEPSCALER, path="other.json"))
    assert main([str(tmp_path)]) == 1
    error = capfd.readouterr().err
    assert f"cannot fetch {here.address}/datasets/{ID}/resolve/main/other.json" in error
    assert "HF_ENDPOINT" in error


def test_an_unreachable_publisher_is_an_error_with_a_remedy(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    stage(tmp_path, DEEPSCALER)
    assert main([str(tmp_path)]) == 1
    assert "run this stage on a machine that reaches it" in capfd.readouterr().err


def test_a_folder_with_data_of_other_rules_is_refused(tmp_path, here, capfd):
    stage(tmp_path, DEEPSCALER)
    assert main([str(tmp_path)]) == 0
    stage(tmp_path, replace(DEEPSCALER, max_tokens=9))
    assert main([str(tmp_path)]) == 1
    assert "data of different rules do not share a folder" in capfd.readouterr().err


@pytest.mark.parametrize("suffix", ["json", "jsonl", "parquet"])
def test_any_file_with_prompts_and_answers_will_do(tmp_path, suffix):
    source = tmp_path / f"mine.{suffix}"
    rows = [{"q": f"What is {i}?", "gold": i} for i in range(5)]
    if suffix == "parquet":
        pl.DataFrame(rows).write_parquet(source)
    elif suffix == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        source.write_text(json.dumps(rows))
    mine = replace(LOCAL, path=str(source), prompt_key="q", answer_key="gold", limit=3)
    paths = stage(tmp_path / "stage", mine)
    assert main([str(paths.folder)]) == 0
    table = read_table(paths.problems, PROBLEMS)
    assert table["answer"].to_list() == ["0", "1", "2"]
    assert read_json(paths.lock)["source"] == {
        "path": str(source),
        "sha256": sha256_file(source),
    }


BROKEN = {
    "x.jsonl": ('{"problem": "p", "gold": "1"}\n', "no column 'answer'; it has gold, problem"),
    "empty.jsonl": ("", "holds no rows"),
    "cut.jsonl": ('{"problem": "p", "answer": "1"}\n{"prob', "line 2, is no JSON"),
    "list.json": ("[1, 2]", "row 0 is int"),
    "chat.json": ('[{"problem": [{"role": "user"}], "answer": "1"}]', "is no chat"),
    "blank.json": ('[{"problem": "", "answer": "1"}]', "none of the 1 rows"),
    "x.txt": ("problem,answer\n", "ends in '.txt'"),
    "x.csv": ("problem,answer\n", "holds no rows"),
    "short.csv": ("problem,answer\np\n", "row 0 has another number of fields"),
    "open.csv": ('problem,answer\np,"secret', "no readable CSV file"),
    "x.parquet": ("PAR", "no whole Parquet file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_an_error_that_says_what_is_wrong(tmp_path, capfd, name):
    content, message = BROKEN[name]
    (tmp_path / name).write_text(content)
    paths = stage(tmp_path / "stage", replace(LOCAL, path=str(tmp_path / name)))
    assert main([str(paths.folder)]) == 1
    error = capfd.readouterr().err
    assert message in error
    assert str(tmp_path / name) in error


def test_a_missing_file_is_an_error_that_names_it(tmp_path, capfd):
    stage(tmp_path, replace(LOCAL, path="nowhere.json"))
    assert main([str(tmp_path)]) == 1
    assert "nowhere.json is no file" in capfd.readouterr().err


def test_another_kind_of_stage_is_refused(tmp_path, capfd):
    write_json(
        StagePaths(tmp_path).spec,
        dataset_stage(DEEPSCALER).spec.as_json() | {"kind": "train"},
    )
    assert main([str(tmp_path)]) == 1
    assert "is of kind 'train'" in capfd.readouterr().err
