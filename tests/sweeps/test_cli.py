"""The command line: what it prints, what it refuses, and how it exits."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import config
from fgrpo_bench.stats.power import smallest_effect
from fgrpo_bench.stats.staged import fixed_design
from sweeps import REPOSITORY
from sweeps.cli import find_run, main, plain_value
from sweeps.freeze import run_paths
from sweeps.plan import make_plan
from tests.support.plans import frozen, loaded

Sweeps = Callable[..., tuple[int, str, str]]


def finish(paths: RunPaths, name: str, **measured: float) -> None:
    spec = json.loads((paths.folder / name / "spec.json").read_text())
    marker = {"fingerprint": spec["fingerprint"], "target": spec["target"], "outputs": {}}
    write_json(paths.folder / name / "DONE.json", marker | measured)


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["plan"], ["run"], ["status"], ["cancel"], ["logs"]):
        assert main([*command, "--help"]) == 0
        said = capsys.readouterr().out
        assert "examples:\n  fgrpo-bench sweep" in said
        assert all(f"fgrpo-bench sweep {name}" in said for name in command)


def test_plan_and_a_dry_run_show_points_states_and_cost_and_write_nothing(
    sweeps: Sweeps, tmp_path: Path
) -> None:
    code, said, _ = sweeps("plan", "smoke")
    lines = said.splitlines()
    assert code == 0
    assert lines[0] == "smoke: Does every part of the loop work on this machine?"
    assert f"experiment=countdown-tiny  version=v1  profile=local  folder {tmp_path}" in lines[1]
    assert lines[4].split()[:5] == ["base-s11", "Base", "-", "-", "11"]
    mark = make_plan(loaded("smoke")).stages[2].fingerprint[:8]
    row = ["grpo-n4-g1-s11", "F-GRPO", "4", "1", "11", mark, "to", "do", "to", "do", "to", "do"]
    assert lines[6].split() == row
    assert "2 runs, 6 stages: 0 done, 1 warm-up, 2 trainings, 3 evaluations to run" in said
    assert "nothing measured here yet" in said
    effect = 100 * smallest_effect(design=fixed_design(32), k=16, n_problems=16)
    difference = f"detectable difference {effect:.1f} points"
    assert f"pass@16 of 16 problems from 32 draws each: {difference}" in said
    assert sweeps("run", "smoke", "--dry-run") == (0, said, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_plan_says_what_an_average_can_show_where_every_size_is_known(sweeps: Sweeps) -> None:
    asked = ["experiment=qwen2.5-7b", "evaluation@experiment.evaluation=paper"]
    said = sweeps("plan", "gamma", *asked)[1]
    sizes = [500, 30, 30, 40, 272, 674]
    effect = 100 * smallest_effect(design=fixed_design(1024), k=256, n_problems=sizes)
    (line,) = [line for line in said.splitlines() if line.startswith("average ")]
    assert line.startswith("average in-domain: ")  # SynLogic's size is known after its fetch
    assert f"detectable difference {effect:.1f} points" in line


@pytest.mark.slow
def test_plan_counts_what_exists_and_scales_the_cost_by_it(sweeps: Sweeps, tmp_path: Path) -> None:
    before = json.loads(sweeps("plan", "smoke", "--json", "version=v1")[1])
    paths, _ = frozen(tmp_path)
    finish(paths, "_warmup/s11", cpu_seconds=1000.0)
    after = json.loads(sweeps("plan", "smoke", "--json")[1])
    assert before["points"][0]["warmup"] == "waiting"
    assert after["points"][0]["warmup"] == "done"
    assert after["points"][2]["warmup"] == "done"
    none = dict.fromkeys(("fetch", "warmup", "rare", "likelihood"), 0)
    assert after["stages_to_run"] == none | {"train": 2, "evaluate": 3}
    assert after["cost"]["measured_stages"] == 1
    assert after["cost"]["cpu_seconds"] > 10 * before["cost"]["cpu_seconds"]
    assert "scaled by 1 stage measured here" in sweeps("plan", "smoke")[1]
    code, said, errors = sweeps("plan", "smoke", "experiment.train.learning_rate=0.5")
    assert (code, "F-GRPO" in said) == (2, True), "it is shown, and says what run would refuse"
    assert "0.5 asked for" in errors


@pytest.mark.slow
def test_the_printed_configuration_is_a_list_of_overrides_that_makes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = ["sweep.question='it\\'s \\\\ a \"test\": a, b?'", "profile.max_parallel=3"]
    assert main(["plan", "groupsize", "--config", *chosen]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "experiment.train.eval_every=50" in lines
    assert "profile.max_parallel=3" in lines
    assert config.load("groupsize", lines) == config.load("groupsize", chosen)


@pytest.mark.slow
def test_a_plan_without_gpus_says_so_and_what_it_would_take_on_gpus(sweeps: Sweeps) -> None:
    code, out, _ = sweeps("plan", "groupsize", "experiment=qwen2.5-7b")
    assert code == 0
    assert "no GPU: profile=local runs 61 stages that are made for GPUs on processors" in out
    assert "GPU-hours (30 trainings " in out and "at once" not in out
    assert "plus downloads, not timed: a model of 15.2 GB, 3 datasets" in out
    _, on_gpus, _ = sweeps("plan", "groupsize", "experiment=qwen2.5-7b", "profile=slurm-8gpu")
    assert "no GPU" not in on_gpus
    assert "days with 4 jobs at once, waits in queues apart" in on_gpus
    assert "assumed: 200 tokens per prompt, " in on_gpus
    for said in (out, on_gpus):
        assert "estimated cost" not in said and "cost not estimated" not in said


@pytest.mark.slow
def test_axes_of_the_grid_go_by_their_names_and_a_sweep_by_its_whole_name(
    sweeps: Sweeps,
) -> None:
    axes = ["seed=21", "group_size=[8,16]", "learning_rate_factor=0.5", "focal_gamma=[0,1]"]
    code, said, errors = sweeps("plan", "gamma/countdown-tiny/v9", *axes, "algorithm=grpo")
    full = ["sweep.grid.seed=[21]", "sweep.grid.group_size=[8,16]", "sweep.grid.focal_gamma=[0,1]"]
    full += ["++sweep.grid.learning_rate_factor=[0.5]", "sweep.grid.algorithm=[grpo]"]
    assert code == 0
    assert "seed=21 is taken for sweep.grid.seed=[21]\n" in errors
    assert "learning_rate_factor=0.5 is taken for sweep.grid.learning_rate_factor=[0.5]" in errors
    address = ["experiment=countdown-tiny", "version=v9"]
    assert (0, said, "") == sweeps("plan", "gamma", *address, *full)


@pytest.mark.slow
def test_a_full_disk_stops_before_anything_starts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sweeps", "run", "smoke", f"run_root={tmp_path}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    folder = tmp_path / "smoke/countdown-tiny/v1"
    assert done.returncode == 2
    assert f"cannot write {folder}/sweep.json" in done.stderr
    assert "free some space" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["driver.lock"]


@pytest.mark.slow
def test_a_run_is_named_by_its_sweep_experiment_and_version_or_refused_with_those_there(
    sweeps: Sweeps, tmp_path: Path
) -> None:
    frozen(tmp_path)
    frozen(tmp_path, "version=v2")
    for words, version in (
        (["smoke"], "v1"),  # that `run smoke` would go on with
        (["smoke", "version=v2"], "v2"),
        (["smoke/countdown-tiny/v2"], "v2"),
    ):
        code, said, _ = sweeps("status", *words, "--json")
        assert (code, json.loads(said)["version"]) == (0, version)
    for words in (["groupsize"], ["smoke/countdown"], ["smoke", "version=v3"]):
        code, _, errors = sweeps("status", *words)
        assert code == 2
        assert f"no run of {words[0]}" in errors
        assert "there are\n  smoke/countdown-tiny/v1\n  smoke/countdown-tiny/v2" in errors
    code, _, errors = sweeps("status", "smoke", "profile=local")
    assert code == 2
    assert "'profile=local' says nothing here" in errors


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m sweeps plan groupsize --config | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout == "version=v1\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_mazes_are_priced_on_a_gpu_and_without_one_it_is_said_what_one_would_take(
    sweeps: Sweeps,
) -> None:
    said = sweeps("plan", "maze", "experiment=maze", "profile.device=cuda")[1]
    assert "estimated on GPUs: 32 GPU-hours (1 warm-up 0.0, 18 trainings 32," in said
    assert "tokens drawn a second and GPU (assumed of 1,000 processors by its parameters)" in said
    said = sweeps("plan", "maze", "experiment=maze")[1]
    assert "days of processor time" in said
    assert "on a GPU (profile.device=cuda) it would take about 32 GPU-hours, were that" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "given"),
    [("a b", "{}"), ("a, b[1] = c", "'{}'")],
)
def test_a_run_is_found_by_the_run_root_that_it_was_given(
    tmp_path: Path, name: str, given: str
) -> None:
    override = "run_root=" + given.format(tmp_path / name)
    paths = run_paths(config.load("smoke", [override]))
    assert paths.root == tmp_path / name
    frozen(paths.root)
    assert find_run("smoke", [override]) == paths


@pytest.mark.slow
def test_escaped_quotes_and_variables_of_a_run_root_are_read_as_run_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCRATCH", "/fast")
    assert plain_value("run_root", r"'it\'s'") == "it's"
    assert plain_value("run_root", '"/a b"') == "/a b"
    assert plain_value("run_root", "${oc.env:SCRATCH}/runs") == "/fast/runs"
    with pytest.raises(ValueError, match="these overrides cannot be applied: run_root='/a b"):
        plain_value("run_root", "'/a b")
