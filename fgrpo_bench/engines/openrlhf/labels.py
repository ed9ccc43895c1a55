"""The label column of the prompt file: what a grader needs, and what fixes a draw's seed.

OpenRLHF hands a prompt's label through to the reward as an opaque string. In the file it is JSON
of the problem; when a prompt is dispatched the sampler adds when and where. Pure: imports neither
Ray nor OpenRLHF.

A line of a prompt file:
{"prompt": "3256=24:", "label": "{\"problem_id\": \"3256-24\", \"target\": \"3256-24\", ...}"}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds

PROMPT, LABEL = "prompt", "label"
"""Columns of a prompt file."""
RECENT = 4096
"""Labels whose reading is kept: all draws of a group come with the same one."""
BLOCK = 16
"""Draws of a problem whose seeds are made at once."""


def make_label(problem: Problem) -> str:
    """The label of a problem, for the prompt file."""
    return json.dumps(
        {
            "benchmark": problem.benchmark,
            "problem_id": problem.problem_id,
            "target": problem.target,
            "grader": problem.grader,
        }
    )


@dataclass(frozen=True, kw_only=True)
class Dispatched:
    """A label on its way to the reward."""

    problem: Problem
    stream: int
    """What the draws are for: a hash of seed, purpose and step."""
    position: int
    """How many prompts were dispatched before it for the same purpose and step."""


def dispatch(label: str, *, stream: int, position: int) -> str:
    """The label with what fixes its draws."""
    return json.dumps({**json.loads(label), "stream": stream, "position": position})


@lru_cache(maxsize=RECENT)
def read_dispatched(label: str, prompt: str) -> Dispatched:
    """Inverse of `make_label` and `dispatch`; ValueError that names what is missing."""
    try:
        fields = json.loads(label)
        stream, position = fields.pop("stream"), fields.pop("position")
        return Dispatched(
            problem=Problem(prompt=prompt, **fields), stream=stream, position=position
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the label {label[:200]!r} is no JSON of benchmark, problem_id, target and grader "
            f"({error!r}): make the prompt file's column {LABEL!r} with labels.make_label"
        ) from error


def draw_seed(dispatched: Dispatched, draw: int) -> int:
    """Own seed of a problem's draw, counted from 0; in [0, 2**63), none repeats in a problem."""
    block, place = divmod(draw, BLOCK)
    return _seed_block(dispatched.stream, dispatched.problem.problem_id, block)[place]


@lru_cache(maxsize=RECENT)
def _seed_block(stream: int, problem_id: str, block: int) -> list[int]:
    draws = np.arange(block * BLOCK, (block + 1) * BLOCK)
    seeds: list[int] = draw_seeds(stream, [problem_id], draws)[0].tolist()
    return seeds


def problem_ids(labels: Sequence[str], prompts: Sequence[str]) -> list[str]:
    """Of the problems of samples, by their labels and prompts."""
    return [
        read_dispatched(label, prompt).problem.problem_id
        for label, prompt in zip(labels, prompts, strict=True)
    ]
