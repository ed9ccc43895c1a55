"""The words: they follow the numbers, and say what is missing and what cannot be said."""

from __future__ import annotations

from dataclasses import replace

from fgrpo_bench.report import verdict
from fgrpo_bench.report.comparisons import compare
from fgrpo_bench.report.summarise import summarise
from fgrpo_bench.stages.files import write_json
from fgrpo_bench.stats.intervals import Estimate
from tests.support.report import ONE_SEED, constant, copy, forget, small_sweep


def with_interval(comparison, low, high):
    mean = (low + high) / 2
    made = Estimate(
        mean=mean, low=low, high=high, by_seed=(low, mean, high), n_seeds=3, n_problems=24
    )
    return replace(comparison, difference=made, p_holm=0.01)


def said(comparison, **changes):
    return verdict.word(replace(comparison, **changes))


def test_the_first_line_names_the_budget_and_how_it_stands_to_the_paper(summary):
    first = verdict.heading(summary)
    assert "constant_rollouts: every cell gets 256 rollouts a step" in first
    assert "the paper holds prompts a step constant" in first
    numbers = verdict.budget(summary)
    assert "128 at N=2, 64 at N=4, 32 at N=8, 16 at N=16, 8 at N=32" in numbers
    assert "20 steps, 2 updates a rollout batch" in numbers


def test_the_papers_budget_is_named_as_the_papers(tmp_path):
    results = small_sweep(tmp_path, "groupsize", "experiment=countdown-prompts", ONE_SEED)
    summary = summarise(results)
    assert "constant_prompts: every cell gets 32 prompts a step" in verdict.heading(summary)
    assert "larger N costs more (the paper's convention)" in verdict.heading(summary)
    assert "64 at N=2, 128 at N=4" in verdict.budget(summary)


def test_shown_needs_an_interval_beyond_zero(comparisons):
    one = comparisons[0]
    assert said(with_interval(one, -0.01, 0.20)) == "not shown"
    assert said(with_interval(one, 0.00, 0.20)) == "not shown"
    assert said(with_interval(one, 0.01, 0.20)) == "shown, also after Holm"
    assert said(with_interval(one, -0.2, -0.1)) == "shown, also after Holm"
    assert said(replace(with_interval(one, 0.01, 0.20), p_holm=0.06)) == "shown"
    alone = replace(with_interval(one, 0.01, 0.20), p_holm=0.06, seeds=(11,))
    assert said(alone) == "shown for one seed"


def test_planted_effects_are_shown_in_their_direction(tmp_path):
    rates = constant(Base=0.03, GRPO=0.005, F_GRPO=0.12)
    summary = summarise(small_sweep(tmp_path, success_rates=rates))
    answer = dict(verdict.answer(summary, compare(summary)))
    lines = dict(answer["GRPO N=8, focal weight against none"])
    assert list(lines) == ["pass@32: rise shown in 2 of 2", "pass@1: rise shown in 2 of 2"]
    assert lines["pass@1: rise shown in 2 of 2"].startswith("gamma=0.5 (+")
    sizes = dict(answer["GRPO without focal weight, group size"])
    assert all("not shown" in line for line in sizes)
    base = dict(answer["Training against the base model"])
    assert list(base) == [
        *("pass@32: rise shown in 2 of 7", "pass@32: fall shown in 5 of 7"),
        *("pass@1: rise shown in 2 of 7", "pass@1: fall shown in 5 of 7"),
    ]
    assert "each in the table of differences" in base["pass@1: fall shown in 5 of 7"]


def test_every_comparison_is_counted_and_said_to_be_uncorrected(comparisons):
    words = verdict.counted(comparisons)
    shown = sum(one.shown for one in comparisons)
    kept = sum(one.shown_corrected for one in comparisons)
    assert words.startswith('36 comparisons were made, and the word "shown" is not corrected')
    assert f"Shown: {shown}; also after Holm's correction over 36" in words
    assert words.endswith(f"{kept}.")
    assert verdict.counted([]) == "No two cells can be compared yet."


def test_one_seed_is_said_to_say_nothing_about_another(tmp_path, summary):
    alone = summarise(small_sweep(tmp_path, "smoke"))
    assert verdict.seeds_caveat(alone).startswith("One training seed: the intervals are over probl")
    assert "Student's t with 2 degrees of freedom" in verdict.seeds_caveat(summary)


def test_of_two_seeds_it_is_said_that_a_third_would_tell_far_more(tmp_path):
    two = summarise(small_sweep(tmp_path, "smoke", "sweep.grid.seed=[11,12]"))
    words = verdict.seeds_caveat(two)
    assert "Student's t with 1 degree of freedom" in words
    assert words.endswith("A third seed narrows them by far.")


def test_a_whole_sweep_is_not_called_incomplete(summary):
    assert verdict.incomplete(summary) is None


def test_what_is_missing_is_named_with_its_state(finished, tmp_path):
    results = forget(copy(finished, tmp_path), "grpo-n8-g1-s13")
    results = forget(results, "grpo-n2-g0-s11", training=False)
    assert verdict.incomplete(summarise(results)) == (
        "INCOMPLETE: 22 of 24 points have results. Missing: grpo-n2-g0-s11 (trained, not "
        "evaluated), grpo-n8-g1-s13 (not trained). Everything below is about the points that are "
        "done."
    )


def test_a_long_list_of_missing_points_is_cut(finished, tmp_path):
    results = copy(finished, tmp_path)
    results = forget(results, *(point.point_id for point in results.points[3:]))
    assert "and 13 more" in verdict.incomplete(summarise(results))


def test_the_notes_say_how_the_numbers_were_made(summary, comparisons):
    notes = "\n".join(verdict.notes(summary, comparisons))
    for fact in (
        *("n = 64, temperature 1", "Training seeds with results: 11, 12, 13"),
        *("10,000 replicates", "Grader: countdown-1", "0.00%", "git commit " + 40 * "0" + ";"),
        *("torch 2.13.0", "p is two-sided and goes with the interval"),
    ):
        assert fact in notes


def test_uncommitted_changes_are_told(summary, comparisons):
    dirty = replace(
        summary,
        results=replace(
            summary.results, declaration=summary.results.declaration | {"git_dirty": True}
        ),
    )
    assert "0 with uncommitted changes;" in "\n".join(verdict.notes(dirty, comparisons))


def test_engines_that_differ_are_named_with_their_points(tmp_path, summary):
    assert verdict.engines(summary) == []
    results = small_sweep(tmp_path, "smoke")
    for point, version in zip(results.points, ("0.29.0", "0.30.0", "0.29.0"), strict=True):
        manifest = point.evaluate.benchmark("countdown").manifest
        engine = {"engine": "vllm", "vllm": version}
        write_json(manifest, {"fingerprint": point.evaluate_fingerprint, "engine": engine})
    (line,) = verdict.engines(summarise(results))
    first, second, third = (point.point_id for point in results.points)
    assert f"engine vllm, vllm 0.29.0 ({first}, {third})" in line
    assert f"engine vllm, vllm 0.30.0 ({second})" in line
    assert line in verdict.notes(summarise(results), [])
