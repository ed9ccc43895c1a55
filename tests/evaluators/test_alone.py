"""Evaluating a checkpoint without a sweep: planned, drawn once, extended, graded again."""

import re
import shutil

import numpy as np
import polars as pl
import pytest

from evaluators import standalone
from evaluators.__main__ import main
from evaluators.stored import find
from fgrpo_bench.core.seeds import draw_seeds, stream
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, read_table, write_table
from tests.evaluators.evaluations import changed, write_source
from tests.support.openrlhf import make_untrained


@pytest.mark.slow
def test_a_design_is_a_word_and_a_plan_says_what_it_draws_at_most(words, root, capsys):
    asked = standalone.load_request(
        ["checkpoint=x", "evaluation=staged", "design.enough=4"]
    ).evaluation
    assert (asked.design.stages, asked.design.enough) == ((64, 128, 256, 512, 1024), 4)
    asked = standalone.load_request(["checkpoint=x", "design=staged"]).evaluation
    assert asked.design.enough == 8 and list(asked.benchmarks) == ["math500"]
    with pytest.raises(ValueError, match=r"n_samples=64, but the last of design.stages=\[64, 128"):
        standalone.load_request(["checkpoint=x", "evaluation=staged", "n_samples=64"])
    staged = [*words, "n_samples=16", "design={stages:[4,16],enough:2}"]
    assert standalone.load_request(staged).evaluation.ks == (1, 2, 4, 8, 16)
    assert main(["plan", *staged]) == 0
    said = capsys.readouterr().out
    (folder,) = root.glob("evals/small-*/eval/*/step-00000")
    for same in (["run", *staged], ["run", str(folder)]):
        assert main([*same, "--dry-run"]) == 0
        assert capsys.readouterr().out == said
    assert not list(folder.glob("*/draws*"))
    assert main(["plan", str(folder.parents[2])]) == 1
    assert "is of kind 'checkpoint': only an evaluation is planned" in capsys.readouterr().err
    assert "3 problems x 16 draws at most; 0 are there" in said
    assert "in stages 4 and 16; a problem stops after a stage with 2 correct" in said
    fewer = changed(words, "evaluation.benchmarks.math500.n_problems=2")
    assert main(["plan", *fewer]) == 0
    assert "2 problems x " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.rare
def test_a_checkpoint_is_evaluated_extended_and_found_again(words, root, capsys):
    assert main(["run", *words, "n_samples=4", "--dry-run"]) == 0
    assert "3 problems x 4 draws; 0 are there, 12 to make" in capsys.readouterr().out
    assert main(["run", *words, "n_samples=4"]) == 0
    shown = capsys.readouterr().out
    assert "math500" in shown and "pass@k in percent" in shown and "files: " in shown
    (stored,) = find(next((root / "evals").glob("small-*")).name)
    assert read_json(stored.stage.done)["draws_made"] == {"math500": 12}
    first = read_table(stored.paths.draws, DRAWS)

    assert main(["run", *words, "n_samples=10", "ks=[1,10]"]) == 0
    marker = read_json(stored.stage.done)
    assert marker["draws_made"] == {"math500": 18}
    assert marker["grading"]["math500"]["math-5"]["graded"] == 18
    draws = read_table(stored.paths.draws, DRAWS)
    assert len(draws) == 30 and draws.filter(pl.col("draw") < 4).equals(first)
    passk = read_table(stored.paths.passk(), PASSK)
    assert passk["k"].unique().sort().to_list() == [1, 10]

    assert main(["run", *words, "n_samples=10", "ks=[1,10]"]) == 0
    assert "already done" in capsys.readouterr().out
    assert main(["run", *words, "n_samples=4", "temperature=0.5"]) == 0  # another address
    assert len(find(str(root / "evals"))) == 2
    assert main(["run", *words, "n_samples=4", "stream=1"]) == 0  # and other random numbers
    assert len(find(str(root / "evals"))) == 3
    assert first["seed"].to_list() == [
        seed
        for problem in first["problem_id"].unique(maintain_order=True)
        for seed in draw_seeds(stream(0, 0), [problem], np.arange(4))[0].tolist()
    ]


