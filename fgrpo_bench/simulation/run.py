"""One run of the simulation: groups drawn from a categorical policy, and the policy updated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from fgrpo_bench.objectives.focal import focal_weight
from fgrpo_bench.simulation.policy import Floats, Indices, Policy
from fgrpo_bench.simulation.runs import MASSES
from fgrpo_bench.simulation.settings import Run, Settings

Update = Callable[[Indices, Floats], None]


def simulate(settings: Settings, run: Run) -> pl.DataFrame:
    """The masses of a run (MASSES), a row every `settings.every` steps and one before the first.

    The same settings and run give the same bytes on the same NumPy. Runs of one N and seed that
    differ in gamma begin with the same draws.
    """
    policy = Policy(settings, np.random.default_rng([run.seed, run.group_size]))
    update: Update = Adam(policy, settings) if run.rule == "adam" else Literally(policy, settings)
    rows = [(0, *policy.masses())]
    for step in range(1, settings.steps + 1):
        places, counts = policy.settle(policy.draw(run.group_size))
        update(places, group_rewards(places < policy.border, counts, run))
        if step % settings.every == 0:
            rows.append((step, *policy.masses()))
    return pl.DataFrame(rows, schema=MASSES, orient="row")


def group_rewards(right: np.ndarray, counts: Indices, run: Run) -> Floats:
    """Sum of g r_j / N over a group's draws of each action, r_j = R_j - mean(R), R = +1 or -1.

    right: whether each distinct action is right [actions]. counts: how often it was drawn.
    """
    success_rate = int(counts[right].sum()) / run.group_size
    weight = focal_weight(success_rate, run.focal_gamma) / run.group_size
    return np.asarray(counts * np.where(right, 2 * (1 - success_rate), -2 * success_rate) * weight)


class Adam:
    """Adam, upwards on (1/N) sum_j r_j p_j / sg(p_j), whose gradient is that of the score function.

    Its dense part is -p_k sum_j r_j = 0, so an action never drawn has no gradient and never moves,
    and only the moved slice is touched.
    """

    def __init__(self, policy: Policy, settings: Settings) -> None:
        self._policy, self._settings, self._steps = policy, settings, 0
        self._mean, self._square, self._work = np.zeros((3, len(policy.logits)))

    def __call__(self, places: Indices, rewards: Floats) -> None:
        """One step. places: distinct actions drawn; rewards: gradient at each."""
        s, policy = self._settings, self._policy
        self._steps += 1
        moved = slice(policy.first, policy.last)
        mean, square, work = self._mean[moved], self._square[moved], self._work[moved]
        mean *= s.beta1
        self._mean[places] += (1 - s.beta1) * rewards
        square *= s.beta2
        self._square[places] += (1 - s.beta2) * rewards**2
        root = (1 - s.beta2**self._steps) ** 0.5
        np.sqrt(square, out=work)
        work += s.epsilon * root  # the bias corrections are taken out of the arrays
        np.divide(mean, work, out=work)
        work *= s.learning_rate * root / (1 - s.beta1**self._steps)
        policy.logits[moved] += work
        policy.rose(float(work.max()))


class Literally:
    """Plain gradient ascent on (1/N) sum_j r_j p_j as the paper's words have it:
    dz_k = eta p_k (S_k - sum_i p_i S_i), S_k the summed rewards of action k over N."""

    def __init__(self, policy: Policy, settings: Settings) -> None:
        self._policy, self._rate = policy, settings.learning_rate
        policy.touch_all()

    def __call__(self, places: Indices, rewards: Floats) -> None:
        """One step; as for Adam."""
        logits = self._policy.logits
        p = np.exp(logits - logits.max())
        p /= p.sum()
        change = p * -float(p[places] @ rewards)
        change[places] += p[places] * rewards
        change *= self._rate
        logits += change
        self._policy.rose(float(change.max()))
