"""likelihood: how likely a base model's rare correct answers are under a trained checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fgrpo_bench.files.records import Record
from fgrpo_bench.kinds import rare
from fgrpo_bench.kinds.evaluate import DrawsSpec, command
from fgrpo_bench.kinds.kind import Kind, Planned, Stage, make_stage
from fgrpo_bench.specs import SweepPoint
from fgrpo_bench.stages.markers import Marker

NAME = "likelihood"


@dataclass(frozen=True, kw_only=True)
class LikelihoodSpec(DrawsSpec):
    """The spec.json of the likelihoods of a set."""

    set: str
    """Path to the stage of the set."""
    settings: dict[str, Any]
    """What changed a draw of the set."""

    @property
    def sampling(self) -> dict[str, Any]:
        return self.settings


def stages(planned: Planned) -> Iterator[Stage]:
    """Of every point's checkpoints, the last ones first; none where no set is asked for."""
    sets = {stage.source: stage for stage in planned.stages.values() if stage.kind == rare.NAME}
    for step in planned.steps if sets else ():
        for point in planned.points:
            yield stage(planned, point, sets[planned.base(point).name], step=step)


def stage(planned: Planned, point: SweepPoint, rare_stage: Stage, *, step: int) -> Stage:
    """The likelihood of a set under a checkpoint of a point."""
    trained, rare_set = planned.training(point), rare_stage.spec.as_kind(rare.RareSetSpec)
    name = f"{trained.name}/{rare.NAME}/{rare_stage.fingerprint[:8]}/step-{step:05d}"
    return make_stage(
        LikelihoodSpec,
        NAME,
        name,
        {"set": rare_stage.fingerprint, "source": trained.fingerprint, "step": step},
        needs=(rare_stage.name,),
        point_id=point.point_id,
        environment=rare_stage.environment,
        source=trained,
        step=step,
        evaluation=rare_set.evaluation,
        trust_remote_code=rare_set.trust_remote_code,
        set=os.path.relpath(rare_stage.name, name),
        settings=rare_set.sampling,
    )


@dataclass(frozen=True, kw_only=True)
class LikelihoodFacts(Record):
    """What the stage says in its marker beside what all stages say."""

    step: int
    weights_sha256: str
    set_sha256: str
    """Of the table of the set."""
    n_rare: int
    """Answers in it."""
    delta_nll: float | None
    """Mean rise of the negative log-likelihood, nats per token; None for an empty set."""


@dataclass(frozen=True, kw_only=True)
class LikelihoodMarker(LikelihoodFacts, Marker):
    """DONE.json of the likelihoods of a set."""


KIND = Kind(
    name=NAME,
    noun="likelihood",
    stages=stages,
    command=command,
    in_report=True,
    takes="engine",
)
