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
from fgrpo_bench.files.whole import write_json, write_text
from fgrpo_bench.specs import config
from fgrpo_bench.stats.power import smallest_effect
from sweeps import REPOSITORY
from sweeps.cli import main
from sweeps.plan import make_plan
from tests.support.fake_sweep import fake_sweep
from tests.support.faults import worker_pids

Sweeps = Callable[..., tuple[int, str, str]]
Frozen = Callable[..., RunPaths]


DESIGN = "experiment.evaluation.design"
STAGED = ["groupsize", "evaluation@experiment.evaluation=staged"]


def finish(paths: RunPaths, name: str, **measured: float) -> None:
    spec = json.loads((paths.folder / name / "spec.json").read_text())
    marker = {"fingerprint": spec["fingerprint"], "target": spec["target"], "outputs": {}}
    write_json(paths.folder / name / "DONE.json", marker | measured)


@pytest.mark.parametrize(
    "command", [[], ["plan"], ["run"], ["status"], ["check"], ["cancel"], ["logs"]]
)
def test_every_command_has_help_with_examples(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    said = capsys.readouterr().out
    assert "examples:\n  fgrpo-bench sweep" in said
    assert all(f"fgrpo-bench sweep {name}" in said for name in command)


def test_plan_shows_points_states_and_cost_and_writes_nothing(
    sweeps: Sweeps, tmp_path: Path
) -> None:
    code, said, _ = sweeps("plan", "smoke")
    lines = said.splitlines()
    assert code == 0
    assert lines[0] == "smoke: Does every part of the loop work on this machine?"
    assert f"experiment=countdown-tiny  version=v1  profile=local  folder {tmp_path}" in lines[1]
    assert lines[4].split()[:5] == ["base-s11", "Base", "-", "-", "11"]
    mark = make_plan(config.load("smoke")).stages[2].fingerprint[:8]
    row = ["grpo-n4-g1-s11", "F-GRPO", "4", "1", "11", mark, "to", "do", "to", "do", "to", "do"]
    assert lines[6].split() == row
    assert "2 points, 6 stages: 0 done, 1 warm-up, 2 trainings, 3 evaluations to run" in said
    assert "nothing measured here yet" in said
    assert list(tmp_path.iterdir()) == []


def test_plan_says_what_the_draws_can_show_before_anything_runs(sweeps: Sweeps) -> None:
    said = sweeps("plan", "smoke")[1]
    effect = 100 * smallest_effect(n_samples=32, k=16, n_problems=16)
    assert (
        f"pass@16 of 16 problems from 32 draws each: detectable difference {effect:.1f} points"
        in said
    )


def test_plan_says_it_of_averages_too_where_every_size_is_known(sweeps: Sweeps) -> None:
    asked = ["experiment=qwen2.5-7b", "evaluation@experiment.evaluation=paper"]
    said = sweeps("plan", "gamma", *asked)[1]
    effect = 100 * smallest_effect(n_samples=1024, k=256, n_problems=[500, 30, 30, 40, 272, 674])
    (line,) = [line for line in said.splitlines() if line.startswith("average ")]
    assert line.startswith("average in-domain: ")  # SynLogic's size is known after its fetch
    assert f"detectable difference {effect:.1f} points" in line


def test_a_dry_run_is_a_plan(sweeps: Sweeps, tmp_path: Path) -> None:
    assert sweeps("run", "smoke", "--dry-run") == sweeps("plan", "smoke")
    assert list(tmp_path.iterdir()) == []


def test_plan_counts_what_exists_and_scales_the_cost_by_it(sweeps: Sweeps, frozen: Frozen) -> None:
    before = json.loads(sweeps("plan", "smoke", "--json")[1])
    paths = frozen()
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


def test_plan_of_other_settings_says_what_run_would_refuse(sweeps: Sweeps, frozen: Frozen) -> None:
    frozen()
    code, said, errors = sweeps("plan", "smoke", "experiment.train.learning_rate=0.5")
    assert code == 2
    assert "F-GRPO" in said
    assert "0.5 asked for" in errors


def test_the_printed_configuration_is_a_list_of_overrides_that_makes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = ["sweep.question='it\\'s \\\\ a \"test\": a, b?'", "profile.max_parallel=3"]
    assert main(["plan", "groupsize", "--config", *chosen]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "experiment.train.eval_every=50" in lines
    assert "profile.max_parallel=3" in lines
    assert config.load("groupsize", lines) == config.load("groupsize", chosen)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "unknown sweep 'nope': valid ones are controls, gamma, groupsize, "),
        (["smoke", "experiment=nope"], "unknown experiment 'nope': valid ones are countdown,"),
        (["smoke", "profile=nope"], "unknown profile 'nope': valid ones are local"),
        (["smoke", "experiment.train.stepz=3"], "experiment.train.stepz"),
        (["smokee"], "unknown sweep 'smokee' (did you mean smoke?): valid ones are controls,"),
        (["smoke", "experiment=countdwn"], "'countdwn' (did you mean countdown?): valid ones"),
        (["smoke", "experiment.train.step=3"], "(did you mean experiment.train.steps?)"),
        (["smoke", "sweep.grid.seeds=[1]"], "(did you mean sweep.grid.seed?)"),
        (["smoke", "+experiment.train.stepz=3"], "stepz: unknown key (did you mean steps?); rem"),
        (["smoke", "max_paralel=2"], "(did you mean profile.max_parallel?)"),
        (["smoke", "grid.seed=[4]"], "(did you mean sweep.grid.seed?)"),
        (["smoke/countdown/v1/x"], "names no run: write sweep[/experiment[/version]], e.g. "),
        (["smoke/countdown", "experiment=maze"], "smoke/countdown and experiment=maze name two"),
        (["smoke", "smoke"], "'smoke' is no override: write key=value, e.g. version=v2"),
        (["smoke", "sweep.grid.algorithm=[grop]"], "unknown algorithm 'grop' (did you mean grpo?)"),
        (["smoke", "experiment.checkpoints=foo"], "checkpoints = 'foo': input should be 'last' or"),
        (
            ["smoke", "++algorithms.grpo.parameters.k=[4]"],
            "k = [4]: input should be a valid",
        ),
        (["smoke", "sweep.grid.seed=11"], "must be a list, also where it has one value; set swe"),
        (["smoke", "sweep.grid.seed=11"], "; set sweep.grid.seed=[11]. It is: Training seeds"),
        (["smoke", "sweep.grid.group_size=[1]"], "; set sweep.grid.group_size=[<value>, ...]."),
        (["smoke", "sweep.grid.group_size=[1]"], "one alone has no advantage to learn from."),
        (["smoke", "experiment.train.steps=many"], "steps = 'many': input should be a valid int"),
        (["smoke", "sweep.grid.group_size=[1]"], "group_size.0 = 1: input should be greater than"),
        (["smoke", "sweep.grid.focal_gamma=[-1.0]"], "focal_gamma.0 = -1.0: input should be"),
        (["smoke", "experiment.evaluation.n_samples=8"], "k=16 is larger than n_samples=8"),
        ([*STAGED, f"{DESIGN}.stages=[64,32,1024]"], "32 follows 64, but each stage counts"),
        ([*STAGED, f"{DESIGN}.stages=[]"], "stages = []: tuple should have at least 1 item"),
        ([*STAGED, f"{DESIGN}.enough=0"], "enough = 0: input should be greater than or equal to 1"),
        (
            ["smoke", f"{DESIGN}=staged"],
            "conf/design/ (+design@experiment.evaluation.design=staged)",
        ),
        ([*STAGED, "experiment.evaluation.n_samples=512"], "n_samples=512, but the last of design"),
        ([*STAGED, "experiment.evaluation.ks=[1,2048]"], "k=2048 is larger than n_samples=1024"),
        (
            ["smoke", "hydra/launcher=submitit_slurm"],
            "its multirun, launchers and sweepers run nothi",
        ),
        (["smoke", "sweep.grid.seed=1,2"], "To use it as a list, use key=[value1,value2]"),
        (["smoke", "+hydra.sweeper.n_jobs=2"], "its axes are lists, e.g. 'sweep.grid.seed=[1,2]'"),
        (["smoke", "profile.device=tpu"], "profile.device = 'tpu': input should be 'cpu' or"),
        (["smoke", "+profile.qos=a"], "profile.qos: unknown key; remove it (valid here: device, "),
        (["smoke", "profile.dispatcher=pbs"], "profile.dispatcher = 'pbs': must be one of 'local'"),
        (["smoke", "profile=slurm", "profile.nodes=0"], "=<value>. It is: Nodes of a training run"),
        (["smoke", "profile=slurm", "profile.setup=[1]"], "profile.setup.0 = 1: input should be a"),
        (["smoke", "profile=slurm", "profile.time_minutes=1"], "lower it, or raise time_minutes"),
        (["smoke", "profile=slurm", "profile.device=cuda"], "set profile.gpus_per_node=1, or"),
        (["smoke", "sweep.grid.seed=[]"], "has no points: its grid has an empty axis"),
        (["gamma", "experiment.train.updates_per_batch=1"], "objectives are the same; set"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    sweeps: Sweeps, tmp_path: Path, arguments: list[str], said: str
) -> None:
    code, out, errors = sweeps("plan", *arguments)
    assert code == 2
    assert errors.startswith("error: ")
    assert said in errors
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["smokee"],  # no sweep
        ["smoke", "sweep.grid.group_size=[1]"],  # no declaration
        ["gamma", "experiment.train.updates_per_batch=1"],  # no plan
    ],
)
def test_run_refuses_what_plan_refuses_in_the_same_words_and_writes_nothing(
    sweeps: Sweeps, tmp_path: Path, arguments: list[str]
) -> None:
    refused = sweeps("run", *arguments)
    assert refused == sweeps("plan", *arguments) and refused[0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["pln", "smoke"], "(did you mean plan?)"),
        (["status", "smok"], "no run of smok (did you mean smoke?) under"),
        (["status", "groupsiz"], "no run of groupsiz (did you mean groupsize?) under"),
        (["status", "smoke", "--jsn"], "unknown argument '--jsn' (did you mean --json?)"),
    ],
)
def test_what_was_meant_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], near: str
) -> None:
    (tmp_path / "smoke/countdown-tiny/v1").mkdir(parents=True)
    (tmp_path / "smoke/countdown-tiny/v1/plan.json").touch()
    try:
        code = main([*arguments, *([f"run_root={tmp_path}"] if arguments[0] == "status" else [])])
    except SystemExit as ended:  # argparse's own refusal
        code = int(str(ended.code))
    assert code == 2
    assert near in capsys.readouterr().err


