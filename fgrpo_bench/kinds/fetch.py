"""fetch: a dataset, filtered and deduplicated, or the files of a published model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fgrpo_bench import engines
from fgrpo_bench.core import registry
from fgrpo_bench.data.fetch import TRUST, check_remote_code
from fgrpo_bench.kinds.kind import (
    Environment,
    Kind,
    Planned,
    Stage,
    base_name,
    dataset_name,
    make_stage,
    training_inputs,
)
from fgrpo_bench.specs import DatasetSpec, PretrainedSpec, Profile, to_dict
from fgrpo_bench.specs.fingerprint import dataset_fields, defining, pretrained_fields
from fgrpo_bench.specs.stored import FetchSpec

NAME = "fetch"
VERSION = 1
"""Raised when the same published model would be other files."""
DATA_VERSION = 3
"""Raised when a dataset's rules make another table of the same spec."""


def dataset_identity(dataset: DatasetSpec) -> dict[str, Any]:
    """What defines a dataset's table, apart from the bytes of its source."""
    brought = registry.identity(layouts=dataset.layout, graders=dataset.grader)
    clusters = defining(dataset, ("cluster",))
    return {"data_version": DATA_VERSION} | dataset_fields(dataset) | clusters | brought


def stages(planned: Planned) -> Iterator[Stage]:
    """Datasets of training and evaluation, then published models."""
    yield from _datasets(planned).values()
    for point in planned.by_seed[:1]:
        needs = training_inputs(point)
        if needs.pretrained is not None:
            templated = needs.prompt is not None and needs.prompt.chat_template
            defined = engines.engine_for(point.train).pretrained_identity(point.train)
            check_remote_code(
                Path(needs.pretrained.path),
                trusted=needs.pretrained.trust_remote_code,
                remedy=TRUST,
            )
            yield model_stage(
                base_name(point), needs.pretrained, chat_template=templated, **defined
            )


def _datasets(planned: Planned) -> dict[str, Stage]:
    point = planned.points[0]
    datasets = [training_inputs(point).dataset, training_inputs(point).eval_dataset]
    datasets += [benchmark.dataset for benchmark in point.evaluation.benchmarks.values()]
    stages: dict[str, Stage] = {}
    for dataset in datasets:
        if dataset is None:
            continue
        stage = dataset_stage(dataset)
        former = stages.setdefault(stage.name, stage)
        if former.fingerprint != stage.fingerprint:
            raise ValueError(
                f"two datasets are named {dataset.name!r} and differ: give each a name of its own"
            )
    return stages


def dataset_stage(dataset: DatasetSpec) -> Stage:
    """What fetches a dataset, whoever runs it."""
    name, content = dataset_name(dataset), to_dict(dataset)
    return make_stage(
        FetchSpec, NAME, name, dataset_identity(dataset), point_id=name, dataset=content
    )


def model_stage(name: str, model: PretrainedSpec, *, chat_template: bool, **digests: str) -> Stage:
    """What fetches a published model. chat_template: whether it must have one; digests: of its
    files, which then define it, wherever it is."""
    content: dict[str, Any] = {"model": to_dict(model), "chat_template": chat_template}
    defined = {"recipe_version": VERSION} | (digests or pretrained_fields(model))
    return make_stage(FetchSpec, NAME, name, defined, point_id=name, **content)


def is_shared(stage: Stage) -> bool:
    """Whether all sweeps under a run root share its files: those of a dataset."""
    return stage.kind == NAME and stage.spec.as_kind(FetchSpec).dataset is not None


def command(folder: Path, profile: Profile, environment: Environment) -> list[str]:
    """e.g. -m fgrpo_bench.data <folder>."""
    return ["-m", "fgrpo_bench.data", str(folder)]


KIND = Kind(
    name=NAME,
    noun="download",
    stages=stages,
    command=command,
    comes_first=True,
    fetches=True,
)
