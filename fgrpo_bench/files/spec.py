"""spec.json: what a stage computes, frozen before it runs.

A kind of stage has a class of its own, which its plan fills and its program reads: those of
fetches, warm-ups and training runs stand in fgrpo_bench.specs.stored, the others beside their kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import NOT_STORED, Record, SchemaError
from fgrpo_bench.files.whole import damaged, parse_record, read_record

S = TypeVar("S", bound="StageSpec")


@dataclass(frozen=True, kw_only=True)
class StageSpec(Record):
    """spec.json, as far as it is alike for all kinds of stages."""

    kind: str
    fingerprint: str
    """What the stage's marker must say."""
    target: dict[str, Any]
    """Layers on top of the fingerprint, as fgrpo_bench.stages.markers.is_done compares them."""
    identity: dict[str, Any] | None = None
    """What the fingerprint is of; None of a checkpoint that was taken as it is."""
    source: str | None = None
    """Path, from the stage's folder, of the stage whose checkpoint it looks at; None of a stage
    that looks at none, likewise below."""
    step: int | None = None
    """Which checkpoint: rollout batches behind it, 0 for a base model."""
    plugins: tuple[str, ...] | None = None
    """Modules that are loaded before it runs; None without any."""
    stage: StagePaths | None = field(default=None, compare=False, metadata=NOT_STORED)
    """Where the file stands; None of a spec that is only planned."""

    @property
    def file(self) -> Path:
        """The file itself, for messages."""
        return Path("spec.json") if self.stage is None else self.stage.spec

    def as_kind(self, kind: type[S]) -> S:
        """The same as a kind has it; ValueError that names the file where it is of another."""
        if isinstance(self, kind):
            return self
        return replace(parse_record(self.file, self.as_json(), kind), stage=self.stage)

    def at(self, path: str) -> StagePaths:
        """The stage at a path from this one's folder."""
        assert self.stage is not None, "a spec that is only planned stands nowhere"
        return StagePaths((self.stage.folder / path).resolve())

    @property
    def looks_at(self) -> tuple[StagePaths, int]:
        """The stage whose checkpoint it looks at, and the step of that; ValueError where it looks
        at none."""
        for name in ("source", "step"):
            if getattr(self, name) is None:
                raise damaged(self.file, SchemaError.missing(name))
        assert self.source is not None and self.step is not None
        return self.at(self.source), self.step


def read_spec(stage: StagePaths) -> StageSpec:
    """The spec.json of a stage of any kind; raises as `read_record`."""
    return read_spec_as(StageSpec, stage)


def read_spec_as(kind: type[S], stage: StagePaths) -> S:
    """The spec.json of a stage of a known kind; raises as `read_record`."""
    return replace(read_record(stage.spec, kind), stage=stage)
