"""What stored draws are of: draws.json beside an evaluation's draws, and facts.json beside those
that all evaluations of a run root share.

Evaluations write both (evaluators.evaluate, evaluators.shared).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fgrpo_bench.files.records import Record


@dataclass(frozen=True, kw_only=True)
class Design(Record):
    """When a problem stops (fgrpo_bench.specs.DesignSpec)."""

    stages: tuple[int, ...]
    enough: int
    lacking: dict[str, int] | None = None
    """Problems that another grader asks for more draws of, by benchmark; None where it asks for
    none."""


@dataclass(frozen=True, kw_only=True)
class DesignedSince(Record):
    """A design, and from when on an evaluation drew by it."""

    since: str | None
    """None: from the first draw on."""
    n_samples: int | None
    """The most draws per problem that were asked for then; None: not recorded."""
    design: Design | None
    """None: no problem stops."""


@dataclass(frozen=True, kw_only=True)
class SharedOrigin(Record):
    """Which draws of the run root an evaluation's draws belong to."""

    digest: str
    """Of what they follow from; names their folder."""
    adopted: int
    """How many of them other evaluations had made."""
    made_by: tuple[str, ...]
    """Which ones, by their folders in the run root."""


@dataclass(frozen=True, kw_only=True)
class DrawsRecord(Record):
    """draws.json: what an evaluation's draws on a benchmark belong to."""

    fingerprint: str
    weights_sha256: str | None
    """None of imported draws."""
    prompts_sha256: str
    designs: tuple[DesignedSince, ...] = ()
    """In order; empty as long as all draws were made without one."""
    engines: tuple[dict[str, Any], ...] = ()
    """Fingerprints of what made them, in order, each once; empty where no draw was made, or nobody
    recorded it."""
    plugins: dict[str, str] | None = None
    """Versions by package; None without any."""
    shared: SharedOrigin | None = None
    """None where draws are not shared."""


@dataclass(frozen=True, kw_only=True)
class MadeBy(Record):
    """An evaluation that added to shared draws."""

    stage: str
    """Its folder in the run root."""
    draws: int
    time: str
    draw_seconds: float | None
    """Wall time of a draw; None where nobody measured it."""
    engines: tuple[dict[str, Any], ...]
    """Empty where they were not recorded."""


@dataclass(frozen=True, kw_only=True)
class SharedRecord(Record):
    """facts.json: what shared draws follow from, and who made them."""

    identity: dict[str, Any]
    n_draws: int
    bytes: int
    sha256: str
    """Of the table, like bytes."""
    made_by: tuple[MadeBy, ...]
    """In the order in which they added draws."""
