"""What stored draws are of: draws.json beside an evaluation's draws (evaluators.evaluate)."""

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
class DrawsRecord(Record):
    """draws.json: what an evaluation's draws on a benchmark belong to."""

    fingerprint: str
    weights_sha256: str | None
    """None of imported draws, and of a model that a server has."""
    prompts_sha256: str
    designs: tuple[DesignedSince, ...] = ()
    """In order; empty as long as all draws were made without one."""
    engines: tuple[dict[str, Any], ...] = ()
    """Fingerprints of what made them, in order, each once; empty where no draw was made, or nobody
    recorded it."""
    plugins: dict[str, str] | None = None
    """Versions by package; None without any."""
    identity: str | None = None
    """Digest of what exactly these draws follow from (evaluators.takeover.identity); None as long
    as they are not complete."""
    taken_from: str | None = None
    """Folder, in the run root, of the evaluation that they were taken over from, all or the first
    of them; None where they were made here."""
