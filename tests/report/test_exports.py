"""Results in the formats of other programs: what they hold, what is carried and what is refused."""

from __future__ import annotations

import json

import polars as pl
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from evaluators.interchange import Import, checked, read_draws
from evaluators.problems import KnownProblems
from fgrpo_bench.analysis import analysed
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.exports.command import FORMATS, evaluations
from fgrpo_bench.specs.dataset import withheld
from fgrpo_bench.stages.tables import GRADES, read_table, write_table
from tests.support.report import copy, published_and_gated, rewrite_passk

ALL = {"cells": None, "benchmarks": None, "organisation": "lab"}


def chosen(results, **options):
    return list(evaluations(analysed(results, is_kept=False), **ALL | options))


def exported(evaluated, to, folder, *, draws=False):
    """Parsed files of one evaluation in a format."""
    files = FORMATS[to](evaluated, folder, draws=draws)
    return [
        [json.loads(line) for line in path.read_text().splitlines()]
        if path.suffix == ".jsonl"
        else json.loads(path.read_text())
        for path in files
    ]


@pytest.fixture(scope="module")
def unscored(reported, tmp_path_factory):
    """The sweep of real draws with the first draw of every problem without a verdict."""
    results = copy(reported, tmp_path_factory.mktemp("unscored"))
    for point in results.points:
        path = point.evaluate.benchmark("countdown").grades("countdown-1")
        table = read_table(path, GRADES)
        first = pl.col("draw") == 0
        lost = pl.when(first).then(pl.lit("unscored")).otherwise(pl.col("outcome"))
        was_correct = table.filter(first).select(
            "problem_id", lost=(pl.col("outcome") == "correct").cast(pl.Int64)
        )
        write_table(path, table.with_columns(outcome=lost), GRADES)
        rewrite_passk(
            point,
            lambda passk, was_correct=was_correct: (
                passk.join(was_correct, on="problem_id")
                .with_columns(
                    n_scored=pl.col("n_scored") - 1, n_correct=pl.col("n_correct") - pl.col("lost")
                )
                .drop("lost")
            ),
        )
    return load_results(results.paths)


def test_every_value_is_that_of_the_seed_in_the_frames(reported, tmp_path):
    analysis = analysed(reported, is_kept=False)
    for evaluated in chosen(reported):
        (log,) = exported(evaluated, "every-eval-ever", tmp_path)
        cell = evaluated.checkpoint.point_id.removesuffix("-s11")
        values = {row["metric_config"]["metric_parameters"]["k"]: row["score_details"]["score"]
                  for row in log["evaluation_results"]}  # fmt: skip
        of_frame = analysis.over_k("countdown", cell)
        assert values == {row.k: row.by_seed[0] for row in of_frame}
        (results,) = exported(evaluated, "lm-eval", tmp_path)
        for k, value in values.items():
            assert results["results"]["countdown"][f"pass@{k},none"] == value
        (inspected,) = exported(evaluated, "inspect", tmp_path)
        metrics = inspected["results"]["scores"][0]["metrics"]
        assert {each["params"]["k"]: each["value"] for each in metrics.values()} == values


def test_how_draws_were_made_stands_where_a_format_has_a_field_for_it(
    reported, tmp_path, monkeypatch
):
    evaluated = chosen(reported)[1]
    further = {"top_k": 20, "stop": ["END"], "prefix": "So ", "few_shot": [{"problem": "secret"}]}
    settings = {**evaluated.settings, "temperature": 0.5, "top_p": 0.9, **further}
    monkeypatch.setattr(type(evaluated), "settings", settings)
    sampled = {"temperature": 0.5, "top_p": 0.9, "top_k": 20}
    (log,) = exported(evaluated, "every-eval-ever", tmp_path)
    assert log["evaluation_results"][0]["generation_config"] == {
        "generation_args": sampled,
        "additional_details": {"stop": '["END"]', "prefix": '"So "', "few_shot": "1"},
    }
    (inspected,) = exported(evaluated, "inspect", tmp_path)
    assert inspected["eval"]["model_generate_config"] == {**sampled, "stop_seqs": ["END"]}
    assert inspected["eval"]["metadata"].items() >= {"prefix": "So ", "few_shot": 1}.items()
    (results,) = exported(evaluated, "lm-eval", tmp_path)
    (config,) = results["configs"].values()
    assert config["generation_kwargs"] == {"do_sample": True, **sampled, "until": ["END"]}
    assert (config["num_fewshot"], config["gen_prefix"]) == (1, "So ")
    assert results["n-shot"] == {"countdown": 1}
    assert not any("secret" in path.read_text() for path in tmp_path.rglob("*.json"))


def test_a_second_export_writes_the_same_bytes_into_the_same_files(reported, tmp_path):
    evaluated = chosen(reported)[0]
    for to in ("every-eval-ever", "passk-inference", "lm-eval", "inspect"):
        first = FORMATS[to](evaluated, tmp_path, draws=to != "passk-inference")
        before = [path.read_bytes() for path in first]
        assert FORMATS[to](evaluated, tmp_path, draws=to != "passk-inference") == first
        assert [path.read_bytes() for path in first] == before


