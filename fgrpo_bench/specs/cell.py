"""A cell of a sweep: one setting of the method, over all training seeds, and its names.

Base models, before reinforcement learning, have no cell: None stands for theirs wherever a cell
may. How cells are drawn is in fgrpo_bench.report.cell_styles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import STRICT, Gamma, GroupSize, Name, Positive, PositiveFloat

PUBLISHED_NAMES = {
    "curverl": "CurveRL",
    "dr_grpo": "Dr. GRPO",
    "grpo-entropy": "GRPO-H",
    "grpo-lowlr": "GRPO-low-LR",
    "grpo-random": "GRPO (random rewards)",
    "max_at_k": "max@K",
    "maxrl": "MaxRL",
    "maxrl_coded": "MaxRL (coded)",
    "passk": "Pass@k training",
    "tailrl": "TailRL",
    "unlikeliness": "Unlikeliness",
}
"""Of algorithms that their authors do not write in capitals; controls as in arXiv 2602.06717."""


Line = tuple[str, float, int | None]
"""Algorithm, factor of the learning rate and prompts per step, as of `Cell.line`."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Cell:
    """One setting of the method: what the points of its seeds share."""

    algorithm: Name
    """Base algorithm, an entry of conf/algorithms.yaml."""
    group_size: GroupSize
    """N: rollouts per prompt in training."""
    focal_gamma: Gamma
    """gamma >= 0; 0 is the base algorithm."""
    learning_rate_factor: PositiveFloat = 1.0
    """Times the experiment's learning rate."""
    prompts_per_step: Positive | None = None
    """Prompts of a rollout batch; None is as many as the experiment's budget says."""

    @property
    def name(self) -> str:
        """In paths, frames and addresses, e.g. `grpo-n8-g0.5`, `grpo-n8-g0.5-lr2` at another
        learning rate than the experiment's, `grpo-n8-g0-p32` with prompts of its own."""
        gamma, factor = (
            str(value).removesuffix(".0") for value in (self.focal_gamma, self.learning_rate_factor)
        )
        rate = "" if self.learning_rate_factor == 1 else f"-lr{factor}"
        prompts = "" if self.prompts_per_step is None else f"-p{self.prompts_per_step}"
        return f"{self.algorithm}-n{self.group_size}-g{gamma}{rate}{prompts}"

    @property
    def method(self) -> str:
        """Name in tables (`method_name`)."""
        return method_name(
            self.algorithm, self.focal_gamma, self.learning_rate_factor, self.prompts_per_step
        )

    @property
    def label(self) -> str:
        """e.g. `GRPO N=8`, `F-GRPO N=8 gamma=0.5`."""
        return f"{self.method} {self.short}"

    @property
    def short(self) -> str:
        """The label without the method, where it stands beside."""
        gamma = f" gamma={self.focal_gamma:g}" if self.focal_gamma else ""
        return f"N={self.group_size}{gamma}"

    @property
    def line(self) -> Line:
        """What cells share that differ in N and gamma alone: algorithm, learning rate and prompts
        of a step."""
        return self.algorithm, self.learning_rate_factor, self.prompts_per_step

    @property
    def unweighted(self) -> Cell:
        """The same without focal weight."""
        return replace(self, focal_gamma=0.0)


COLUMNS = tuple(field.name for field in fields(Cell))
"""The columns of a cell in frames, and its keys in flat JSON."""


BASE = "base"
"""What the models before reinforcement learning are called in paths, frames and addresses."""


def cell_key(cell: Cell | None) -> str:
    """The key of a cell in frames and addresses. None: the base models."""
    return BASE if cell is None else cell.name


def method_or_label(cell: Cell | None, label: str) -> str:
    """The name in tables of what is called so: of a cell its method, of the base models `Base`,
    else the label."""
    if cell is None:
        return "Base" if label == BASE else label
    return cell.method


def method_name(
    algorithm: str,
    focal_gamma: float = 0.0,
    learning_rate_factor: float = 1.0,
    prompts_per_step: int | None = None,
) -> str:
    """`GRPO`, `F-GRPO` where focal_gamma > 0, `GRPO (lr x0.5)` at half the learning rate, `GRPO (32
    prompts)` with prompts per step that are not those of the budget."""
    settings = [] if learning_rate_factor == 1 else [f"lr x{learning_rate_factor:g}"]
    settings += [] if prompts_per_step is None else [f"{prompts_per_step} prompts"]
    name = PUBLISHED_NAMES.get(algorithm, algorithm.upper().replace("_", "-"))
    return (
        ("F-" if focal_gamma > 0 else "") + name + (f" ({', '.join(settings)})" if settings else "")
    )


def to_columns(cell: Cell | None) -> dict[str, Any]:
    """By COLUMNS. Base models have null in all but the factor of the learning rate, which is 1."""
    if cell is None:
        return dict.fromkeys(COLUMNS) | {"learning_rate_factor": 1.0}
    return {name: getattr(cell, name) for name in COLUMNS}


def to_stored(cell: Cell | None) -> dict[str, Any]:
    """`to_columns` as JSON files and fingerprints have it: without a factor of 1, and without
    prompts where the budget says them."""
    columns = to_columns(cell)
    if columns["learning_rate_factor"] == 1:
        del columns["learning_rate_factor"]
    if columns["prompts_per_step"] is None:
        del columns["prompts_per_step"]
    return columns


def from_columns(row: Mapping[str, Any]) -> Cell | None:
    """The cell of a row that `to_columns` or `to_stored` made; None for base models.

    Other columns are passed over. pydantic's ValidationError, a ValueError, for a value that no
    cell can have.
    """
    if row["algorithm"] is None:
        return None
    return Cell(**{name: row[name] for name in COLUMNS if name in row})
