"""A question as a grid, the whole declaration, and one point of it."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.objectives.focal import low_lr_multiplier
from fgrpo_bench.specs.base import (
    STRICT,
    Axis,
    FolderName,
    Gamma,
    GroupSize,
    Name,
    Plugins,
    Positive,
    PositiveFloat,
    Seed,
)
from fgrpo_bench.specs.cell import Cell
from fgrpo_bench.specs.evaluation import EvalSpec, RareSpec
from fgrpo_bench.specs.profile import Profile
from fgrpo_bench.specs.training import AlgorithmSpec, TrainSpec


@dataclass(config=STRICT, frozen=True, kw_only=True)
class ExperimentSpec:
    """What is trained and how it is judged; part of every run's address."""

    name: FolderName
    """Name in paths, tables and MLflow."""
    train: TrainSpec
    """The training run."""
    checkpoints: Literal["last", "every"] | Annotated[tuple[Positive, ...], Field(min_length=1)]
    """Which checkpoints of a training run are evaluated: the last, every one, or those of these
    steps. What the report may select from."""
    evaluation: EvalSpec
    """The evaluation of each of them."""
    rare: RareSpec | None
    """Delta NLL of rare correct answers; null leaves it out. Changes no other stage."""

    def __post_init__(self) -> None:
        if isinstance(self.checkpoints, tuple) and len(set(self.checkpoints)) < len(
            self.checkpoints
        ):
            raise ValueError(
                f"checkpoints={list(self.checkpoints)} has a step more than once: name each once"
            )


@dataclass(config=STRICT, frozen=True, kw_only=True)
class ExtraCell:
    """A cell beside the grid's product, or one of it with seeds of its own."""

    algorithm: Name
    """An entry of conf/algorithms.yaml."""
    group_size: GroupSize
    """N: rollouts per prompt in training, at least 2 (an advantage needs a group)."""
    focal_gamma: Gamma
    """gamma >= 0; 0 is the base algorithm."""
    learning_rate_factor: PositiveFloat | None = None
    """Times the experiment's learning rate; null is each of the grid's."""
    prompts_per_step: Positive | None = None
    """Prompts of a rollout batch; null is each of the grid's."""
    seed: Annotated[Axis[Seed], Field(min_length=1)] | None = None
    """Its training seeds, e.g. more than the grid's where it is in the question; null is the
    grid's. Overrides of sweep.grid.seed are of every cell."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Exclusion:
    """Leaves out the points that match every value given; null matches anything."""

    algorithm: Name | None = None
    """Algorithm to leave out."""
    group_size: GroupSize | None = None
    """Group size to leave out."""
    focal_gamma: Gamma | None = None
    """Gamma to leave out."""
    learning_rate_factor: PositiveFloat | None = None
    """Factor of the learning rate to leave out."""
    prompts_per_step: Positive | None = None
    """Prompts per step to leave out."""
    seed: Seed | None = None
    """Training seed to leave out."""
    engine: Name | None = None
    """Training engine of the experiments that leave it out, e.g. one that does not have what the
    algorithm asks for."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Grid:
    """The axes of a sweep; their product is run, then the explicit cells."""

    algorithm: Axis[Name]
    """Base algorithms."""
    group_size: Axis[GroupSize]
    """Group sizes N, each at least 2: the answers of a group are set against each other, and one
    alone has no advantage to learn from."""
    focal_gamma: Axis[Gamma]
    """Focal exponents."""
    learning_rate_factor: Axis[PositiveFloat] = (1.0,)
    """Factors of the experiment's learning rate; 1 leaves it as it is."""
    prompts_per_step: Axis[Positive | None] = (None,)
    """Prompts of a rollout batch, e.g. [8,32]; null is as many as the experiment's budget says."""
    seed: Axis[Seed]
    """Training seeds, e.g. [11,12,13]; each has its own warm-up, shared by all cells."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class CellPair:
    """Two cells that are compared, new minus old."""

    new: Name
    """A cell of the sweep, e.g. `grpo-n8-g0.5`; `base` for the base models."""
    old: Name
    """Another one."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class FamilySpec:
    """The comparisons that are the question: every pair at every k on every column. p-values are
    corrected over these and no others. What is left out or null has its default; empty `pairs`
    without `cells` declare no comparison, so that nothing is corrected and nothing significant."""

    pairs: Axis[Name] | None = None
    """Kinds of pairs, keys of fgrpo_bench.analysis.question.KINDS; null is none beside `cells`, and
    without these the first kind that the grid has pairs of."""
    cells: Axis[CellPair] = ()
    """Further pairs by their cells."""
    ks: Annotated[Axis[Positive], Field(min_length=1)] | Literal["largest"] | None = None
    """Of the evaluation's ks; `largest` is the largest, null the smallest and the largest."""
    columns: Annotated[Axis[str], Field(min_length=1)] | None = None
    """Benchmarks and averages (`average in-domain`, `average out-of-domain`); null is the averages
    and each benchmark that is alone in its domain."""
    at: Literal["last", "equal_pass_at_1"] | None = None
    """Where on their paths cells are compared: `last`, the checkpoint that stands for each run, or
    `equal_pass_at_1`, the highest pass@1 that both cells of a pair reach, at the largest k where
    `ks` is null; null is `last`."""

    def __post_init__(self) -> None:
        given = {"ks": self.ks, "columns": self.columns, "at": self.at}
        for field, values in given.items():
            if self.pairs == () and not self.cells and values is not None:
                raise ValueError(
                    f"{field}={_written(values)} beside pairs=[], which declares no comparison "
                    f"that could be at these: name pairs or cells, or set {field} to null"
                )


