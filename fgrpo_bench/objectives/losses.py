"""The surrogate objectives of GRPO, DAPO and CISPO, over tokens.

GRPO and DAPO share one form and differ in their clip bounds; CISPO clips the weight instead of the
product. Bounds and aggregation come from conf/algorithm/. No KL term (the paper's beta is 0).
"""

from __future__ import annotations

import torch
from torch import Tensor

from fgrpo_bench.specs import AlgorithmSpec


def token_losses(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, algorithm: AlgorithmSpec
) -> tuple[Tensor, Tensor]:
    """Loss of every token, and whether its ratio was clipped; both [sequences, length].

    log_probs: of the sampled tokens under the policy being trained, with gradient.
    old_log_probs: of the same tokens under the policy that sampled them.
    advantages: one a sequence, [sequences, 1], or [sequences, length].

    clip: -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)  (PPO, arXiv 1707.06347, eq. 7).
    cispo: -sg(clip(r, 1 - clip_low, 1 + clip_high)) A log pi  (arXiv 2506.13585, eq. 4), whose
    gradient is -clip(r) A grad log pi: a clipped token still teaches.
    """
    ratio = torch.exp(log_probs - old_log_probs)
    clipped = ratio.clamp(1 - algorithm.clip_low, 1 + algorithm.clip_high)
    if algorithm.objective == "cispo":
        return -clipped.detach() * advantages * log_probs, ratio != clipped
    plain, bounded = ratio * advantages, clipped * advantages
    return -torch.minimum(plain, bounded), bounded < plain


def aggregate(
    losses: Tensor,
    mask: Tensor,
    *,
    algorithm: AlgorithmSpec,
    batch_tokens: int,
    batch_sequences: int,
) -> Tensor:
    """One number from token losses [sequences, length] under an action mask of that shape.

    batch_tokens, batch_sequences: totals over the whole mini-batch. Groups without a gradient may
    be left out of `losses`, but they count here, so that leaving them out changes nothing.
    """
    if algorithm.loss_aggregation == "token_mean":
        return (losses * mask).sum() / batch_tokens
    return ((losses * mask).sum(1) / mask.sum(1)).sum() / batch_sequences
