"""Reinforcement learning with verifiable rewards, on-policy, in one process.

In: a training stage's spec. Out: checkpoints and metrics. `reinforce` is the run: draw problems and
rollouts, measure them (`measure`), learn (`Learner`), evaluate, save. Prompts, rollouts and updates
all follow from the seed and the counters, never from a random generator's hidden state: a killed
run that resumes ends with bit-identical weights (same machine, same thread count).
Next: embedded.sampling, embedded.passes (forward and backward), fgrpo_bench.objectives.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fgrpo_bench.core import registry
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds, stream
from fgrpo_bench.engines.diverged import named_groups
from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint, save_checkpoint
from fgrpo_bench.engines.embedded.engine import embedded_train, longest
from fgrpo_bench.engines.embedded.model import Policy, precision
from fgrpo_bench.engines.embedded.sampling import by_length, encode_prompts, groups_at_once, sample
from fgrpo_bench.engines.embedded.session import Session, engine_facts
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD, Tokenizer
from fgrpo_bench.engines.engine import TrainingFacts
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.graders import get_grader, get_reward, solution_key
from fgrpo_bench.objectives.across_steps import State
from fgrpo_bench.objectives.advantages import (
    action_mask,
    first_state,
    has_signal,
    is_active,
    next_advantages,
    random_rewards,
    reads_log_probs,
    success_rate,
)
from fgrpo_bench.objectives.focal import focal_weight
from fgrpo_bench.objectives.losses import aggregate, entropies, kl_estimates
from fgrpo_bench.specs import SweepPoint
from fgrpo_bench.specs.stored import TrainStageSpec
from fgrpo_bench.stages.markers import base_weights
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.stages.watch import step_numbers
from fgrpo_bench.stats.groups import group_metrics, numbered
from fgrpo_bench.stats.selection import saved_steps
from fgrpo_bench.tasks import Task, make_task

WIDTH = 16
"""Tokens by whose multiples batches are shortened: what a GPU's products like. Batches of up to as
many are taken as they are."""
PER_TOKEN = ("tokens", "log_probs", "entropies")


@dataclass(frozen=True, kw_only=True)
class Rollouts:
    """A batch of groups; G groups of N completions of length L over prompts of up to S tokens."""

    prompts: Tensor
    """int64 [G, S], with padding behind."""
    prompt_lengths: Tensor
    """int64 [G]; tokens of each."""
    tokens: Tensor
    """int64 [G, N, L]."""
    log_probs: Tensor
    """float32 [G, N, L]; under the policy that sampled them."""
    entropies: Tensor
    """float32 [G, N, L]."""
    rewards: Tensor
    """float32 [G, N]; what the task gave, with a penalty of length."""
    correct: Tensor
    """float32 [G, N]; 1 is correct."""
    unscored: Tensor
    """bool [G, N]; what the grader could not judge."""
    solutions: Tensor
    """int64 [G, N]; number of the solution that a right rollout is, -1 for any other, and where
    the grader tells none apart."""
    random_rewards: Tensor | None = None
    """float32 [G, N]; what advantages learn from in the place of rewards. None: from rewards."""
    ends: tuple[int, int] = (EOS, PAD)
    """Tokens that end a response."""

    def take(self, groups: Tensor) -> Rollouts:
        """Some of the groups, by index or bool mask."""
        return self._with({name: value[groups] for name, value in self._tensors()})

    def followed_by(self, more: Rollouts) -> Rollouts:
        """These groups, then those."""
        both = {name: torch.cat([a, getattr(more, name)]) for name, a in self._tensors()}
        return self._with(both)

    def _with(self, tensors: dict[str, Any]) -> Rollouts:
        return replace(self, **tensors)

    def _tensors(self) -> list[tuple[str, Tensor]]:
        return [item for item in vars(self).items() if isinstance(item[1], Tensor)]

    def split(self, max_tokens: int | None) -> Iterator[Tensor]:
        """The groups in parts of equally long prompts and at most so many tokens each, but of one
        group at least; None sets no bound. Gives which groups they are."""
        for length, alike in by_length(self.prompt_lengths):
            at_once = groups_at_once(max_tokens, length, *self.tokens.shape[1:])
            yield from alike.split(at_once or len(alike))

    def shortened(self) -> Rollouts:
        """Without the last positions, where every rollout has ended; a multiple of WIDTH is left,
        or all."""
        longest = int(self.mask.sum(-1).amax()) if self.mask.numel() else 0
        width = min(self.tokens.shape[-1], -(-longest // WIDTH) * WIDTH)
        cut = {name: getattr(self, name)[..., :width] for name in PER_TOKEN}
        return replace(self, **cut)

    @property
    def mask(self) -> Tensor:
        """Which positions are actions; bool [G, N, L]."""
        eos, pad = self.ends
        return action_mask(self.tokens.flatten(0, 1), eos=eos, pad=pad).view(self.tokens.shape)

    @property
    def truncated(self) -> Tensor:
        """Which rollouts never ended; bool [G, N]."""
        eos, pad = self.ends
        return ~((self.tokens == eos) | (self.tokens == pad)).any(-1)


def measure(rollouts: Rollouts, advantages: Tensor, focal_gamma: float) -> dict[str, float | None]:
    """Metrics of a batch as sampled (tables.METRICS). advantages: [G, N]."""
    active, mask = has_signal(advantages), rollouts.mask
    repeated = (rollouts.tokens == rollouts.tokens[:, :1]).flatten(1).all(1)
    weights = focal_weight(success_rate(rollouts.correct[active]), focal_gamma)
    return {
        "success_rate": float(rollouts.correct.mean()),
        "active_fraction": float(active.float().mean()),
        **group_metrics(
            *(part.cpu().numpy() for part in (rollouts.correct, repeated, rollouts.solutions))
        ),
        "focal_weight": float(weights.mean()) if len(weights) else None,
        "entropy": float((rollouts.entropies * mask).sum() / mask.sum()),
        "response_tokens": float(mask.sum() / rollouts.rewards.numel()),
        "truncated_fraction": float(rollouts.truncated.float().mean()),
        "unscored_fraction": float(rollouts.unscored.float().mean()),
    }


def stored_rows(
    step: int,
    batch: Rollouts,
    advantages: Tensor,
    *,
    focal_gamma: float,
    n_groups: int,
    tokenizer: Tokenizer,
) -> list[dict[str, Any]]:
    """Rows of tables.ROLLOUTS for the first groups of the batch that a step learns from.

    advantages: [G, N], with the focal weight. n_groups: how many; of fewer, all.
    """
    total = float(advantages.double().abs().sum())
    first = torch.arange(min(n_groups, len(advantages)), device=advantages.device)
    groups = batch.take(first)
    mask, shape = groups.mask, groups.rewards.shape
    learned = groups.rewards if groups.random_rewards is None else groups.random_rewards
    texts = tokenizer.decode(groups.tokens.flatten(0, 1).cpu().numpy())
    by_rollout = {
        "response": np.array(texts, object).reshape(shape),  # as text NumPy cuts zeros at its end
        "n_tokens": mask.sum(-1).cpu().numpy(),
        "finish_reason": np.where(groups.truncated.cpu().numpy(), "length", "stop"),
        "outcome": np.select(
            [groups.unscored.cpu().numpy(), groups.correct.cpu().numpy() == 1],
            ["unscored", "correct"],
            "incorrect",
        ),
        "reward": learned.double().cpu().numpy(),
        "advantage": advantages[first].double().cpu().numpy(),
        "log_prob": (groups.log_probs * mask).double().sum(-1).cpu().numpy(),
    }
    columns = {name: values.tolist() for name, values in by_rollout.items()}
    weights = focal_weight(success_rate(groups.correct), focal_gamma).tolist()
    rows = []
    for group, n in enumerate(groups.prompt_lengths.tolist()):
        prompt = tokenizer.decode(groups.prompts[group, None, :n].cpu().numpy())[0]
        for rollout in range(shape[1]):
            row = {name: values[group][rollout] for name, values in columns.items()}
            share = abs(row["advantage"]) / total if total else None
            place = {"step": step, "group": group, "rollout": rollout, "prompt": prompt}
            rows.append({**place, **row, "focal_weight": weights[group], "gradient_share": share})
    return rows


def distinct_responses(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The different responses of every group, each once: their tokens int64 [D, L] and groups [D],
    rising; and which of them each rollout is, [G * N]. tokens: [G, N, L]."""
    rows = tokens.flatten(0, 1).cpu().numpy()
    groups = np.arange(len(tokens)).repeat(tokens.shape[1])
    order = np.lexsort((*rows.T[::-1], groups))
    rows, groups = rows[order], groups[order]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (rows[1:] != rows[:-1]).any(1) | (groups[1:] != groups[:-1])
    which = np.empty(len(rows), np.int64)
    which[order] = is_first.cumsum() - 1
    parts = (rows[is_first], groups[is_first], which)
    responses, owner, places = (torch.from_numpy(part).to(tokens.device) for part in parts)
    return responses, owner, places


