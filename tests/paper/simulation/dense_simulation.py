"""The simulation as one would first write it: every action, every step, no shortcut."""

from __future__ import annotations

import numpy as np

from fgrpo_bench.paper.simulation import Run, Settings


class Dense:
    """Adam or the literal rule over all actions, draws by Generator.choice."""

    def __init__(self, settings: Settings, run: Run) -> None:
        self.settings, self.run, self.steps = settings, run, 0
        self.logits = np.full(settings.n_actions, settings.wrong_logit)
        self.logits[: settings.n_correct] = settings.correct_logit
        self.logits[settings.n_correct - 1] = settings.anchor_logit
        self.rewards = np.where(np.arange(settings.n_actions) < settings.n_correct, 1.0, -1.0)
        self.mean, self.square = np.zeros((2, settings.n_actions))
        self.rng = np.random.default_rng(run.seed)
        self.start = self.policy()

    def policy(self) -> np.ndarray:
        weights = np.exp(self.logits - self.logits.max())
        return weights / weights.sum()

    def draw(self) -> np.ndarray:
        p = self.policy()
        return self.rng.choice(len(p), size=self.run.group_size, p=p)

    def update(self, drawn: np.ndarray) -> None:
        s, p = self.settings, self.policy()
        rewards = self.rewards[drawn]
        success_rate = (rewards > 0).mean()
        centred = (rewards - rewards.mean()) * (1 - success_rate) ** self.run.focal_gamma
        summed = np.bincount(drawn, centred, minlength=len(p)) / len(drawn)
        if self.run.rule == "literal":
            weighted = p * summed
            self.logits += s.learning_rate * (weighted - p * weighted.sum())
            return
        gradient = summed - p * summed.sum()  # of the ratio surrogate: the score function
        self.steps += 1
        self.mean = s.beta1 * self.mean + (1 - s.beta1) * gradient
        self.square = s.beta2 * self.square + (1 - s.beta2) * gradient**2
        mean = self.mean / (1 - s.beta1**self.steps)
        square = self.square / (1 - s.beta2**self.steps)
        self.logits += s.learning_rate * mean / (np.sqrt(square) + s.epsilon)

    def masses(self) -> tuple[float, float]:
        right = slice(0, self.settings.n_correct)
        p, before = self.policy()[right], self.start[right]
        return float(p.sum()), float(1 - np.maximum(before - p, 0).sum() / before.sum())
