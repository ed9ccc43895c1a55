"""What cannot be is refused by `plan` and `run` in one message, with its remedy; nothing is
written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.cli import main

Sweeps = Callable[..., tuple[int, str, str]]
TRAIN = "experiment.train"
EVALUATION = "experiment.evaluation"
BENCHMARKS = f"{EVALUATION}.benchmarks"
DESIGN = f"{EVALUATION}.design"
STAGED = f"groupsize evaluation@{EVALUATION}=staged"
SLURM = "smoke profile=slurm"
OPENRLHF = "groupsize experiment=qwen2.5-7b profile=slurm-8gpu"
OF_OTHER_DOMAINS = f"{OPENRLHF} evaluation@{EVALUATION}=out-of-domain"


@pytest.mark.parametrize(
    ("words", "said"),
    [  # where the message has three dots, anything may stand between
        ("smokee", "unknown sweep 'smokee' (did you mean smoke?): valid ones are controls, gamma,"),
        ("smoke experiment=nope", "unknown experiment 'nope': valid ones are countdown,"),
        ("smoke profile=nope", "unknown profile 'nope': valid ones are local"),
        (f"smoke {TRAIN}.step=3", f"{TRAIN}.step ... (did you mean {TRAIN}.steps?)"),
        (f"smoke +{TRAIN}.stepz=3", "stepz: unknown key (did you mean steps?); rem"),
        ("smoke sweep.grid.seeds=[1]", "(did you mean sweep.grid.seed?)"),
        ("smoke max_paralel=2", "(did you mean profile.max_parallel?)"),
        ("smoke grid.seed=[4]", "(did you mean sweep.grid.seed?)"),
        ("smoke/countdown/v1/x", "names no run: write sweep[/experiment[/version]], e.g. "),
        ("smoke/countdown experiment=maze", "smoke/countdown and experiment=maze name two"),
        ("smoke smoke", "'smoke' is no override: write key=value, e.g. version=v2"),
        ("smoke sweep.grid.algorithm=[grop]", "unknown algorithm 'grop' (did you mean grpo?)"),
        ("smoke experiment.checkpoints=foo", "checkpoints = 'foo': input should be 'last' or"),
        ("smoke ++algorithms.grpo.parameters.k=[4]", "k = [4]: input should be a valid"),
        (
            "smoke sweep.grid.seed=11",
            "must be a list, also where it has one value; set sweep.grid.seed=[11]. It is: Training"
            " seeds",
        ),
        (
            "smoke sweep.grid.group_size=[1]",
            "group_size.0 = 1: input should be greater than ... ; set sweep.grid.group_size="
            "[<value>, ...]. ... one alone has no advantage to learn from.",
        ),
        (f"smoke {TRAIN}.steps=many", "steps = 'many': input should be a valid int"),
        ("smoke sweep.grid.focal_gamma=[-1.0]", "focal_gamma.0 = -1.0: input should be"),
        (f"smoke {EVALUATION}.n_samples=8", "k=16 is larger than n_samples=8"),
        (f"{STAGED} {DESIGN}.stages=[64,32,1024]", "32 follows 64, but each stage counts"),
        (f"{STAGED} {DESIGN}.stages=[]", "stages = []: tuple should have at least 1 item"),
        (f"{STAGED} {DESIGN}.enough=0", "enough = 0: input should be greater than or equal to 1"),
        (f"smoke {DESIGN}=staged", f"conf/design/ (+design@{DESIGN}=staged)"),
        (f"{STAGED} {EVALUATION}.n_samples=512", "n_samples=512, but the last of design"),
        (f"{STAGED} {EVALUATION}.ks=[1,2048]", "k=2048 is larger than n_samples=1024"),
        ("smoke hydra/launcher=submitit_slurm", "its multirun, launchers and sweepers run nothi"),
        ("smoke sweep.grid.seed=1,2", "To use it as a list, use key=[value1,value2]"),
        ("smoke +hydra.sweeper.n_jobs=2", "its axes are lists, e.g. 'sweep.grid.seed=[1,2]'"),
        ("smoke profile.device=tpu", "profile.device = 'tpu': input should be 'cpu' or"),
        ("smoke +profile.qos=a", "profile.qos: unknown key; remove it (valid here: device, "),
        ("smoke profile.dispatcher=pbs", "profile.dispatcher = 'pbs': must be one of 'local'"),
        (f"{SLURM} profile.nodes=0", "=<value>. It is: Nodes of a training run"),
        (f"{SLURM} profile.setup=[1]", "profile.setup.0 = 1: input should be a"),
        (f"{SLURM} profile.time_minutes=1", "lower it, or raise time_minutes"),
        (f"{SLURM} profile.device=cuda", "set profile.gpus_per_node=1, or"),
        ("smoke sweep.grid.seed=[]", "has no points: its grid has an empty axis"),
        (f"gamma {TRAIN}.updates_per_batch=1", "objectives are the same; set"),
        ("smoke +rare@experiment.rare=paper experiment.rare.share=0.0", "experiment.rare.share"),
        (
            f"smoke {TRAIN}.task.name=nope",
            f"{TRAIN}.task.name = 'nope': must be one of 'countdown'",
        ),
        (f"smoke {TRAIN}.task.n_digits=9", "n_digits = 9: input should be less ... Digits a prob"),
        (
            f"smoke +{TRAIN}.task.sides=6",
            "task.sides: unknown key ... heldout_fraction, max_target, n_digits, name, seed",
        ),
        (f"maze {TRAIN}.task.size=16", "size=16 is even: ... choose 15 or 17"),
        (
            f"maze {BENCHMARKS}.maze.n_problems=257",
            "n_problems=257, but task maze has n_heldout=256",
        ),
        (
            f"maze {TRAIN}.eval_every=10 {TRAIN}.eval_n_problems=300",
            "train.eval_n_problems=300, but task maze",
        ),
        (f"maze {BENCHMARKS}.maze.grader=walks", "unknown grader 'walks': valid ones are choice, "),
        (
            f"maze +design@{DESIGN}=staged {EVALUATION}.n_samples=1024",
            "benchmarks.maze has extra_graders=['maze-reached'] under a design: problems",
        ),
        (
            f"{OF_OTHER_DOMAINS} {BENCHMARKS}.ifeval.prompt=polite",
            "prompts has instructions, logic",
        ),
        (f"{OF_OTHER_DOMAINS} {BENCHMARKS}.gpqa.extra_graders=[choice]", "name each grader once"),
        (
            f"{OF_OTHER_DOMAINS} {BENCHMARKS}.gpqa.grader=math",
            "set grader and dataset.grader alike",
        ),
        (f"smoke {BENCHMARKS}.countdown.n_problems=null", "neither a dataset nor n_problems"),
        (f"{OPENRLHF} {BENCHMARKS}.math500.dataset=null", "benchmarks.math500.dataset"),
        (
            f"{OPENRLHF} {BENCHMARKS}.math500.dataset.name=deepscaler",
            "two datasets are named 'deepscaler' and differ",
        ),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    sweeps: Sweeps, tmp_path: Path, words: str, said: str
) -> None:
    code, out, errors = sweeps("plan", *words.split())
    assert (code, out) == (2, "")
    assert errors.startswith("error: ")
    for part in said.split(" ... "):
        assert part in errors
    assert list(tmp_path.iterdir()) == []


def test_run_refuses_what_plan_refuses_in_the_same_words_and_writes_nothing(
    sweeps: Sweeps, tmp_path: Path
) -> None:
    no_declaration, no_plan = "sweep.grid.group_size=[1]", f"{TRAIN}.updates_per_batch=1"
    for words in (["smokee"], ["smoke", no_declaration], ["gamma", no_plan]):
        refused = sweeps("run", *words)
        assert refused == sweeps("plan", *words) and refused[0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["pln", "smoke"], "(did you mean plan?)"),
        (["status", "smok"], "no run of smok (did you mean smoke?) under"),
        (["status", "groupsiz"], "no run of groupsiz (did you mean groupsize?) under"),
        (["status", "smoke", "--jsn"], "unknown argument '--jsn' (did you mean --json?)"),
        (["plan", "smoke", "--fast"], "unknown argument '--fast'"),
        (["run", "smoke", "-m"], "its multirun, launchers and sweepers run nothing here"),
        (["run", "smoke", "--multirun", "sweep.grid.seed=1,2"], "its multirun, launchers and"),
        (["run", "smoke", "version=v7", "-m"], "its multirun, launchers and sweepers run nothing"),
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


@pytest.mark.parametrize("root", ["file", "/proc/runs"])
def test_a_run_root_that_cannot_be_written_is_refused(
    tmp_path: Path, root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["run", "smoke", f"run_root={tmp_path / root}"]) == 2
    said = capsys.readouterr().err
    assert f"cannot write under the run root {tmp_path / root}" in said
    assert "run_root=<folder>" in said