def _written(values: str | tuple[object, ...]) -> str:
    return values if isinstance(values, str) else str(list(values))


MOST_POINTS = 20_000
"""Of a sweep: each has a folder and several stages, and a plan, a status and a report hold all of
them at once."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class SweepSpec:
    """A question as a grid."""

    name: FolderName
    """Name in commands and paths."""
    question: str
    """The question in words, printed above the answer."""
    grid: Grid
    """Axes whose product is run."""
    cells: tuple[ExtraCell, ...]
    """Further cells beside the product."""
    exclude: tuple[Exclusion, ...]
    """Points to leave out."""
    family: FamilySpec | None = None
    """The comparisons that answer it, declared before they are seen; null has every default."""
    replicates: str | None = None
    """A sweep, sweep/experiment or sweep/experiment/version that asked for these comparisons on
    other seeds and whose results this one is to show again; null is none."""

    def __post_init__(self) -> None:
        """ValueError for more points than a sweep can have, before anything is made of them."""
        grid = self.grid
        rates, prompts = len(grid.learning_rate_factor), len(grid.prompts_per_step)
        seeds = len(grid.seed)
        axes = {
            "algorithm": len(grid.algorithm),
            "group size": len(grid.group_size),
            "gamma": len(grid.focal_gamma),
            "rate": rates,
        } | ({"number of prompts": prompts} if prompts > 1 else {})
        further = 0
        for cell in self.cells:
            # What a further cell does not set it takes from the grid, every value of it.
            cell_rates = rates if cell.learning_rate_factor is None else 1
            cell_prompts = prompts if cell.prompts_per_step is None else 1
            cell_seeds = seeds if cell.seed is None else len(cell.seed)
            further += cell_rates * cell_prompts * cell_seeds
        total = prod(axes.values()) * seeds + further
        if total > MOST_POINTS:
            product = " x ".join(_counted(n, noun) for noun, n in (axes | {"seed": seeds}).items())
            if further:
                product += f" + {_counted(further, 'run')} of further cells"
            raise ValueError(
                f"{product} = {total:,} runs, more than {MOST_POINTS:,} (those that `exclude` "
                "leaves out count too): name fewer values in sweep.grid, or make several sweeps of "
                "it"
            )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Declaration:
    """A whole composed configuration: what `fgrpo-bench sweep` was asked to run."""

    plugins: Plugins = ()
    """Modules that add to the tables (fgrpo_bench.core.registry), beside installed packages. Stands
    first, so that they have added when the rest is validated."""
    sweep: SweepSpec
    experiment: ExperimentSpec
    profile: Profile
    algorithms: dict[str, AlgorithmSpec]
    """All algorithms by name; the grid picks from them."""
    version: FolderName
    """Part of the address: a new version starts beside the old one."""
    run_root: str
    """Folder of all runs."""

    def __post_init__(self) -> None:
        self.experiment.evaluation.check_device(self.profile.device)


@dataclass(config=STRICT, frozen=True, kw_only=True)
class SweepPoint:
    """One training run: a cell with a seed, complete in itself."""

    sweep: Name
    experiment: Name
    version: Name
    algorithm: AlgorithmSpec
    group_size: GroupSize
    focal_gamma: Gamma
    learning_rate_factor: PositiveFloat = 1.0
    """Times the learning rate of `train`."""
    prompts_per_step: Positive | None = None
    """Prompts of a rollout batch; None is as many as the budget of `train` says."""
    seed: Seed
    train: TrainSpec
    evaluation: EvalSpec

    @property
    def point_id(self) -> str:
        """Readable name within the sweep, e.g. `grpo-n8-g0.5-s11`."""
        return f"{self.cell.name}-s{self.seed}"

    @property
    def cell(self) -> Cell:
        """What it shares with the points of other seeds."""
        return Cell(
            algorithm=self.algorithm.name,
            group_size=self.group_size,
            focal_gamma=self.focal_gamma,
            learning_rate_factor=self.learning_rate_factor,
            prompts_per_step=self.prompts_per_step,
        )

    @property
    def learning_rate(self) -> float:
        """Learning rate after the warm-up updates, scaled by the factor and where the algorithm
        asks for it."""
        scale = self.algorithm.low_lr_gamma
        scaled = self.train.learning_rate * (1.0 if scale is None else low_lr_multiplier(scale))
        return scaled * self.learning_rate_factor

    @property
    def n_prompts(self) -> int:
        """Prompts of a rollout batch: the point's own, else those of the budget convention."""
        prompts = self.prompts_per_step or self.train.prompts_per_step
        if prompts is not None:
            return prompts
        assert self.train.rollouts_per_step is not None
        return self.train.rollouts_per_step // self.group_size
