"""How much each advantage weighs prompts of each success rate, before anything is trained.

A method is written `advantage[:parameter=value,...][@focal_gamma]`, e.g. `grpo@0.5`, `pkpo:k=4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.documents.table import Table
from fgrpo_bench.objectives.advantages import check_parameters, reads_log_probs
from fgrpo_bench.theory import expected_weight

RATES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""Success rates of the table."""
METHODS = (
    *("rloo", "grpo", "grpo@0.5", "grpo@1", "maxrl", "maxrl@1", "maxrl_coded", "pkpo:k=4"),
    *("passk:k=4", "rs_grpo:beta=2", "psr", "nsr", "w_reinforce:weight=0.1"),
)
"""What is shown where no method is named: every advantage that is a function of rewards alone."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """An advantage with its parameters and a focal weight."""

    advantage: str
    focal_gamma: float = 0.0
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Method:
        """ValueError for what is not written as the module says."""
        whole, _, gamma = text.partition("@")
        name, _, rest = whole.partition(":")
        try:
            parameters = dict(_parameter(each) for each in rest.split(",") if each)
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

        words = [f"{name}={value}" for name, value in self.parameters.items()]
        if self.focal_gamma:
            words.append(f"gamma={self.focal_gamma:g}")
        return " ".join([method_name(self.advantage, self.focal_gamma), *words])

    def weights(self, group_size: int, rates: Sequence[float]) -> NDArray[np.float64]:
        """Expected weight on grad p at these success rates, [rates]; ValueError where it is not
        defined."""
        check_parameters(self.advantage, group_size, self.parameters)
        if self.focal_gamma < 0 or reads_log_probs(self.advantage):
            raise ValueError(
                f"method {self.label}: the weight is defined for a gamma of at least 0 and for "
                "advantages that are functions of the rewards alone"
            )
        return np.array(
            [
                expected_weight(
                    self.advantage,
                    group_size=group_size,
                    success_rate=rate,
                    focal_gamma=self.focal_gamma,
                    **self.parameters,
                )
                for rate in rates
            ]
        )


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
    """Weights relative to those at a success rate of one half: a constant factor is taken out by
    the optimizer, or by the learning rate."""
    rows = []
    for method in methods:
        weights = method.weights(group_size, [*RATES, 0.5])
        relative = weights[:-1] / weights[-1] if weights[-1] else weights[:-1]
        rows.append((method.label, *(f"{value:.2f}" for value in relative)))
    return Table(
        title=f"Expected weight on the gradient of the success rate p, N = {group_size}, relative "
        "to p = 0.5",
        header=("method", *(f"p={rate:g}" for rate in RATES)),
        rows=tuple(rows),
    )


def draw(methods: Sequence[Method], group_sizes: Sequence[int], path: Path) -> Path:
    """The same over p as a figure, a panel a group size; returns the file for a person."""
    from matplotlib.figure import Figure

    from fgrpo_bench.documents.colors import ALGORITHMS
    from fgrpo_bench.documents.style import WIDTH, save

    rates = np.unique(np.concatenate([np.geomspace(0.002, 0.5, 30), np.linspace(0.5, 0.99, 15)]))

    def figure() -> Figure:
        made = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        panels = made.subplots(1, len(group_sizes), sharey=True, squeeze=False)[0]
        for axes, group_size in zip(panels, group_sizes, strict=True):
            for i, method in enumerate(methods):
                weights = method.weights(group_size, [*rates, 0.5])
                axes.plot(
                    rates,
                    weights[:-1] / weights[-1],
                    color=ALGORITHMS[i % len(ALGORITHMS)],
                    ls=("-", "--", ":")[i // len(ALGORITHMS) % 3],
                    label=method.label,
                )
            axes.set_xscale("log")
            axes.set_yscale("log", base=2)
            axes.set_ylim(2**-4, 2**5)
            axes.set_xlabel("success rate p")
            axes.set_title(f"N = {group_size}")
        panels[0].set_ylabel("weight, relative to p = 0.5")
        handles, names = panels[0].get_legend_handles_labels()
        made.legend(handles, names, loc="outside lower center", ncols=3)
        return made

    return save(figure, path)[0]
