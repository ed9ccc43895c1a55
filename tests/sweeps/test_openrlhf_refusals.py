"""What cannot work with OpenRLHF on a cluster is refused before anything is queued."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.engines.openrlhf import engine
from fgrpo_bench.engines.openrlhf.states import Origin, mark_whole
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import config
from sweeps import commands
from sweeps.cli import main
from sweeps.freeze import check_conflicts, run_paths
from sweeps.plan import make_plan
from tests.support.points import declared
from tests.support.programs import link_programs


class Cluster:
    """A SLURM whose programs only write down what they were asked."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.asked = folder / "bin", folder / "asked"
        self.bin.mkdir()
        node = f"gpu*|n1|{socket.gethostname()}|127.0.0.1|128|2000000|gpu:8|infinite|idle"
        self._put("sinfo", f"echo '{node}'")
        self._put(
            "sbatch", f'echo "$@" >> {self.asked}; echo Submitted batch job $(wc -l < {self.asked})'
        )
        for name in ("squeue", "sacct", "srun"):
            self._put(name, "true")
        self._put("scontrol", "echo MaxArraySize = 1001")
        link_programs(self.bin, "git", "wc")

    def _put(self, name: str, line: str) -> None:
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    def sent(self) -> list[str]:
        lines = self.asked.read_text().splitlines() if self.asked.exists() else []
        return [line for line in lines if "--test-only" not in line]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(tmp_path)
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return made


EPOCH = 2 * 256
"""Prompts, with the two batches of an epoch that TEN_EPOCHS has."""
TEN_EPOCHS = ["experiment.train.steps=20", "experiment.train.save_every=2"]


def local_files(
    tmp_path: Path, *, columns: str = "prompt,answer", n_rows: int = EPOCH
) -> list[str]:
    """Overrides that take datasets and model from files here, whole ones."""
    prompt, answer = columns.split(",")
    rows = tmp_path / "rows.jsonl"
    lines = (json.dumps({prompt: f"{i}+1?", answer: str(i + 1)}) for i in range(n_rows))
    rows.write_text("\n".join(lines) + "\n")
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"):
        (folder / name).write_text("{}")
    out = [f"experiment.train.pretrained.path={folder}"]
    for key in ("train.dataset", "train.eval_dataset", "evaluation.benchmarks.math500.dataset"):
        values = {
            "source": "file",
            "repository": "null",
            "revision": "null",
            "path": str(rows),
            "sha256": "null",
            "prompt_key": "prompt",
            "answer_key": "answer",
            "max_tokens": "null",
            "tokenizer": "null",
            "token_field": "null",
            "exact_rows": "false",
        }
        out += [f"experiment.{key}.{name}={value}" for name, value in values.items()]
    return [*out, *TEN_EPOCHS, "experiment.evaluation.benchmarks.math500.n_problems=1"]


def run(tmp_path: Path, *overrides: str) -> int:
    python = f"profile.placement.python={sys.executable}"
    shared = "profile.shared_run_root=true"
    chosen = ["experiment=qwen2.5-7b", "profile=slurm-8gpu", python, shared]
    return main(["run", "groupsize", f"run_root={tmp_path}/runs", *chosen, *overrides])


def refused(capfd: pytest.CaptureFixture[str]) -> str:
    said = capfd.readouterr()  # what a stage said of its failure is shown with the end of the pool
    return " ".join((said.out + said.err).split())


