"""Every publisher's layout, on rows of our own making; what may not be shown is not."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.data.__main__ import main
from fgrpo_bench.data.layouts import GPQA_ID, GPQA_WRONG, LAYOUTS
from fgrpo_bench.files.paths import DataPaths, StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.graders.choice import LETTERS, permutation
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.specs import DatasetSpec
from fgrpo_bench.specs.config import load_benchmark, option_names
from fgrpo_bench.stages.tables import PROBLEMS, read_table

SECRET = "sphinx of black quartz"
GPQA_ROW = {
    "Question": f"What is a {SECRET}?",
    "Correct Answer": "right",
    **{column: f"wrong {i}" for i, column in enumerate(GPQA_WRONG)},
    GPQA_ID: "rec1",
    "Explanation": "line one\nline two",
}


def local(name: str, path: Path, rows: int) -> DatasetSpec:
    dataset = load_benchmark(name).dataset
    assert dataset is not None
    return replace(dataset, source="file", repository=None, path=str(path), expected_rows=rows)


def prepared(folder: Path, dataset: DatasetSpec) -> pl.DataFrame:
    write_json(StagePaths(folder).spec, dataset_stage(dataset).spec.as_json())
    assert main([str(folder)]) == 0
    return read_table(DataPaths(folder).problems, PROBLEMS)


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_gpqas_choices_stand_in_the_order_of_the_record_and_the_gold_is_a_letter(tmp_path):
    rows = [GPQA_ROW | {GPQA_ID: f"rec{i}"} for i in range(8)]
    path = write_csv(tmp_path / "gpqa.csv", rows)
    table = prepared(tmp_path / "stage", local("gpqa", path, 8))
    for i, (prompt, answer, used) in enumerate(
        table.select("prompt", "answer", "gold_used").iter_rows()
    ):
        lines = dict(line.split(". ") for line in prompt.splitlines() if line[1:3] == ". ")
        assert lines[answer] == "right" and used == answer
        order = [["right", "wrong 0", "wrong 1", "wrong 2"][j] for j in permutation(f"rec{i}")]
        assert list(lines) == list(LETTERS[:4]) and list(lines.values()) == order
        assert prompt.startswith(GPQA_ROW["Question"])
        assert prompt.endswith("\nAnswer with the letter of the right choice: A, B, C or D.")
    assert len(set(table["answer"])) > 1
    shuffled = write_csv(tmp_path / "again.csv", rows[::-1])
    again = prepared(tmp_path / "again", local("gpqa", shuffled, 8))
    assert again["prompt"].to_list() == table["prompt"].to_list()[::-1]


def test_clusters_of_a_gated_benchmark_are_digests_of_its_text(tmp_path):
    writers = [SECRET, "another", SECRET, " "]
    rows = [GPQA_ROW | {GPQA_ID: f"rec{i}", "Writer": who} for i, who in enumerate(writers)]
    path = write_csv(tmp_path / "gpqa.csv", rows)
    table = prepared(tmp_path / "stage", replace(local("gpqa", path, 4), cluster="Writer"))
    first, second, again, none = table["cluster"]
    assert first == again != second and none is None
    assert {len(first), len(second)} == {12} and SECRET not in str(table["cluster"].to_list())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "value"),
    [("Question", ""), ("Correct Answer", " "), (GPQA_WRONG[2], ""), (GPQA_ID, None)],
)
def test_no_text_of_gpqa_stands_in_an_error(tmp_path, capfd, column, value):
    row = {k: SECRET if k != GPQA_ID else v for k, v in GPQA_ROW.items()}
    row = {k: v for k, v in row.items() if k != column} | ({} if value is None else {column: value})
    path = write_csv(tmp_path / "gpqa.csv", [row])
    (tmp_path / "cut.csv").write_text(f'Question,Correct Answer\nx,"{SECRET}')
    for i, source in enumerate((path, tmp_path / "cut.csv")):
        folder = tmp_path / str(i)
        write_json(StagePaths(folder).spec, dataset_stage(local("gpqa", source, 1)).spec.as_json())
        assert main([str(folder)]) == 1
    out, err = capfd.readouterr()
    assert "row 0 is not of layout=gpqa" in err and "no readable CSV" in err
    assert SECRET not in out + err
    assert SECRET not in "".join(
        file.read_text(errors="replace") for file in tmp_path.rglob("*.json")
    )


def test_olympiadbenchs_lists_are_joined(tmp_path):
    rows = [
        {"question": "Which?", "final_answer": ["$1,2$"]},
        {"question": "All?", "final_answer": ["3", "4.0"]},
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "o.parquet")
    table = prepared(tmp_path / "s", local("olympiadbench", tmp_path / "o.parquet", 2))
    assert table["answer"].to_list() == ["$1,2$", "3, 4.0"]
    assert table["gold_used"].to_list() == ["1,2", "3, 4.0"]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_ifevals_instructions_become_the_gold_without_arguments_that_are_null(tmp_path, suffix):
    row = {
        "key": 1,
        "prompt": "Write.",
        "instruction_id_list": ["punctuation:no_comma", "keywords:existence"],
        "kwargs": [{"keywords": None}, {"keywords": ["a"]}],
    }
    path = tmp_path / f"i.{suffix}"
    if suffix == "jsonl":
        path.write_text(json.dumps(row) + "\n")
    else:
        pl.DataFrame([row]).write_parquet(path)
    table = prepared(tmp_path / "s", local("ifeval", path, 1))
    assert json.loads(table["gold_used"][0]) == {
        "instruction_id_list": row["instruction_id_list"],
        "kwargs": [{}, {"keywords": ["a"]}],
    }
    assert table["prompt"].to_list() == ["Write."]


def test_synlogics_gold_is_the_task_with_its_game(tmp_path):
    game = {"question": "1 2 3 4?", "answer": "", "difficulty": 1, "metadata": {"n": [1, 2]}}
    row = {
        "data_source": "val/game_of_24",
        "prompt": [{"role": "user", "content": "Make 24."}],
        "extra_info": {"game_data_str": json.dumps(game), "index": 0},
    }
    pl.DataFrame([row]).write_parquet(tmp_path / "s.parquet")
    table = prepared(tmp_path / "s", local("synlogic", tmp_path / "s.parquet", 1))
    assert table["prompt"].to_list() == ["Make 24."]
    assert json.loads(table["answer"][0]) == {"task": "game_of_24", "game_data": game}


@pytest.mark.slow
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "plain"])
def test_a_row_of_another_layout_is_an_error_with_its_number(tmp_path, capfd, layout):
    (tmp_path / "x.jsonl").write_text('{"a": "x", "b": 3}\n')
    dataset = replace(
        local("math500", tmp_path / "x.jsonl", 1), layout=layout, prompt_key="a", answer_key="b"
    )
    write_json(StagePaths(tmp_path / "s").spec, dataset_stage(dataset).spec.as_json())
    assert main([str(tmp_path / "s")]) == 1
    assert f"x.jsonl, row 0 is not of layout={layout}" in capfd.readouterr().err


def test_golds_are_normalised_once_and_stand_beside_the_published_ones(tmp_path):
    rows = [{"problem": "p", "answer": gold} for gold in (27.0, "27.00", "$4.5e33$", "\\$36", 7)]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    table = prepared(tmp_path / "s", local("math500", tmp_path / "x.json", 5))
    assert table.select("answer", "gold_used").rows() == [
        ("27", "27"),
        ("27.00", "27"),
        ("$4.5e33$", "4.5 \\times 10^{33}"),
        ("\\$36", "\\$36"),
        ("7", "7"),
    ]


def test_another_number_of_rows_is_an_error_of_a_benchmark_and_a_remark_of_a_training_set(
    tmp_path, capfd
):
    (tmp_path / "x.jsonl").write_text('{"problem": "p", "answer": "1"}\n')
    exact = local("math500", tmp_path / "x.jsonl", 500)
    write_json(StagePaths(tmp_path / "a").spec, dataset_stage(exact).spec.as_json())
    assert main([str(tmp_path / "a")]) == 1
    assert "math500: 1 rows where 500 were expected" in capfd.readouterr().err
    assert not DataPaths(tmp_path / "a").problems.exists()
    assert len(prepared(tmp_path / "a", replace(exact, exact_rows=False))) == 1
    assert "1 rows where 500 were expected" in read_json(DataPaths(tmp_path / "a").lock)["remark"]
    assert len(prepared(tmp_path / "b", replace(exact, limit=1))) == 1


@pytest.mark.slow
def test_the_shipped_benchmarks_are_those_of_the_paper_with_its_counts():
    counts = {name: load_benchmark(name).n_problems for name in option_names("benchmark")}
    assert (
        counts.items()
        >= {
            "aime24": 30,
            "aime25": 30,
            "amc23": 40,
            "countdown": 256,
            "gpqa": 198,
            "ifeval": 541,
            "math500": 500,
            "maze": 256,
            "minerva": 272,
            "olympiadbench": 674,
            "synlogic": None,
            "synlogic-hard": None,
        }.items()
    )
    for name in counts:
        dataset = load_benchmark(name).dataset
        if dataset is not None:
            assert (dataset.name, dataset.expected_rows) == (name, counts[name])
            assert dataset.exact_rows and dataset.layout in LAYOUTS
