"""The model and its sampler: equal to transformers, equal to themselves, true to their seeds."""

import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds
from fgrpo_bench.engines.embedded import passes, sampling
from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint, save_checkpoint
from fgrpo_bench.engines.embedded.model import LEAST_POSITIONS, Policy, positions
from fgrpo_bench.engines.embedded.passes import Batch, Logits
from fgrpo_bench.engines.embedded.sampling import encode_prompts, sample
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD, Tokenizer
from fgrpo_bench.engines.embedded.warmup import demonstrated
from fgrpo_bench.graders import get_grader
from fgrpo_bench.specs import ModelSpec
from fgrpo_bench.tasks import make_task
from tests.support.plans import loaded

SPEC = loaded("groupsize").experiment.train.model
MAZE = loaded("maze", "experiment=maze").experiment.train
TOKENIZER = Tokenizer("0123456789+-*=:")


def make_policy(
    spec: ModelSpec = SPEC, vocabulary: int = TOKENIZER.size, n_positions: int = LEAST_POSITIONS
) -> Policy:
    policy = Policy(spec, vocabulary, spec.n_positions or n_positions)
    policy.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():  # logits of a size at which a wrong formula would show
        for parameter in policy.parameters():
            parameter.mul_(1.7).add_(0.01)
    return policy


@pytest.fixture(scope="module")
def policy():
    return make_policy()


def tokens(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, TOKENIZER.size, (rows, length), generator=generator)


GROUPED = ModelSpec(
    name="grouped",
    hidden_size=64,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    intermediate_size=96,
    rope_theta=500.0,
)


def test_the_saved_tokenizer_reads_and_writes_like_the_own_one(tmp_path, policy):
    save_checkpoint(tmp_path / "step-00001", policy, TOKENIZER)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "step-00001")
    for text in ("3256=24:", "5*2*3-6", "9"):
        assert theirs(text)["input_ids"] == TOKENIZER.encode([text])[0].tolist()
        assert theirs.decode(theirs(text)["input_ids"]) == text
    assert (theirs.pad_token_id, theirs.eos_token_id) == (PAD, EOS)
    assert (
        theirs.decode([7, 3, EOS], skip_special_tokens=True)
        == TOKENIZER.decode(np.array([[7, 3, EOS]]))[0]
    )


def test_a_checkpoint_comes_back_bitwise_and_a_changed_one_is_refused(tmp_path, policy):
    folder = tmp_path / "step-00001"
    digest = save_checkpoint(folder, policy, TOKENIZER)
    loaded, tokenizer = load_checkpoint(folder, "cpu", digest)
    assert tokenizer.vocabulary == TOKENIZER.vocabulary
    for (name, a), (_, b) in zip(policy.named_parameters(), loaded.named_parameters(), strict=True):
        assert torch.equal(a, b), name
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"has sha256 .*, but its stage recorded {digest}.*delete"
    ):
        load_checkpoint(folder, "cpu", digest)
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no model\.safetensors"):
        load_checkpoint(folder, "cpu", digest)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [SPEC, GROUPED], ids=["shipped", "grouped key/value heads"])
@pytest.mark.parametrize("start", [1, 8, 70], ids=["one token", "short", "read where it is"])
def test_logits_and_gradients_are_those_of_transformers(tmp_path, spec, start):
    """Prompts with three completions, one, none and two; some begin alike, some end early."""
    ours = make_policy(replace(spec, n_positions=128))
    save_checkpoint(tmp_path / "step-00001", ours, TOKENIZER)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "step-00001")
    assert type(theirs).__name__ == "Qwen2ForCausalLM"
    owner = torch.tensor([0, 0, 0, 1, 3, 3])
    prompts, completions = tokens(4, start), tokens(6, 7, seed=1)
    completions[2, :3], completions[3], completions[5] = completions[0, :3], *completions[[0, 4]]
    ends = torch.tensor([7, 2, 7, 7, 5, 7])
    mask = torch.arange(7) < ends[:, None]
    shared = ours.completion_logits(prompts, completions, owner, mask)
    plain = theirs(torch.cat([prompts[owner], completions], 1)).logits[:, start - 1 : -1]
    torch.testing.assert_close(shared[mask], plain[mask], atol=3e-5, rtol=3e-5)
    weights = torch.randn(shared.shape, generator=torch.Generator().manual_seed(2))
    weights *= mask[..., None]
    (shared * weights).sum().backward()
    (plain * weights).sum().backward()
    wanted = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        grad = wanted[name].grad
        scale = float(grad.abs().max())
        torch.testing.assert_close(parameter.grad, grad, atol=2e-4 * scale, rtol=0, msg=name)


def test_each_prefix_that_completions_share_goes_through_the_model_once():
    prompts, owner = tokens(2, 4), torch.tensor([0, 1, 0, 0])
    completions = torch.tensor([[5, 6, 7, 8], [5, 6, 7, 8], [5, 6, 9, 8], [5, 3, PAD, PAD]])
    mask = completions != PAD
    batch = Batch(prompts, completions, owner, mask)
    assert sorted(batch.tokens[prompts.numel() :].tolist()) == [5, 5, 6, 6, 7, 7, 9]


