"""How far apart engines are that made draws, by canaries over the same weights.

evaluators.canaries takes the log-probabilities of the same tokens with every engine. Where two
engines have done so under the same weights, among what is compared or, of a sweep, in an evaluation
without one under its run root, they can be compared: training is in both alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fgrpo_bench.analysis.checkpoints import engine_words
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.analysis.rows import Drift
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import read_spec_of
from fgrpo_bench.kinds.evaluate import EvaluationMarker, EvaluationSpec
from fgrpo_bench.stages.markers import read_marker_of


class _CanaryRun(NamedTuple):
    """What an engine made of a benchmark's texts under some weights."""

    benchmark: str
    weights: tuple[str, str]
    """Digests of the weights and of the texts' tokens."""
    engine: str
    log_probs: tuple[float, ...]
    draws: int
    tokens: int


def elsewhere(results: Results) -> list[StagePaths]:
    """Evaluations without a sweep that can tell how far a sweep's engines are apart; none where
    there is one engine, or no sweep."""
    if results.sweep is None:
        return []
    markers = sorted(results.sweep.paths.root.glob("evals/*/eval/*/*/DONE.json"))
    seen = list(_canary_runs_of(results)) if markers else []
    if len({record.engine for record in seen}) < 2:
        return []
    weights = {record.weights[0] for record in seen}
    return [
        stage for path in markers if _is_alike(stage := StagePaths(path.parent), results, weights)
    ]


def _is_alike(stage: StagePaths, results: Results, weights: set[str]) -> bool:
    """Whether it has canaries under such weights, in the sweep's number type."""
    try:
        marker = read_marker_of(EvaluationMarker, stage)
        if marker.weights_sha256 not in weights or not marker.canaries:
            return False
        return bool(
            read_spec_of(EvaluationSpec, stage).sampling["dtype"] == results.evaluation["dtype"]
        )
    except (OSError, ValueError, KeyError):
        return False  # it is damaged, which its own commands tell


def drifts(results: Results) -> Iterator[Drift]:
    """A row a benchmark and pair of the engines that have common weights."""
    seen = list(_canary_runs_of(results))
    further = [
        record
        for stage in elsewhere(results)
        for record in _canary_runs(read_marker_of(EvaluationMarker, stage))
    ]
    for benchmark in results.benchmarks:
        engines = sorted({record.engine for record in seen if record.benchmark == benchmark})
        of_benchmark = [record for record in (*seen, *further) if record.benchmark == benchmark]
        for pair in combinations(engines, 2):
            if (row := _between(benchmark, *pair, of_benchmark)) is not None:
                yield row


def _canary_runs_of(results: Results) -> Iterator[_CanaryRun]:
    for checkpoint in results.every:
        if checkpoint.is_evaluated:
            yield from _canary_runs(checkpoint.evaluated())


def _canary_runs(marker: EvaluationMarker) -> Iterator[_CanaryRun]:
    for benchmark, records in (marker.canaries or {}).items():
        for record in records:
            yield _CanaryRun(
                benchmark,
                (str(marker.weights_sha256), record.texts),
                engine_words(record.engine) or "",
                record.log_probs,
                record.draws or 0,
                record.tokens or 0,
            )


def _between(benchmark: str, engine: str, other: str, seen: list[_CanaryRun]) -> Drift | None:
    """None where the two have no weights and texts in common."""
    # Reversed: where an engine has seen the same weights twice its first record counts.
    ours, theirs = (
        {record.weights: record.log_probs for record in reversed(seen) if record.engine == name}
        for name in (engine, other)
    )
    common = [
        weights
        for weights, log_probs in ours.items()
        if log_probs and len(theirs.get(weights, ())) == len(log_probs)
    ]
    if not common:
        return None
    differences = np.concatenate([np.subtract(theirs[w], ours[w]) for w in sorted(common)])
    both = [record for record in seen if record.engine in (engine, other)]
    draws, tokens = sum(record.draws for record in both), sum(record.tokens for record in both)
    rms = float(np.sqrt(np.mean(differences**2)))
    length = tokens / draws if draws else None
    return Drift(
        benchmark=benchmark,
        engine=engine,
        other=other,
        n_weights=len({weights for weights, _ in common}),
        n_tokens=len(differences),
        mean=float(differences.mean()),
        rms=rms,
        response_tokens=length,
        may_move=None if length is None else may_move(rms, length),
    )


def may_move(rms: float, response_tokens: float) -> float:
    """About how far pass@1 can at most move between two engines, in [0, 1].

    rms: root mean square difference of their log-probabilities, nats a token. response_tokens: mean
    tokens of a response.

    For small differences the Kullback-Leibler divergence of one token is rms^2 / 2 where the tokens
    are drawn from the model; that of a response is the sum over its tokens, and no event's
    probability differs by more than sqrt(divergence / 2) (Pinsker).
    """
    # sqrt(KL / 2) with KL = tokens * rms^2 / 2
    return min(1.0, rms * float(np.sqrt(response_tokens)) / 2)
