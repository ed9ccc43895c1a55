"""The paper's categorical simulation (F-GRPO, arXiv 2602.06717, figure 2 and appendix J).

A policy over 128,000 actions is trained with groups of N draws; for every N the mass of all right
actions rises, but how much of their first mass is retained falls for groups of middle size.

Here are what is simulated (Settings, Run), the policy, its two updates, one run (simulate), and the
stored results of many. `fgrpo-bench simulation` makes the paper's grid and its report.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.files.whole import readable_json, write_text
from fgrpo_bench.objectives.focal import focal_weight
from fgrpo_bench.specs.base import MOST
from fgrpo_bench.specs.fingerprint import canonical_json, differences
from fgrpo_bench.stages.digests import checksum_mismatch, with_checksum

Rule = Literal["adam", "literal"]
"""adam: Adam on the ratio surrogate (1/N) sum_j r_j p_j / sg(p_j). literal: plain gradient ascent
on (1/N) sum_j r_j p_j."""
RULES: tuple[Rule, ...] = get_args(Rule)
FOLDER = "simulation"
"""Of the results, in the folder of all runs."""
RECIPE_VERSION = 1
"""Raised when the same settings come to mean another simulation."""
GROUP_SIZES = tuple(2**power for power in range(1, 18))
GAMMAS, SEEDS = (0.0, 1.0), (0, 1, 2, 3)
"""The paper's grid, with GROUP_SIZES."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The policy and its training, the same in all runs; values are the paper's."""

    n_actions: int = 128_000
    n_correct: int = 10_000
    """Right actions, with reward +1; all others have -1."""
    anchor_logit: float = 5.0
    """First logit of one right action."""
    correct_logit: float = 3.0
    """Of the other right actions."""
    wrong_logit: float = 0.0
    steps: int = 1_000
    learning_rate: float = 1e-2
    beta1: float = 0.9
    """Of Adam, likewise beta2 and epsilon: the values that torch gives."""
    beta2: float = 0.999
    epsilon: float = 1e-8
    every: int = 10
    """Steps between measurements."""

    def __post_init__(self) -> None:
        if not 2 <= self.n_correct < self.n_actions:
            raise ValueError(
                f"n_correct={self.n_correct}, n_actions={self.n_actions}: at least 2 actions must "
                "be right and one wrong"
            )
        if self.steps < 1 or self.every < 1 or self.steps % self.every:
            raise ValueError(
                f"steps={self.steps}, every={self.every}: both at least 1, and steps a multiple of "
                "every"
            )


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: a cell with a seed."""

    rule: Rule
    group_size: int
    focal_gamma: float
    seed: int

    def __post_init__(self) -> None:
        in_bounds = 2 <= self.group_size <= MOST and 0 <= self.seed < 2**32
        if not in_bounds or not 0 <= self.focal_gamma <= 100:  # nan is not either
            raise ValueError(
                f"group_size={self.group_size}, focal_gamma={self.focal_gamma}, seed={self.seed}: "
                f"a group has 2 to {MOST:,} draws, gamma is from 0 to 100 and a seed from 0 to "
                f"{2**32 - 1}"
            )
        object.__setattr__(self, "focal_gamma", self.focal_gamma + 0.0)  # -0.0 is 0.0

    @property
    def name(self) -> str:
        """e.g. `adam-n1024-g1-s0`; with every digit of gamma, so that no two runs share a name."""
        gamma = str(self.focal_gamma).removesuffix(".0")
        return f"{self.rule}-n{self.group_size}-g{gamma}-s{self.seed}"

    def cost(self, settings: Settings) -> float:
        """Processor seconds, measured once on a common server processor; sets the order."""
        dense = 1e-3 if self.rule == "literal" else 1e-4
        return settings.steps * (dense + 4e-8 * self.group_size)


def planned_runs(
    rule: Rule | None,
    *,
    group_sizes: Sequence[int] = GROUP_SIZES,
    gammas: Sequence[float] = GAMMAS,
    seeds: Sequence[int] = SEEDS,
) -> tuple[Run, ...]:
    """Every run of a rule. None is Adam's, and the literal rule's at the first gamma and seed,
    which show that it moves nothing."""
    if rule is None:
        literally = planned_runs(
            "literal", group_sizes=group_sizes, gammas=gammas[:1], seeds=seeds[:1]
        )
        runs = planned_runs("adam", group_sizes=group_sizes, gammas=gammas, seeds=seeds)
        return (*runs, *literally)
    cells = product(dict.fromkeys(group_sizes), dict.fromkeys(gammas), dict.fromkeys(seeds))
    return tuple(
        Run(rule=rule, group_size=size, focal_gamma=gamma, seed=seed) for size, gamma, seed in cells
    )


Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Masses = list[tuple[int, float, float]]
"""Of one run, e.g. (1000, 0.9965, 0.0330) at the end: updates so far, from 0; total mass of the
right actions; and what is retained, as of Policy.masses."""

