"""Is it the same engine? What it makes of the same few prompts before and after its draws.

The first responses to a benchmark's first problems are drawn with their own seeds, cut short, each
alone and all of them inside a full batch; and the log-probabilities of the same tokens are taken,
those of the problems' own texts. Digests tell whether a draw depends on what is drawn beside it
(alone, batch) and whether the engine has changed (start, end). Log-probabilities tell how far apart
two engines are over the same weights (fgrpo_bench.analysis.other_scores).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fgrpo_bench.core import registry
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.draws import CanaryRecord, CanarySummary, DrawsRecord

from .records import Canaries, Draw, LogProbs, Sampler, SampleRequest, SamplingEngine

N_PROMPTS = 3
"""Problems of a benchmark that canaries are drawn for, its first ones."""
RESPONSE_TOKENS = 16
"""Most tokens of a canary's response."""
TEXT_TOKENS = 32
"""Most tokens of a problem's text whose log-probabilities are taken, the first one left out."""
SEED = 0
"""Base of the seeds, whatever that of the evaluation is."""
DIGITS = 6
"""Of a stored log-probability, after the point."""
DIGEST = 16
"""Hex digits of a stored digest."""


def observe(
    draw: Sampler,
    log_probs: LogProbs,
    encode: Callable[[str], Sequence[int]],
    batch: int,
    problems: Sequence[Problem],
) -> list[Canaries]:
    """Those of one engine.

    draw: its sampler, which cuts responses at RESPONSE_TOKENS. encode: from a text to token ids.
    batch: how many draws the engine makes together.
    """
    some = problems[:N_PROMPTS]
    seeds = draw_seeds(
        SEED, [problem.problem_id for problem in some], np.arange(max(1, batch // len(some)))
    )
    rows = [
        [SampleRequest(problem=problem, draw=i, seed=seed) for i, seed in enumerate(problem_seeds)]
        for problem, problem_seeds in zip(some, seeds.tolist(), strict=True)
    ]
    texts = [list(encode(problem.prompt))[: TEXT_TOKENS + 1] for problem in some]
    pairs = [(ids[:1], ids[1:]) for ids in texts if len(ids) > 1]
    taken = dict(scored for part in log_probs(pairs) for scored in part)
    return [
        Canaries(
            alone=tuple(_responses(draw, [row[0]])[0] for row in rows),
            batch=tuple(_responses(draw, [request for row in rows for request in row])),
            tokens=tuple(token for _, text in pairs for token in text),
            log_probs=tuple(float(nats) for i in range(len(pairs)) for nats in taken[i]),
        )
    ]


def _responses(draw: Sampler, requests: Sequence[SampleRequest]) -> list[str]:
    """The first draw of every problem, with what ended it, in the order of the problems."""
    by_problem = {
        sample.problem_id: f"{sample.response} {sample.n_tokens} {sample.end_token}"
        for part in draw(requests)
        for sample in part
        if sample.draw == 0
    }
    return [by_problem[request.problem.problem_id] for request in requests if request.draw == 0]


def summary(canaries: Sequence[Canaries]) -> CanarySummary:
    """For a file; engines that agree have the digest of one."""
    nats = [value for seen in canaries for value in seen.log_probs]
    return CanarySummary(
        alone=fingerprint(list(dict.fromkeys(seen.alone for seen in canaries)))[:DIGEST],
        batch=fingerprint(list(dict.fromkeys(seen.batch for seen in canaries)))[:DIGEST],
        log_prob=round(float(np.mean(nats)), DIGITS) if nats else None,
    )


class CanarySession:
    """The draws that one engine makes on a benchmark at a stretch, with the canaries around them.

    manifest: what the draws belong to. It gets the engine, and the last of its
    `canaries`, which lacks `end`, `draws` and `tokens` where the session was killed. start: starts
    the engine; called, and canaries drawn, only if a draw is missing.
    """

    def __init__(
        self,
        paths: BenchmarkPaths,
        manifest: DrawsRecord,
        problems: Sequence[Problem],
        start: Callable[[], SamplingEngine],
    ) -> None:
        self.manifest = manifest
        self.draw_seconds: float | None = None
        """Wall time of a draw, graded, with its share of the canaries; None before the end."""
        self._paths, self._problems, self._start = paths, problems, start
        self._engine: SamplingEngine | None = None
        has_draws = paths.draws.exists() or paths.shards.exists()
        self._former = manifest.canaries if has_draws else ()  # else of lost draws
        self._record: CanaryRecord | None = None
        self._draws = self._tokens = 0
        self._begun = 0.0

    def sampler(self) -> Sampler:
        """The engine's, whose canaries are drawn first."""
        self._engine = self._start()
        self._begun = time.monotonic()
        seen = self._engine.canaries(self._problems)
        self.manifest = replace(self.manifest, engine=self._engine.facts, **registry.record())
        self._write(
            CanaryRecord(
                engine=self._engine.facts,
                texts=fingerprint(list(seen[0].tokens))[:DIGEST],
                log_probs=tuple(round(value, DIGITS) for value in seen[0].log_probs),
                start=summary(seen),
            )
        )
        if "batch_invariant" in self._engine.facts and any(x.alone != x.batch for x in seen):
            print(
                f"{self._paths.folder.name}: batch_invariant=true, but canaries that were drawn "
                "alone are others than from the same seeds inside a full batch: do not rely on it "
                f"with this model and engine ({self._paths.manifest})",
                flush=True,
            )
        return self._engine.draw

    def add(self, draws: Sequence[Draw]) -> None:
        """These were made."""
        self._draws += len(draws)
        self._tokens += sum(draw.n_tokens for draw in draws)

    @property
    def tokens_per_second(self) -> float:
        """Sampled tokens by wall time since the engine was started; 0 before."""
        seconds = time.monotonic() - self._begun
        return self._tokens / max(seconds, 1e-9) if self._tokens else 0.0

    def end(self) -> None:
        """All draws are made; says where the engine is no longer what it was."""
        if self._engine is None or self._record is None:
            return
        start, end = self._record.start, summary(self._engine.canaries(self._problems))
        self._write(replace(self._record, end=end, draws=self._draws, tokens=self._tokens))
        self.draw_seconds = (time.monotonic() - self._begun) / max(self._draws, 1)
        if end.alone != start.alone:
            print(
                f"{self._paths.folder.name}: the same seeds gave other canaries after these draws "
                "than before them, so the engine has changed meanwhile or does not compute alike "
                f"twice; mean log-probability of the same texts, nats per token: {start.log_prob} "
                f"before, {end.log_prob} after ({self._paths.manifest})",
                flush=True,
            )

    def _write(self, record: CanaryRecord) -> None:
        self._record = record
        self.manifest = replace(self.manifest, canaries=(*self._former, record))
        write_json(self._paths.manifest, self.manifest.as_json())
