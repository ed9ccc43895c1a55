"""Points of the shipped experiments on GPUs, and the command line that OpenRLHF gets for them."""

from __future__ import annotations

from pathlib import Path

from fgrpo_bench.engines.openrlhf.arguments import RunFiles, arguments
from fgrpo_bench.engines.openrlhf.stage import stage_arguments
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.specs import Declaration, SweepPoint
from sweeps.plan import expand
from tests.support.plans import loaded

ALGORITHMS = ("grpo", "dapo", "cispo", "grpo-lowlr", "grpo-entropy", "grpo-kl")
EXPERIMENTS = ("qwen2.5-7b", "qwen3-4b-base", "llama3.2-3b")
RUN = Path("/runs/point")


def declared(*overrides: str, experiment: str = "qwen2.5-7b") -> Declaration:
    """Sweep groupsize of an experiment on slurm-8gpu."""
    return loaded("groupsize", f"experiment={experiment}", "profile=slurm-8gpu", *overrides)


def point(
    algorithm: str = "grpo",
    *overrides: str,
    experiment: str = "qwen2.5-7b",
    group_size: int = 8,
    focal_gamma: float = 0.5,
    seed: int = 11,
) -> SweepPoint:
    """One cell of an experiment."""
    grid = {
        "algorithm": f"[{algorithm}]",
        "group_size": f"[{group_size}]",
        "focal_gamma": f"[{focal_gamma}]",
        "seed": f"[{seed}]",
    }
    cells = [f"sweep.grid.{name}={value}" for name, value in grid.items()]
    (only,) = expand(declared(*cells, "sweep.cells=[]", *overrides, experiment=experiment))
    return only


def files(evaluation: Path | None = None) -> RunFiles:
    """Where a run's files would be; without an evaluation during training none is made."""
    folder = RUN / "openrlhf"
    return RunFiles(
        base=Path("/models/base"),
        prompts=folder / "prompts.jsonl",
        evaluation=evaluation,
        states=folder / "states",
        final=folder / "final",
    )


def openrlhfs_words(of: SweepPoint, *overrides: str, evaluation: Path | None = None) -> list[str]:
    """OpenRLHF's share of the command line on one node of slurm-8gpu."""
    placement = declared(*overrides).profile.placement
    return arguments(of, placement, files(evaluation), nodes=1, device="cuda")


def command_line(of: SweepPoint) -> str:
    """The whole command line, one option with its values a line."""
    placement = declared().profile.placement
    own = stage_arguments(of, placement, StagePaths(RUN), base_sha256="0" * 64)
    words = openrlhfs_words(of, evaluation=RUN / "openrlhf" / "evaluation.jsonl")
    return "".join(f"{line}\n" for line in by_option([*own, *words]))


def by_option(words: list[str]) -> list[str]:
    """Options with their values, in the order given."""
    lines: list[str] = []
    for word in words:
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines
