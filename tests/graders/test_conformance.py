"""What is known of real benchmarks and outputs where they are at hand, else of our own rows."""

from __future__ import annotations

import json

import pytest

from tests import conformance
from tests.support import benchmarks


@pytest.mark.slow
def test_the_graders_say_what_is_known_of_real_outputs_or_of_the_case_tables(judge):
    folder = benchmarks.folder()
    print(f"conformance on {folder or benchmarks.CASES}")
    if folder is not None:
        parts, scores = conformance.run(folder, print)
        assert conformance.unexpected(parts, scores) == []
        return
    golds = conformance.every_gold(
        judge, [row["gold"] for row in benchmarks.cases() if row["gold"]]
    )
    assert golds.differences == ()
    followed, scores = conformance.instructions(*instructions())
    assert (followed.differences, followed.of) == ((), 2 * len(instructions()[0]))
    assert 0 < scores["prompt strict"] < scores["prompt loose"] < 1


def test_a_verdict_that_differs_is_listed(judge):
    rows = [
        {"id": case["why"], "answer": case["gold"], "response": case["response"]}
        | {"published_score": case["outcome"] != "correct"}
        for case in benchmarks.cases()[:4]
    ]
    part = conformance.published(judge, "mine", rows)
    assert (part.agree, part.of, len(part.differences)) == (0, 4, 4)
    assert rows[0]["id"] in part.differences[0]
    rows, golds = instructions()
    rows[0]["published_strict_list"] = [not rows[0]["published_strict_list"][0]]
    assert len(conformance.instructions(rows, golds)[0].differences) == 1


def test_the_command_needs_the_real_files(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        conformance.main([str(tmp_path)])
    assert "lacks math500, aime24" in capsys.readouterr().err


def test_a_run_that_is_not_as_known_is_told():
    parts = [
        conformance.Part(name=name, agree=agree - 1, of=of, differences=("x",))
        for name, (agree, of) in conformance.KNOWN.items()
    ]
    told = conformance.unexpected(parts, {"prompt strict": 0.5})
    assert len(told) == len(conformance.KNOWN) + 1


def instructions():
    """Rows and golds as conformance.instructions takes them, of the case table."""
    cases = json.loads((benchmarks.CASES / "ifeval.json").read_text(encoding="utf-8"))
    known = [case for case in cases if case["outcome"] != "unscored"]
    rows = [
        {
            "id": case["why"],
            "problem": case["why"],
            "response": case["response"],
            "published_strict_list": [case["outcome"] == "correct"],
            "published_loose_list": [case["loose"]],
        }
        for case in known
    ]
    golds = {
        case["why"]: {"instruction_id_list": [case["instruction"]], "kwargs": [case["kwargs"]]}
        for case in known
    }
    return rows, golds
