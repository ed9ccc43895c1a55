"""An audit counts what a reviewer would ask for, and shows nothing that could do harm."""

import json

import pytest

from evaluators.__main__ import main
from evaluators.audit import audit, render
from evaluators.stored import closing_table, find
from fgrpo_bench.graders.choice import LETTERS, permutation

RESPONSES = {
    "math500-000000": [
        "\\boxed{12}",
        "it is 12",
        "So \\boxed{3}. But no, \\boxed{12}.",
        "\x1b[31mred\x1b[0m <script>alert(1)</script>",
    ],
    "math500-000001": ["\\boxed{3}", "\\boxed{3}", "\\boxed{3.0}", "\\boxed{4}"],
    "math500-000002": [
        "\\boxed{1/2}",
        "\\boxed{0.5}",
        "\\boxed{\\frac12}",
        "\\boxed{x}" + "y" * 500,
    ],
}


def imported(benchmark, words, lines, tmp_path):
    """Draws of another program, imported and graded."""
    file = tmp_path / "theirs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = ["--benchmark", benchmark, "--name", "theirs"]
    assert main(["import", str(file), *words, *given]) == 0
    return find("theirs")[0]


@pytest.mark.slow
def test_every_kind_is_counted_with_examples_and_nothing_steers_the_terminal(
    keys, tmp_path, capsys
):
    lines = [  # some are cut off
        {"problem_id": name, "response": text, "finish_reason": "length" if i == 3 else "stop"}
        for name, texts in RESPONSES.items()
        for i, text in enumerate(texts)
    ]
    (made,) = audit(imported("math500", keys, lines, tmp_path))
    found = {each.kind: each for each in made.findings}
    assert (made.draws, made.problems, made.grader_version) == (12, 3, "math-5")
    assert found["unscored"].count == 0
    assert found["without a box"].count == 2
    assert found["cut off at the longest response"].share == "3 of 12 (25.00%)"
    otherwise = found["judged otherwise by plain math-verify"]
    assert otherwise.count == 1 and "math500-000000, draw 2" in otherwise.examples[0]
    assert "plain math-verify: incorrect" in otherwise.examples[0]
    assert made.distinct_answers == 8

    capsys.readouterr()
    assert main(["audit", "theirs"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "math-5" in shown and "2 of 12 (16.67%)" in shown
    assert "y" * 161 not in shown
    assert main(["audit", "theirs", "--json", "--compared", "5"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["distinct_share"] == pytest.approx(8 / 12)
    assert facts["findings"][-1]["of"] == 4  # an even part of at most 5
    assert main(["audit", "thairs"]) == 1
    assert "one of these names: theirs" in capsys.readouterr().err


@pytest.mark.slow
def test_a_gated_multiple_choice_is_counted_by_how_it_was_read_and_no_text_is_shown(root, tmp_path):
    choices = "Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3"
    source = tmp_path / "source.csv"
    source.write_text(f"Record ID,Question,{choices}\nrec1,Which?,right,1,2,3\n")
    words = [f"path={source}", "expected_rows=1"]
    assert main(["data", "gpqa", *words]) == 0
    right = LETTERS[permutation("rec1").index(0)]
    texts = [f"It must be {right}.", f"The answer is {right}.", "The answer is secret.", "secret"]
    lines = [{"problem_id": "gpqa-000000", "responses": texts}]
    stored = imported("gpqa", words, lines, tmp_path)
    table = closing_table([stored])
    assert "by guessing" in table and " 25.0" in table  # of four options
    (made,) = audit(stored)
    counts = {each.kind: each.count for each in made.findings}
    assert counts["without a letter"] == 2 and counts["correct, but only in a conclusion"] == 1
    shown = render([made])
    assert "gpqa-000000, draw 2" in shown and "secret" not in shown and "must be" not in shown


@pytest.mark.slow
def test_a_benchmark_of_tasks_is_broken_down_by_task(root, tmp_path):
    games = [("boolean_expressions", "A"), ("boolean_expressions", "B"), ("unheard_of", "C")]
    rows = [
        {
            "data_source": f"val/{task}",
            "prompt": [{"role": "user", "content": f"{task} {answer}?"}],
            "extra_info": {"game_data_str": json.dumps({"answer": answer, "metadata": {}})},
        }
        for task, answer in games
    ]
    source = tmp_path / "source.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [f"path={source}"]
    assert main(["data", "synlogic", *words]) == 0
    lines = [
        {"problem_id": f"synlogic-{i:06d}", "responses": [rf"\boxed{{{answer}}}", "?"]}
        for i, (_, answer) in enumerate(games)
    ]
    (made,) = audit(imported("synlogic", words, lines, tmp_path))
    first, second = made.tasks
    assert (first["task"], first["problems"], first["draws"]) == ("boolean_expressions", 2, 4)
    assert (first["correct"], first["unscored"]) == (2, 0)
    assert (second["task"], second["draws"], second["unscored"]) == ("unheard_of", 2, 2)
    shown = render([made])
    assert "boolean_expressions         2      4   50.00%     0.00%" in shown
