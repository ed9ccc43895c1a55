"""plan.json and sweep.json: the points and stages of a sweep as last run, the format of the sweep's
files, and what was declared.

`sweeps` writes both; results, status and the check of a folder read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import parse_record, read_json, read_record, readable_json
from fgrpo_bench.stages.digests import EDITED, checksum_mismatch, content_sha256

FORMAT = 5
"""Of the files in a sweep's folder. It rises when this code could no longer read what the code
before it wrote, or the other way round."""


@dataclass(frozen=True, kw_only=True)
class StageRecord(Record):
    """A stage in plan.json (fgrpo_bench.kinds.Stage)."""

    name: str
    kind: str
    point_id: str
    environment: str
    fingerprint: str
    target: dict[str, Any]
    needs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord(Record):
    """A checkpoint that is looked at, in plan.json."""

    step: int
    evaluate: str
    """Name of the stage that evaluates it."""
    likelihood: str | None = None
    """Name of the stage that rates rare answers under it; None without one."""


@dataclass(frozen=True, kw_only=True)
class PointRecord(Record):
    """A point in plan.json: a training run, or the base model of a seed."""

    point_id: str
    algorithm: str | None
    """Cell, as fgrpo_bench.specs.cell.to_stored gives it; None of a base model, likewise below."""
    group_size: int | None
    focal_gamma: float | None
    learning_rate_factor: float = 1.0
    prompts_per_step: int | None = None
    seed: int
    train: str
    """Name of the stage that makes its checkpoints."""
    checkpoints: tuple[CheckpointRecord, ...]


@dataclass(frozen=True, kw_only=True)
class PlanRecord(Record):
    """plan.json."""

    format: int
    """FORMAT of the code that wrote it."""
    sweep: str
    experiment: str
    version: str
    points: tuple[PointRecord, ...]
    """Base models first."""
    stages: tuple[StageRecord, ...]
    """In an order that respects their needs."""

    @property
    def fingerprints(self) -> dict[str, str]:
        """Of the stages, by name."""
        return {stage.name: stage.fingerprint for stage in self.stages}


def read_plan(paths: RunPaths) -> PlanRecord:
    """What plan.json says; FileNotFoundError where it is not there, ValueError where it is damaged
    or of another format."""
    content = read_json(paths.plan)
    _check_format(paths, content)  # before the rest, which is another one then
    return parse_record(paths.plan, content, PlanRecord)


def check_format(paths: RunPaths) -> None:
    """ValueError where plan.json is of another format, with the commit whose code reads it. Nothing
    is checked where there is no plan.json, or none that is JSON."""
    content = readable_json(paths.plan)
    if content is not None:
        _check_format(paths, content)


def _check_format(paths: RunPaths, content: dict[str, Any]) -> None:
    if content.get("format") == FORMAT:
        return
    commit = (readable_json(paths.sweep_json) or {}).get("git_commit")
    code = (
        f"of commit {commit}, which wrote it"
        if commit
        else f"that wrote it ({paths.sweep_json.name} names no commit)"
    )
    raise ValueError(
        f"{paths.plan} has format {content.get('format')!r}, and this code reads format {FORMAT} "
        f"alone: go on with the code {code}, or move {paths.folder} away and run the sweep anew"
    )


@dataclass(frozen=True, kw_only=True)
class Declared(Record):
    """Digests of what a sweep declares; None where it is not recorded."""

    question: str | None
    """The question with the comparisons that it names."""
    declaration: str | None
    """All settings."""
    plan: str | None
    """plan.json."""


@dataclass(frozen=True, kw_only=True)
class DeclaredDigests(Record):
    """What was declared when a sweep was frozen `first`, and `now`."""

    first: Declared
    now: Declared


@dataclass(frozen=True, kw_only=True)
class DeclaredFamily(Record):
    """What was declared to be the question at some time."""

    declared: str
    """When."""
    family: str
    """The comparisons in words."""
    question: str
    """As it was put."""
    comparisons: int
    """How many."""
    sha256: str
    """Their digest (fgrpo_bench.analysis.question.Family.sha256)."""
    trained: int
    """Training runs that had finished by then."""


@dataclass(frozen=True, kw_only=True)
class SweepRecord(Record):
    """sweep.json: what was declared, and what made the results."""

    declaration: dict[str, Any]
    """A fgrpo_bench.specs.Declaration as JSON, without the run root, which is where the file
    stands."""
    git_commit: str | None = None
    """None outside a checkout, likewise below."""
    git_dirty: bool | None = None
    versions: dict[str, str | None]
    """Of packages; None of one that is not installed."""
    plugins: dict[str, str] | None = None
    """Versions of loaded plug-ins by package; None without any."""
    created: str
    families: tuple[DeclaredFamily, ...] = ()
    """In the order in which they were declared."""
    first: Declared | None = None
    """Of the first time that the sweep was frozen; None where that is not recorded."""

    @property
    def question_sha256(self) -> str | None:
        """Digest of the declared question: its words and the comparisons that it names. None where
        no family is recorded."""
        if not self.families:
            return None
        last = self.families[-1]
        return content_sha256({"question": last.question, "sha256": last.sha256})

    @property
    def profile(self) -> dict[str, Any]:
        """Where it runs (fgrpo_bench.specs.Profile as JSON)."""
        return dict(self.declaration["profile"])


PUT_BACK = (
    "put back what it said (another question is declared on the command line), or delete it: `run` "
    "then writes it anew, and the report says that what was declared before is not recorded"
)
"""What to do about an edited sweep.json."""


def check_seal(path: Path, declared: Mapping[str, Any]) -> None:
    """ValueError where what a sweep.json says is not what was frozen: the question that it records,
    and its family of comparisons, would be believed. plan.json needs no such check: it is written
    anew of the declaration, whatever it says."""
    if checksum_mismatch(declared):
        raise ValueError(f"{path} {EDITED}: {PUT_BACK}")


def read_sweep(paths: RunPaths) -> SweepRecord:
    """What sweep.json says, whatever is declared; raises as `read_record`."""
    return read_record(paths.sweep_json, SweepRecord)


def declared_now(sweep: SweepRecord, plan: PlanRecord) -> Declared:
    """Digests of what the two files say."""
    return Declared(
        question=sweep.question_sha256,
        declaration=content_sha256(sweep.declaration),
        plan=content_sha256(plan.as_json()),
    )


def declared_digests(sweep: SweepRecord, plan: PlanRecord) -> DeclaredDigests:
    """What was declared first, and what the two files say now."""
    nothing = Declared(question=None, declaration=None, plan=None)
    return DeclaredDigests(first=sweep.first or nothing, now=declared_now(sweep, plan))
