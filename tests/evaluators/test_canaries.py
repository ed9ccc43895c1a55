"""Canaries around the draws of an engine: what they tell, what is stored of them, and when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evaluators.backends import embedded
from evaluators.canaries import N_PROMPTS, CanarySession, observe, summary
from evaluators.records import Canaries, RequestQueue, SampleRequest, SamplingEngine, drawn
from evaluators.transformers import transformers
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.files.whole import read_record
from fgrpo_bench.stages.draws import DrawsRecord
from tests.evaluators.evaluations import LENGTH, asked
from tests.support.openrlhf import heldout_problems

PROBLEMS = [
    Problem(benchmark="x", problem_id=f"p{i}", prompt=f"{i}=24:", target="", grader="countdown")
    for i in range(5)
]


def depends(wanted):
    """A sampler at the process boundary whose draws depend on how many are made together."""
    together = RequestQueue(wanted).take()
    yield [drawn(each, f"{each.seed} of {len(together)}", n_tokens=3, end_token=1)
           for each in reversed(together)]  # fmt: skip


def alone(wanted):
    for each in RequestQueue(wanted).take():
        yield [drawn(each, str(each.seed), n_tokens=3, end_token=1)]


def log_probs(texts):
    yield [(i, -np.arange(1.0, len(own) + 1)) for i, (_, own) in enumerate(texts)]


def characters(text):
    return [ord(each) for each in text]


def test_the_first_problems_are_drawn_alone_and_in_a_batch_from_the_same_seeds():
    (seen,) = observe(alone, log_probs, characters, 64, PROBLEMS)
    assert len(seen.alone) == N_PROMPTS == len(set(seen.alone)) and seen.alone == seen.batch
    assert observe(alone, log_probs, characters, 1, PROBLEMS[:1])[0].alone == seen.alone[:1]
    (seen,) = observe(depends, log_probs, characters, 64, PROBLEMS)
    assert all(each.endswith("of 1 3 1") for each in seen.alone)
    assert all(each.endswith("of 63 3 1") for each in seen.batch)
    told = summary([seen])
    assert told.alone != told.batch


def test_log_probabilities_are_of_the_texts_without_their_first_token():
    (seen,) = observe(alone, log_probs, characters, 64, PROBLEMS)
    assert seen.tokens == tuple(map(ord, "=24:")) * N_PROMPTS
    assert seen.log_probs == (-1.0, -2.0, -3.0, -4.0) * N_PROMPTS
    assert summary([seen]).log_prob == -2.5
    (none,) = observe(alone, log_probs, lambda text: [7], 64, PROBLEMS)  # texts of one token
    assert none.log_probs == () and summary([none]).log_prob is None


def test_engines_that_agree_have_the_digest_of_one():
    first = Canaries(alone=("a",), batch=("a",), tokens=(), log_probs=())
    other = replace(first, alone=("b",))
    assert summary([first, first]) == summary([first]) != summary([first, other])


def test_both_engines_on_processors_give_the_same_canaries_with_their_log_probabilities(model):
    problems = heldout_problems(4)
    (ours,) = transformers(asked(model)).canaries(problems)
    (theirs,) = embedded(asked(model)).canaries(problems)
    assert ours.alone == ours.batch and theirs.alone == theirs.batch
    assert len(set(ours.alone)) == N_PROMPTS
    assert ours.tokens == theirs.tokens
    assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
    assert all(int(each.split()[-2]) <= LENGTH for each in ours.alone)


class Drifting:
    """Starts an engine whose canaries are others at every look, or always the same."""

    def __init__(self, *looks: str) -> None:
        self.looks, self.started = list(looks), 0

    def __call__(self) -> SamplingEngine:
        self.started += 1
        return SamplingEngine(
            alone, {"engine": "fake"}, lambda problems: [self.look(len(problems))]
        )

    def look(self, n: int) -> Canaries:
        own = (self.looks.pop(0),) * n
        return Canaries(alone=own, batch=own, tokens=(7, 8), log_probs=(-1.0, -0.1234567))


MADE = [
    drawn(SampleRequest(problem=PROBLEMS[0], draw=i, seed=i), "1", n_tokens=5, end_token=None)
    for i in range(4)
]


def draw(session: CanarySession, paths: BenchmarkPaths) -> None:
    session.sampler()
    session.add(MADE)
    paths.draws.write_bytes(b"")
    session.end()


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "x").mkdir()
    return BenchmarkPaths(tmp_path / "x")


MANIFEST = DrawsRecord(fingerprint="f", weights_sha256="w", prompts_sha256="p")


def stored(paths):
    return read_record(paths.manifest, DrawsRecord)


def test_a_session_is_stored_as_it_begins_and_as_it_ends(paths, capsys):
    start = Drifting("a", "a")
    session = CanarySession(paths, MANIFEST, PROBLEMS, start)
    session.sampler()
    (begun,) = stored(paths).canaries
    assert begun.end is None and stored(paths).engine == {"engine": "fake"}
    session.add(MADE)
    session.end()
    (record,) = stored(paths).canaries
    assert record == replace(begun, end=begun.start, draws=4, tokens=20)
    assert begun.log_probs == (-1.0, -0.123457) and begun.start.log_prob == -0.561728
    assert capsys.readouterr().out == ""


def test_an_engine_that_changed_meanwhile_is_told(paths, capsys):
    draw(CanarySession(paths, MANIFEST, PROBLEMS, Drifting("a", "b")), paths)
    said = capsys.readouterr().out
    assert said.startswith("x: the same seeds gave other canaries after these draws than before")
    assert str(paths.manifest) in said and "-0.561728 before" in said


@pytest.mark.parametrize("asked_for", [True, False])
def test_batch_invariance_that_does_not_hold_is_told_where_it_was_asked_for(
    asked_for, paths, capsys
):
    facts = {"engine": "fake"} | ({"batch_invariant": True} if asked_for else {})
    seen = Canaries(alone=("a",), batch=("b",), tokens=(7,), log_probs=(-1.0,))
    session = CanarySession(
        paths, MANIFEST, PROBLEMS, lambda: SamplingEngine(alone, facts, lambda _: [seen])
    )
    session.sampler()
    said = capsys.readouterr().out
    assert said.startswith("x: batch_invariant=true, but canaries") == asked_for == bool(said)


def test_where_no_draw_is_missing_there_is_no_engine_and_no_canary(paths):
    start = Drifting()
    session = CanarySession(paths, MANIFEST, PROBLEMS, start)
    session.end()
    assert start.started == 0 and not paths.manifest.exists()


def test_sessions_are_listed_as_long_as_their_draws_are_there(paths):
    draw(CanarySession(paths, MANIFEST, PROBLEMS, Drifting("a", "a")), paths)
    draw(CanarySession(paths, stored(paths), PROBLEMS, Drifting("b", "b")), paths)
    assert len(stored(paths).canaries) == 2
    paths.draws.unlink()
    draw(CanarySession(paths, stored(paths), PROBLEMS, Drifting("c", "c")), paths)
    assert len(stored(paths).canaries) == 1
