"""What mazes ask of the engine: long prompts, answers of any length, batches in parts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from fgrpo_bench.core.seeds import draw_seeds
from fgrpo_bench.engines.embedded import passes
from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint, save_checkpoint
from fgrpo_bench.engines.embedded.model import Policy, positions
from fgrpo_bench.engines.embedded.reinforce import Learner, Rollouts
from fgrpo_bench.engines.embedded.sampling import sample
from fgrpo_bench.engines.embedded.session import Session
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD, Tokenizer
from fgrpo_bench.engines.embedded.warmup import learning_rate
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.graders import get_grader
from fgrpo_bench.specs import config
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.tasks import make_task
from sweeps.plan import make_plan

PAPER = config.load("maze", ["experiment=maze"]).experiment.train
SMALL = make_plan(config.load("maze")).points
GROUPED = replace(PAPER.model, name="grouped", hidden_size=64, n_layers=2, intermediate_size=96)


def policy_of(spec, vocabulary: int = 20, n_positions: int = 512) -> Policy:
    policy = Policy(spec, vocabulary, n_positions)
    policy.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.4).add_(0.01)
    return policy


def tokens(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(2, 16, (rows, length), generator=torch.Generator().manual_seed(seed))


def test_the_papers_model_has_its_size_and_the_logits_of_transformers(tmp_path):
    task = make_task(PAPER.task)
    tokenizer = Tokenizer(task.vocabulary, PAPER.model.vocabulary_size)
    policy = policy_of(PAPER.model, tokenizer.size, positions(PAPER.model, task))
    assert sum(each.numel() for each in policy.parameters()) == 3_944_704
    assert (task.prompt_length, policy.n_positions) == (310, 310 + 125 + 1)
    save_checkpoint(tmp_path / "step-00001", policy, tokenizer)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "step-00001")
    assert theirs.config.max_position_embeddings == policy.n_positions
    ids = tokens(1, 340)
    with torch.no_grad():
        torch.testing.assert_close(policy(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4)
    loaded, read = load_checkpoint(tmp_path / "step-00001", "cpu", None)
    assert (loaded.n_positions, read.size, read.vocabulary) == (436, 32, task.vocabulary)
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "step-00001")
    assert words.decode([4, 30], skip_special_tokens=True) == read.decode(np.array([[4, 30]]))[0]


def test_no_grader_takes_an_answer_with_a_reserved_token():
    task = make_task(PAPER.task)
    problem, tokenizer = task.train_problem(0), Tokenizer(task.vocabulary, 32)
    answer = tokenizer.encode_responses([task.demonstration(0, np.random.default_rng(0))])[0]
    for row, outcome in ((answer, "correct"), (np.insert(answer, 3, 31), "incorrect")):
        (text,) = tokenizer.decode(row[None])
        assert ("<reserved-" in text) == (outcome == "incorrect")
        assert get_grader("maze")(problem, text).outcome == outcome
        assert get_grader("maze-reached")(problem, text).outcome == outcome


def test_a_prompt_that_is_not_copied_gives_the_logits_and_draws_of_one_that_is(monkeypatch):
    policy, prompts, completions = policy_of(GROUPED), tokens(3, 70), tokens(12, 9, seed=1)
    seeds = draw_seeds(0, list("abc"), np.arange(20))
    shared = policy.completion_logits(prompts, completions)
    drawn = sample(policy, prompts, seeds, length=12, temperature=1.0)
    monkeypatch.setattr(passes, "SHARED_FROM", 100)
    monkeypatch.setattr("fgrpo_bench.engines.embedded.sampling.SHARED_FROM", 100)
    copied = policy.completion_logits(prompts, completions)
    torch.testing.assert_close(shared, copied, atol=2e-5, rtol=2e-5)
    again = sample(policy, prompts, seeds, length=12, temperature=1.0)
    assert torch.equal(drawn.tokens, again.tokens)
    torch.testing.assert_close(drawn.log_probs, again.log_probs, atol=2e-5, rtol=2e-5)


def test_draws_are_the_same_in_parts():
    policy, prompts = policy_of(GROUPED), tokens(5, 70)
    seeds = draw_seeds(0, list("abcde"), np.arange(6))
    whole = sample(policy, prompts, seeds, length=8, temperature=1.0)
    bound = 2 * (70 + 6 * 8)
    parts = sample(policy, prompts, seeds, length=8, temperature=1.0, max_tokens=bound)
    assert torch.equal(whole.tokens, parts.tokens)
    torch.testing.assert_close(whole.log_probs, parts.log_probs, atol=2e-5, rtol=2e-5)


def test_in_bfloat16_a_pass_runs_and_is_near_the_one_in_float32():
    """Autocast of the processor, as a stand-in for a GPU's: the types must fit."""
    policy, prompts, completions = policy_of(GROUPED), tokens(2, 70), tokens(6, 9, seed=1)
    seeds = draw_seeds(0, list("ab"), np.arange(3))
    exact = policy.completion_logits(prompts, completions)
    with torch.autocast("cpu", torch.bfloat16):
        near = policy.completion_logits(prompts, completions)
        drawn = sample(policy, prompts, seeds, length=5, temperature=1.0)
    near.float().square().mean().backward()
    assert float((near.detach().float() - exact.detach()).abs().mean()) < 0.05 * float(
        exact.detach().abs().mean()
    )
    assert bool(drawn.log_probs.isfinite().all())


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean", "constant_length"])
def test_a_batch_in_parts_has_the_loss_and_gradient_of_the_whole(tmp_path, aggregation):
    gradients, said = [], []
    for bound in (None, 2 * (136 + 4 * 32)):
        point = SMALL[0]
        algorithm = replace(point.algorithm, loss_aggregation=aggregation)
        train = replace(point.train, max_batch_tokens=bound)
        point = replace(point, algorithm=algorithm, train=train)
        task = make_task(train.task)
        tokenizer = Tokenizer(task.vocabulary)
        policy = policy_of(train.model, tokenizer.size, positions(train.model, task))
        session = Session(
            policy,
            run=StageRun(StagePaths(tmp_path)),
            fingerprint="test",
            betas=(0.9, 0.999),
            weight_decay=0.0,
            grad_clip=1.0,
            has_metrics=True,
        )
        learner = Learner(point, session, tokenizer)
        batch = of_lengths(task, tokenizer)
        parts = list(learner.losses(batch, learner.advantages(batch)))
        assert len(parts) == (1 if bound is None else 3)
        for part in parts:
            part.loss.backward()
        gradients.append(torch.cat([each.grad.flatten() for each in policy.parameters()]))
        said.append((sum(p.loss.item() for p in parts), sum(p.active_tokens for p in parts)))
    assert said[0] == pytest.approx(said[1], rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-3)
    assert gradients[0].abs().max() > 1e-5