def test_a_plan_without_gpus_says_so_and_what_it_would_take_on_gpus(sweeps: Sweeps) -> None:
    code, out, _ = sweeps("plan", "groupsize", "experiment=qwen2.5-7b")
    assert code == 0
    assert "no GPU: profile=local runs 43 stages that are made for GPUs on processors" in out
    assert "GPU-hours (21 trainings " in out and "at once" not in out
    assert "plus downloads, not timed: a model of 15.2 GB, 3 datasets" in out
    _, on_gpus, _ = sweeps("plan", "groupsize", "experiment=qwen2.5-7b", "profile=slurm-8gpu")
    assert "no GPU" not in on_gpus
    assert "days with 4 jobs at once, waits in queues apart" in on_gpus
    assert "assumed: 200 tokens per prompt, " in on_gpus
    for said in (out, on_gpus):
        assert "estimated cost" not in said and "cost not estimated" not in said


def test_a_run_root_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text(tmp_path / "file", "in the way")
    assert main(["run", "smoke", f"run_root={tmp_path}/file"]) == 2
    said = capsys.readouterr().err
    assert f"cannot write under the run root {tmp_path}/file" in said
    assert "run_root=<folder>" in said


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
    code, _, errors = sweeps("run", "gamma", "algorithm=grop")
    assert code == 2
    assert "error: unknown algorithm 'grop' (did you mean grpo?)" in errors


