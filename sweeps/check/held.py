"""What `check` knows of a sweep: its stages, the records of their files, and these as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MARKER_FILE = "DONE.json"
SPEC_FILE = "spec.json"
REPORT = "report"
"""In place of a stage's name."""
DECLARATION = "declaration"
"""In place of a stage's name, for sweep.json."""
VIEWS = (REPORT, "MLflow")
"""What shows the results of all stages."""

Standing = Literal["done", "undone", "begun again"]


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the record of a file says: a stage's marker, or a report's provenance."""

    of: str
    """Name of the stage, or REPORT."""
    name: str
    """Path from the run's folder."""
    sha256: str
    bytes: int | None = None
    """None where the record does not say."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A file as it is now."""

    bytes: int
    sha256: str | None
    """None where the number of bytes alone tells that it is another, and it was not read."""
    fault: str | None = None
    """Why it cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One damaged or missing file."""

    of: str
    """Name of the stage, or REPORT."""
    name: str
    """Path from the run's folder."""
    fault: str
    """For a person, e.g. `is missing`."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """A stage as its folder shows it."""

    record: Mapping[str, Any]
    """Of plan.json."""
    standing: Standing
    marker: Mapping[str, Any] | None
    """None where it has none, or none that can be believed."""
    faults: tuple[Damage, ...]
    """Of marker and spec.json."""
    was_done: bool = False
    """Whether somebody noted that it was done."""
    at_work: bool = False
    """Whether a process has it in hand."""
    is_foreign: bool = False
    """Whether its spec.json is whole and of another stage or other settings than the plan's."""
    seconds: float | None = None
    """Wall seconds that all attempts at it took; None where none was noted."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Of a training run by its spec.json: algorithm, group_size, focal_gamma and seed."""
    source: str | None = None
    """Name of the stage whose checkpoint it took; None where it took none."""
    step: int = 0
    """Of that checkpoint."""
    stored: tuple[str, ...] = ()
    """Results that its marker does not list, being of a version of before or damaged; paths from
    the run's folder."""
    of_before: tuple[Known, ...] = ()
    """The few files that such a marker has a digest of."""

    @property
    def is_silent(self) -> bool:
        """Whether it was done and its marker lists nothing, or cannot be believed."""
        if self.marker is None:
            return bool(self.faults)
        return "outputs" not in self.marker

    @property
    def name(self) -> str:
        """Folder relative to the run's."""
        return str(self.record["name"])