def test_a_pass_leaves_no_memory_behind_where_nothing_collects_cycles():
    policy, batch = make_policy(), Batch(tokens(2, 3), tokens(2, 3), torch.arange(2))
    kept = weakref.ref(batch)
    gc.disable()
    try:
        logits = Logits.apply(policy.weights(), policy.gradients, batch, *policy.parameters())
        logits.sum().backward()
        del batch, logits
        assert kept() is None
    finally:
        gc.enable()


def test_log_probabilities_of_samples_are_those_of_the_plain_pass(policy):
    prompts = tokens(4, 8)
    seeds = draw_seeds(0, list("abcd"), np.arange(6))
    drawn = sample(policy, prompts, seeds, length=5, temperature=0.7)
    logits = policy.completion_logits(prompts, drawn.tokens) / 0.7
    logp = torch.log_softmax(logits, -1)
    want = logp.gather(2, drawn.tokens[..., None]).squeeze(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    ended = ((drawn.tokens == EOS) | (drawn.tokens == PAD)).long()
    before = ended.cumsum(1) - ended == 0
    torch.testing.assert_close(drawn.log_probs, want * before, atol=3e-5, rtol=3e-5)
    torch.testing.assert_close(drawn.entropies, entropy * before, atol=3e-5, rtol=3e-5)
    assert (drawn.tokens[~before] == PAD).all()


def test_a_draw_depends_on_its_own_seed_alone(policy):
    prompts = tokens(3, 8)
    seeds = draw_seeds(1, list("abc"), np.arange(40))
    together = sample(policy, prompts, seeds, length=6, temperature=1.0).tokens.view(3, 40, 6)
    alone = sample(policy, prompts[1:2], seeds[1:2, 10:20], length=6, temperature=1.0).tokens
    assert torch.equal(together[1, 10:20], alone)


@pytest.mark.slow
def test_draws_are_the_same_on_one_thread_and_on_two(policy):
    prompts, seeds = tokens(20, 8), draw_seeds(1, list(map(str, range(20))), np.arange(64))
    before, drawn = torch.get_num_threads(), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        drawn.append(sample(policy, prompts, seeds, length=8, temperature=1.0).tokens)
    torch.set_num_threads(before)
    assert torch.equal(*drawn)


@pytest.mark.slow
def test_draws_follow_the_models_distribution(policy):
    prompts = tokens(1, 8)
    drawn = sample(
        policy, prompts, draw_seeds(2, ["a"], np.arange(20_000)), length=1, temperature=1.0
    )
    expected = torch.softmax(policy(prompts)[0, -1], -1).detach()
    seen = torch.bincount(drawn.tokens[:, 0], minlength=TOKENIZER.size) / 20_000
    assert (seen - expected).abs().max() < 0.015


def test_a_sampled_padding_token_shows_in_the_text():
    rows = np.array([[7, 3, EOS, PAD], [7, PAD, PAD, PAD], [7, 3, 4, 5]])
    assert TOKENIZER.decode(rows) == ["51", "5<pad>", "5123"]


def test_every_character_is_a_token_of_both_tokenizers_and_others_are_refused(tmp_path):
    """Of any alphabet, blanks and line breaks among them."""
    text = "ö→ \n\n🙂<"
    wide = Tokenizer("".join(sorted(set(text))))
    save_checkpoint(tmp_path / "step-00001", make_policy(vocabulary=wide.size), wide)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "step-00001")
    ids = wide.encode(["", text])[1].tolist()
    assert theirs(text)["input_ids"] == ids and len(ids) == len(text)
    assert theirs.decode(ids) == text == wide.decode(np.array([ids]))[0]
    assert load_checkpoint(tmp_path / "step-00001", "cpu", None)[1].vocabulary == wide.vocabulary
    for other in ("x", "\U0010ffff"):
        with pytest.raises(ValueError, match=r"is no character of the vocabulary .* give the task"):
            wide.encode([text + other])