def _overlong_penalty(n_tokens: Tensor, longest: int, buffer: int) -> Tensor:
    """DAPO's soft penalty of a response (arXiv 2503.14476, eq. 13), 0 up to longest - buffer tokens
    and falling to -1 at longest; n_tokens int64, of any shape."""
    return -((n_tokens - (longest - buffer)) / buffer).clamp(0, 1)


MAX_ROUNDS = 8
"""Rollout rounds a step under dynamic sampling before it trains on what it has."""


@dataclass(frozen=True, kw_only=True)
class PartialLoss:
    """What a forward pass over a mini-batch, or over a part of one, gives."""

    loss: Tensor
    """float32 []; those of all parts add up to the mini-batch's, likewise the next."""
    policy_loss: float
    """Without an entropy bonus and a KL term."""
    active_tokens: int
    """Actions of groups with an advantage; the two below are sums over them."""
    clipped: float
    """How many have a clipped ratio."""
    rollout_gap: float
    """log pi_rollout - log pi, nats."""
    tokens: int
    """All actions."""
    reference_kl: float
    """KL(policy || base model), nats, a sum over these; 0 without a KL term."""


class Learner:
    """The pieces of one training run."""

    def __init__(
        self,
        point: SweepPoint,
        session: Session,
        tokenizer: Tokenizer,
        reward: str | None = None,
        reference: Policy | None = None,
    ) -> None:
        """reward: what judges rollouts of training, as fgrpo_bench.graders.get_reward takes it;
        None is the grader of each problem. reference: the base model, for an algorithm with a KL
        term."""
        self.point, self.session, self.tokenizer = point, session, tokenizer
        self.reward = reward
        self.policy: Policy = session.policy
        self.reference = reference
        algorithm = point.algorithm
        self.has_terms = algorithm.entropy_coef > 0 or algorithm.kl_coef > 0
        """Whether the loss has more than the objective, which teaches from every group."""
        self.train = embedded_train(point)
        self.task: Task = make_task(self.train.task)
        self.longest = longest(self.train)
        self.device = str(next(self.policy.parameters()).device)

    def problems(self, count: int) -> list[Problem]:
        """The next training problems: epoch after epoch, each in its own random order."""
        start, n = self.session.counters.cursor, self.task.n_train
        self.session.counters = replace(self.session.counters, cursor=start + count)
        at = range(start, start + count)
        return self.task.problems([_order(self.point.seed, i // n, n)[i % n] for i in at])

    def draw(self, problems: list[Problem], n: int, purpose: str, step: int) -> Rollouts:
        """n graded completions a problem; FloatingPointError where the policy gives no numbers."""
        names = [problem.problem_id for problem in problems]
        seeds = draw_seeds(stream(self.point.seed, purpose, step), names, np.arange(n))
        prompts, lengths = (
            part.to(self.device)
            for part in encode_prompts(self.tokenizer, problems, self.longest[0])
        )
        with precision(self.train.model, self.device):
            samples = sample(
                self.policy,
                prompts,
                seeds,
                length=self.longest[1],
                temperature=self.train.temperature,
                max_tokens=self.train.max_batch_tokens,
                lengths=lengths,
            )
        is_finite = (
            (samples.log_probs + samples.entropies).view(len(problems), -1).isfinite().all(1)
        )
        if lost := [
            name for name, finite in zip(names, is_finite.tolist(), strict=True) if not finite
        ]:
            raise self.session.diverged(f"a log-probability of {named_groups(lost)}")
        shape = (len(problems), n, samples.tokens.shape[1])
        responses, owner, places = distinct_responses(samples.tokens.view(shape))
        texts = self.tokenizer.decode(responses.cpu().numpy())
        reward = self.reward if purpose.startswith("rollout") else None
        judge = None if reward is None else get_reward(reward)
        owners = [problems[i] for i in owner.tolist()]
        grades = [
            (judge or get_grader(problem.grader))(problem, text)
            for problem, text in zip(owners, texts, strict=True)
        ]
        at = places.cpu().numpy().reshape(shape[:2])
        solutions = numbered(
            solution_key(reward or problem.grader, grade)
            for problem, grade in zip(owners, grades, strict=True)
        )[at]
        judged = np.array([grade.outcome for grade in grades])[at]
        earned = np.array([grade.earned for grade in grades], np.float32)[at]
        rollouts = Rollouts(
            prompts=prompts,
            prompt_lengths=lengths,
            tokens=samples.tokens.view(shape),
            log_probs=samples.log_probs.view(shape),
            entropies=samples.entropies.view(shape),
            rewards=torch.from_numpy(earned).to(self.device),
            correct=torch.from_numpy(judged == "correct").float().to(self.device),
            unscored=torch.from_numpy(judged == "unscored").to(self.device),
            solutions=torch.from_numpy(solutions).to(self.device),
            random_rewards=self._random_rewards(judged == "correct", names, purpose, step),
            ends=(self.policy.eos, self.policy.pad),
        )
        buffer = self.train.overlong_buffer_tokens
        if buffer is None:
            return rollouts
        penalty = _overlong_penalty(rollouts.mask.sum(-1), shape[2], buffer)
        return replace(rollouts, rewards=rollouts.rewards + penalty)

    def _random_rewards(
        self, correct: NDArray[np.bool_], names: list[str], purpose: str, step: int
    ) -> Tensor | None:
        """Of rollouts [groups, group_size] to the problems of these names; None where the algorithm
        learns from the task's, and of an evaluation."""
        if not (self.point.algorithm.random_rewards and purpose.startswith("rollout")):
            return None
        seed = stream(self.point.seed, "reward", purpose, step)
        seeds = draw_seeds(seed, names, np.arange(correct.shape[1]))
        return torch.from_numpy(random_rewards(correct, seeds)).to(self.device)

    def rollouts(self, step: int) -> tuple[Rollouts, Rollouts]:
        """The batch to train on, and everything sampled for it.

        They differ under dynamic sampling only: there, further prompts are drawn until the batch
        holds as many active groups as it should have prompts, or MAX_ROUNDS rounds are over.
        """
        n_prompts, n = self.point.n_prompts, self.point.group_size
        sampled = self._count(self.draw(self.problems(n_prompts), n, "rollout", step))
        if not self.point.algorithm.dynamic_sampling:
            return sampled, sampled
        for extra in range(1, MAX_ROUNDS):
            if int(is_active(sampled.correct).sum()) >= n_prompts:
                break
            more = self._count(self.draw(self.problems(n_prompts), n, f"rollout-{extra}", step))
            sampled = sampled.followed_by(more)
        active = is_active(sampled.correct).nonzero()[:, 0]
        return sampled.take(active[:n_prompts]), sampled

    def _count(self, rollouts: Rollouts) -> Rollouts:
        counters = self.session.counters
        self.session.counters = replace(
            counters,
            rollouts=counters.rollouts + rollouts.rewards.numel(),
            tokens=counters.tokens + int(rollouts.mask.sum()),
        )
        return rollouts

    def advantages(self, rollouts: Rollouts) -> Tensor:
        """Of every rollout, [groups, group_size]; FloatingPointError, with the groups, where one is
        not finite."""
        return self._next_advantages(rollouts)[1]

    def _next_advantages(self, rollouts: Rollouts) -> tuple[State, Tensor]:
        """And the state that the next step begins with."""
        algorithm, mask = self.point.algorithm, rollouts.mask
        statistics = {}
        if reads_log_probs(algorithm.advantage):
            statistics["log_probs"] = (rollouts.log_probs * mask).sum(-1)
            statistics["n_tokens"] = mask.sum(-1)
        state, values = next_advantages(
            self.session.carried,
            rollouts.rewards if rollouts.random_rewards is None else rollouts.random_rewards,
            self.point.focal_gamma,
            algorithm.advantage,
            algorithm.parameters,
            rollouts.correct,
            **statistics,
        )
        self._check_finite(values, rollouts, "advantage")
        return state, values

    def learn(self, batch: Rollouts) -> dict[str, float | None]:
        """The updates of one batch; means over them of loss, gradient norm and clipping.

        rollout_kl is measured on the mini-batch before the first update, None where there is none;
        reference_kl over all of them, None without a KL term.
        """
        done: list[list[PartialLoss]] = []
        norms, rate = [], 0.0
        batch_advantages = None
        if self.session.carried:  # else part by part: a last digit may go by how many are computed
            self.session.carried, batch_advantages = self._next_advantages(batch)
        for groups in np.array_split(np.arange(len(batch.rewards)), self.train.updates_per_batch):
            index = torch.from_numpy(groups).to(self.device)
            part = batch.take(index)
            advantages = (
                self.advantages(part) if batch_advantages is None else batch_advantages[index]
            )
            if not (self.has_terms or bool(has_signal(advantages).any())):
                continue  # no group has a gradient: no update, and no step for the optimizer
            done.append([])
            rate = self._learning_rate()
            norms.append(self.session.update(self._noted(part, advantages, done[-1]), rate))
        tokens = sum(m.active_tokens for parts in done for m in parts)
        clipped = sum(m.clipped for parts in done for m in parts)
        gap = sum(m.rollout_gap for parts in done[:1] for m in parts)
        losses = [sum(m.policy_loss for m in parts) for parts in done]
        first_tokens = sum(m.active_tokens for parts in done[:1] for m in parts)
        all_tokens = sum(m.tokens for parts in done for m in parts)
        divergence = sum(m.reference_kl for parts in done for m in parts)
        return {
            "loss": float(np.mean(losses)) if done else 0.0,
            "grad_norm": float(np.mean(norms)) if norms else 0.0,
            "clip_fraction": clipped / tokens if tokens else 0.0,
            "rollout_kl": gap / first_tokens if first_tokens else None,
            "reference_kl": None
            if self.reference is None or not all_tokens
            else divergence / all_tokens,
            "learning_rate": rate,
        }

    def _noted(
        self, part: Rollouts, advantages: Tensor, done: list[PartialLoss]
    ) -> Iterator[Tensor]:
        for partial in self.losses(part, advantages):
            done.append(partial)
            yield partial.loss

    def losses(self, part: Rollouts, advantages: Tensor) -> Iterator[PartialLoss]:
        """Loss of a mini-batch in parts of max_batch_tokens; FloatingPointError, with the groups,
        where a token's is not finite.

        advantages: [groups, group_size]. Groups without a gradient skip the forward pass but count
        in the mean over tokens; an entropy bonus and a KL term give each group one.
        """
        taught = has_signal(advantages) | self.has_terms
        used, weights = part.take(taught).shortened(), advantages[taught]
        for few in used.split(self.train.max_batch_tokens):
            yield self._loss(used.take(few), weights[few], part)

    def _loss(self, used: Rollouts, advantages: Tensor, whole: Rollouts) -> PartialLoss:
        """used: groups of the mini-batch `whole` with equally long prompts, and their advantages
        [groups, group_size]."""
        prompts = used.prompts[:, : int(used.prompt_lengths[0])]
        tokens, mask = used.tokens.flatten(0, 1), used.mask.flatten(0, 1)
        all_log_probs, log_probs = self._log_probs(self.policy, prompts, tokens, mask)
        at_base = None
        if self.reference is not None:
            with torch.no_grad():
                _, at_base = self._log_probs(self.reference, prompts, tokens, mask)
        algorithm, old = self.point.algorithm, used.log_probs.flatten(0, 1)
        losses, clipped = registry.entry("objectives", algorithm.objective)(
            log_probs, old, advantages.view(-1, 1), algorithm.clip_low, algorithm.clip_high
        )
        terms = torch.zeros_like(losses) if self.has_terms else None
        divergences = None if at_base is None else kl_estimates(log_probs, at_base)
        if terms is not None and algorithm.entropy_coef:
            terms = terms - algorithm.entropy_coef * entropies(all_log_probs)
        if terms is not None and divergences is not None:
            terms = terms + algorithm.kl_coef * divergences
        counted = (losses if terms is None else losses + terms).detach().where(mask, 0.0)
        self._check_finite(counted.view(len(used.rewards), -1), used, "loss")
        policy_loss = self._mean(losses, mask, whole)
        is_active = mask & has_signal(advantages).repeat_interleave(advantages.shape[1])[:, None]
        return PartialLoss(
            loss=policy_loss if terms is None else policy_loss + self._mean(terms, mask, whole),
            policy_loss=policy_loss.item(),
            active_tokens=int(is_active.sum()),
            clipped=float((clipped & is_active).sum()),
            rollout_gap=float(((old - log_probs.detach()) * is_active).sum()),
            tokens=int(mask.sum()),
            reference_kl=0.0 if divergences is None else float((divergences.detach() * mask).sum()),
        )

    def _mean(self, values: Tensor, mask: Tensor, whole: Rollouts) -> Tensor:
        """Of token values [sequences, length], as the algorithm aggregates losses over `whole`."""
        missing = (0, whole.tokens.shape[2] - mask.shape[1])  # constant_length counts them
        return aggregate(
            F.pad(values, missing),
            F.pad(mask, missing),
            aggregation=self.point.algorithm.loss_aggregation,
            batch_tokens=int(whole.mask.sum()),
            batch_sequences=whole.rewards.numel(),
        )

    def _log_probs(
        self, policy: Policy, prompts: Tensor, tokens: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of every token there is, [sequences, length, vocabulary], and of those sampled,
        [sequences, length]."""
        with precision(self.train.model, self.device):
            logits = policy.completion_logits(prompts, tokens, mask=mask)
        all_log_probs = torch.log_softmax(logits / self.train.temperature, -1)
        return all_log_probs, all_log_probs.gather(2, tokens[..., None]).squeeze(-1)

    def _check_finite(self, values: Tensor, rollouts: Rollouts, what: str) -> None:
        """FloatingPointError, with the groups, where one of their values [groups, any number] is
        not finite."""
        lost = ~values.isfinite().all(1)
        if bool(lost.any()):
            rows = zip(rollouts.prompts[lost], rollouts.prompt_lengths[lost].tolist(), strict=True)
            prompts = [self.tokenizer.decode(row[None, :n].cpu().numpy())[0] for row, n in rows]
            raise self.session.diverged(f"the {what} of {named_groups(prompts)}")

    def _learning_rate(self) -> float:
        update = self.session.counters.optimizer_steps + 1
        return self.point.learning_rate * min(1.0, update / max(1, self.train.warmup_updates))

    def check(self, step: int) -> None:
        """FloatingPointError where the policy gives no numbers any more: after the last update no
        further step would show it."""
        self.draw(self.task.heldout_problems(1), 1, "check", step)

    def evaluate(self, step: int) -> tuple[float, float]:
        """(pass@1, share of problems with any correct draw) on the first held-out problems."""
        problems = self.task.heldout_problems(self.train.eval_n_problems)
        correct = self.draw(problems, self.train.eval_n_samples, "evaluate", step).correct
        return float(correct.mean()), float(correct.amax(1).mean())


@lru_cache(maxsize=1)
def _order(seed: int, epoch: int, n: int) -> list[int]:
    """In which order an epoch takes its n problems."""
    return [int(i) for i in np.random.default_rng([seed, 2, epoch]).permutation(n)]


def reinforce(stored: StageSpec, run: StageRun, device: str) -> TrainingFacts:
    """Run a training stage; returns facts for its completion marker."""
    spec = stored.as_kind(TrainStageSpec)
    point = spec.sweep_point
    train = embedded_train(point)
    base = spec.at(spec.base)
    digest = base_weights(base)
    policy, tokenizer = load_checkpoint(base.checkpoint(0), device, digest)
    session = Session(
        policy,
        run=run,
        fingerprint=spec.fingerprint,
        betas=(train.beta1, train.beta2),
        weight_decay=train.weight_decay,
        grad_clip=train.grad_clip,
        has_metrics=True,
        carried=first_state(
            point.algorithm.advantage, point.group_size, point.algorithm.parameters
        ),
    )
    reference = None
    if point.algorithm.kl_coef > 0:
        reference, _ = load_checkpoint(base.checkpoint(0), device, digest)
    learner = Learner(point, session, tokenizer, spec.judge(), reference)
    saved = saved_steps(steps=train.steps, save_every=train.save_every)
    for step in session.steps(train.steps):
        begun = time.perf_counter()
        batch, sampled = learner.rollouts(step)
        # as this step has the advantages: learning may carry a state on to the next one
        advantages = learner.advantages(sampled)
        measured = measure(sampled, advantages, point.focal_gamma)
        stored_groups: list[dict[str, Any]] = []
        if train.stored_groups and step in saved:
            stored_groups = stored_rows(
                step,
                batch,
                advantages if batch is sampled else learner.advantages(batch),
                focal_gamma=point.focal_gamma,
                n_groups=train.stored_groups,
                tokenizer=tokenizer,
            )
        sampled_at = time.perf_counter()
        learned = learner.learn(batch)
        ended = time.perf_counter()
        row = {
            "step": step,
            "seconds": ended - begun,
            "seconds_generation": sampled_at - begun,
            "seconds_training": ended - sampled_at,
            "gpus": int(device != "cpu"),
            **measured,
            **learned,
            "reward": float(batch.rewards.mean()),
            "rollouts": session.counters.rollouts,
            "tokens": session.counters.tokens,
            "optimizer_steps": session.counters.optimizer_steps,
        }
        if train.eval_every and step % train.eval_every == 0:
            row["eval_pass_at_1"], row["eval_pass_at_n"] = learner.evaluate(step)
            row["seconds_evaluation"] = time.perf_counter() - ended
        session.metrics.append(row | {"time_ms": int(time.time() * 1000)})
        if stored_groups:
            session.store_rollouts(stored_groups)
        if step in saved[:-1]:
            save_checkpoint(run.paths.checkpoint(step), policy, tokenizer)
        run.progress(step=step, of=train.steps, **step_numbers(session.metrics))
    learner.check(train.steps)
    weights = save_checkpoint(run.paths.checkpoint(train.steps), policy, tokenizer)
    session.write_metrics()
    session.discard_state()
    run.register_outputs(run.paths.metrics, run.paths.rollouts, run.paths.checkpoints)
    return TrainingFacts(
        step=train.steps,
        weights_sha256=weights,
        resumed_at=session.resumed_at,
        rollouts=session.counters.rollouts,
        optimizer_steps=session.counters.optimizer_steps,
        engine=engine_facts(device),
    )