BIN = 0.25
"""Width of a bin of logits; narrower bins reject less, wider ones are fewer."""
DRIFT = 0.25
"""Rise of any logit after which the bins are made anew."""


class CategoricalPolicy:
    """A categorical policy over many actions, drawn from and updated in time of what has moved:
    softmax(logits), with right actions before wrong ones.

    Actions of one kind (right or wrong) that were never drawn are alike: same logit, no history. So
    they need no names: whichever is drawn first takes the next free place, and the actions that
    have a history stand in one slice around the border between right and wrong,

        right, untouched | right, moved | wrong, moved | wrong, untouched

    This changes nothing in distribution. Draws are exact: by rejection from bins of nearly equal
    weight, so that no sum over all actions is needed.
    """

    def __init__(self, settings: Settings, rng: np.random.Generator) -> None:
        n_right, n_actions = settings.n_correct, settings.n_actions
        self.border = n_right
        """Places below it are right actions."""
        self.logits = np.full(n_actions, settings.wrong_logit)
        self.logits[:n_right] = settings.correct_logit
        self.logits[n_right - 1] = settings.anchor_logit
        self.first, self.last = n_right - 1, n_right
        """The slice [first, last) has moved or may differ from its kind."""
        self._rng = rng
        self._start = np.exp(self.logits[:n_right])
        self._start /= np.exp(self.logits).sum()
        self._make_bins()

    def masses(self) -> tuple[float, float]:
        """Total mass of the right actions, and the share of their first masses that is still there:
        Q_pos and M_ret = 1 - sum max(0, pi_0 - pi_t) / sum pi_0 over right actions (app. J)."""
        weights = np.exp(self.logits)
        right = weights[: self.border] / weights.sum()
        lost = np.maximum(self._start - right, 0.0).sum()
        return float(right.sum()), float(1 - lost / self._start.sum())

    def draw(self, n: int) -> Indices:
        """n independent draws: indices of actions [n], in no particular order."""
        actions = self._accepted(n)
        while len(actions) < n:
            actions = np.concatenate([actions, self._accepted(n - len(actions))])
        if len(actions) > n:  # all are alike, so any n of them will do, chosen without looking
            surplus = self._rng.choice(len(actions), len(actions) - n, replace=False, shuffle=False)
            actions = np.delete(actions, surplus)
        return actions

    def settle(self, draws: Indices) -> tuple[Indices, Indices]:
        """The distinct places that draws mean, each untouched one moved to the next free place of
        its kind, and how often each was drawn."""
        if len(draws) * 4 > len(self.logits):
            tally = np.bincount(draws, minlength=len(self.logits))
            places = np.flatnonzero(tally)
            counts = tally[places]
        else:
            places, counts = np.unique(draws, return_counts=True)
        low, high = places.searchsorted([self.first, self.last])
        if low:
            places[:low] = np.arange(self.first - low, self.first)
            self.first -= int(low)
        if more := len(places) - int(high):
            places[high:] = np.arange(self.last, self.last + more)
            self.last += more
        return places, counts

    def touch_all(self) -> None:
        """From now on every action has a history."""
        self.first, self.last = 0, len(self.logits)
        self._make_bins()

    def rose(self, most: float) -> None:
        """Tell that no logit has risen by more than `most` since the last call."""
        self._drift += max(most, 0.0)
        if self._drift > DRIFT:
            self._make_bins()

    def _make_bins(self) -> None:
        """Bins of the moved actions by logit, and one each for the untouched of a kind."""
        bin_logits = self.logits[self.first : self.last]
        steps = np.floor((bin_logits - bin_logits.min()) / BIN).astype(np.int16)
        self._order = np.argsort(steps, kind="stable") + self.first
        sizes = np.bincount(steps)
        kept = np.flatnonzero(sizes)
        ends = sizes.cumsum()[kept]
        tops = np.maximum.reduceat(self.logits[self._order], ends - sizes[kept])
        untouched = [(0, self.first), (self.last, len(self.logits))]
        untouched = [(low, high) for low, high in untouched if high > low]
        self._order = np.concatenate([self._order, *(np.arange(*span) for span in untouched)])
        more = np.array([high - low for low, high in untouched], dtype=np.int64)
        self._sizes = np.concatenate([sizes[kept], more])
        self._starts = self._sizes.cumsum() - self._sizes
        self._tops = np.concatenate([tops, [self.logits[low] for low, _ in untouched]])
        bounds = self._sizes * np.exp(self._tops - self._tops.max())
        self._shares = bounds / bounds.sum()
        self._drift = 0.0
        weights = np.exp(self.logits - self._tops.max()).sum()
        self._acceptance = float(weights / bounds.sum())

    def _accepted(self, n: int) -> Indices:
        """About n draws: a bin by its bound, any action of it, kept with weight / bound."""
        rng, drift = self._rng, self._drift
        expected = n * np.exp(drift) / self._acceptance
        proposed = int(expected + 3 * np.sqrt(expected) + 4)
        tally = rng.multinomial(proposed, self._shares)
        within = (rng.random(proposed) * np.repeat(self._sizes, tally)).astype(np.int64)
        places = self._order[within + np.repeat(self._starts, tally)]
        height = self.logits[places]
        height -= np.repeat(self._tops + drift, tally)
        kept: Indices = places[rng.random(proposed) < np.exp(height)]
        return kept


