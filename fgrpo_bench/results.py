"""Finding a sweep's results in its folder: the reader's side of the stored files.

Report, tracking and dashboards read through here and need no YAML for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fgrpo_bench.kinds.evaluate import stopping
from fgrpo_bench.points import Checkpoint, PointResult
from fgrpo_bench.specs.cell import from_columns
from fgrpo_bench.stages.digests import content_sha256
from fgrpo_bench.stages.files import fields_of, read_json
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.shapes import DECLARED, SWEEP
from fgrpo_bench.stats.staged import StagedDesign


@dataclass(frozen=True, kw_only=True)
class SweepResults:
    """A sweep as its files tell it."""

    paths: RunPaths
    declaration: dict[str, Any] = field(repr=False)
    """sweep.json: keys declaration, git_commit, versions, ..."""
    points: tuple[PointResult, ...]
    """Base models first, then the points in plan order."""

    @property
    def evaluation(self) -> dict[str, Any]:
        """The declared evaluation (fgrpo_bench.specs.EvalSpec as JSON)."""
        spec = self.declaration["declaration"]["experiment"]["evaluation"]
        assert isinstance(spec, dict)
        return spec

    @property
    def stopping(self) -> StagedDesign | None:
        """The declared design; None: a fixed number of draws."""
        return stopping(self.evaluation.get("design"), self.paths.sweep_json)

    @property
    def benchmarks(self) -> list[str]:
        """Names of the benchmarks the sweep evaluates on."""
        return sorted(self.evaluation["benchmarks"])

    @property
    def judged_twice(self) -> list[str]:
        """Benchmarks with further graders beside their own."""
        return [name for name in self.benchmarks if self.evaluation["benchmarks"][name].get("also")]

    @property
    def domains(self) -> dict[str, list[str]]:
        """As `domains_of`; likewise below."""
        return domains_of(self.evaluation)

    @property
    def averages(self) -> dict[str, tuple[str, ...]]:
        return averages_of(self.evaluation)

    @property
    def columns(self) -> tuple[str, ...]:
        """Averages and benchmarks as tables have them: each average before its benchmarks."""
        titles = {names[0]: title for title, names in self.averages.items()}
        return tuple(
            name
            for benchmarks in self.domains.values()
            for name in (titles.get(benchmarks[0]), *benchmarks)
            if name is not None
        )

    @property
    def headline(self) -> tuple[str, ...]:
        return headline_of(self.evaluation)

    @property
    def train(self) -> dict[str, Any]:
        """The declared training spec (fgrpo_bench.specs.TrainSpec as JSON)."""
        spec = self.declaration["declaration"]["experiment"]["train"]
        assert isinstance(spec, dict)
        return spec

    @property
    def model(self) -> str:
        """Name of the trained model."""
        train = self.train
        named = train.get("model") or train.get("pretrained") or {"name": "a model without a name"}
        return str(named["name"])


def domains_of(evaluation: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of the benchmarks by domain, in domain first; no key where there is none.

    evaluation: fgrpo_bench.specs.EvalSpec as JSON, also of versions that had no domains.
    """
    domains: dict[str, list[str]] = {}
    for name, declared in sorted(evaluation["benchmarks"].items()):
        domains.setdefault((declared or {}).get("domain", "in-domain"), []).append(name)
    return dict(sorted(domains.items()))


def averages_of(evaluation: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Benchmarks by the name of their average, in domain first; one of a domain has none."""
    return {
        f"average {domain}": tuple(benchmarks)
        for domain, benchmarks in domains_of(evaluation).items()
        if len(benchmarks) > 1
    }


def headline_of(evaluation: Mapping[str, Any]) -> tuple[str, ...]:
    """What stands for all benchmarks: the averages, and a benchmark alone in its domain."""
    return tuple(
        benchmarks[0] if len(benchmarks) == 1 else f"average {domain}"
        for domain, benchmarks in domains_of(evaluation).items()
    )


def question_sha256(sweep_json: Mapping[str, Any]) -> str | None:
    """Digest of the declared question: its words and the comparisons that it names. None where
    sweep.json (shapes.SWEEP) records no family.

    sweep_json: what the file says.
    """
    families = sweep_json.get("families")
    if not families:
        return None
    return content_sha256({key: families[-1][key] for key in ("question", "sha256")})


def declared_digests(
    sweep_json: Mapping[str, Any], plan: Mapping[str, Any]
) -> dict[str, dict[str, str | None]]:
    """Digests (shapes.DECLARED) of what was declared when the sweep was frozen `first`, and `now`.

    sweep_json, plan: what the two files say.
    """
    nothing: dict[str, str | None] = dict.fromkeys(DECLARED)
    return {
        "first": sweep_json.get("first", nothing),
        "now": {
            "question": question_sha256(sweep_json),
            "declaration": content_sha256(sweep_json["declaration"]),
            "plan": content_sha256(plan),
        },
    }


def load_results(paths: RunPaths) -> SweepResults:
    """A sweep's points from plan.json; FileNotFoundError where it was never run."""
    if not paths.plan.exists():
        raise FileNotFoundError(
            f"{paths.folder} holds no plan: run `python -m sweeps run {paths.sweep}` first, or "
            "name another root, experiment or version"
        )
    plan = read_plan(paths)
    marks = {stage["name"]: stage["fingerprint"] for stage in plan["stages"]}
    with fields_of(paths.plan):
        cells = [from_columns(point) for point in plan["points"]]
    points = tuple(
        PointResult(
            point_id=point["point_id"],
            cell=cell,
            seed=point["seed"],
            step=checkpoints[-1].step,
            train=StagePaths(paths.folder / point["train"]),
            evaluate=checkpoints[-1].evaluate,
            checkpoints=checkpoints,
            train_fingerprint=marks.get(point["train"], ""),
            evaluate_fingerprint=checkpoints[-1].fingerprint,
        )
        for point, cell in zip(plan["points"], cells, strict=True)
        for checkpoints in [_checkpoints(paths, point, marks)]
    )
    declaration = read_json(paths.sweep_json, SWEEP)
    if not declaration["declaration"]["experiment"]["evaluation"]["benchmarks"]:
        raise ValueError(
            f"{paths.sweep_json} names no benchmark: delete it and run the sweep again, which "
            "writes it anew"
        )
    return SweepResults(paths=paths, declaration=declaration, points=points)


def _checkpoints(
    paths: RunPaths, point: dict[str, Any], marks: Mapping[str, str]
) -> tuple[Checkpoint, ...]:
    """Of a point in plan.json."""
    return tuple(
        Checkpoint(
            step=each["step"],
            evaluate=StagePaths(paths.folder / each["evaluate"]),
            fingerprint=marks.get(each["evaluate"], ""),
        )
        for each in point["checkpoints"]
    )