def test_prompts_of_different_lengths_are_drawn_and_shown_as_each_alone(policy):
    problems = [
        Problem(benchmark="x", problem_id=name, prompt=name, target="", grader="countdown")
        for name in ("12=3:", "3256=24:", "9=9:", "55=10")
    ]
    seeds = draw_seeds(1, [problem.problem_id for problem in problems], np.arange(30))
    prompts, lengths = encode_prompts(TOKENIZER, problems, 9)
    assert lengths.tolist() == [5, 8, 4, 5] and prompts.shape == (4, 9)
    how = {"length": 5, "temperature": 1.0}
    drawn = sample(policy, prompts, seeds, lengths=lengths, max_tokens=200, **how)
    alone = [
        sample(policy, prompts[[i], :n], seeds[[i]], **how) for i, n in enumerate(lengths.tolist())
    ]
    assert torch.equal(drawn.tokens, torch.cat([one.tokens for one in alone]))
    wanted = torch.cat([one.log_probs for one in alone])
    torch.testing.assert_close(drawn.log_probs, wanted, atol=1e-5, rtol=1e-5)

    task = SimpleNamespace(prompt_length=8, response_length=5)
    shown, noted = ["1+2", "3*2-1", "9", "5"], []
    loss = sum(demonstrated(policy, TOKENIZER, task, problems, shown, noted))
    nats = []
    for problem, text in zip(problems, shown, strict=True):
        (ids,) = TOKENIZER.encode([problem.prompt + text])
        logp = torch.log_softmax(policy(torch.tensor([[*ids]])), -1)[0, len(problem.prompt) - 1 :]
        nats.append(-logp.gather(1, torch.tensor([[*ids[len(problem.prompt) :], EOS]]).T)[:, 0])
    assert len(noted) == 3 and loss.item() == pytest.approx(torch.cat(nats).mean().item(), rel=1e-5)
    ours, wanted = (
        torch.cat([part.flatten() for part in torch.autograd.grad(x, list(policy.parameters()))])
        for x in (loss, torch.cat(nats).mean())
    )
    torch.testing.assert_close(ours, wanted, atol=1e-5, rtol=1e-3)

    with pytest.raises(
        ValueError, match=r"problem 3256=24: has 8 tokens, and may have from 1 to 7"
    ):
        encode_prompts(TOKENIZER, problems, 7)
    with pytest.raises(ValueError, match=r"has 6 characters .'1\+2\+33'.* response_length=5"):
        next(demonstrated(policy, TOKENIZER, task, problems, ["1+2+33", "1"], noted))


def test_a_shorter_answer_is_padded_behind_its_end():
    rows = Tokenizer("UDLR!").encode_responses(["U!", "UDLR!"])
    assert rows.tolist() == [[2, 6, EOS, PAD, PAD, PAD], [2, 3, 4, 5, 6, EOS]]


@pytest.mark.slow
def test_the_papers_model_has_its_size_and_the_logits_of_transformers(tmp_path):
    task = make_task(MAZE.task)
    tokenizer = Tokenizer(task.vocabulary, MAZE.model.vocabulary_size)
    policy = make_policy(MAZE.model, tokenizer.size, positions(MAZE.model, task))
    assert sum(parameter.numel() for parameter in policy.parameters()) == 3_944_704
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
    task = make_task(MAZE.task)
    problem, tokenizer = task.problem(0), Tokenizer(task.vocabulary, 32)
    answer = tokenizer.encode_responses([task.demonstration(0, np.random.default_rng(0))])[0]
    for row, outcome in ((answer, "correct"), (np.insert(answer, 3, 31), "incorrect")):
        (text,) = tokenizer.decode(row[None])
        assert ("<reserved-" in text) == (outcome == "incorrect")
        assert get_grader("maze")(problem, text).outcome == outcome
        assert get_grader("maze-reached")(problem, text).outcome == outcome


def test_a_prompt_that_is_not_copied_gives_the_logits_and_draws_of_one_that_is(monkeypatch):
    policy, prompts, completions = (
        make_policy(GROUPED, n_positions=128),
        tokens(3, 70),
        tokens(12, 9, seed=1),
    )
    seeds = draw_seeds(0, list("abc"), np.arange(20))
    shared = policy.completion_logits(prompts, completions)
    drawn = sample(policy, prompts, seeds, length=12, temperature=1.0)
    monkeypatch.setattr(passes, "SHARED_FROM", 100)
    monkeypatch.setattr(sampling, "SHARED_FROM", 100)
    copied = policy.completion_logits(prompts, completions)
    torch.testing.assert_close(shared, copied, atol=2e-5, rtol=2e-5)
    again = sample(policy, prompts, seeds, length=12, temperature=1.0)
    assert torch.equal(drawn.tokens, again.tokens)
    torch.testing.assert_close(drawn.log_probs, again.log_probs, atol=2e-5, rtol=2e-5)


def test_draws_are_the_same_in_parts():
    policy, prompts = make_policy(GROUPED, n_positions=128), tokens(5, 70)
    seeds = draw_seeds(0, list("abcde"), np.arange(6))
    whole = sample(policy, prompts, seeds, length=8, temperature=1.0)
    bound = 2 * (70 + 6 * 8)
    parts = sample(policy, prompts, seeds, length=8, temperature=1.0, max_tokens=bound)
    assert torch.equal(whole.tokens, parts.tokens)
    torch.testing.assert_close(whole.log_probs, parts.log_probs, atol=2e-5, rtol=2e-5)


def test_in_bfloat16_a_pass_runs_and_is_near_the_one_in_float32():
    """Autocast of the processor, as a stand-in for a GPU's: the types must fit."""
    policy, prompts, completions = (
        make_policy(GROUPED, n_positions=128),
        tokens(2, 70),
        tokens(6, 9, seed=1),
    )
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
