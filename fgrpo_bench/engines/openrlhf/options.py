"""The driver's own options, `--fgrpo.*`; all other options are OpenRLHF's.

They ride on OpenRLHF's arguments into every Ray actor. Pure: imports neither Ray nor OpenRLHF.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from fgrpo_bench.core import registry

NAMED = ("objective", "advantage")
"""Options that name an entry of a table."""


@dataclass(frozen=True, kw_only=True)
class DriverOptions:
    """What a run of the driver needs beside OpenRLHF's arguments."""

    focal_gamma: float
    """Exponent of the focal weight; 0 is the base algorithm to the bit."""
    objective: str
    """A key of fgrpo_bench.objectives.losses.OBJECTIVES; clip is OpenRLHF's own PPO loss."""
    advantage: str = "grpo"
    """A key of fgrpo_bench.objectives.advantages.ADVANTAGES; grpo is OpenRLHF's own."""
    advantage_parameters: dict[str, Any] | None = None
    """Its parameters by name; None is those of its function."""
    metrics: Path
    """JSONL, one row a step (metrics.step_row)."""
    stop_flag: Path
    """While this file exists, the run saves after the running step and ends with 75."""
    checkpoints: Path
    """Folder of the Hugging Face checkpoints, step-00025 and so on."""
    save_every: int
    """Steps between Hugging Face checkpoints; the last step always has one."""
    steps: int
    """Steps of the run; OpenRLHF itself ends only with its prompts."""
    prompts_per_epoch: int | None = None
    """Different prompts of an epoch; None is all of the prompt file."""
    base_sha256: str
    """Of the base model's weights; a state of another model is refused."""
    vllm_max_num_seqs: int
    """Sequences that an engine draws at once."""
    vllm_max_num_batched_tokens: int
    """Tokens of a forward pass of an engine."""
    batch_invariant: bool = False
    """Whether vLLM draws with batch-invariant kernels; a bare flag."""
    ray_address: str | None = None
    """Of the Ray cluster that the run takes part in, host:port; None starts one for this machine,
    whatever others run here."""


def parse_options(argv: Sequence[str]) -> tuple[DriverOptions, list[str]]:
    """The driver's options, and what is left for OpenRLHF; SystemExit(2) on a wrong one."""
    parser = argparse.ArgumentParser(
        prog="python -m fgrpo_bench.engines.openrlhf.driver",
        description="Train with OpenRLHF; every option that is not listed here is OpenRLHF's.",
        epilog="exit code 0: done; 75: stopped at a checkpoint, run it again; other: failed",
        allow_abbrev=False,
    )
    readers: dict[str, Callable[[str], Any]] = {
        "float": _gamma,
        "int": _positive,
        "int | None": _positive,
        "Path": _absolute,
    }
    readers["dict[str, Any] | None"] = json.loads
    for field in fields(DriverOptions):
        if field.type == "bool":
            parser.add_argument(f"--fgrpo.{field.name}", dest=field.name, action="store_true")
            continue
        names = sorted(registry.table(f"{field.name}s")) if field.name in NAMED else None
        is_required = field.default is MISSING
        parser.add_argument(
            f"--fgrpo.{field.name}",
            dest=field.name,
            type=readers.get(str(field.type), str),
            choices=names,
            required=is_required,
            default=None if is_required else field.default,
        )
    ours, openrlhf_arguments = parser.parse_known_args(argv)
    unknown = [option for option in openrlhf_arguments if option.startswith("--fgrpo.")]
    if unknown:
        parser.error(f"unknown option {unknown[0]}")
    return DriverOptions(**vars(ours)), openrlhf_arguments


def _gamma(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or more and finite")
    return value


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 1 or more")
    return int(text)


def _absolute(text: str) -> Path:
    return Path(text).absolute()  # Ray's processes have working directories of their own
