"""Files as publishers lay them out: which columns are read, what becomes of them, what is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fgrpo_bench.data.columns import Columns, file_dataset, question_columns
from fgrpo_bench.data.prepare import file_table


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def read(
    path: Path, content: bytes, *, grader: str = "math", **named: str
) -> tuple[Columns, list[tuple[str, str]], list[str]]:
    """Columns, problems with golds, and what is said of the rows."""
    if content:
        path.write_bytes(content)
    columns = question_columns(path, grader=grader, **{"prompt": None, "answer": None} | named)
    table, answers = file_table(file_dataset(path, columns, name="any", grader=grader))
    return columns, table.select("prompt", "gold_used").rows(), answers


ASKED = "\n\nAnswer with the letter of the right choice: A, B or C."
CHOSEN = f"Which?\n\nA. red\nB. 4\nC. blue{ASKED}"
TEXTS = ["red", "4", "blue"]
OF_CHOICE: dict[str, tuple[bytes, str, str]] = {  # file, gold, what is said
    "aqua.jsonl": (
        lines({"question": "Which?", "options": ["A)red", "B)4", "C)blue"], "correct": "C"}),
        *("C", "options: column 'options' behind each problem"),
    ),
    "mmlu.jsonl": (
        lines(*({"question": "Which?", "choices": TEXTS, "answer": i} for i in (0, 2))),
        *("A", "options: column 'choices' behind each problem"),
    ),
    "mmlu.csv": (b"question,A,B,C,answer\nWhich?,red,4,blue,B\n", "B", "options: columns A,B,C"),
    "medmcqa.csv": (
        b"question,opa,opb,opc,opd,cop\nWhich?,red,4,blue,,3\n",
        *("C", "options: columns opa,opb,opc,opd behind each problem"),
    ),
    "texts.csv": (
        b"Question,option_1,option_2,option_3,Answer\nWhich?,red,4,blue,Blue\n",
        *("C", "options: columns option_1,option_2,option_3 behind"),
    ),
    "arc.jsonl": (
        lines({"question": "Which?", "choices": {"text": TEXTS, "label": ["1", "2", "3"]},
               "answerKey": "2"}),
        *("B", "options: column 'choices' behind each problem"),
    ),
    "gaokao.jsonl": (
        lines({"passage": None, "question": "Which?", "label": "A", "answer": None,
               "options": dict(zip("ABC", TEXTS, strict=True))}),
        *("A", "options: column 'options' behind each problem"),
    ),
    "sat.jsonl": (
        lines({"question": "Which?", "options": "A) red B) 4 C) blue", "Answer": "A"}),
        *("A", "options: column 'options' behind each problem"),
    ),
    "python.csv": (
        b"question,choices,answer\nWhich?,\"['red', '4', 'blue']\",b\n",
        *("B", "options: column 'choices' behind each problem"),
    ),
    "listed.jsonl": (
        lines({"question": CHOSEN, "options": TEXTS, "answer": "C"}),
        *("C", "options: the problems list them already, column 'options' left out"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_CHOICE)
def test_options_become_part_of_each_problem_once(name, tmp_path):
    content, gold, said = OF_CHOICE[name]
    columns, rows, _ = read(tmp_path / name, content, grader="choice")
    assert rows[0] == (CHOSEN, gold)
    assert said in " ".join(columns.said)


def test_ten_options_have_ten_letters_and_other_graders_are_told_to_take_choice(tmp_path):
    row = {"question": "Which?", "options": [f"number {i}" for i in range(10)], "answer": "J"}
    path = tmp_path / "pro.jsonl"
    _, ((prompt, gold),), _ = read(path, lines(row), grader="choice")
    assert gold == "J" and "\nJ. number 9\n" in prompt and prompt.endswith("H, I or J.")
    for answer in ("J", 9):
        with pytest.raises(ValueError, match="by letters or places: choose --grader choice"):
            read(path, lines(row | {"answer": answer}))
    columns, _, _ = read(path, lines(row | {"answer": 33}))
    assert columns.said == ("left out: column 'options', which --grader choice puts behind each "
                            "problem",)  # fmt: skip


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]
READ: dict[str, tuple[bytes, dict[str, str], tuple[str, str], str | None]] = {
    "gsm8k.jsonl": (
        lines({"question": "1 + 1?", "answer": "1+1 = <<1+1=2>>2\n#### 2"}),
        *({}, ("1 + 1?", "2"), "answers: behind ####, 1 of 1"),
    ),
    "asdiv.jsonl": (
        lines({"body": "Two apples.", "question": "How many?", "answer": "2 (apples)"}),
        {"prompt": "body,question"},
        *(("Two apples.\n\nHow many?", "2"), "answers: before a unit in parentheses, 1 of 1"),
    ),
    "verl.jsonl": (
        lines({"prompt": CHAT, "reward_model": {"style": "rule", "ground_truth": "2"},
               "extra_info": {"answer": "no", "question": "no"}}),
        *({}, ("Be brief.\n\n1 + 1?", "2"), None),
    ),
    "nested.jsonl": (
        lines({"question": "1 + 1?", "extra": {"right": {"value": ["2"]}}}),
        *({"answer": "extra.right.value"}, ("1 + 1?", "2"), "answers: in a list of one, 1 of 1"),
    ),
    "object.jsonl": (
        lines({"question": "1 + 1?", "answer": {"value": 2, "unit": "m"}}),
        *({}, ("1 + 1?", "2"), "answers: in an object, 1 of 1"),
    ),
    "alpaca.jsonl": (
        lines({"instruction": "Add.", "input": "1 and 1", "output": "2"}),
        *({"prompt": "instruction,input"}, ("Add.\n\n1 and 1", "2"), None),
    ),
    "semicolons.csv": (b"question;answer\nOne, two?;2\n", {}, ("One, two?", "2"), None),
    "tabs.tsv": (b"Question\tAnswer\nOne, two?\t2\n", {}, ("One, two?", "2"), None),
    "wrapped.json": (
        json.dumps({"version": 1, "data": [{"Problem": "?", "gt": 2.0}]}, indent=1).encode(),
        *({}, ("?", "2"), None),
    ),
    "one.json": (lines({"prompt": CHAT[1:], "answer": "2"}), {}, ("1 + 1?", "2"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_file_of_each_publisher_is_read_as_it_is_meant(name, tmp_path):
    content, named, row, said = READ[name]
    _, rows, answers = read(tmp_path / name, content, **named)
    assert (rows, answers) == ([row], [said] if said else [])


def test_a_parquet_file_with_structures_is_read_as_its_json_is(tmp_path):
    rows = [json.loads(READ["verl.jsonl"][0])]
    pl.DataFrame(rows).write_parquet(tmp_path / "verl.parquet")
    columns, made, _ = read(tmp_path / "verl.parquet", b"")
    assert (columns.answer, made) == ("reward_model.ground_truth", [READ["verl.jsonl"][2]])


SAID = {
    "context.jsonl": (
        lines({"Body": "Two apples.", "Question": "How many?", "Answer": 2.0, "story": None}),
        "left out: column 'Body', part of the problem? (--prompt Body,Question joins them)",
    ),
    "input.jsonl": (
        lines({"instruction": "Add.", "input": "1 and 1", "output": "2"}),
        "left out: column 'input', part of the problem? (--prompt instruction,input joins them)",
    ),
    "windows.csv": (
        "question,answer\nGröße in €?,2\n".encode("cp1252"),
        "text: read as Windows-1252, as it is no UTF-8",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_left_out_or_guessed_is_said(name, tmp_path):
    content, said = SAID[name]
    columns, _, _ = read(tmp_path / name, content)
    assert columns.said == (said,)


TURNS = [CHAT[1], {"role": "assistant", "content": "2"}, CHAT[1]]
REFUSED: dict[str, tuple[bytes, dict[str, str], str]] = {
    "turns.jsonl": (lines({"prompt": TURNS, "answer": "2"}), {}, "row 0 holds a chat that is more"),
    "lists.jsonl": (lines({"question": "?", "answer": ["1", "2"]}), {}, "a list of 2 answers"),
    "damaged.csv": ("question,answer\nö?,2\n".encode() + b"\xff,2\n", {}, "no text in UTF-8"),
    "nowhere.jsonl": (
        lines({"question": "?", "answer": {"a": "1", "b": "2"}}),
        *({"answer": "answer.c"}, "--answer answer.c (did you mean answer?)"),
    ),
    "keys.jsonl": (lines({"question": "?", "answer": {"a": "1", "b": "2"}}), {}, "with 2 keys"),
    "instructions.jsonl": (
        lines({"question": "?", "answer": "no maze"}, {"question": "?", "answer": "nor this"}),
        *(
            {"grader": "synlogic"},
            "row 0 of dataset any, column answer: the grader synlogic cannot",
        ),
    ),
    "empty.jsonl": (
        lines(*({"question": "?", "options": options, "answer": "A"} for options in (TEXTS, []))),
        *({"grader": "choice"}, "row 1 has no two options"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused(name, tmp_path):
    content, named, said = REFUSED[name]
    with pytest.raises(ValueError) as error:
        read(tmp_path / name, content, **named)
    assert said in str(error.value)


@pytest.mark.slow
def test_a_gold_that_its_grader_does_not_call_correct_is_refused_and_of_gpqa_not_shown(
    tmp_path, monkeypatch
):
    path = tmp_path / "any.jsonl"
    path.write_bytes(lines({"question": "?", "answer": "1"}, {"question": "?", "answer": "7,500"}))
    columns = question_columns(path, prompt=None, answer=None, grader="math")
    dataset = file_dataset(path, columns, name="any", grader="math")
    assert len(file_table(dataset)[0]) == 2
    monkeypatch.setattr("fgrpo_bench.data.golds.trials", lambda gold, _: [f"\\boxed{{{gold[0]}}}"])
    with pytest.raises(ValueError, match=r"row 1 .* the gold '7,500' fails .*'\\\\boxed\{7\}' is "):
        file_table(dataset)
    monkeypatch.setattr("fgrpo_bench.specs.dataset.GATED", ("plain",))
    with pytest.raises(ValueError, match="row 1 of dataset any") as error:
        file_table(replace(dataset))
    assert "7,500" not in str(error.value) and "boxed" not in str(error.value)