Update = Callable[[Indices, Floats], None]


def simulate(settings: Settings, run: Run) -> Masses:
    """The masses of a run, a row every `settings.every` steps and one before the first.

    The same settings and run give the same bytes on the same NumPy. Runs of one N and seed that
    differ in gamma begin with the same draws.
    """
    policy = CategoricalPolicy(settings, np.random.default_rng([run.seed, run.group_size]))
    update: Update = Adam(policy, settings) if run.rule == "adam" else Literally(policy, settings)
    rows = [(0, *policy.masses())]
    for step in range(1, settings.steps + 1):
        places, counts = policy.settle(policy.draw(run.group_size))
        update(places, group_rewards(places < policy.border, counts, run))
        if step % settings.every == 0:
            rows.append((step, *policy.masses()))
    return rows


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

    def __init__(self, policy: CategoricalPolicy, settings: Settings) -> None:
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

    def __init__(self, policy: CategoricalPolicy, settings: Settings) -> None:
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


def run_path(folder: Path, run: Run) -> Path:
    """Where a run's result is stored."""
    return folder / "masses" / f"{run.name}.json"


def stored(folder: Path, settings: Settings) -> dict[Run, Masses]:
    """Every result below a folder, by rule, N, gamma and seed.

    ValueError for a file that was changed since it was written or is of other settings.
    """
    masses = {}
    for path in folder.glob("masses/*.json"):
        record = readable_json(path)
        if record is None or checksum_mismatch(record):
            raise ValueError(
                f"{path} was changed after it was written: delete it, and the same command makes "
                "that run again"
            )
        changes = [
            f"  {field}: {old!r} there, {new!r} asked for"
            for field, old, new in differences(record["recipe"], _recipe(settings))
        ]
        if changes:
            raise ValueError(
                "\n".join([f"{path} is of other settings:", *changes])
                + "\nkeep both with another --folder"
            )
        masses[Run(**record["run"])] = [(step, *both) for step, *both in record["masses"]]
    order = sorted(
        masses, key=lambda run: (RULES.index(run.rule), run.group_size, run.focal_gamma, run.seed)
    )
    return {run: masses[run] for run in order}


def _recipe(settings: Settings) -> dict[str, Any]:
    """What defines the result of a run, but for the run itself."""
    return {"version": RECIPE_VERSION, "settings": asdict(settings)}


def make(
    folder: Path,
    settings: Settings,
    runs: Iterable[Run],
    *,
    workers: int,
    tell: Callable[[], object] = lambda: None,
) -> None:
    """Simulate runs in `workers` processes, the longest first, and store them; tell() after each.

    Each file is written whole, so that a kill or Ctrl-C costs the runs in flight and nothing else;
    two calls cannot spoil one, since it is a function of its settings. Raises RuntimeError where a
    process died, and OSError where a file cannot be written, once what is in flight is finished.
    """
    longest_first = sorted(runs, key=lambda run: -run.cost(settings))
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent)
    try:
        futures = [pool.submit(_make_run, folder, settings, run) for run in longest_first]
        for future in as_completed(futures):
            future.result()
            tell()
    except (BrokenProcessPool, MemoryError) as error:
        raise RuntimeError(
            "a process was killed amid its run, or had too little memory: take fewer --workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _make_run(folder: Path, settings: Settings, run: Run) -> None:
    record = {
        "recipe": _recipe(settings),
        "run": asdict(run),
        "masses": simulate(settings, run),
    }
    write_text(run_path(folder, run), canonical_json(with_checksum(record)) + "\n")


def _end_with_parent() -> None:
    """First in a worker: it ends with its parent, however that ends, and by Ctrl-C without a
    traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=wait, daemon=True).start()
