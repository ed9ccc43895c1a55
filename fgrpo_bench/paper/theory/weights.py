"""How much each advantage weighs prompts of each success rate, before anything is trained.

A method is written `advantage[:parameter=value,...][@focal_gamma]`, e.g. `grpo@0.5`, `pkpo:k=4`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.core import registry
from fgrpo_bench.documents.colors import FOCAL, LINES, PLAIN, shade
from fgrpo_bench.documents.table import Table
from fgrpo_bench.objectives.advantages import check_parameters, reads_rewards_only
from fgrpo_bench.objectives.by_rewards import EPSILON
from fgrpo_bench.paper.theory import epsilon_effect, expected_weight

RATES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""Success rates of the table."""
CURVE = tuple(
    sorted(
        {
            *RATES,
            *(round(2 * 10 ** (i / 12 - 3), 6) for i in range(29)),  # 0.002 to 0.43
            *(round(i / 100, 2) for i in (*range(50, 100, 5), 97)),
        }
    )
)
"""Those of the lines."""
SIZES = (2, 4, 8, 16, 32, 64, 128)
"""Group sizes that one method is drawn over."""
METHODS = (
    *("grpo", "grpo@0.5", "grpo@1", "dr_grpo", "rloo", "maxrl", "maxrl@1", "maxrl_coded"),
    *("pkpo:k=4", "passk:k=4", "psr", "nsr", "w_reinforce:weight=0.1", "rs_grpo:beta=2"),
    *("tailrl", "max_at_k:k=4", "mmpo:k=4"),
)
"""What is shown where no method is named: every advantage that is a function of rewards alone."""
STYLES = ("-", "--", ":", "-.")
"""Of the lines of one colour, in turn."""
OVER = "grpo@1"
"""The one that is drawn over group sizes where none is named."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """An advantage with its parameters and a focal weight."""

    advantage: str
    focal_gamma: float = 0.0
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Method:
        """ValueError for what is not written as the module says."""
        advantage, _, gamma = text.partition("@")
        name, _, options = advantage.partition(":")
        try:
            parameters = dict(_parameter(option) for option in options.split(",") if option)
            return cls(advantage=name, focal_gamma=float(gamma or 0), parameters=parameters)
        except ValueError as error:
            raise ValueError(
                f"method {text!r}: write advantage[:parameter=value,...][@focal_gamma], e.g. "
                "grpo@0.5 or pkpo:k=4"
            ) from error

    @property
    def label(self) -> str:
        """e.g. `F-GRPO gamma=0.5`, `PKPO k=4`."""
        from fgrpo_bench.specs import method_name

        parts = [f"{name}={value}" for name, value in self.parameters.items()]
        if self.focal_gamma:
            parts.append(f"gamma={self.focal_gamma:g}")
        return " ".join([method_name(self.advantage, self.focal_gamma), *parts])

    def weights(self, group_size: int, rates: Sequence[float]) -> NDArray[np.float64]:
        """Expected weight on grad p at these success rates, [rates]; ValueError where it is not
        defined."""
        check_parameters(self.advantage, group_size, self.parameters)
        if self.focal_gamma < 0 or not reads_rewards_only(self.advantage):
            raise ValueError(
                f"method {self.label}: the weight is defined for a gamma of at least 0 and for "
                "advantages that are functions of the rewards alone"
            )
        weights: NDArray[np.float64] = expected_weight(
            self.advantage,
            group_size=group_size,
            success_rate=rates,
            focal_gamma=self.focal_gamma,
            **self.parameters,
        )
        return weights

    def relative(self, group_size: int, rates: Sequence[float]) -> NDArray[np.float64]:
        """The same relative to the weight at a success rate of one half: a constant factor is taken
        out by the optimizer, or by the learning rate."""
        weights = self.weights(group_size, [*rates, 0.5])
        relative: NDArray[np.float64] = weights[:-1] / weights[-1]
        return relative

    def is_defined(self, group_size: int) -> bool:
        """Whether its parameters allow that group size."""
        try:
            check_parameters(self.advantage, group_size, self.parameters)
        except ValueError:
            return False
        return True


def _parameter(text: str) -> tuple[str, int | float | str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(text)
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def weight_table(methods: Sequence[Method], group_size: int) -> Table:
    """Relative weights at RATES, a row a method."""
    return Table(
        title=f"Expected weight on the gradient of the success rate p, N = {group_size}, relative "
        "to p = 0.5",
        header=("method", *(f"p={rate:g}" for rate in RATES)),
        rows=tuple(
            (method.label, *(f"{value:.2f}" for value in method.relative(group_size, RATES)))
            for method in methods
        ),
        notes=(epsilon_note(group_size),) if any(m.advantage == "grpo" for m in methods) else (),
    )


def epsilon_note(group_size: int) -> str:
    """What is left out of GRPO's weights."""
    return (
        f"The {EPSILON:g} beside the standard deviation in GRPO's is left out: it takes at most "
        f"about {100 * epsilon_effect(group_size):.2g}% off a weight."
    )


