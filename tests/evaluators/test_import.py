"""Dumps of trainers and harnesses imported and compared: golds, verdicts, draws, steps."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from evaluators import interchange
from evaluators.__main__ import main
from evaluators.stored import find
from fgrpo_bench.stages.tables import DRAWS, PASSK, read_table
from tests.evaluators import written
from tests.evaluators.written import PROBLEMS


@pytest.fixture(autouse=True)
def here(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty present folder, with a run root."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys, *words: str, code: int = 0) -> str:
    """What a command prints on both streams, in one line."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def pass_at_1(name: str, grader: str | None = None) -> float:
    (stored,) = find(name)
    return read_table(stored.paths.passk(grader), PASSK).filter(k=1)["pass_at_k"].mean()


@pytest.mark.slow
def test_a_file_is_graded_by_its_golds_beside_its_own_verdicts(capsys):
    written.verl(Path("200.jsonl"))
    shown = said(capsys, "import", "200.jsonl", "--name", "theirs")
    assert (
        "read: 200.jsonl, verl dump of a step (problem: input, response: output, gold: gts, "
        "score: acc, step: step, group: group)" in shown
    )
    assert "verl and math disagree on 2 of 4 draws" in shown
    assert shown.count("math correct, verl not") == 2 and "verl correct" not in shown
    assert (pass_at_1("theirs"), pass_at_1("theirs", "verl-1")) == (1.0, 0.5)
    (stored,) = find("theirs")
    assert stored.benchmark.extra_graders == ("verl",)
    again = said(capsys, "grade", "theirs", "--grader", "verl")
    assert "verl-1: all 4 draws were graded" in again
    assert "none are stored in" in said(capsys, "grade", "theirs", "--grader", "trl", code=1)
    compared = said(capsys, "compare", "a=theirs", "b=theirs", "--grader", "verl")
    assert "Judged by verl-1 in place of the grader of dump." in compared
    assert "a and b are one model: equal weights, drawn with equal settings." in compared


@pytest.mark.slow
def test_verdicts_of_a_file_count_alone_where_nobody_can_grade(capsys):
    written.nemo_rl_validation(Path("val_data_step20.jsonl"))
    words = ["import", "val_data_step20.jsonl", "--name", "theirs"]
    assert "no answer to the problem: name" in said(capsys, *words, code=1)
    said(capsys, *words, "--verdicts", "theirs")
    assert pass_at_1("theirs") == 0.5
    written.lines(Path("mine.jsonl"), [{"question": q, "answer": "?"} for q, _ in PROBLEMS])
    written.verl(Path("200.jsonl"))
    of_data = ["--data", "mine.jsonl", "--verdicts", "theirs"]
    said(capsys, "import", "200.jsonl", *of_data, "--name", "of-data")
    assert pass_at_1("of-data") == 0.5 and find("of-data")[0].benchmark.name.startswith("mine-")


@pytest.mark.slow
def test_graded_scores_need_a_declared_threshold(capsys):
    rows = [
        {"problem": f"{i}?", "answer": "1", "response": "\\boxed{1}", "score": score}
        for i, score in enumerate((0.2, 0.5, 0.9, 1.0))
    ]
    written.lines(Path("graded.jsonl"), rows)
    words = ["import", "graded.jsonl", "--name"]
    rule = "3 of 4 verdicts in the file are other than 0 and 1, e.g. 0.2: say with --threshold"
    assert f"left out: {rule}" in said(capsys, *words, "ours")
    assert find("ours")[0].benchmark.extra_graders == ()
    theirs = "--verdicts", "theirs"
    assert f"--verdicts theirs: {rule}" in said(capsys, *words, "bad", *theirs, code=1)
    assert "--threshold -1: give" in said(capsys, *words, "bad", "--threshold", "-1", code=1)
    said(capsys, *words, "half", *theirs, "--threshold", "0.5")
    assert pass_at_1("half") == 0.75
    assert find("half")[0].benchmark.grader == "completions-from-0.5"
    written.evalchemy(Path("none.json"))
    none = said(capsys, "import", "none.json", "--name", "bad", *theirs, code=1)
    assert "no verdicts stand in the file" in none


