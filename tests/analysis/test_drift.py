"""How far apart engines are, and what the notes of a table say of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.other_scores import may_move
from fgrpo_bench.analysis.results import SweepResults, load_results
from fgrpo_bench.analysis.stored import analysed, digest_of
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.footnotes import engines
from tests.support.report import small_sweep

OLD, NEW = ({"engine": "vllm", "vllm": version} for version in ("0.29.0", "0.30.0"))
OLD_WORDS, NEW_WORDS = "engine vllm, vllm 0.29.0", "engine vllm, vllm 0.30.0"
TEXTS = [-1.0, -2.0, -0.5, -3.0]


def record(engine: dict[str, str], further: float = 0.0, texts: str = "t") -> dict[str, object]:
    """Canaries of an engine whose log-probabilities are all but one further off."""
    seen = {"alone": "a", "batch": "a", "log_prob": -1.0}
    log_probs = [TEXTS[0], *(value + further for value in TEXTS[1:])]
    return {
        "engine": engine,
        "texts": texts,
        "log_probs": log_probs,
        "start": seen,
        "end": seen,
        "draws": 10,
        "tokens": 4_000,
    }


def with_canaries(results: SweepResults, *canaries: tuple[str, list[object]]) -> SweepResults:
    """The sweep with these (weights, records) in the markers of its points, in turn."""
    for number, point in enumerate(results.points):
        weights, records = canaries[number % len(canaries)]
        more = {"weights_sha256": weights, "canaries": {"countdown": records}}
        write_json(point.evaluate.done, read_json(point.evaluate.done) | more)
    return load_results(results.paths)


@pytest.fixture
def sweep(tmp_path):
    return small_sweep(tmp_path, "smoke")


def test_one_engine_is_not_apart_from_itself(sweep):
    analysis = analyse(with_canaries(sweep, ("w", [record(OLD)])))
    assert analysis.drifts == [] and engines(analysis) == []
    assert set(analysis.completeness["engine"]) == {OLD_WORDS}


def test_engines_without_a_common_checkpoint_are_not_compared_and_that_is_said(sweep):
    for others in (("v", [record(NEW, 0.1)]), ("w", [record(NEW, 0.1, texts="other")])):
        analysis = analyse(with_canaries(sweep, ("w", [record(OLD)]), others))
        assert analysis.drifts == []
        (named,) = engines(analysis)
        assert OLD_WORDS in named and NEW_WORDS in named
        assert "How far apart they are is not known" in named


def test_engines_over_the_same_weights_are_compared_token_by_token(sweep):
    results = with_canaries(sweep, ("w", [record(OLD)]), ("w", [record(NEW, 0.02)]))
    (row,) = analyse(results).drifts
    assert (row.engine, row.other, row.n_weights, row.n_tokens) == (OLD_WORDS, NEW_WORDS, 1, 4)
    assert row.mean == pytest.approx(0.015)
    assert row.rms == pytest.approx(np.sqrt(3 * 0.02**2 / 4))
    assert row.response_tokens == 400
    assert row.may_move == may_move(row.rms, 400) == pytest.approx(row.rms * 10)
    named, apart = engines(analyse(results))
    assert "not known" not in named
    assert "over the same 1 checkpoint they give 4 tokens" in apart
    assert "differ by 0.017 nats per token (root mean square; mean +0.015)" in apart
    assert "over 400 tokens of a response can move pass@1 by at most about 17.3 points." in apart


def test_an_evaluation_that_two_engines_made_is_compared_with_itself(sweep):
    killed = {k: v for k, v in record(OLD).items() if k not in ("end", "draws", "tokens")}
    fresh = record(NEW, 0.02) | {"draws": 0, "tokens": 0}
    analysis = analyse(with_canaries(sweep, ("w", [killed, fresh])))
    assert set(analysis.completeness["engine"]) == {f"{OLD_WORDS}, then {NEW_WORDS}"}
    (row,) = analysis.drifts
    assert row.response_tokens is row.may_move is None
    _, apart = engines(analysis)
    assert apart.endswith("mean +0.015).") and "can move" not in apart


def test_an_evaluation_without_a_sweep_tells_how_far_engines_are_apart(sweep):
    results = with_canaries(sweep, ("w", [record(OLD)]), ("v", [record(NEW, 0.3)]))
    before = analysed(results)
    assert before.drifts == [] and analysed(results).drifts == []
    stage = results.paths.root / "evals/w/eval/alone-1/step-00000"
    spec = read_json(results.points[0].evaluate.spec)
    sampling = spec["identity"].get("sampling", {}) | {"dtype": "bfloat16"}
    write_json(stage / "spec.json", spec | {"identity": {"sampling": sampling}})
    target = {"n_samples": 1, "ks": [1], "graders": {}}
    marker = {"fingerprint": "f", "outputs": {}, "target": target, "weights_sha256": "w"}
    marker |= {"finished": "2026-01-02T03:04:05+00:00", "finished_ms": 1767323045000}
    write_json(stage / "DONE.json", marker | {"canaries": {"countdown": [record(NEW, 0.02)]}})
    digest = digest_of(results)
    assert analysed(results).drifts == []  # of another number type
    sampling["dtype"] = results.evaluation["dtype"]
    write_json(stage / "spec.json", spec | {"identity": {"sampling": sampling}})
    assert digest_of(results) != digest
    (row,) = analysed(results).drifts
    assert row.rms == pytest.approx(np.sqrt(3) * 0.01)
    (stage / "DONE.json").write_text("{")
    assert analysed(results).drifts == []


def test_what_drift_may_move_bounds_what_it_moves():
    """On answers of 20 tokens drawn from two nearby distributions, counted exactly."""
    rng = np.random.default_rng(3)
    for size in (0.01, 0.05, 0.2):
        logits = rng.normal(size=2)
        p, q = (np.exp(z) / np.exp(z).sum() for z in (logits, logits + size * rng.normal(size=2)))
        rms = float(np.sqrt((p * np.log(p / q) ** 2).sum()))
        counts = np.arange(21)
        choose = np.array([math.comb(20, c) for c in range(21)])
        ours, theirs = (choose * z[0] ** counts * z[1] ** (20 - counts) for z in (p, q))
        moved = np.abs(ours - theirs).sum() / 2  # of the event that differs most
        assert 0.2 * may_move(rms, 20) < moved <= 1.05 * may_move(rms, 20)
    assert may_move(1.0, 10_000) == 1.0