@dataclass(frozen=True, kw_only=True)
class WeightLine:
    """Relative weights at CURVE, of one method or of several that weigh alike."""

    labels: tuple[str, ...]
    values: NDArray[np.float64] = field(repr=False)
    color: str
    style: str = STYLES[0]
    """Of matplotlib."""


def lines_at(methods: Sequence[Method], group_size: int) -> list[WeightLine]:
    """Methods at a group size that all of them are defined for; the colour is the advantage's."""
    reward_only = [name for name in registry.table("advantages") if reads_rewards_only(name)]
    lines: list[WeightLine] = []
    for method in methods:
        values, rank = method.relative(group_size, CURVE), reward_only.index(method.advantage)
        line = WeightLine(
            labels=(method.label,),
            values=values,
            color=LINES[rank % len(LINES)],
        )
        alike = [i for i, line in enumerate(lines) if np.allclose(line.values, values, 1e-9, 0)]
        if alike:
            former = lines[alike[0]]
            lines[alike[0]] = replace(former, labels=(*former.labels, method.label))
        else:
            lines.append(line)
    return _with_distinct_styles(lines)


def lines_over(method: Method) -> list[WeightLine]:
    """One method at each of SIZES that it is defined for."""
    colors = FOCAL if method.focal_gamma else PLAIN
    return _with_distinct_styles(
        [
            WeightLine(
                labels=(f"N = {size}",),
                values=method.relative(size, CURVE),
                color=shade(colors, rank, len(SIZES)),
            )
            for rank, size in enumerate(SIZES)
            if method.is_defined(size)
        ]
    )


def _with_distinct_styles(lines: Sequence[WeightLine]) -> list[WeightLine]:
    """Lines of one colour with a style each."""
    before = [[other.color for other in lines[:i]] for i in range(len(lines))]
    return [
        replace(line, style=STYLES[colors.count(line.color) % len(STYLES)])
        for line, colors in zip(lines, before, strict=True)
    ]


def draw(methods: Sequence[Method], group_sizes: Sequence[int], over: Method, path: Path) -> Path:
    """A panel of the methods at each group size, and one of `over` at all of SIZES; returns the
    file for a person."""
    from matplotlib.figure import Figure

    from fgrpo_bench.documents.style import PAGE, SMALL, in_math, save, wrapped

    panels = [(f"N = {size}", lines_at(methods, size)) for size in group_sizes]
    panels.append((over.label, lines_over(over)))
    highest = max(float(line.values.max()) for _, lines in panels for line in lines)

    def figure() -> Figure:
        n_rows = -(-len(panels) // 2)
        fig = Figure(figsize=(PAGE, 3.7 * n_rows), layout="constrained")
        grid = fig.subplots(n_rows, 2, sharey=True, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes, (title, lines) in zip(grid.flat, panels, strict=False):
            for line in lines:
                label = wrapped(", ".join(line.labels), PAGE / 4 - 0.4, SMALL)
                axes.plot(CURVE, line.values, color=line.color, ls=line.style, label=label)
            axes.set_xscale("log")
            axes.set_yscale("log", base=2)
            axes.set_ylim(2**-4, 2 ** math.ceil(math.log2(highest) + 0.1))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}" if y >= 1 else f"1/{1 / y:g}")
            axes.set_xlabel("success rate $p$")
            axes.set_title(in_math(title))
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
        for axes in grid[:, 0]:
            axes.set_ylabel("weight, relative to $p$ = 0.5")
        return fig

    return save(figure, path)[0]
