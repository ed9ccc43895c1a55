"""What the version before left behind is read, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboards.queries.progress import progress
from fgrpo_bench.report.build import write_report
from fgrpo_bench.results import load_results
from fgrpo_bench.specs import config
from fgrpo_bench.specs.stored import stored_placement, stored_profile
from fgrpo_bench.stages.files import read_json, write_json
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from sweeps import status
from sweeps.check import examine
from sweeps.former import as_frozen
from sweeps.local import drive
from sweeps.slurm.tick import frozen_profile
from tests.support.former import SMALL, unpacked


@pytest.fixture
def finished(tmp_path: Path) -> RunPaths:
    return unpacked("finished", tmp_path)


@pytest.fixture
def stopped(tmp_path: Path) -> RunPaths:
    return unpacked("stopped", tmp_path)


@pytest.fixture
def on_slurm(tmp_path: Path) -> RunPaths:
    return unpacked("slurm", tmp_path)


def run(paths: RunPaths, *overrides: str) -> int:
    asked = [f"run_root='{paths.root}'", "profile.max_parallel=2", *SMALL, *overrides]
    return drive.run(config.load("smoke", asked), finish=lambda *_: None)


def damaged(paths: RunPaths) -> list[str]:
    """Files that `check` finds damaged, the report apart, which nobody has written yet."""
    found = examine.examine(paths, lambda total: lambda part: None).damage
    return [each.name for each in found if each.of != "report"]


def test_its_pass_at_k_without_clusters_is_refused_by_name_and_the_dashboard_reads_the_rest(
    finished: RunPaths,
) -> None:
    results = load_results(finished)
    with pytest.raises(ValueError, match=r"passk.parquet has columns .* move it away and run the"):
        write_report(results)
    states = progress(results).states
    assert states["done"] == sum(states.values()) == 6


@pytest.mark.parametrize("name", ["finished", "stopped", "slurm"])
def test_status_and_check_read_them(name: str, tmp_path: Path) -> None:
    paths = unpacked(name, tmp_path)
    told = status.report(paths)
    assert told["points_total"] == 2
    done = {"finished": 6, "stopped": 2, "slurm": 4}
    assert told["stages"]["done"] == done[name]
    assert told["stages"]["damaged"] == 0
    assert damaged(paths) == []


def test_an_identity_that_was_edited_is_not_taken_over(finished: RunPaths) -> None:
    spec = finished.point("grpo-n4-g0-s11").spec
    facts = read_json(spec)
    facts["identity"]["train"]["save_every"] = 3
    write_json(spec, facts)
    with pytest.raises(ValueError, match="holds stages of other settings"):
        run(finished)


def declaration(paths: RunPaths, change: Any) -> dict[str, Any]:
    content = read_json(paths.sweep_json)
    change(content["declaration"])
    write_json(paths.sweep_json, content)
    return dict(content["declaration"])


def test_of_sweep_json_the_profile_alone_is_read(on_slurm: RunPaths) -> None:
    before = frozen_profile(on_slurm)

    def change(declared: dict[str, Any]) -> None:
        declared["experiment"] = declared["algorithms"] = {"of": "another version"}
        declared["profile"] |= {"unknown": 1}
        declared["profile"]["placement"] = declared["profile"].pop("openrlhf") | {"further": True}

    declared = declaration(on_slurm, change)
    assert frozen_profile(on_slurm) == before
    assert stored_placement(declared)["further"] is True
    assert status.on_slurm(on_slurm)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda profile: profile.pop("time_minutes"), "time_minutes is missing"),
        (lambda profile: profile.update(nodes=0), "nodes is 0: "),
        (lambda profile: profile.update(dispatcher="pbs"), "dispatcher is 'pbs', which this"),
    ],
)
def test_a_profile_that_cannot_be_read_is_refused_in_a_sentence(
    change: Any, said: str, on_slurm: RunPaths
) -> None:
    declared = declaration(on_slurm, lambda declared: change(declared["profile"]))
    with pytest.raises(ValueError, match=said) as refused:
        stored_profile(declared, on_slurm.sweep_json)
    assert "\n" not in str(refused.value) and "pydantic" not in str(refused.value)


def test_frozen_code_is_called_as_it_knows_itself(on_slurm: RunPaths, tmp_path: Path) -> None:
    (code,) = (path for path in on_slurm.code.iterdir() if path.is_dir())
    now = tmp_path / "now"
    (now / "fgrpo_bench" / "kinds").mkdir(parents=True)
    (now / "fgrpo_bench" / "kinds" / "__init__.py").touch()
    command = ["python", "-m", "fgrpo_bench.engines.openrlhf", "x", "--placement", "{}"]
    stored = {"of": "before"}
    assert as_frozen(command, now, None) == tuple(command)
    assert as_frozen(command, code, stored) == (
        *("python", "-m", "fgrpo_bench.training.openrlhf", "x", "--placement"),
        json.dumps(stored),
    )
    module = StagePaths(code).folder.joinpath("fgrpo_bench", "training", "__main__.py")
    assert module.exists()
    assert as_frozen(["-m", "fgrpo_bench.engines.embedded"], code, None)[-1] == (
        module.parent.relative_to(code).as_posix().replace("/", ".")
    )
