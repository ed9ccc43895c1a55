"""An update is a block of whole groups, dealt over the ranks by tokens."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.engines.openrlhf.trainer import deal, deal_experiences
from tests.openrlhf.experiences import micro_batches

pytestmark = pytest.mark.openrlhf


@st.composite
def batches(draw):
    """(lengths, group size, updates, ranks) of a batch that can be dealt out."""
    group_size, ranks = draw(st.integers(2, 8)), draw(st.sampled_from([1, 2, 3, 4]))
    updates, groups = draw(st.integers(1, 4)), ranks * draw(st.integers(1, 3))
    n = group_size * groups * updates
    lengths = draw(st.lists(st.integers(1, 9000), min_size=n, max_size=n))
    return lengths, group_size, updates, ranks


@given(batches())
def test_every_sample_is_dealt_once_and_every_group_in_one_update(batch):
    lengths, group_size, updates, ranks = batch
    dealt = deal(lengths, updates=updates, ranks=ranks)
    assert sorted(i for samples in dealt for i in samples) == list(range(len(lengths)))
    share = len(lengths) // updates // ranks
    for update in range(updates):
        own = [samples[update * share : (update + 1) * share] for samples in dealt]
        block = sorted(i for samples in own for i in samples)
        first = update * share * ranks
        assert block == list(range(first, first + share * ranks))  # whole groups: see below
        assert first % group_size == 0
        tokens = [sum(lengths[i] for i in samples) for samples in own]
        assert max(tokens) - min(tokens) <= max(lengths[first : first + share * ranks])


def test_samples_that_do_not_go_round_are_refused():
    with pytest.raises(ValueError, match="6 samples do not make 2 updates of as many samples on"):
        deal([1] * 6, updates=2, ranks=2)


def test_micro_batches_in_any_order_give_the_same_updates():
    scores = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    lengths = [3, 5, 1, 2, 4, 4, 2, 1]
    arguments = SimpleNamespace(
        train=SimpleNamespace(batch_size=4), actor=SimpleNamespace(num_nodes=1, num_gpus_per_node=2)
    )

    def dealt(order):
        experiences = micro_batches(scores, order, lengths=lengths)
        for experience in experiences:
            index = experience.index
            experience.total_length = experience.scores.new_tensor([lengths[i] for i in index])
            experience.info = {"place": [float(i) for i in index]}
        return [e.info["place"].tolist() for e in deal_experiences(experiences, arguments)]

    wanted = deal(lengths, updates=2, ranks=2)
    assert dealt(range(8)) == wanted
    assert dealt([5, 2, 7, 0, 1, 6, 3, 4]) == wanted