def test_draws_without_a_verdict_are_never_wrong_ones(unscored, tmp_path):
    evaluated = chosen(unscored)[1]
    n_problems = evaluated.counts.height
    log, rows = exported(evaluated, "every-eval-ever", tmp_path, draws=True)
    assert len(rows) == log["detailed_evaluation_results"]["total_rows"]
    assert len(rows) == evaluated.counts["n_scored"].sum()
    assert all(row["metadata"]["draw"] != "0" for row in rows)
    left_out = log["detailed_evaluation_results"]["additional_details"]["unscored_draws_left_out"]
    assert left_out == log["evaluation_results"][0]["score_details"]["details"]["n_unscored_draws"]
    assert left_out == str(n_problems)
    (counts,) = exported(evaluated, "passk-inference", tmp_path)
    assert {row["n"] for row in counts} == {evaluated.settings["n_samples"] - 1}
    log = exported(evaluated, "inspect", tmp_path, draws=True)[0]
    assert log["results"]["scores"][0]["unscored_samples"] == n_problems
    assert all(not row["scores"] for row in log["samples"] if row["epoch"] == 1)
    assert all(row["scores"] for row in log["samples"] if row["epoch"] > 1)


@pytest.mark.parametrize("program", ["lm-eval", "inspect"])
def test_what_others_read_is_read_again_with_every_response(reported, program, tmp_path):
    evaluated = chosen(reported)[1]
    *_, path = FORMATS[program](evaluated, tmp_path, draws=True)
    spec = evaluated.checkpoint.evaluation_spec()
    problems = load_problems(evaluated.spec, spec.task, None)
    request = Import(files=(path,), spec=None)
    drawn = read_draws(request, KnownProblems(problems, subset=False).place, [])
    read = {row[:2]: row[3] for row in checked(request, drawn, problems, []).rows()}
    stored = pl.read_parquet(evaluated.paths.draws)
    assert read == {
        (p, d): text for p, d, text in stored.select("problem_id", "draw", "response").rows()
    }


@pytest.mark.slow
def test_lm_eval_makes_its_table_of_the_results(reported, tmp_path):
    from lm_eval.utils import get_results_filenames, make_table

    evaluated = chosen(reported)[1]
    (path,) = FORMATS["lm-eval"](evaluated, tmp_path, draws=False)
    assert get_results_filenames([str(path)])
    table = make_table(json.loads(path.read_text()))
    assert all(f"|pass@{row.k}" in table for row in evaluated.estimates)


@pytest.mark.slow
def test_the_hubs_own_parser_reads_its_format(tmp_path):
    results = published_and_gated(tmp_path / "runs")
    (evaluated, *_) = chosen(results, benchmarks=["math500"])
    (path,) = FORMATS["hf-eval-results"](evaluated, tmp_path, draws=False)
    (entry,) = parse_eval_result_entries(yaml.safe_load(path.read_text()))
    assert entry.dataset_id == "HuggingFaceH4/MATH-500"
    assert entry.value == pytest.approx(100 * evaluated.estimates[0].mean, abs=1e-4)
    assert "pass@256 = " in entry.notes
    assert "1,024 draws per problem" in entry.notes
    (gated, *_) = chosen(results, benchmarks=["gpqa"])
    (log,) = exported(gated, "every-eval-ever", tmp_path)
    assert log["evaluation_results"][0]["source_data"]["hf_repo"]
    with pytest.raises(ValueError, match=r"gpqa is a gated benchmark.*without --draws"):
        FORMATS["every-eval-ever"](gated, tmp_path, draws=True)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        {},
        {"dataset": []},
        {"dataset": {}},
        {"dataset": {"layout": "new"}},
        {"dataset": {"layout": "gpqa"}},
    ],
)
def test_text_is_withheld_where_what_is_stored_does_not_say_that_it_is_open(stored):
    assert withheld(stored)
    assert not withheld({"dataset": None}), "a generated task"
    assert not withheld({"dataset": {"layout": "plain"}})


def test_draws_that_stop_are_carried_or_refused(staged, tmp_path):
    with pytest.raises(ValueError, match=r"grpo-n8-g0-s11 on countdown: .* draws that are missing"):
        chosen(staged)
    evaluated = chosen(staged, cells=["grpo-n8-g1"])[0]
    (log,) = exported(evaluated, "every-eval-ever", tmp_path)
    details = log["evaluation_results"][0]["metric_config"]["additional_details"]
    assert json.loads(details["design"]) == {"stages": [2, 4, 8], "enough": 2}
    for to, draws in (("passk-inference", False), ("lm-eval", True), ("inspect", True)):
        with pytest.raises(ValueError, match=r"in stages 2, 4 and 8.*biased.*design=null"):
            FORMATS[to](evaluated, tmp_path, draws=draws)
    (inspected,) = exported(evaluated, "inspect", tmp_path)
    assert "in stages 2, 4 and 8" in inspected["eval"]["metadata"]["draws"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "passk-inference", "--cell", "grpo-n9"], "--cell=grpo-n9: take one of base, "),
        (["--to", "passk-inference", "--benchmark", "aime"], "--benchmark=aime: take one of "),
        (["--to", "passk-inference", "--draws"], "reads counts alone; leave --draws out"),
        (["--to", "hf-eval-results"], "countdown is no dataset of the Hub"),
        (["--to", "inspect", "--organisation", "a/b"], "--organisation='a/b': take letters"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_its_remedy(reported, capsys, arguments, said):
    root = reported.paths.root
    assert main(["export", "smoke", "--root", str(root), *arguments]) == 1
    assert said in capsys.readouterr().err


def test_the_command_names_every_file_that_it_wrote(reported, tmp_path, capsys):
    given = ["export", "smoke", "--root", str(reported.paths.root), "--out", str(tmp_path)]
    assert main([*given, "--to", "passk-inference"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1/3", "2/3", "3/3"]
    assert {line.split()[1] for line in lines} == set(map(str, tmp_path.rglob("*.jsonl")))
