"""Draws are made once, in blocks that survive; grades and pass@k follow from them."""

import numpy as np
import polars as pl
import pytest

from evaluators.backends import Drawn
from evaluators.evaluate import check_manifest
from evaluators.grade import count, grade_draws, score
from evaluators.sample import DRAWS_A_BLOCK, blocks, complete_draws
from fgrpo_bench.fingerprint import SEED_SCHEME
from fgrpo_bench.paths import BenchmarkPaths
from fgrpo_bench.records import Problem
from fgrpo_bench.seeds import draw_seeds
from fgrpo_bench.stage import Stopped
from fgrpo_bench.tables import DRAWS, GRADES, PASSK

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


class Counting:
    """A back end at the process boundary that answers from the seed and counts its draws."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, problems, seeds) -> Drawn:
        self.made += seeds.size
        flat = seeds.reshape(-1).tolist()
        return Drawn(
            responses=[response(seed) for seed in flat],
            n_tokens=np.full(len(flat), 7, np.int32),
            finished=np.array([seed % 2 == 0 for seed in flat]),
        )


def draw(paths, n_samples, backend, tell=lambda done, of: None, problems=PROBLEMS):
    return complete_draws(
        paths, problems, n_samples=n_samples, seed=5, sampler=lambda: backend, tell=tell
    )


def test_every_draw_is_made_once_with_its_own_seed(tmp_path):
    backend = Counting()
    table, made = draw(BenchmarkPaths(tmp_path), 600, backend)
    assert made == backend.made == len(table) == 1800
    assert table.schema == DRAWS
    assert table.select("problem_id", "draw").is_unique().all()
    want = draw_seeds(5, [p.problem_id for p in PROBLEMS], np.arange(600))
    for i, problem in enumerate(PROBLEMS):
        rows = table.filter(pl.col("problem_id") == problem.problem_id).sort("draw")
        assert rows["seed"].to_list() == want[i].tolist()
        assert rows["response"].to_list() == [response(seed) for seed in want[i].tolist()]
    assert not (tmp_path / "shards").exists()


def test_raising_n_samples_adds_draws_and_keeps_the_old_ones(tmp_path):
    paths, backend = BenchmarkPaths(tmp_path), Counting()
    first, _ = draw(paths, 100, backend)
    more, made = draw(paths, 700, backend)
    assert made == 1800 and backend.made == 2100
    assert more.filter(pl.col("draw") < 100).equals(first)
    whole, _ = draw(BenchmarkPaths(tmp_path / "other"), 700, Counting())
    assert more.equals(whole)


def test_asking_for_fewer_draws_makes_none(tmp_path):
    paths, backend = BenchmarkPaths(tmp_path), Counting()
    draw(paths, 100, backend)
    assert draw(paths, 50, backend)[1] == 0
    assert backend.made == 300


def test_a_stop_after_any_block_loses_no_block_and_repeats_none(tmp_path):
    problems = [
        Problem(benchmark="b", problem_id=f"p{i}", prompt="", target="", grader="countdown")
        for i in range(20)
    ]
    paths, backend = BenchmarkPaths(tmp_path), Counting()
    for _ in range(2):

        def stop(done: int, of: int) -> None:
            raise Stopped(f"{done} of {of}")

        with pytest.raises(Stopped):
            draw(paths, 1024, backend, stop, problems)
    table, made = draw(paths, 1024, backend, problems=problems)
    assert backend.made == len(table) == 20 * 1024
    assert made < backend.made
    whole, _ = draw(BenchmarkPaths(tmp_path / "other"), 1024, Counting(), problems=problems)
    assert table.equals(whole)


def test_a_half_written_shard_is_refused_by_name(tmp_path):
    paths = BenchmarkPaths(tmp_path)
    shard = paths.shard(0, 0)
    shard.parent.mkdir()
    whole, _ = draw(BenchmarkPaths(tmp_path / "other"), 16, Counting())
    shard.write_bytes((tmp_path / "other" / "draws.parquet").read_bytes()[:-40])
    with pytest.raises(ValueError, match=rf"{shard}.*damaged; delete it and run .* again"):
        draw(paths, 16, Counting())
    shard.unlink()
    assert draw(paths, 16, Counting())[0].equals(whole)


def test_blocks_cover_every_draw_exactly_once():
    seen = np.zeros((7, 1300), int)
    for block in blocks(n_problems=7, first_draw=100, n_samples=1300):
        seen[block.first_problem : block.end_problem, block.first_draw : block.end_draw] += 1
        assert block.end_draw - block.first_draw <= DRAWS_A_BLOCK
    assert (seen[:, 100:] == 1).all() and (seen[:, :100] == 0).all()


def test_draws_of_other_weights_prompts_or_settings_are_never_mixed(tmp_path):
    paths = BenchmarkPaths(tmp_path)
    check_manifest(paths, PROBLEMS, "weights-a", "f")
    check_manifest(paths, PROBLEMS, "weights-a", "f")
    with pytest.raises(ValueError, match=r"weights_sha256 weights-a, but .* weights-b"):
        check_manifest(paths, PROBLEMS, "weights-b", "f")
    with pytest.raises(ValueError, match="prompts_sha256"):
        check_manifest(paths, PROBLEMS[:2], "weights-a", "f")
    with pytest.raises(ValueError, match="fingerprint f, but"):
        check_manifest(paths, PROBLEMS, "weights-a", "g")


def test_grades_hold_no_text_and_count_to_pass_at_k(tmp_path):
    draws, _ = draw(BenchmarkPaths(tmp_path), 40, Counting())
    grades = grade_draws(draws, PROBLEMS, "countdown-1")
    assert grades.schema == GRADES and len(grades) == 120
    assert grades["problem_id"].to_list() == draws["problem_id"].to_list()
    by_hand = [
        sum(response(s) == answer for s in draws.filter(pl.col("problem_id") == p)["seed"])
        for p, answer in (("3256-24", "5*2*3-6"), ("4161-24", "4*6*1*1"), ("8311-24", "8*3*1*1"))
    ]
    counts = count(grades)
    assert counts["n_correct"].to_list() == by_hand
    assert min(by_hand) > 0
    table = score(counts, [1, 40, 41])
    assert table.schema == PASSK
    assert table.filter(pl.col("k") == 1)["pass_at_k"].to_list() == [c / 40 for c in by_hand]
    assert table.filter(pl.col("k") == 40)["pass_at_k"].to_list() == [1.0, 1.0, 1.0]
    assert table.filter(pl.col("k") == 41)["pass_at_k"].to_list() == [None, None, None]


def test_unscored_draws_leave_the_denominator():
    grades = pl.DataFrame(
        {
            "problem_id": ["a"] * 4,
            "draw": range(4),
            "outcome": ["correct", "unscored", "incorrect", "unscored"],
            "extracted": [None] * 4,
            "reason": [""] * 4,
            "grader_version": ["g-1"] * 4,
        },
        schema=GRADES,
    )
    counts = count(grades)
    assert counts.row(0) == ("a", 2, 1)
    assert score(counts, [1, 2, 4])["pass_at_k"].to_list() == [0.5, 1.0, None]


def test_the_seed_scheme_is_part_of_the_identity_and_fixed():
    """Changing how seeds come about must change SEED_SCHEME with it."""
    assert SEED_SCHEME == "splitmix64-1"
    assert draw_seeds(0, ["3256-24"], np.arange(2)).tolist() == [
        [8628463049672218433, 490976761762891515]
    ]
