"""What trainers and harnesses write is read by its content, and its faults are named."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from evaluators.dumps import NamedColumns, open_dump
from evaluators.folders import files_at, only_step
from fgrpo_bench.graders.recorded import PROGRAMS
from tests.evaluators import written

READ = {
    "val/200.jsonl": ("verl", "gold score step group"),
    "generated.parquet": ("verl", "gold"),
    "test_cot_2_seed0_t1.0_s0_e-1.jsonl": ("qwen2.5-math", "gold score finish_reason"),
    "completions_00100.parquet": ("trl", "gold score step advantage"),
    "output-rs0.jsonl": ("nemo-skills", "gold score n_tokens"),
    "global_step_20_evals/sums.jsonl": ("skyrl", "gold score finish_reason"),
    "results.jsonl": ("verifiers", "gold score finish_reason group"),
    "traces.jsonl": ("verifiers", "gold score finish_reason n_tokens group step"),
    "instances.jsonl": ("every-eval-ever", "gold score problem_id"),
    "evaluation_data.json": ("nemo-rl", "gold score"),
    "val_data_step20.jsonl": ("nemo-rl", "score"),
    "results_AIME24.json": ("evalchemy", "gold"),
    "details_sums.parquet": ("lighteval", "gold score"),
    "samples_sums.jsonl": ("lm-eval", "gold"),
    "log.json": ("inspect", "gold score draw finish_reason n_tokens problem_id"),
    "log.eval": ("inspect", "gold score draw finish_reason n_tokens problem_id"),
    "drawn.jsonl": ("completions", "gold score"),
}
"""Program and what it says of every draw beside problem and response."""
MAY_BE = [
    "problem_id",
    "gold",
    "score",
    "draw",
    "seed",
    "step",
    "finish_reason",
    "n_tokens",
    "advantage",
    "group",
]


@pytest.mark.parametrize("name", READ)
def test_a_file_is_known_by_its_content(name, tmp_path):
    path = tmp_path / "somewhere" / f"any{Path(name).suffix}"
    path.parent.mkdir()
    written.FILES[name](path)
    dump = open_dump(path)
    draws = list(dump.draws)
    program, says = READ[name]
    assert dump.format.program == program and program in PROGRAMS
    n = 1 if name == "output-rs0.jsonl" else 2
    expected = [row for i, row in enumerate(written.DRAWS) if i % 2 < n]
    for draw, (question, gold, text, score) in zip(draws, expected, strict=True):
        assert question in draw.problem and draw.response == text
        there = {field for field in MAY_BE if getattr(draw, field) is not None}
        assert there == set(says.split())
        assert draw.gold in (gold, None) and draw.score in (score, None)


def test_columns_of_an_unknown_file_are_named(tmp_path):
    path = tmp_path / "table.csv"
    written.table(path)
    with pytest.raises(ValueError, match=r"line 1: no responses: its columns \(task, gold, reply"):
        open_dump(path)
    named = NamedColumns(prompt="task", response="reply", answer="gold", score="points")
    draws = list(open_dump(path, named).draws)
    assert [(d.problem, d.gold, d.response, d.score) for d in draws] == written.DRAWS
    with pytest.raises(ValueError, match=r"--score point \(did you mean points\?\): .* columns "):
        open_dump(path, NamedColumns(response="reply", score="point"))


def test_of_several_reward_functions_none_is_the_verdict_unless_it_is_named(tmp_path):
    path = tmp_path / "completions_00100.parquet"
    written.trl(path)
    assert open_dump(path).rewards == [
        "verdicts: those of the only reward function, accuracy_reward"
    ]
    table = pl.read_parquet(path).with_columns(format_reward=pl.lit(1.0))
    table.write_parquet(path)
    (left_out,) = open_dump(path).rewards
    assert left_out.startswith("left out: rewards of accuracy_reward, format_reward: name")
    assert open_dump(path, NamedColumns(score="accuracy_reward")).rewards == []
    assert [draw.score for draw in open_dump(path).draws] == [None] * 4
    named = [draw.score for draw in open_dump(path, NamedColumns(score="accuracy_reward")).draws]
    assert named == [score for *_, score in written.DRAWS]


def test_a_parquet_file_is_read_in_batches_of_the_columns_that_count(tmp_path, monkeypatch):
    monkeypatch.setattr("evaluators.dumps.BATCH", 2)
    path = tmp_path / "generated.parquet"
    rows = pl.DataFrame(
        {
            "prompt": [[written.user(f"{i}?")] for i in range(5)],
            "responses": [["a", "b"]] * 5,
            "reward_model": [{"ground_truth": "1"}] * 5,
            "extra": ["x" * 1_000] * 5,
        }
    )
    rows.write_parquet(path)
    draws = list(open_dump(path).draws)
    assert [draw.line for draw in draws] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert draws[-1].problem == "4?" and "extra" not in draws[-1].row


def test_a_line_that_is_being_written_is_left_out_and_named(tmp_path):
    path = tmp_path / "200.jsonl"
    written.verl(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    dump = open_dump(path)
    assert len(list(dump.draws)) == len(written.DRAWS) - 1
    assert dump.notices == [f"left out: line 4 of {path}, within which the file ends"]


VERL = {"input": "1?", "output": "1", "gts": "1", "score": 1.0, "step": 1}
FAULTS = [
    (["{"], "line 1 is no JSON (Expecting property name"),
    ([json.dumps(VERL), "no", json.dumps(VERL)], "line 2 is no JSON (Expecting value"),
    ([json.dumps(VERL), "[1]"], "line 2 is no JSON object"),
    (
        [json.dumps(VERL), json.dumps({"problem": "1?", "response": "1"})],
        "line 2 has no input, which every row of verl dump of a step has: a file has rows of one",
    ),
    ([json.dumps(VERL | {"score": "good"})], "line 1: its verdict is 'good': give a number, true"),
    ([json.dumps(VERL | {"step": -1})], "line 1: step is -1: give a number from 0"),
    ([json.dumps(VERL | {"output": 3})], "line 1: response 0 is 3: give a text"),
    (
        [json.dumps({"id": 1, "epoch": "a", "input": "1?", "output": {}})],
        "line 1 is no row of inspect log (TypeError",
    ),
    ([""], "holds no lines"),
    (['{"loss": 1}'], "line 1: no responses: its columns (loss) are of no format that is read"),
]


@pytest.mark.parametrize(("texts", "said"), FAULTS)
def test_a_fault_is_named_with_its_line(texts, said, tmp_path):
    path = tmp_path / "200.jsonl"
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    with pytest.raises(ValueError) as raised:
        list(open_dump(path).draws)
    assert str(raised.value).startswith(f"{path}") and said in str(raised.value)


def test_errors_count_as_the_dump_says(tmp_path):
    path = tmp_path / "traces.jsonl"
    written.traces(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1] |= {"ok": False, "errors": [{"type": "Timeout", "message": "too late"}], "traces": []}
    written.lines(path, rows)
    failed = list(open_dump(path).draws)[1]
    assert (failed.response, failed.score, failed.fault) == (None, None, "'too late'")
    path = tmp_path / "results.jsonl"
    written.verifiers(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1] |= {"completion": [], "error": "ToolError", "reward": 0.0}
    written.lines(path, rows)
    failed = list(open_dump(path).draws)[1]
    assert (failed.response, failed.score, failed.fault) == ("", 0.0, "'ToolError'")


def test_rows_that_repeat_the_same_draws_are_passed_over(tmp_path):
    path = tmp_path / "samples_sums.jsonl"
    written.lm_eval(path)
    dump = open_dump(path)
    assert len(list(dump.draws)) == 4
    assert dump.notices == [
        "passed over: 2 lines with the same draws for another filter, flexible",
        "left out: 2 verdicts that are each one for several draws",
    ]


def test_files_of_a_folder_are_draws_or_steps(tmp_path):
    for i in (0, 1, 2, 10):
        written.nemo_skills(tmp_path / "draws" / f"output-rs{i}.jsonl")
    (tmp_path / "draws" / "metrics.json").write_text("{}")
    names = [file.name for file in files_at(tmp_path / "draws")[None]]
    assert names == [f"output-rs{i}.jsonl" for i in (0, 1, 2, 10)]
    for step in (100, 200):
        written.verl(tmp_path / "val" / f"{step}.jsonl", step)
        written.skyrl(tmp_path / "evals" / f"global_step_{step}_evals" / "sums.jsonl")
    assert list(files_at(tmp_path / "val")) == list(files_at(tmp_path / "evals")) == [100, 200]
    assert only_step([tmp_path / "val"], 100) == [tmp_path / "val" / "100.jsonl"]
    with pytest.raises(ValueError, match=r"val has steps 100, 200: name one of them with --step"):
        only_step([tmp_path / "val"], None)
    with pytest.raises(ValueError, match=r"100\.jsonl is named twice"):
        only_step([tmp_path / "val" / "100.jsonl"] * 2, None)
    written.verl(tmp_path / "val" / "other.jsonl")
    written.verl(tmp_path / "val" / "another.jsonl")
    with pytest.raises(ValueError, match="holds the draws of several runs or tasks: name one of"):
        files_at(tmp_path / "val")