@pytest.mark.slow
def test_whole_files_are_fetched_and_the_sweep_is_sent(cluster: Cluster, tmp_path: Path) -> None:
    assert run(tmp_path, *local_files(tmp_path)) == 0
    assert len(cluster.sent()) == 4
    data = tmp_path / "runs/groupsize/qwen2.5-7b/v1/_data/deepscaler"
    assert (data / "DONE.json").exists()


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ("tokenizer.json", "has no tokenizer (tokenizer.json or tokenizer.model or vocab.json)"),
        ("chat_template.jinja", "has no chat template"),
        ("config.json", "has no config (config.json)"),
    ],
)
@pytest.mark.slow
def test_a_model_that_lacks_something_is_refused_before_anything_is_queued(
    lacks: str, said: str, cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    overrides = local_files(tmp_path)
    (tmp_path / "model" / lacks).unlink()
    assert run(tmp_path, *overrides) == 2
    message = refused(capfd)
    assert said in message and "was not fetched, so nothing was submitted" in message
    assert cluster.sent() == []


def test_a_dataset_without_the_named_columns_is_refused_before_anything_is_queued(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *local_files(tmp_path, columns="question,answer")) == 2
    assert "has no column 'prompt'; it has answer, question" in refused(capfd)
    assert cluster.sent() == []


@pytest.mark.slow
def test_a_dataset_that_is_too_small_for_an_epoch_is_refused_before_anything_is_queued(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *local_files(tmp_path, n_rows=EPOCH - 1)) == 2
    message = refused(capfd)
    assert "has 512 prompts" in message and "dataset deepscaler has 511" in message
    assert "nothing was submitted" in message and cluster.sent() == []


@pytest.mark.slow
def test_fewer_problems_to_evaluate_on_than_asked_for_are_refused_before_anything_is_queued(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    few = ["experiment.train.eval_dataset.limit=29"]
    assert run(tmp_path, *local_files(tmp_path), *few) == 2
    message = refused(capfd)
    assert "eval_n_problems=30, but eval_dataset aime25 has 29: ask for fewer" in message
    assert "nothing was submitted" in message and cluster.sent() == []


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            [
                "experiment.train.budget=constant_rollouts",
                "experiment.train.rollouts_per_step=2048",
                "experiment.train.prompts_per_step=null",
                "sweep.grid.group_size=[6]",
            ],
            "rollouts_per_step=2048 is no multiple of group_size=6: a step draws whole groups",
        ),
        (
            ["experiment.train.prompts_per_step=254"],
            "254 prompts per step, no multiple of updates_per_batch=4",
        ),
        (
            ["profile.placement.gpu_memory_gb=10.0"],
            "it cannot fit; take a lower max_tokens_per_gpu, or more GPUs",
        ),
        (["profile.placement.python=null"], "run `make setup-openrlhf`"),
        (["profile.placement.states_kept=1"], "states_kept=1: the oldest state is deleted before"),
        (["profile.placement.vllm_engines=3"], "change profile.placement.vllm_engines to 8"),
        (
            ["profile.placement.evaluation_engines=3"],
            "set profile.placement.evaluation_engines to 1, 2, 4 or 8",
        ),
        (
            ["profile.placement.vllm_max_num_batched_tokens=128"],
            "is less than vllm_max_num_seqs=192",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    overrides: list[str],
    said: str,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(engine, "REPOSITORY", tmp_path)  # no environment is made here
    assert run(tmp_path, *overrides) == 2
    assert said in refused(capfd)
    assert not cluster.asked.exists() and not (tmp_path / "runs").exists()


def interpreter(folder: Path, line: str) -> Path:
    """A program in the place of OpenRLHF's Python, which writes down what it is asked."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/flags\n{line}\n')
    program.chmod(0o755)
    return program


def test_a_flag_that_the_installed_openrlhf_does_not_know_is_refused_before_anything_is_queued(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    python = interpreter(tmp_path, "echo OpenRLHF 9 has no flag ds.zpgs >&2; exit 2")
    chosen = [f"profile.placement.python={python}", "+experiment.train.extra.ds.zpgs=2"]
    assert run(tmp_path, *local_files(tmp_path), *chosen) == 2
    assert "extra is refused: OpenRLHF 9 has no flag ds.zpgs; mend or leave" in refused(capfd)
    asked = (tmp_path / "flags").read_text().split()
    assert asked[:2] == ["-m", "fgrpo_bench.engines.openrlhf.flags"]
    assert asked[-2:] == ["--ds.zpgs", "2"]
    assert not cluster.asked.exists() and not (tmp_path / "runs").exists()


def test_flags_that_cannot_be_looked_up_here_are_left_to_the_jobs_and_that_is_said(
    tmp_path: Path,
) -> None:
    declaration = declared("+experiment.train.extra.ds.zpg=2")
    profile, train = declaration.profile, declaration.experiment.train

    def note(python: Path) -> str | None:
        placement = replace(profile.placement, python=str(python))
        return commands.check_flags(replace(profile, placement=placement), train)  # type: ignore[arg-type]

    assert note(interpreter(tmp_path, "exit 0")) is None
    said = note(Path("/on/the/nodes/python"))
    assert said is not None and "/on/the/nodes/python is not on this machine" in said
    assert commands.check_flags(profile, declared().experiment.train) is None  # nothing to look up


@pytest.mark.parametrize(
    ("ranks", "base_sha256", "said"),
    [
        (16, "a" * 64, "was saved by 16 ranks, and this run has 8"),
        (8, "b" * 64, f"trained from a base model with sha256 {'b' * 64}"),
        (8, "a" * 64, ""),
    ],
)
def test_a_state_that_this_run_cannot_go_on_from_is_refused(
    ranks: int, base_sha256: str, said: str, tmp_path: Path
) -> None:
    chosen = ["experiment=qwen2.5-7b", "profile=slurm-8gpu", f"run_root={tmp_path}"]
    declaration = config.load("groupsize", chosen)
    plan, paths = make_plan(declaration), run_paths(declaration)
    stage = next(stage for stage in plan.stages if stage.kind == "train")
    own = StagePaths(paths.folder / stage.name)
    base = StagePaths((own.folder / stage.spec.as_json()["base"]).resolve())
    write_json(
        base.done, {"fingerprint": "f", "target": {}, "outputs": {}, "weights_sha256": "a" * 64}
    )
    (own.training_states / "_actor" / "global_step10").mkdir(parents=True)
    mark_whole(own.training_states, 10, Origin(ranks=ranks, base_sha256=base_sha256))
    with pytest.raises(ValueError, match=said) if said else nullcontext():
        check_conflicts(paths, plan)


@pytest.mark.parametrize(
    ("device", "home", "target"),
    [
        ("cuda", ".venv-openrlhf", "make setup-openrlhf`"),
        ("cpu", ".venv-openrlhf-cpu", "make setup-openrlhf-cpu`"),
    ],
)
def test_a_missing_environment_is_refused_with_the_command_that_makes_it(
    device: str,
    home: str,
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "REPOSITORY", tmp_path)
    profile = replace(declared().profile, device=device)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"no OpenRLHF environment for device={device}") as refused:
        commands.check_interpreters(profile, {"base", "openrlhf"})
    assert target in str(refused.value) and f"{home}/bin/python" in str(refused.value)
    commands.check_interpreters(profile, {"base"})  # nothing needs it
    named = replace(profile, placement=replace(profile.placement, python="/on/the/nodes/python"))
    commands.check_interpreters(named, {"openrlhf"})  # the nodes' business
    made = tmp_path / home / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    commands.check_interpreters(profile, {"openrlhf"})
    assert commands.interpreter(profile, "openrlhf") == str(made)


def test_a_driver_that_is_too_old_for_the_pins_is_refused_where_it_would_run_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "REPOSITORY", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    smi, python = tmp_path / "nvidia-smi", tmp_path / ".venv-openrlhf/bin/python"
    smi.write_text("#!/bin/sh\necho 570.86.10\n")
    smi.chmod(0o755)
    python.parent.mkdir(parents=True)
    python.touch()
    here = config.load("smoke", ["profile.device=cuda", "run_root=runs"]).profile
    with pytest.raises(ValueError, match=r"driver here is 570.86.10.*580 or newer"):
        commands.check_interpreters(here, {"openrlhf"})
    commands.check_interpreters(here, {"base"})
    commands.check_interpreters(declared().profile, {"openrlhf"})  # nodes may have a newer one
    smi.write_text("#!/bin/sh\necho 580.65.06\n")
    commands.check_interpreters(here, {"openrlhf"})