def of_lengths(task, tokenizer) -> Rollouts:
    """Six groups of four answers that end at different places, within the first 17 of all."""
    prompts = torch.from_numpy(
        tokenizer.encode([each.prompt for each in task.train_problems(range(6))])
    )
    answers = torch.full((24, task.response_length + 1), PAD)
    for row in range(24):
        answers[row, : 4 + row % 13] = tokens(1, 4 + row % 13, seed=row)
        answers[row, 4 + row % 13] = EOS
    shape = (6, 4, task.response_length + 1)
    return Rollouts(
        prompts=prompts,
        tokens=answers.view(shape),
        log_probs=torch.full(shape, -2.0),
        entropies=torch.zeros(shape),
        rewards=torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 1.0, 0]] * 3),
        unscored=torch.zeros(6, 4, dtype=torch.bool),
    )


def test_padding_of_a_shorter_answer_is_no_part_of_the_warm_ups_loss():
    tokenizer = Tokenizer("UDLR!")
    rows = torch.from_numpy(tokenizer.encode_responses(["U!", "UDLR!"]))
    assert rows.tolist() == [[2, 6, EOS, PAD, PAD, PAD], [2, 3, 4, 5, 6, EOS]]
    logits = torch.randn(2, 6, tokenizer.size, generator=torch.Generator().manual_seed(0))
    loss = F.cross_entropy(logits.flatten(0, 1), rows.flatten(), ignore_index=PAD)
    logits[0, 3:] = 7.0
    assert loss == F.cross_entropy(logits.flatten(0, 1), rows.flatten(), ignore_index=PAD)


def test_a_constant_schedule_has_its_peak_at_every_step():
    warmup = PAPER.warmup
    assert {learning_rate(step, warmup) for step in (1, 700, 1500)} == {5e-4}
    assert learning_rate(1, replace(warmup, schedule=None)) < 5e-6


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("+model.n_positions=300", r"n_positions=300.*310.*436"),
        ("model.vocabulary_size=15", r"vocabulary_size=15.*16"),
        ("max_batch_tokens=1000", r"max_batch_tokens=1000.*group_size=8"),
    ],
)
def test_a_model_or_bound_that_does_not_fit_is_refused_by_the_plan(override, said):
    plus, name = override[: override.startswith("+")], override.lstrip("+")
    declared = config.load("maze", ["experiment=maze", f"{plus}experiment.train.{name}"])
    with pytest.raises(ValueError, match=said):
        make_plan(declared)