@pytest.mark.slow
def test_a_new_grader_version_grades_what_is_stored_and_says_what_changed(words, root, capsys):
    assert main(["run", *words, "n_samples=4", "name=mine"]) == 0
    (stored,) = find("mine")
    grades = read_table(stored.paths.grades("math-5"), GRADES)
    older = grades.with_columns(
        pl.when(pl.int_range(pl.len()) < 2)
        .then(pl.lit("unscored"))
        .otherwise("outcome")
        .alias("outcome"),
        grader_version=pl.lit("math-0"),
    )
    write_table(stored.paths.grades("math-0"), older, GRADES)
    stored.paths.grades("math-5").unlink()
    stored.paths.passk().unlink()
    capsys.readouterr()
    assert main(["grade", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "math500, math-5: 12 draws graded" in shown
    assert "2 of 12 verdicts differ from math-0 (2 unscored -> incorrect)" in shown
    assert read_table(stored.paths.grades("math-5"), GRADES).equals(grades)
    assert read_table(stored.paths.grades("math-0"), GRADES).equals(older)
    assert len(read_table(stored.paths.passk(), PASSK)) == 9
    assert main(["grade", "mine", "--grader", "countdwn"]) == 1
    assert "unknown grader 'countdwn'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.rare
def test_where_another_grader_would_not_have_stopped_the_same_command_draws_on(words, root, capsys):
    staged = ["n_samples=8", "ks=[1,8]", "+design={stages:[2,4,8],enough:1}", "name=mine"]
    assert main(["run", *words, *staged]) == 0
    (stored,) = find("mine")
    whole = read_table(stored.paths.draws, DRAWS)
    assert len(whole) == 24  # no draw of an untrained model is correct
    name = whole["problem_id"][0]
    stopped = ~((pl.col("problem_id") == name) & (pl.col("draw") >= 2))
    write_table(stored.paths.draws, whole.filter(stopped), DRAWS)  # as if draw 0 had been correct
    stored.paths.grades("math-5").unlink()
    rewritten(stored.stage, [stored.paths.draws])
    shutil.rmtree(root / "draws")  # else those that it lacks are there
    capsys.readouterr()

    assert main(["grade", "mine"]) == 0
    assert "1 of 3 problems would not have stopped where they did" in capsys.readouterr().out
    rows = read_table(stored.paths.passk(), PASSK).filter(k=8)
    assert rows.filter(pl.col("pass_at_k").is_null())["problem_id"].to_list() == [name]
    assert read_json(stored.stage.done)["target"]["design"]["lacking"] == {"math500": 1}

    assert main(["run", *words, *staged]) == 0
    assert read_json(stored.stage.done)["draws_made"] == {"math500": 6}
    assert read_table(stored.paths.draws, DRAWS).equals(whole)
    assert read_table(stored.paths.passk(), PASSK)["pass_at_k"].null_count() == 0
    assert main(["run", *words, *staged]) == 0
    assert "already done" in capsys.readouterr().out


@pytest.mark.slow
def test_a_moved_model_is_linked_again_and_changed_weights_under_its_name_are_refused(
    words, root, model, tmp_path, capsys
):
    copy = shutil.copytree(model, tmp_path / "copy")
    mine = changed(words, f"checkpoint={copy}")
    assert main(["run", *mine, "n_samples=1", "name=mine", "--dry-run"]) == 0
    link = StagePaths(root / "evals" / "mine").checkpoint(0)
    assert link.resolve() == copy
    copy = copy.rename(tmp_path / "moved")
    mine[-1] = f"checkpoint={copy}"
    assert main(["run", *mine, "n_samples=1", "name=mine", "--dry-run"]) == 0
    assert link.resolve() == copy
    weights = copy / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert main(["run", *mine, "n_samples=1", "name=mine", "--dry-run"]) == 1
    assert "belongs to weights with sha256" in capsys.readouterr().err


@pytest.mark.slow
def test_a_checkpoint_of_a_sweep_is_evaluated_on_its_own_held_out_problems(root, tmp_path, capsys):
    from fgrpo_bench.specs import to_dict
    from tests.support.openrlhf import TASK

    stage = StagePaths(tmp_path / "point")
    make_untrained(stage.checkpoint(3))
    warmed_up = {"kind": "warmup", "fingerprint": "f", "target": {}}
    write_json(stage.spec, warmed_up | {"identity": {"task": to_dict(TASK)}})
    words = [
        f"checkpoint={stage.checkpoint(3)}",
        "benchmarks=[countdown]",
        "evaluation.benchmarks.countdown.n_problems=4",
        "sampler=embedded",
        "dtype=float32",
        "n_samples=8",
    ]
    assert main(["run", *words]) == 0
    assert "step-00003" in str(find(str(root / "evals"))[0].stage.folder)
    mine = write_source(tmp_path / "mine.jsonl")
    capsys.readouterr()
    assert main(["run", str(stage.checkpoint(3)), "--data", str(mine), "--dry-run"]) == 1
    refused = capsys.readouterr().err
    assert "is a model of the built-in engine, which reads the characters of its own" in refused
    recommended = re.search(r"\((--data \w+)\)", refused)[1].split()
    assert main(["plan", str(stage.checkpoint(3)), *recommended, "--limit", "4", "-n", "8"]) == 0
    assert "countdown: 4 problems x 8 draws; 32 are there" in capsys.readouterr().out
    assert main(["plan", str(stage.checkpoint(3)), *recommended, "--max-tokens", "4"]) == 1
    assert "--max-tokens: a model of the built-in engine is asked as its" in capsys.readouterr().err
    words[0] = f"checkpoint={make_untrained(tmp_path / 'elsewhere')}"
    capsys.readouterr()
    assert main(["run", *words]) == 1
    assert "is no checkpoint of a sweep" in capsys.readouterr().err
