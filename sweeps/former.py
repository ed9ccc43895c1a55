"""What versions of this program before have left in a folder, taken up without computing it again.

Identity was once the whole training spec; today it is what defines a result. A stored identity that
is the same in all of that keeps its fingerprint, and with it everything that rests on it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgrpo_bench.kinds import Stage
from fgrpo_bench.specs.fingerprint import fingerprint, reduced
from fgrpo_bench.stages.digests import is_edited
from fgrpo_bench.stages.files import readable_json
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from fgrpo_bench.stages.shapes import SPEC

PROGRAMS = {
    "fgrpo_bench.engines.embedded": "fgrpo_bench.training",
    "fgrpo_bench.engines.openrlhf": "fgrpo_bench.training.openrlhf",
    "sweeps.reporting": "sweeps.slurm.last",
}
"""Modules of commands, and what they were called in code that has no fgrpo_bench/kinds."""


Former = Mapping[str, Any]
"""A stage as its spec.json has it: kind, fingerprint, identity."""


def reuse_stored_identity(
    stage: Stage, stored: Former | None, undefining: Collection[str]
) -> Stage:
    """The stage with the stored fingerprint and identity, where these say the same; else as it is.

    undefining: fields of the stored identity that define nothing any more (Kind.undefining).
    """
    if stored is None or stored["kind"] != stage.kind:
        return stage
    if reduced(stored["identity"], undefining) != stage.spec["identity"]:
        return stage
    kept = {key: stored[key] for key in ("fingerprint", "identity")}
    return replace(stage, fingerprint=stored["fingerprint"], spec=stage.spec | kept)


def read_former(paths: RunPaths, name: str) -> Former | None:
    """A stage of a sweep's folder; None where its spec.json is not there or cannot be believed."""
    spec: Former | None = readable_json(StagePaths(paths.folder / name).spec, SPEC)
    if spec is None or fingerprint(spec.get("identity")) != spec["fingerprint"] or is_edited(spec):
        return None
    return spec


def as_frozen(command: Sequence[str], code: Path, placement: Any) -> tuple[str, ...]:
    """A stage's command as the code that was frozen with its sweep takes it.

    placement: as sweep.json has it, which that code wrote; None leaves the command's own.
    """
    words = list(command)
    if not (code / "fgrpo_bench" / "kinds").exists():
        words = [PROGRAMS.get(word, word) for word in words]
    if placement is not None and "--placement" in words:
        words[words.index("--placement") + 1] = json.dumps(placement)
    return tuple(words)
