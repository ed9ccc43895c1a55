"""Writes vectors/ from fgrpo_bench.objectives: `python -m fgrpo_bench.conformance.make`.

GRPO's are without the epsilon beside its deviation, so that they can be exact. An advantage that
comes as a float is written as a fraction too where it is one of small numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any

import numpy as np

from fgrpo_bench.conformance.vectors import FOLDER
from fgrpo_bench.objectives import by_rewards
from fgrpo_bench.objectives.advantages import (
    ADVANTAGES,
    reads_rewards_only,
    restricted,
    right_wrong,
)
from fgrpo_bench.paper.theory import expected_weight
from fgrpo_bench.paper.theory.weights import Method

RATES = ("1/100", "1/20", "1/10", "1/4", "1/2", "3/4", "9/10", "99/100")
"""Success rates of the expected weights."""
SIZES = (2, 3, 4, 5, 6, 8, 16, 32)
"""Group sizes."""
WHOLE = 8
"""Up to this group size every number of right rollouts is there, beyond it three."""
GRADED = (
    "0 1/2",
    "3/10 1/5",
    "1 -1",
    "0 1/10 1",
    "1/2 513/1024 1/2",
    "0 1/10 1/2 1",
    "1/4 1/4 1/2 3/4",
    "2 5 -3 10",
    "0 1/10 1/10 1 0 1",
    "3/8 1/7 5/6 2/3 1/3 1/9",
    "1/10 1 0 1/10 7/10 1/10 0 1/2",
    *(" ".join([value] * n) for n in (4, 6) for value in ("1/10", "-1/3")),
    *(" ".join([value] * 8) for value in ("19/20", "1/10", "7/3")),
)
"""Rewards other than 0 and 1, the last ones groups that are all alike."""
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "pkpo": (
        *({"k": k, "baseline": "sloo_minus_one"} for k in (2, 4)),
        *({"k": k, "baseline": "sloo"} for k in (1, 3)),
        {"k": 2, "baseline": "none"},
    ),
    "passk": ({"k": 1}, {"k": 2}, {"k": 4}),
    "max_at_k": ({"k": 1}, {"k": 2}, {"k": 4}),
    "mmpo": ({"k": 2}, {"k": 4}),
    "rs_grpo": ({"beta": 0.5}, {"beta": 2.0}),
    "w_reinforce": ({"weight": 0.1}, {"weight": 0.5}),
}
FORMULAS = {
    "grpo": ("(R - m) / std", "arXiv 2402.03300, eq. 3"),
    "dr_grpo": ("R - m", "arXiv 2503.20783"),
    "rloo": ("N / (N - 1) (R - m)", "arXiv 2402.14740"),
    "maxrl": ("right N / c - 1, wrong -1", "arXiv 2602.02710, as published"),
    "maxrl_coded": ("(R - m) / m, 0 where all R are 0", "arXiv 2602.02710, as its authors code it"),
    "pkpo": (
        "k E[max S, i in S], less k times the largest of k - 1 others (sloo_minus_one, k > 1) or "
        "N k / (N - 1) times that of k others (sloo)",
        "arXiv 2505.15201, eq. 19, 29 and 33",
    ),
    "passk": (
        "with P = 1 - C(N - c, k) / C(N, k) and s = sqrt(P (1 - P)): right (1 - P) / s, wrong "
        "(1 - P - C(N - c - 1, k - 1) / C(N - 1, k - 1)) / s, 0 where s is",
        "arXiv 2508.10751, analytic form",
    ),
    "psr": ("right 1, wrong 0", "arXiv 2506.01347"),
    "nsr": ("right 0, wrong -1", "arXiv 2506.01347"),
    "w_reinforce": ("right weight, wrong -1", "arXiv 2506.01347"),
    "rs_grpo": ("(e^(beta R) / mean e^(beta R) - 1) / beta", "arXiv 2509.24261"),
    "tailrl": (
        "w - mean w, w_(i) = N sum_{j<=i} (r_(j) - r_(j-1)) / (N - j + 1), rewards sorted",
        "arXiv 2609.02987",
    ),
    "max_at_k": ("E[max S, i in S] - E[max S, i not in S], subsets S of k", "arXiv 2606.06096"),
    "mmpo": ("sum over j = 1 .. k of pkpo's, for j = 1 of rloo's", "arXiv 2608.02149, unbiased"),
}
"""By advantage: the equation and where it is from. R: rewards, m: their mean over the group, c of
N are right."""
DIVISORS = {
    "grpo": "deviation of the rewards over the group, unbiased (N - 1); no epsilon here",
    "maxrl_coded": "mean of the rewards over the group; no epsilon here",
}


def main() -> int:
    """Write every file."""
    for advantage in names():
        text = vectors_json(advantage)
        (FOLDER / f"{advantage}.json").write_text(text, encoding="utf-8")
        print(f"{advantage}: {len(text)} bytes")
    return 0


def names() -> list[str]:
    """The advantages that are functions of the rewards alone."""
    return [name for name in ADVANTAGES if reads_rewards_only(name)]


def vectors_json(advantage: str) -> str:
    """The text of its file."""
    return _text(_content(advantage))


def _content(advantage: str) -> dict[str, Any]:
    equation, paper = FORMULAS[advantage]
    rule = restricted(advantage)
    takes_graded = rule is None or isinstance(rule, by_rewards.OfPositiveMean)
    return {
        "advantage": advantage,
        "equation": equation,
        "paper": paper,
        "rewards": "any numbers" if rule is None else rule.rule,
        "convention": {
            "reduction": "an advantage multiplies grad log pi in a mean over the N rollouts; where "
            "a paper sums over rollouts it is N times the paper's",
            "divisor": DIVISORS.get(advantage),
            "order": "an advantage goes with its rollout: the groups stand for all of their orders",
        },
        "success_rates": [float(Fraction(rate)) for rate in RATES],
        "cases": [
            _case(advantage, size, parameters, takes_graded)
            for parameters in SETTINGS.get(advantage, ({},))
            for size in SIZES
            if Method(advantage=advantage, parameters=parameters).is_defined(size)
        ],
    }


def _case(
    advantage: str, size: int, parameters: Mapping[str, Any], takes_graded: bool
) -> dict[str, Any]:
    groups = [*_binary(size), *(_graded(advantage, size) if takes_graded else ())]
    rates = [Fraction(rate) for rate in RATES]
    weights = expected_weight(advantage, group_size=size, success_rate=rates, **parameters)
    return {
        "parameters": dict(parameters),
        "group_size": size,
        "expected_weight": [*map(_float, weights)],
        "groups": [_group(advantage, rewards, parameters) for rewards in groups],
    }


def _binary(size: int) -> Iterator[list[Fraction]]:
    few = (1, size // 4, size - 1)
    for n_correct in range(size + 1) if size <= WHOLE else few:
        yield [Fraction(i < n_correct) for i in range(size)]


def _graded(advantage: str, size: int) -> Iterator[list[Fraction]]:
    rule = restricted(advantage)
    for text in GRADED:
        rewards = [Fraction(word) for word in text.split()]
        allowed = rule is None or rule.allowed(np.array([rewards], dtype=float)).all()
        if len(rewards) == size and allowed:
            yield rewards


def _group(
    advantage: str, rewards: Sequence[Fraction], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    values = _advantages(advantage, rewards, parameters)
    exact = [_exact(value) for value in values]
    return {
        "rewards": [str(reward) for reward in rewards],
        "exact": [None if value is None else str(value) for value in exact],
        "float": [_float(value) for value in values],
    }


def _advantages(
    advantage: str, rewards: Sequence[Fraction], parameters: Mapping[str, Any]
) -> list[Any]:
    """Of one group, fractions where the functions give them."""
    group = np.array([rewards], dtype=object)
    if advantage == "grpo":
        above = by_rewards.dr_grpo(group)[0].tolist()
        variance = Fraction(sum(value**2 for value in above)) / (len(above) - 1)
        return [value / _root(variance) if variance else Fraction(0) for value in above]
    is_binary = set(rewards) <= {0, 1}
    if is_binary and advantage != "rs_grpo":
        pair = right_wrong(advantage, len(rewards), **parameters)[int(sum(rewards))]
        return [pair[0] if reward else pair[1] for reward in rewards]
    if advantage == "rs_grpo":
        group = group.astype(float)
    entry = ADVANTAGES[advantage]
    if isinstance(entry, by_rewards.ByCountOrOrder):
        function = entry.by_order
    else:
        function = entry.function if isinstance(entry, by_rewards.Restricted) else entry
    return list(function(group, **parameters)[0].tolist())


def _root(value: Fraction) -> Fraction | float:
    """The square root, exact where it is a fraction."""
    top, bottom = isqrt(value.numerator), isqrt(value.denominator)
    if (top**2, bottom**2) == (value.numerator, value.denominator):
        return Fraction(top, bottom)
    return sqrt(value)


def _exact(value: Any) -> Fraction | None:
    """A float as the fraction that it is within its rounding; None where it is none of small
    numbers. (A second implementation in rationals, in the tests, checks every one.)"""
    if not isinstance(value, float):
        return Fraction(value)
    near = Fraction(value).limit_denominator(10**5)
    return near if abs(value - near) <= 4e-16 * abs(value) else None


def _float(value: Any) -> float:
    """To twelve digits: the last ones of a power of e depend on the machine."""
    return float(f"{float(value):.12g}") + 0.0


def _text(content: Mapping[str, Any]) -> str:
    """JSON with a line a group."""
    head = {name: value for name, value in content.items() if name != "cases"}
    lines = [f"{json.dumps(head, indent=1)[:-2]},", ' "cases": [']
    for i, case in enumerate(content["cases"]):
        rest = {name: value for name, value in case.items() if name != "groups"}
        groups = ",\n".join(json.dumps(group, separators=(",", ":")) for group in case["groups"])
        comma = "," if i + 1 < len(content["cases"]) else ""
        lines.append(f'  {json.dumps(rest)[:-1]}, "groups": [\n{groups}\n  ]}}{comma}')
    return "\n".join([*lines, " ]", "}", ""])


if __name__ == "__main__":
    raise SystemExit(main())