@pytest.mark.slow
def test_several_files_are_draws_of_the_same_problems(capsys):
    for draw in (0, 1):
        written.nemo_skills(Path(f"output-rs{draw}.jsonl"), draw)
    written.lines(Path("mine.jsonl"), [{"question": q, "answer": a} for q, a in PROBLEMS])
    files = ["output-rs0.jsonl", "output-rs1.jsonl"]
    said(capsys, "import", *files, "--data", "mine.jsonl", "--name", "both")
    (stored,) = find("both")
    draws = read_table(stored.paths.draws, DRAWS)
    assert draws["draw"].to_list() == [0, 1, 0, 1] and stored.spec.stored_evaluation.n_samples == 2
    assert draws["response"].to_list() == [text for _, _, text, _ in written.DRAWS]
    assert (pass_at_1("both"), pass_at_1("both", "nemo-skills-1")) == (1.0, 0.5)
    missing = said(capsys, "import", *files, "output-rs2.jsonl", "--name", "x", code=1)
    assert "output-rs2.jsonl is no file" in missing
    written.verl(Path("200.jsonl"))
    other = said(capsys, "import", *files, "200.jsonl", "--name", "x", code=1)
    assert "import files of each format by a --name of their own" in other


@pytest.mark.slow
def test_folders_of_steps_are_compared_at_the_last_that_both_have(capsys, monkeypatch):
    for run, steps in {"a": (0, 100, 200, 300), "b": (0, 100, 200)}.items():
        for step in steps:
            written.verl(Path(run, f"{step}.jsonl"), step)
    compared = said(capsys, "compare", "a", "b")
    assert "b against a on dump" in compared and "Steps: a 200, b 200." in compared
    assert "At equal pass@1" in compared and "300.jsonl" not in compared
    assert "a: verl's verdicts differ on 2 of 4 draws (--grader verl compares" in compared

    def fails(*_):
        raise AssertionError("read again")

    monkeypatch.setattr(interchange, "open_dump", fails)
    of_one_step = said(capsys, "compare", "a", "b", "--step", "100")
    assert "Steps: a 100, b 100." in of_one_step
    seeds = said(capsys, "compare", "a/100.jsonl", "b=b/100.jsonl,b/200.jsonl,b/0.jsonl")
    assert "3 seeds, paired in order" in seeds
    for run, step in (("c", 1), ("d", 2)):
        written.verl(Path(run, f"{step}.jsonl"), step)
    fault = said(capsys, "compare", "c", "d", code=1)
    assert "no step is common to all that are compared: c has 1; d has 2" in fault


@pytest.mark.slow
def test_prompts_of_other_templates_are_matched_to_the_data(capsys):
    """Without data two templates make other problems, which have none in common."""
    written.verl(Path("chat.jsonl"))
    rows = [json.loads(line) for line in Path("chat.jsonl").read_text().splitlines()]
    for row in rows:
        row["input"] = row["input"].replace("helpful", "a calculator")
    written.lines(Path("plain.jsonl"), rows)
    apart = said(capsys, "compare", "chat.jsonl", "plain.jsonl", code=1)
    assert "no problem of dump is common to all that are compared" in apart
    assert "chat.jsonl has 'system You are helpful. user What" in apart and "--data" in apart
    written.lines(Path("mine.jsonl"), [{"question": q, "answer": a} for q, a in PROBLEMS])
    both = said(capsys, "compare", "chat.jsonl", "plain.jsonl", "--data", "mine.jsonl")
    assert "plain.jsonl minus chat.jsonl" in both
    data = pl.DataFrame([{"question": q, "answer": a} for q, a in PROBLEMS[:1]])
    data.write_ndjson("one.jsonl")
    unknown = said(capsys, "import", "chat.jsonl", "--data", "one.jsonl", "--name", "x", code=1)
    assert "chat.jsonl, line 3: no text that is a problem of this benchmark" in unknown
    words = ["import", "chat.jsonl", "--data", "one.jsonl", "--subset", "--name", "x"]
    assert "left out: 2 draws of other problems" in said(capsys, *words)
