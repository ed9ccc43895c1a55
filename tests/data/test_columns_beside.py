"""The short columns beside the problems: which are kept, of which datasets, and how they read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.data import problem_columns
from fgrpo_bench.data.__main__ import main
from fgrpo_bench.files.paths import DataPaths, StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.specs import DatasetSpec
from fgrpo_bench.specs.config import load_benchmark

MINE = DatasetSpec(
    name="mine",
    source="file",
    repository=None,
    revision=None,
    path="",
    sha256=None,
    layout="plain",
    prompt_key="problem",
    answer_key="answer",
    max_tokens=None,
    tokenizer=None,
    token_field=None,
    deduplicate=False,
    limit=None,
    expected_rows=None,
    exact_rows=False,
    grader="math",
)


def prepared(folder: Path, rows: list[dict], spec: DatasetSpec = MINE) -> Path:
    """The stage of these rows."""
    source = folder / "source.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stage = folder / "stage"
    spec = replace(spec, source="file", repository=None, path=str(source), expected_rows=None)
    write_json(StagePaths(stage).spec, dataset_stage(spec).spec.as_json())
    assert main([str(stage)]) == 0
    return stage


def kept(folder: Path) -> dict[str, list[str | None]]:
    return problem_columns(folder).drop("problem_id").to_dict(as_series=False)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (["easy", " very  hard\n"], ["easy", "very hard"]),
        ([3, 4], ["3", "4"]),
        ([1.0, 2.5], ["1", "2.5"]),
        ([True, False], ["true", "false"]),
        ([None, "late"], [None, "late"]),
        (["", "late"], [None, "late"]),
        (["x" * 100, "y"], ["x" * 100, "y"]),
        (["x" * 101, "y"], None),  # a text of its own, e.g. a solution
        ([["a"], "b"], None),
        ([{"of": 1}, "b"], None),
        ([None, None], None),
    ],
)
def test_a_column_of_short_texts_or_numbers_is_kept_as_text(tmp_path, values, texts):
    rows = [
        {"problem": f"{i} + {i}?", "answer": str(2 * i), "column": value}
        for i, value in enumerate(values)
    ]
    folder = prepared(tmp_path, rows)
    assert kept(folder) == ({} if texts is None else {"column": texts})


def test_a_row_that_is_left_out_takes_its_values_along_and_a_key_may_be_missing(tmp_path):
    rows = [
        {"problem": "1 + 1?", "answer": "2"},
        {"problem": "", "answer": "3", "level": "empty"},
        {"problem": "1 + 3?", "answer": "4", "level": "late", "problem_id": "own"},
        {"problem": "1 + 4?", "answer": "5"},
    ]
    columns = problem_columns(prepared(tmp_path, rows))
    assert columns.rows() == [
        ("mine-000000", None),
        ("mine-000002", "late"),
        ("mine-000003", None),
    ]
    assert columns.columns == ["problem_id", "level"]


def test_what_is_part_of_the_problem_is_no_column_beside_it(tmp_path):
    rows = [
        {"context": "Two.", "problem": "1 + 1?", "answer": "B", "A": "1", "B": "2", "level": "1"}
    ]
    spec = replace(MINE, prompt_key="context,problem", options="A,B", grader="choice")
    assert kept(prepared(tmp_path, rows, spec)) == {"level": ["1"]}


def test_of_a_gated_dataset_the_domains_alone_are_kept(tmp_path):
    dataset = load_benchmark("gpqa").dataset
    assert dataset is not None
    row = {
        "Record ID": "rec1", "Question": "Which?", "Correct Answer": "secret",
        **{f"Incorrect Answer {i}": f"wrong {i}" for i in (1, 2, 3)},
        "Extra Revised Question": "hidden", "High-level domain": "Physics",
        "Subdomain": "Optics", "Question Writer": "somebody",
    }  # fmt: skip
    folder = prepared(tmp_path, [row], replace(dataset, exact_rows=False))
    assert kept(folder) == {"High-level domain": ["Physics"], "Subdomain": ["Optics"]}
    stored = DataPaths(folder).columns.read_bytes()
    assert b"hidden" not in stored and b"secret" not in stored


def test_a_game_of_synlogic_has_its_task(tmp_path):
    dataset = load_benchmark("synlogic").dataset
    assert dataset is not None
    row = {
        "data_source": "val/boolean_expressions",
        "prompt": [{"role": "user", "content": "True?"}],
        "extra_info": {"game_data_str": json.dumps({"answer": "A", "metadata": {}})},
    }
    folder = prepared(tmp_path, [row], dataset)
    assert kept(folder)["task"] == ["boolean_expressions"]


def test_columns_that_were_changed_or_are_gone_are_refused_with_the_remedy(tmp_path):
    folder = prepared(tmp_path, [{"problem": "1?", "answer": "1", "level": "1"}])
    columns = DataPaths(folder).columns
    assert "columns_sha256" in read_json(DataPaths(folder).lock)
    frame = pl.read_parquet(columns)
    frame.with_columns(level=pl.lit("2")).write_parquet(columns)
    with pytest.raises(ValueError, match=r"changed or damaged since .* delete .*DONE\.json and pr"):
        problem_columns(folder)
    columns.unlink()
    with pytest.raises(FileNotFoundError, match=r"are not here; delete .*DONE\.json and prepare"):
        problem_columns(folder)
    StagePaths(folder).done.unlink()
    assert main([str(folder)]) == 0 and kept(folder) == {"level": ["1"]}
