"""Draws are made once, in blocks that survive; grades and pass@k follow from them."""

import io
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.backends import DRAWS_AT_ONCE, ROWS_AT_ONCE, blocks
from evaluators.evaluate import Bar, check_manifest, clear_tables
from evaluators.grading import Grading
from evaluators.grading_processes import GradeWorkers
from evaluators.records import RequestQueue, SampleRequest, make_draw
from evaluators.sample import complete_draws
from fgrpo_bench.analysis.scoring import count, score
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds, stream
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.kinds.evaluate import SEED_SCHEME
from fgrpo_bench.stages.stage import Stopped
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, read_table
from fgrpo_bench.stats.staged import fixed_design
from tests.evaluators.fake_engine import Answering

PROBLEMS = [
    Problem(
        benchmark="countdown",
        problem_id=f"{digits}-24",
        prompt=f"{digits}=24:",
        target=f"{digits}-24",
        grader="countdown",
    )
    for digits in ("3256", "4161", "8311")
]


def response(seed: int) -> str:
    return ["5*2*3-6", "4*6*1*1", "8*3*1*1", "1+1"][seed % 4]


def counting():
    """A back end that answers from the seed; every other response ends with a token."""
    return Answering(lambda w: response(w.seed), part=50, ends=lambda w: w.seed % 2 == 0)


def draw(paths, n_samples, backend, on_draws=lambda done, of, draws: None, problems=PROBLEMS):
    return complete_draws(
        paths,
        problems,
        design=fixed_design(n_samples),
        grading=None,  # whom a fixed number of draws never asks
        seed=5,
        sampler=lambda: backend,
        on_draws=on_draws,
    )


def test_every_draw_is_made_once_with_its_own_seed(tmp_path):
    backend = counting()
    table, made = draw(BenchmarkPaths(tmp_path), 600, backend)
    assert made == len(backend.made) == len(table) == 1800
    assert table.schema == DRAWS
    assert table.select("problem_id", "draw").is_unique().all()
    want = draw_seeds(5, [p.problem_id for p in PROBLEMS], np.arange(600))
    for i, problem in enumerate(PROBLEMS):
        rows = table.filter(pl.col("problem_id") == problem.problem_id).sort("draw")
        assert rows["seed"].to_list() == want[i].tolist()
        assert rows["response"].to_list() == [response(seed) for seed in want[i].tolist()]
    assert not (tmp_path / "shards").exists()


def test_raising_n_samples_adds_draws_and_keeps_the_old_ones(tmp_path):
    paths, backend = BenchmarkPaths(tmp_path), counting()
    first, _ = draw(paths, 100, backend)
    more, made = draw(paths, 700, backend)
    assert made == 1800 and len(backend.made) == 2100
    assert more.filter(pl.col("draw") < 100).equals(first)
    whole, _ = draw(BenchmarkPaths(tmp_path / "other"), 700, counting())
    assert more.equals(whole)
    assert draw(paths, 50, backend)[1] == 0  # fewer are there


def test_a_stop_at_any_moment_loses_no_stored_draw_and_repeats_none(tmp_path):
    paths, backend = BenchmarkPaths(tmp_path), counting()
    for stop_at in (50, 250, 300):

        def stop(done, of, draws, stop_at=stop_at):
            assert of == 600
            if done >= stop_at:
                raise Stopped(f"{done} of {of}")

        with pytest.raises(Stopped, match=f"{stop_at} of 600"):
            draw(paths, 200, backend, stop)
    table, made = draw(paths, 200, backend)
    assert (made, len(backend.made), len(table)) == (300, 600, 600)
    whole, _ = draw(BenchmarkPaths(tmp_path / "other"), 200, counting())
    assert table.equals(whole)


FORGED = [
    b'["3256-24", 99, 4711, "a", 3, "stop", 1]',  # beyond n_samples
    b'["3256-24", 1, 4711, "a", 3, "stop", 1]',  # with another seed
    b'["9999-24", 1, SEED, "a", 3, "stop", 1]',  # of no problem of the benchmark
    b'["3256-24", 1, SEED, 5, 3, "stop", 1]',
    b'["3256-24", 1, SEED, null, 3, "stop", 1]',
    b'["3256-24", true, SEED, "a", 3, "stop", 1]',
    b'["3256-24", 1.0, SEED, "a", 3, "stop", 1]',
    b'["3256-24", 1, SEED, "a", 3, "because", 1]',
    b'["3256-24", 1, SEED, "a", 99999999999, "stop", 1]',
    b'["3256-24", 1, SEED, "\xff", 3, "stop", 1]',
    b'["3256-24", 1, SEED, "a", 3, "stop"]',  # without what ended it
    b"[" * 100_000,
    b"{}",
]
"""Lines of a shard that are no draw that was asked for."""


