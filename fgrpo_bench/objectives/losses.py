"""The surrogate objectives of GRPO, DAPO and CISPO, over tokens.

GRPO and DAPO share one form and differ in their clip bounds; CISPO clips the weight instead of the
product. Bounds and aggregation come from conf/algorithms.yaml. Both engines read OBJECTIVES; to add
one: a function and a line there. Nothing is imported to load the table: tensors bring what is done
here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def clip(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, low: float, high: float
) -> tuple[Tensor, Tensor]:
    """-min(r A, clip(r, 1 - low, 1 + high) A)  (PPO, arXiv 1707.06347, eq. 7)."""
    ratio = (log_probs - old_log_probs).exp()
    plain, bounded = ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages
    return -plain.minimum(bounded), bounded < plain


def cispo(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, low: float, high: float
) -> tuple[Tensor, Tensor]:
    """-sg(clip(r, 1 - low, 1 + high)) A log pi  (arXiv 2506.13585, eq. 4), whose gradient is
    -clip(r) A grad log pi: a clipped token still teaches."""
    ratio = (log_probs - old_log_probs).exp()
    clipped = ratio.clamp(1 - low, 1 + high)
    return -clipped.detach() * advantages * log_probs, ratio != clipped


Objective = Callable[["Tensor", "Tensor", "Tensor", float, float], "tuple[Tensor, Tensor]"]
"""Loss of every token, and whether its ratio was clipped; both [sequences, length].

log_probs: of the sampled tokens under the policy being trained, with gradient; [sequences, length].
old_log_probs: of the same tokens under the policy that sampled them.
advantages: one a sequence, [sequences, 1], or [sequences, length].
low, high: clip_low and clip_high of the algorithm.
"""

OBJECTIVES: dict[str, Objective] = {"clip": clip, "cispo": cispo}


def entropies(all_log_probs: Tensor) -> Tensor:
    """Of the distributions of next tokens, in nats; [..., vocabulary] -> [...]."""
    return -(all_log_probs.exp() * all_log_probs).sum(-1)


FARTHEST = 10.0
"""Nats per token beyond which an estimate of the divergence teaches no more, in both engines."""


def kl_estimates(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """KL(policy || reference) of every token as k3 = q / p - 1 - log(q / p), which is never below 0
    (J. Schulman, "Approximating KL Divergence", 2020); both of the sampled tokens and likewise
    shaped. The gradient goes through the estimate, in both engines.
    """
    log_ratio = (log_probs - reference_log_probs).clamp(min=-FARTHEST)
    return ((-log_ratio).exp() - 1 + log_ratio).clamp(max=FARTHEST)


def aggregate(
    losses: Tensor, mask: Tensor, *, aggregation: str, batch_tokens: int, batch_sequences: int
) -> Tensor:
    """One number from token losses [sequences, length] under an action mask of that shape.

    aggregation: AlgorithmSpec.loss_aggregation. batch_tokens, batch_sequences: totals over the
    whole mini-batch, whose sequences are as long as the longest that there can be. Groups without a
    gradient may be left out of `losses`, but they count here, so that leaving them out changes
    nothing.
    """
    if aggregation == "token_mean":
        return (losses * mask).sum() / batch_tokens
    if aggregation == "constant_length":
        return (losses * mask).sum() / (batch_sequences * mask.shape[1])
    return ((losses * mask).sum(1) / mask.sum(1)).sum() / batch_sequences
