"""What we export, read by the packages that it is for and checked against their schemas."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from zipfile import ZipFile

import jsonschema
import passk_inference
import pytest
from inspect_ai._view.common import get_log_files
from inspect_ai.log import read_eval_log, write_eval_log

from evaluators.interchange import Import, read_draws
from evaluators.problems import KnownProblems
from fgrpo_bench.analysis import analysed
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.report.exports.command import FORMATS, evaluations
from tests.support.graded import reported_sweep


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Three checkpoints with real draws: a base model and two trained ones."""
    results = reported_sweep(tmp_path_factory.mktemp("runs"))
    analysis = analysed(results)
    return list(evaluations(analysis, cells=None, benchmarks=None, organisation="lab"))


@pytest.fixture(scope="module")
def schemas() -> dict[str, jsonschema.Draft7Validator]:
    """Those of Every Eval Ever, out of its wheel."""
    (wheel,) = (Path(sys.prefix) / "wheels").glob("every_eval_ever-*.whl")
    with ZipFile(wheel) as packed:
        return {
            name: jsonschema.Draft7Validator(
                json.loads(packed.read(f"every_eval_ever/schemas/{name}.schema.json"))
            )
            for name in ("eval", "instance_level_eval")
        }


def test_every_eval_evers_schemas_take_every_file_and_row(evaluated, schemas, tmp_path):
    for each in evaluated:
        log, samples = FORMATS["every-eval-ever"](each, tmp_path, draws=True)
        schemas["eval"].validate(json.loads(log.read_text()))
        rows = samples.read_text().splitlines()
        assert len(rows) == each.counts["n_drawn"].sum()
        for row in rows:
            schemas["instance_level_eval"].validate(json.loads(row))
    wrong = json.loads(log.read_text()) | {"schema_version": 3}
    with pytest.raises(jsonschema.ValidationError):
        schemas["eval"].validate(wrong)


def test_inspects_viewer_lists_every_log_of_a_folder(evaluated, tmp_path):
    """It takes all but one log of a task_id for retries, by the file's name and then by the log."""
    paths = [FORMATS["inspect"](each, tmp_path, draws=False)[0] for each in evaluated]
    listed = asyncio.run(get_log_files(str(tmp_path), True, {}, 0, 0)).files
    assert {Path(each.name).name for each in listed} == {path.name for path in paths}
    assert len({each.task_id for each in listed}) == len(listed) == len(evaluated) > 1
    heads = {Path(path).name: read_eval_log(str(path), header_only=True).eval for path in paths}
    for each in listed:
        head = heads[Path(each.name).name]
        assert (each.task, each.task_id) == (head.task, head.task_id)
    for name in ("eval_id", "run_id"):
        assert len({getattr(head, name) for head in heads.values()}) == len(evaluated)


def test_inspect_reads_the_log_with_all_draws_as_epochs(evaluated, tmp_path):
    each = evaluated[1]
    (path,) = FORMATS["inspect"](each, tmp_path, draws=True)
    log = read_eval_log(str(path))
    assert log.status == "success"
    write_eval_log(log, str(tmp_path / "log.eval"))
    problems = load_problems(each.spec, each.checkpoint.evaluation_spec().task, None)
    place = KnownProblems(problems, subset=False).place
    imported = [
        {row[:4] for row in read_draws(Import(files=(file,), spec=None), place, []).rows()}
        for file in (path, tmp_path / "log.eval")
    ]
    assert imported[0] == imported[1] and len(imported[0]) == len(log.samples)
    assert len(log.samples) == each.counts["n_drawn"].sum()
    correct = sum(score.value == "C" for s in log.samples for score in s.scores.values())
    assert correct == each.counts["n_correct"].sum()
    metrics = log.results.scores[0].metrics
    assert {m.params["k"]: m.value for m in metrics.values()} == {
        row.k: row.mean for row in each.estimates
    }


def test_passk_inference_compares_two_of_our_files(evaluated, tmp_path):
    base, trained = (
        FORMATS["passk-inference"](each, tmp_path, draws=False)[0] for each in evaluated[:2]
    )
    compared = passk_inference.compare_files(base, trained, bootstrap=50)
    for each, name in ((evaluated[0], "base_pass_at_k"), (evaluated[1], "rl_pass_at_k")):
        theirs = dict(zip(compared["ks"], compared[name], strict=True))
        for row in each.estimates:
            if row.k in theirs:
                assert theirs[row.k] == pytest.approx(row.mean, abs=1e-12)
