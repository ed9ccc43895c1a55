"""The loader of the training prompts as OpenRLHF makes it, with our order of them; an update is a
block of whole groups, dealt over the ranks by tokens."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openrlhf.utils import get_strategy
from openrlhf.utils.config import hierarchize

from fgrpo_bench.engines.openrlhf.flags import parse_flags
from fgrpo_bench.engines.openrlhf.trainer import deal, deal_experiences, prepare_prompts
from tests.openrlhf.experiences import micro_batches
from tests.support.openrlhf import Run, heldout_problems, train_problems, write_prompts

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata's
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set"),  # there is no GPU here
]


def prepared(folder: Path, *, prompts_per_epoch: int | None):
    """What OpenRLHF's trainer gets: 11 prompts, 2 passes, groups of 8, updates of 32 samples."""
    prompts = write_prompts(folder / "prompts.jsonl", train_problems(11))
    evaluation = write_prompts(folder / "evaluation.jsonl", heldout_problems(5))
    options = {"--train.num_episodes": "2", "--eval.dataset": str(evaluation)}
    run = Run(folder=folder, model=folder, prompts=prompts, options=options)
    words = run.arguments[run.arguments.index("--actor.model_name_or_path") :]
    args = hierarchize(SimpleNamespace(**parse_flags(words)))
    args.fgrpo = SimpleNamespace(prompts_per_epoch=prompts_per_epoch)
    return prepare_prompts(get_strategy(args), None)


def prompts_of(iterator, count: int) -> list[str]:
    return [prompt for _, (_, (prompt,), _, _) in zip(range(count), iterator, strict=False)]


@pytest.mark.parametrize(("prompts_per_epoch", "size"), [(8, 8), (None, 11)])
def test_an_epoch_and_the_schedule_have_the_prompts_that_are_asked_for(
    tmp_path: Path, prompts_per_epoch: int | None, size: int
) -> None:
    loader, evaluation, updates = prepared(tmp_path, prompts_per_epoch=prompts_per_epoch)
    assert len(loader) == len(prompts_of(loader, 99)) == size
    assert updates == size * 8 // 32 * 2
    wanted = [problem.prompt for problem in heldout_problems(5)]
    assert prompts_of(evaluation, 99) == wanted  # in the order of the file


@pytest.mark.parametrize("taken", [1, 7, 8, 9, 16])
def test_a_resumed_loader_goes_on_with_the_very_next_prompt(tmp_path: Path, taken: int) -> None:
    loader, _, _ = prepared(tmp_path, prompts_per_epoch=8)
    order = [prompt for _ in range(3) for prompt in prompts_of(loader, 99)]
    assert len(set(order[:16])) == 11  # all of them over two epochs
    loader, _, _ = prepared(tmp_path, prompts_per_epoch=8)
    for done in range(0, taken, 8):
        read = prompts_of(iter(loader), min(8, taken - done))
    state = loader.state_dict()
    resumed, _, _ = prepared(tmp_path, prompts_per_epoch=8)
    resumed.load_state_dict(state)
    assert read == order[(taken - 1) // 8 * 8 : taken]
    assert [p for _ in range(3) for p in prompts_of(iter(resumed), 99)][: 24 - taken] == order[
        taken:
    ]


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
        shares = [samples[update * share : (update + 1) * share] for samples in dealt]
        block = sorted(i for samples in shares for i in samples)
        first = update * share * ranks
        assert block == list(range(first, first + share * ranks))  # whole groups: see below
        assert first % group_size == 0
        tokens = [sum(lengths[i] for i in samples) for samples in shares]
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