def test_options_may_stand_before_overrides_and_nonsense_is_refused(
    sweeps: Sweeps, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = sweeps("plan", "smoke", "--json", "version=v7")
    assert (code, json.loads(said)["version"]) == (0, "v7")
    with pytest.raises(SystemExit):
        main(["plan", "smoke", "--fast"])
    assert "unknown argument '--fast'" in capsys.readouterr().err
    for words in (["-m"], ["--multirun", "sweep.grid.seed=1,2"], ["version=v7", "-m"]):
        with pytest.raises(SystemExit):
            main(["run", "smoke", *words])
        assert "its multirun, launchers and sweepers run nothing here" in capsys.readouterr().err


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


def test_a_disk_that_fills_up_under_a_driver_leaves_no_worker_behind(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path, "profile.max_parallel=2", FAKE_STEPS="200")
    program = """
import runpy
from fgrpo_bench.stages import attempts

write = attempts.write_json
def full(path, note):
    if "g1" in str(path):
        raise OSError(28, f"cannot write {path}")
    write(path, note)
attempts.write_json = full
runpy.run_module("tests.support.fake_driver", None, "__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(sweep.declaration)],
        cwd=REPOSITORY,
        env=sweep.environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"cannot write {sweep.paths.point('grpo-n4-g1-s11').attempt(1)}" in done.stderr
    assert worker_pids(sweep.paths) == []


def test_a_run_is_named_by_its_sweep_experiment_and_version_or_refused_with_those_there(
    sweeps: Sweeps, frozen: Frozen
) -> None:
    frozen()
    frozen("version=v2")
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


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m sweeps plan groupsize --config | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout == "version=v1\n"
    assert done.stderr == ""
