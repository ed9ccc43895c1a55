"""The words: they follow the numbers, and say what is missing and what cannot be said."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.footnotes import engines
from fgrpo_bench.report.narrative import (
    budget,
    counted,
    effects,
    equal,
    incomplete,
    legend,
    notes,
    seeds_caveat,
)
from fgrpo_bench.stages.draws import DrawsRecord
from tests.support.report import (
    MANY_PROBLEMS,
    ONE_SEED,
    constant,
    copy,
    forget,
    small_sweep,
    with_frames,
)

FOCAL = "GRPO N=8, focal weight against none"


def test_the_papers_budget_is_named_as_the_papers(tmp_path):
    results = small_sweep(tmp_path, "groupsize", "experiment=countdown-prompts", ONE_SEED)
    analysis = analyse(results)
    assert "v1: every cell gets 32 prompts per step" in equal(analysis)
    assert "larger N costs more (the paper's convention)" in equal(analysis)
    assert "64 at N=2, 128 at N=4" in budget(analysis) and "reward" not in budget(analysis)


@pytest.mark.slow
def test_another_reward_than_correctness_is_said(tmp_path):
    rewarded = small_sweep(
        tmp_path, "groupsize", "experiment=countdown-partial",
        "experiment.train.overlong_buffer_tokens=3", ONE_SEED,
    )  # fmt: skip
    words = budget(analyse(rewarded))
    assert "learn from the reward countdown-partial; pass@k, success rates and the focal" in words
    assert "falls by up to 1 over the last 3 tokens" in words


@pytest.mark.slow
def test_planted_effects_are_said_in_their_direction(tmp_path):
    rates = constant(Base=0.03, GRPO=0.005, F_GRPO=0.12)
    sweep = small_sweep(tmp_path, "groupsize", MANY_PROBLEMS, success_rates=rates)
    sections = dict(effects(analyse(sweep)))
    lines = dict(sections[FOCAL])
    assert list(lines) == [
        "pass@32: significant rise in 2 of 2",
        "pass@1: significant rise in 2 of 2",
    ]
    assert lines["pass@1: significant rise in 2 of 2"].startswith("gamma=0.5 (+")
    sizes = dict(sections["GRPO without focal weight, group size"])
    assert all("inconclusive in" in line for line in sizes)
    base = dict(sections["Training against the base model"])
    assert list(base) == [
        *("pass@32: suggestive rise in 2 of 7", "pass@32: suggestive fall in 5 of 7"),
        *("pass@1: suggestive rise in 2 of 7", "pass@1: suggestive fall in 5 of 7"),
    ]
    assert "each in the table of differences" in base["pass@1: suggestive fall in 5 of 7"]


def test_only_comparisons_of_the_question_are_called_significant(analysis):
    rows = analysis.comparisons.with_columns(verdict=pl.lit("inconclusive"), p_holm=None)
    assert "significant" not in str([*effects(with_frames(analysis, comparisons=rows))])
    assert "0 significant, 0 suggestive, 4 inconclusive" in counted(
        with_frames(analysis, comparisons=rows)
    )
    assert analysis.family in legend(analysis)
    nothing = with_frames(analysis, comparisons=analysis.comparisons.clear())
    assert counted(nothing) == "No two cells can be compared yet."


def test_few_seeds_are_said_to_say_little_about_another(tmp_path, analysis):
    alone = analyse(small_sweep(tmp_path, "smoke"))
    assert seeds_caveat(alone).startswith("One training seed: the intervals are over problems only")
    assert "Student's t with 2 degrees of freedom" in seeds_caveat(analysis)
    words = seeds_caveat(analyse(small_sweep(tmp_path / "2", "smoke", "sweep.grid.seed=[11,12]")))
    assert "Student's t with 1 degree of freedom" in words
    assert words.endswith("A third seed narrows them by far.")


def test_what_is_missing_is_named_with_its_state(analysis, finished, tmp_path):
    assert incomplete(analysis) is None
    results = forget(copy(finished, tmp_path), "grpo-n8-g1-s13")
    results = forget(results, "grpo-n2-g0-s11", training=False)
    assert incomplete(analyse(results)) == (
        "INCOMPLETE: 19 of 21 runs have results. Missing: grpo-n2-g0-s11 (trained, not "
        "evaluated), grpo-n8-g1-s13 (not trained). Everything below is about the runs that are "
        "done."
    )
    results = copy(finished, tmp_path / "few")
    results = forget(results, *(point.point_id for point in results.points[3:]))
    assert "and 13 more" in incomplete(analyse(results))


def test_uncommitted_changes_are_told(analysis):
    record = replace(analysis.results.record, git_dirty=True)
    dirty = replace(analysis, results=replace(analysis.results, record=record))
    assert "0 with uncommitted changes;" in "\n".join(notes(dirty).lines)


def test_engines_that_differ_are_named_with_their_points(tmp_path, analysis):
    assert engines(analysis) == []
    results = small_sweep(tmp_path, "smoke")
    for point, version in zip(results.points, ("0.29.0", "0.30.0", "0.29.0"), strict=True):
        manifest = point.evaluate.benchmark("countdown").manifest
        engine = {"engine": "vllm", "vllm": version}
        drawn = DrawsRecord(
            fingerprint=point.evaluate_fingerprint,
            weights_sha256=None,
            prompts_sha256="p",
            engines=(engine,),
        )
        write_json(manifest, drawn.as_json())
    differing = analyse(results)
    (line,) = engines(differing)
    assert line in notes(differing).lines
    first, second, third = (point.point_id for point in results.points)
    assert f"engine vllm, vllm 0.29.0 ({first}, {third})" in line
    assert f"engine vllm, vllm 0.30.0 ({second})" in line
    continued = read_json(manifest)
    write_json(manifest, continued | {"engines": [*continued["engines"], {"engine": "another"}]})
    (line,) = engines(analyse(results))
    assert f"engine vllm, vllm 0.29.0, then engine another ({third})" in line


@pytest.mark.parametrize("kernels", ["common (AVX2)", "own (torch AVX2, MKL auto)"])
def test_draws_that_have_other_digits_elsewhere_are_told(tmp_path, kernels):
    results = small_sweep(tmp_path, "smoke")
    for point in results.points:
        drawn = DrawsRecord(
            fingerprint=point.evaluate_fingerprint,
            weights_sha256=None,
            prompts_sha256="p",
            engines=({"engine": "embedded", "device": "cpu", "kernels": kernels, "threads": 1},),
        )
        write_json(point.evaluate.benchmark("countdown").manifest, drawn.as_json())
    named = kernels.removeprefix("own ")
    told = [line for line in engines(analyse(results)) if f"the machine's own {named}: on" in line]
    assert len(told) == kernels.startswith("own")
