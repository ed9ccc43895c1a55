"""Sampling behind one signature: a checkpoint becomes a function from prompts and seeds to draws.

Today there is one back end, the embedded engine's own sampler. Another one is another function that
returns a Sampler; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.records import Problem
from fgrpo_bench.specs import EvalSpec


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Draws of some problems; row p * n + j is draw j of problem p."""

    responses: list[str]
    n_tokens: NDArray[np.int32]
    """Sampled tokens, the end token included."""
    finished: NDArray[np.bool_]
    """Whether the model ended by itself (else it ran into the length limit)."""


Sampler = Callable[[list[Problem], NDArray[np.int64]], Drawn]
"""Problems and seeds [problems, draws] -> draws; each draw follows from its own seed."""


def embedded(
    checkpoint: Path, sha256: str, evaluation: EvalSpec, *, length: int, device: str
) -> tuple[Sampler, dict[str, Any]]:
    """The embedded engine's sampler over a checkpoint, and its engine fingerprint.

    length: most tokens a response, the end token included. Raises ValueError where the checkpoint's
    weights do not have the digest.
    """
    import torch

    from fgrpo_bench.training.advantages import action_mask
    from fgrpo_bench.training.embedded.checkpoint import load_checkpoint
    from fgrpo_bench.training.embedded.sampling import sample
    from fgrpo_bench.training.embedded.session import engine_facts
    from fgrpo_bench.training.embedded.tokenizer import EOS, PAD

    policy, tokenizer = load_checkpoint(checkpoint, device, sha256)

    def draw(problems: list[Problem], seeds: NDArray[np.int64]) -> Drawn:
        prompts = torch.from_numpy(tokenizer.encode([problem.prompt for problem in problems]))
        drawn = sample(
            policy,
            prompts.to(device),
            seeds,
            length=length,
            temperature=evaluation.temperature,
        )
        mask = action_mask(drawn.tokens, eos=EOS, pad=PAD)
        return Drawn(
            responses=tokenizer.decode(drawn.tokens.cpu().numpy()),
            n_tokens=mask.sum(1).int().cpu().numpy(),
            finished=((drawn.tokens == EOS) & mask).any(1).cpu().numpy(),
        )

    return draw, engine_facts(device)