@pytest.mark.parametrize("line", FORGED, ids=range(len(FORGED)))
def test_a_line_that_is_no_draw_that_was_asked_for_is_refused_and_drawn_again(
    tmp_path, capsys, line
):
    paths, whole = BenchmarkPaths(tmp_path / "countdown"), counting()
    want, _ = draw(BenchmarkPaths(tmp_path / "undisturbed"), 10, counting())
    own = draw_seeds(5, ["3256-24"], np.arange(10))[0].tolist()
    end = '"length", null' if own[0] % 2 else '"stop", 1'
    true = f'["3256-24", 0, {own[0]}, "{response(own[0])}", 3, {end}]'
    paths.shards.mkdir(parents=True)
    lines = [line.replace(b"SEED", str(own[1]).encode()), true.encode(), b'["3256-24", 2, 17']
    paths.shard(0).write_bytes(b"\n".join(lines))
    table, made = draw(paths, 10, whole)
    assert table.equals(want) and made == 29
    said = capsys.readouterr().out
    assert f"{paths.shard(0)}: what stands in 1 of its lines, the first of them line 1" in said
    assert (paths.damaged / "shards" / paths.shard(0).name).read_bytes() == b"\n".join(lines)


def test_shards_of_a_crash_before_the_table_was_written_are_used(tmp_path, monkeypatch):
    paths, backend = BenchmarkPaths(tmp_path), counting()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr("evaluators.sample.write_table", full_disk)
        draw(paths, 16, backend)
    table, made = draw(paths, 16, backend)
    assert (made, len(backend.made), len(table)) == (0, 48, 48)


def full_disk(*_):
    raise OSError("the disk is full")


def test_a_back_end_that_ends_early_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="made 40 of 48 draws and ended"):
        draw(BenchmarkPaths(tmp_path), 16, lambda wanted: counting()(RequestQueue(wanted).take(40)))


def test_a_response_that_no_file_can_hold_is_stored_readably(tmp_path):
    def odd(wanted):
        for each in RequestQueue(wanted).take():
            yield [make_draw(each, "a\ud800b\x00c\u2028", n_tokens=1, end_token=1)]

    table, _ = draw(BenchmarkPaths(tmp_path), 2, odd)
    assert set(table["response"]) == {"a?b\x00c\u2028"}


@pytest.mark.slow
@given(st.lists(st.integers(0, 1300), max_size=6))
def test_blocks_hold_every_wanted_draw_once_in_rows_of_one_problem(counts):
    problems = [replace(PROBLEMS[0], problem_id=f"p{i}") for i in range(len(counts))]
    wanted = [
        SampleRequest(problem=problem, draw=number, seed=number)
        for problem, count in zip(problems, counts, strict=True)
        for number in range(count)
    ]
    seen = []
    for rows in blocks(wanted):
        assert len({len(row) for row in rows}) == 1 and len(rows[0]) <= DRAWS_AT_ONCE
        assert sum(len(row) for row in rows) <= ROWS_AT_ONCE
        assert all(len({each.problem.problem_id for each in row}) == 1 for row in rows)
        seen += [each for row in rows for each in row]
    assert sorted(seen, key=key) == sorted(wanted, key=key)


def key(each):
    return each.problem.problem_id, each.draw


def test_draws_of_other_weights_prompts_or_settings_are_never_mixed(tmp_path):
    paths = BenchmarkPaths(tmp_path)
    check_manifest(paths, PROBLEMS, "weights-a", "f")
    check_manifest(paths, PROBLEMS, "weights-a", "f")
    for others, said in (
        ((PROBLEMS, "weights-b", "f"), "weights_sha256 weights-a, but .* weights-b"),
        ((PROBLEMS[:2], "weights-a", "f"), "prompts_sha256"),
        ((PROBLEMS, "weights-a", "g"), "fingerprint f, but"),
    ):
        with pytest.raises(ValueError, match=said):
            check_manifest(paths, *others)


