"""Sampling behind one signature: a checkpoint becomes a function from prompts and seeds to draws.

A back end is a function that returns a Sampler and its engine fingerprint, and a line in
`make_sampler`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluators.records import Drawn, Sampler
from fgrpo_bench.records import Problem
from fgrpo_bench.specs import EvalSpec, Placement, TaskSpec, from_dict
from fgrpo_bench.tasks import make_task


def make_sampler(
    checkpoint: Path,
    sha256: str,
    evaluation: EvalSpec,
    settings: dict[str, Any],
    *,
    device: str,
    placement: Placement | None,
) -> tuple[Sampler, dict[str, Any]]:
    """The sampler that the evaluation names, over a checkpoint, and its engine fingerprint.

    settings: fgrpo_bench.fingerprint.evaluation_identity. Raises ValueError where the checkpoint's
    weights do not have the digest. placement: how vLLM uses the machine; the embedded engine needs
    none.
    """
    if evaluation.sampler == "vllm":
        from evaluators.vllm import vllm

        if placement is None:
            raise ValueError("sampler=vllm needs --placement, as `python -m sweeps run` gives it")
        return vllm(checkpoint, sha256, evaluation, settings, device=device, placement=placement)
    length = make_task(from_dict(TaskSpec, settings["task"])).response_length + 1
    return embedded(checkpoint, sha256, evaluation, length=length, device=device)


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
