"""The runs of a simulation and their files: runs/simulation/categorical/<version>/.

The files are laid out as a sweep's, so that reports, MLflow and `sweeps status` find them.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench import __version__
from fgrpo_bench.simulation.settings import RULES, Run, Settings, identity
from fgrpo_bench.specs.fingerprint import canonical_json, differences, fingerprint
from fgrpo_bench.stages.digests import sealed
from fgrpo_bench.stages.files import fields_of, now, read_json, write_json, write_many
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from fgrpo_bench.stages.plan import FORMAT, read_plan
from fgrpo_bench.stages.shapes import SPEC
from fgrpo_bench.tables import read_table

SWEEP, EXPERIMENT = "simulation", "categorical"
"""Names in paths, commands and MLflow."""
RUN = SPEC | {"identity": {"run": dict, "settings": dict}}
"""The shape of a run's spec.json."""
MASSES = pl.Schema(
    {
        "step": pl.Int64,  # updates so far, from 0
        "total_correct_mass": pl.Float64,  # Q_pos
        "retained_mass": pl.Float64,  # M_ret: share of the first right masses that is still there
    }
)
"""The stored table of a run, e.g. (1000, 0.9965, 0.0330)."""
CURVES = pl.Schema(
    [
        ("rule", pl.String),
        ("group_size", pl.Int64),
        ("focal_gamma", pl.Float64),
        ("seed", pl.Int64),
        *MASSES.items(),
    ]
)
"""The tables of several runs."""
QUESTION = (
    "What does the group size N do to the mass of right actions that a policy had before training?"
)


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Runs of the same settings, done or not."""

    paths: RunPaths
    settings: Settings
    runs: tuple[Run, ...]

    def stage(self, run: Run) -> StagePaths:
        """Where a run's files are."""
        return self.paths.point(run.point_id)

    @property
    def undone(self) -> list[Run]:
        """The runs without a completion marker."""
        return [run for run in self.runs if not is_made(self.stage(run))]

    def masses(self) -> pl.DataFrame:
        """The masses of the runs that are done (CURVES)."""
        left = set(self.undone)
        frames = [CURVES.to_frame()]
        for run in [run for run in self.runs if run not in left]:
            own = [pl.lit(value, CURVES[name]).alias(name) for name, value in asdict(run).items()]
            table = read_table(masses_path(self.stage(run)), MASSES)
            frames.append(table.select(*own, *MASSES))
        return pl.concat(frames)


def run_paths(root: Path, version: str) -> RunPaths:
    """Where a version's files stand; absolute."""
    return RunPaths(root=root.absolute(), sweep=SWEEP, experiment=EXPERIMENT, version=version)


def masses_path(stage: StagePaths) -> Path:
    """What a run measured (MASSES)."""
    return stage.folder / "masses.parquet"


def load(paths: RunPaths) -> Simulation:
    """What is planned; FileNotFoundError where nothing ever was."""
    if not paths.plan.exists():
        raise FileNotFoundError(
            f"{paths.folder} holds no plan: run `python -m fgrpo_bench.simulation` first, or name "
            "another root or version"
        )
    specs = [paths.point(each["point_id"]).spec for each in read_plan(paths)["points"]]
    planned = [from_spec(spec) for spec in specs]
    return Simulation(paths=paths, settings=planned[0][1], runs=tuple(run for run, _ in planned))


def from_spec(path: Path) -> tuple[Run, Settings]:
    """What a spec.json defines; ValueError for what makes no sense."""
    defined = read_json(path, RUN)["identity"]
    with fields_of(path):
        return Run(**defined["run"]), Settings(**defined["settings"])


def freeze(paths: RunPaths, settings: Settings, runs: Sequence[Run]) -> Simulation:
    """Write sweep.json, plan.json and every spec.json that is not there; these runs. Former ones
    stay planned. ValueError where the folder holds runs of other settings."""
    texts = {}
    for run in runs:
        defined, path = identity(settings, run), paths.point(run.point_id).spec
        mark = fingerprint(defined)
        if not path.exists():
            spec = {"kind": "simulate", "fingerprint": mark, "target": {}, "identity": defined}
            texts[f"{run.point_id}/spec.json"] = canonical_json(spec) + "\n"
        elif (stored := read_json(path, RUN))["fingerprint"] != mark:
            lines = [
                f"  {field}: {old!r} there, {new!r} asked for"
                for field, old, new in differences(stored["identity"], defined)
            ]
            raise ValueError(
                f"{path.parent} is of other settings:\n" + "\n".join(lines) + "\n"
                "keep both with another --version, e.g. --version v2"
            )
    former = load(paths).runs if paths.plan.exists() else ()
    paths.folder.mkdir(parents=True, exist_ok=True)
    write_many(paths.folder, texts)
    if not paths.sweep_json.exists():
        write_json(paths.sweep_json, sealed(_declaration(paths, settings)))
    plan = sealed(_plan(paths, settings, {*former, *runs}))
    if not paths.plan.exists() or read_plan(paths) != plan:
        write_json(paths.plan, plan)
    return Simulation(paths=paths, settings=settings, runs=tuple(runs))


def _plan(paths: RunPaths, settings: Settings, runs: set[Run]) -> dict[str, Any]:
    ordered = sorted(
        runs, key=lambda run: (RULES.index(run.rule), run.group_size, run.focal_gamma, run.seed)
    )
    names = [run.point_id for run in ordered]
    return {
        "format": FORMAT,
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "points": [
            {
                "point_id": run.point_id,
                "algorithm": run.rule,
                "group_size": run.group_size,
                "focal_gamma": run.focal_gamma,
                "seed": run.seed,
                "train": run.point_id,
                "checkpoints": [{"step": settings.steps, "evaluate": run.point_id}],
            }
            for run in ordered
        ],
        "stages": [
            {
                "name": name,
                "kind": "simulate",
                "point_id": name,
                "environment": "base",
                "fingerprint": read_json(paths.point(name).spec, RUN)["fingerprint"],
                "target": {},
                "needs": [],
            }
            for name in names
        ],
    }


def _declaration(paths: RunPaths, settings: Settings) -> dict[str, Any]:
    """As a sweep's: nothing is evaluated beside the training."""
    model = {"name": f"categorical policy over {settings.n_actions:,} actions"}
    return {
        "declaration": {
            "sweep": {"name": paths.sweep, "question": QUESTION},
            "experiment": {
                "name": paths.experiment,
                "train": {"model": model, **asdict(settings)},
                "evaluation": {"benchmarks": {}, "ks": []},
            },
            "profile": {"dispatcher": "local"},
            "version": paths.version,
        },
        "created": now(),
        "versions": {
            "python": platform.python_version(),
            "numpy": version("numpy"),
            "fgrpo-bench": __version__,
        },
    }


def is_made(stage: StagePaths) -> bool:
    """Whether a run is done; False for one that has no spec yet."""
    if not stage.spec.exists():
        return False
    mark = read_json(stage.spec, RUN)["fingerprint"]
    return is_done(stage, fingerprint=mark, target={}) and masses_path(stage).exists()