def test_grades_hold_no_text_and_count_to_pass_at_k(tmp_path):
    paths = BenchmarkPaths(tmp_path)
    draws, _ = draw(paths, 40, counting())
    with GradeWorkers(PROBLEMS, workers=1) as workers:
        grades = Grading(paths, PROBLEMS, "countdown", workers=workers).finish(draws)
    assert read_table(paths.grades("countdown-1"), GRADES).equals(grades)
    assert grades.schema == GRADES and len(grades) == 120
    assert grades["problem_id"].to_list() == draws["problem_id"].to_list()
    by_hand = [
        sum(response(s) == answer for s in draws.filter(pl.col("problem_id") == p)["seed"])
        for p, answer in (("3256-24", "5*2*3-6"), ("4161-24", "4*6*1*1"), ("8311-24", "8*3*1*1"))
    ]
    counts = count(grades, fixed_design(40))
    assert counts["n_correct"].to_list() == by_hand
    assert min(by_hand) > 0
    table = score(counts, [1, 40, 41], fixed_design(40))
    assert table.schema == PASSK
    for k, values in ((1, [c / 40 for c in by_hand]), (40, [1.0] * 3), (41, [None] * 3)):
        assert table.filter(k=k)["pass_at_k"].to_list() == values


def test_grades_of_draws_that_are_gone_are_not_those_of_new_draws(tmp_path):
    paths = BenchmarkPaths(tmp_path / "countdown")

    def grade(draws):
        with GradeWorkers(PROBLEMS, workers=1) as workers:
            return Grading(paths, PROBLEMS, "countdown", workers=workers).finish(draws)

    old, _ = draw(paths, 8, counting())
    before = grade(old)
    clear_tables(paths)
    assert paths.grades("countdown-1").exists()
    paths.draws.unlink()
    clear_tables(paths)
    other = old.with_columns(response=pl.lit("9*9"))  # as another engine might draw
    assert set(grade(other)["outcome"]) == {"incorrect"} != set(before["outcome"])
    aside = paths.damaged / "grades.countdown-1.parquet"
    assert read_table(aside, GRADES).equals(before)


def test_unscored_draws_leave_the_denominator():
    outcomes = ["correct", "unscored", "incorrect", "unscored"]
    rows = [("a", draw, outcome, None, "", "g-1") for draw, outcome in enumerate(outcomes)]
    counts = count(pl.DataFrame(rows, schema=GRADES, orient="row"), fixed_design(4))
    assert counts.row(0) == ("a", 4, 2, 1, None, None, 0, [2])  # how they ended is not known
    table = score(counts, [1, 2, 4], fixed_design(4))
    assert table["pass_at_k"].to_list() == [0.5, 1.0, None]
    assert table["pass_at_k_low"].to_list() == [0.25, 0.5, 1.0]
    assert table["pass_at_k_high"].to_list() == [0.75, 1.0, 1.0]


def test_of_more_draws_than_a_fixed_number_the_first_ones_count_and_fewer_have_no_value():
    outcomes = ["incorrect", "correct", "unscored", "correct"]
    rows = [("a", draw, outcome, None, "", "g-1") for draw, outcome in enumerate(outcomes)]
    grades = pl.DataFrame(rows, schema=GRADES, orient="row")
    for n, n_unscored, values in (
        (2, [0], [0.5, 1.0]),
        (3, [1], [0.5, 1.0]),
        (5, None, [None] * 2),
    ):
        table = score(count(grades, fixed_design(n)), [1, 2], fixed_design(n))
        assert table["pass_at_k"].to_list() == values
        assert table["n_unscored"].to_list() == [n_unscored] * 2


@pytest.mark.parametrize(("is_terminal", "columns"), [(True, 80), (True, 200), (False, 80)])
def test_a_bar_of_draws_is_drawn_on_a_terminal_alone(monkeypatch, is_terminal, columns):
    out = io.StringIO()
    out.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stderr", out)
    for name, value in (("TERM", "xterm"), ("COLUMNS", str(columns)), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    bar = Bar()
    numbers = {"tokens_per_second": 12_345.6, "pass_at_1": 0.314}
    for done in (410, 10_240):
        bar("olympiadbench", done, 10_240, numbers)
    bar("[aime]", 1, 4, numbers)
    bar.close()
    assert bool(out.getvalue()) == is_terminal
    for words in ("olympiadbench ", "10240/10240", "12,346 tok/s  pass@1 31.4", "[aime] ", "1/4"):
        assert (words in out.getvalue()) == is_terminal


def test_the_seed_scheme_is_part_of_the_identity_and_fixed():
    """Changing how seeds come about must change SEED_SCHEME with it."""
    assert SEED_SCHEME == "splitmix64-2"
    assert draw_seeds(stream(0, 11), ["3256-24"], np.arange(2)).tolist() == [
        [8223085917494125142, 177820920346472368]
    ]
