"""Which samples an update has, and which rank takes them, where micro-batches are of a token count.

OpenRLHF sorts the whole batch by length before it cuts it into updates, so that the first is always
the longest and the shortest samples and groups are torn apart. Here an update is a block of whole
groups in the batch's own order, dealt over the ranks so that they have about as many tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openrlhf.trainer.ppo_utils.experience import (
    Experience,
    make_experience_batch,
    split_experience_batch,
)
from openrlhf.utils.seqlen_balancing import get_seqlen_balanced_partitions

from fgrpo_bench.engines.openrlhf.guards import rank_count


def deal(lengths: Sequence[int], *, updates: int, ranks: int) -> list[list[int]]:
    """For each rank the samples that it takes, update after update, as many in each.

    lengths: tokens of every sample of the batch, one group after the other. ValueError where the
    samples cannot be dealt out evenly.
    """
    size, remainder = divmod(len(lengths), updates)
    if remainder or size % ranks:
        raise ValueError(
            f"{len(lengths)} samples do not make {updates} updates of as many samples on each of "
            f"{ranks} ranks: change the prompts a step, updates_per_batch or actor_gpus_per_node"
        )
    dealt: list[list[int]] = [[] for _ in range(ranks)]
    for first in range(0, len(lengths), size):
        block = list(lengths[first : first + size])
        shares = get_seqlen_balanced_partitions(block, ranks, equal_size=True)
        for samples, share in zip(dealt, shares, strict=True):
            samples += [first + i for i in sorted(share)]
    return dealt


def deal_experiences(experiences: list[Experience], args: Any) -> list[Experience]:
    """In place of OpenRLHF's balance_experiences: an Experience for each rank, in the order in
    which its replay buffer cuts them into updates.

    experiences: micro-batches; the samples `index` of the batch stand in each, in any order.
    """
    order = [i for experience in experiences for i in experience.index]
    samples = [sample for each in experiences for sample in split_experience_batch(each)]
    batch = [sample for _, sample in sorted(zip(order, samples, strict=True), key=_place)]
    dealt = deal(
        [int(sample.total_length) for sample in batch],
        updates=len(batch) // args.train.batch_size,
        ranks=rank_count(args),
    )
    return [make_experience_batch([batch[i] for i in samples]) for samples in dealt]


def _place(pair: tuple[int, Experience]) -> int:
    return pair[0]
