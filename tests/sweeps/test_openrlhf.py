"""OpenRLHF on a cluster: its plan, what would be sent, and what is refused before anything is."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.engines.openrlhf import engine
from fgrpo_bench.engines.openrlhf.states import Origin, mark_whole, states_folder
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs.stored import TrainStageSpec
from sweeps import commands
from sweeps.cli import main
from sweeps.freeze import check_conflicts, run_paths
from sweeps.plan import Plan, Stage, make_plan
from sweeps.slurm import drive
from sweeps.slurm.code import code_folder
from tests.support.plans import loaded, planned
from tests.support.points import declared
from tests.support.slurm_programs import Programs, link_programs

Golden = Callable[[str, str], None]
ON_GPUS = ["experiment=qwen2.5-7b", "profile=slurm-8gpu"]


def test_the_dry_run_is_the_golden_one_and_writes_nothing(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    link_programs(programs, "git")
    monkeypatch.setenv("PATH", str(programs))  # no SLURM
    root = tmp_path / "runs"
    plan = make_plan(declared(f"run_root='{root}'"))
    paths = run_paths(plan.declaration)
    said = "\n".join(drive.dry_run(plan, paths, limit=1001))
    said = said.replace(str(code_folder(paths.code)), "CODE").replace(str(root), "ROOT")
    golden("sbatch-openrlhf.txt", said.replace(sys.executable, "PYTHON"))
    assert not root.exists()


def stages(plan: Plan) -> dict[str, Stage]:
    return {stage.name: stage for stage in plan.stages}


def test_every_point_reads_the_dataset_and_the_model_that_were_fetched_once() -> None:
    plan = make_plan(declared())
    needs = ("_base/qwen2.5-7b", "_data/deepscaler", "_data/aime25")
    trained = [stage for stage in plan.stages if stage.kind == "train"]
    assert len(trained) == 30
    for stage in trained:
        spec = stage.spec.as_kind(TrainStageSpec)
        assert stage.needs == needs
        assert [spec.base, spec.data, spec.eval_data] == [f"../{name}" for name in needs]
    judged = [stage for stage in plan.stages if stage.kind == "evaluate"]
    assert sum(stage.needs[0] == needs[0] for stage in judged) == 1, "one base for all seeds"


def test_fields_that_training_specs_did_not_always_have_are_identity_only_where_they_are_set() -> (
    None
):
    name = "grpo-n8-g0.5-s11"
    as_before = [
        "experiment.train.lr_warmup_updates=15",
        "experiment.train.lr_warmup_steps=null",
        "experiment.train.eval_every=0",
        "experiment.train.eval_dataset=null",
        "experiment.train.eval_n_problems=1",
        "experiment.train.eval_n_samples=1",
    ]
    stage = stages(make_plan(declared(*as_before)))[name]
    assert not {"lr_warmup_steps", "extra"} & stage.spec.identity["train"].keys()
    further = {
        "lr_warmup_steps": as_before[2:],
        "extra": [*as_before, "+experiment.train.extra.ds.lora.rank=16"],
    }
    for field, overrides in further.items():
        other = stages(make_plan(declared(*overrides)))[name]
        assert field in other.spec.identity["train"].keys() - stage.spec.identity["train"]
        assert other.fingerprint != stage.fingerprint
    evaluated = stages(make_plan(declared(*as_before[:3])))[name]
    assert evaluated.fingerprint == stage.fingerprint, "what is drawn on meanwhile makes no weights"


@pytest.mark.slow
def test_how_a_run_is_laid_out_and_what_counts_its_memory_is_no_identity() -> None:
    marks = [
        {stage.name: stage.fingerprint for stage in make_plan(declaration).stages}
        for declaration in (
            declared(),
            declared("profile.placement.zero_stage=2", "profile.placement.vllm_gpu_memory=0.5"),
            declared(
                "profile.placement.evaluation_engines=2",
                "profile.placement.evaluation_tensor_parallel=4",
                "profile.placement.vllm_max_num_seqs=64",
            ),
            declared("experiment.train.pretrained.shape=null"),
            loaded("groupsize", "experiment=qwen2.5-7b", "profile=slurm-multinode"),
        )
    ]
    assert all(other == marks[0] for other in marks)


@pytest.mark.slow
def test_a_tight_fit_is_said_in_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    tight = [*ON_GPUS, "profile.placement.gpu_memory_gb=44.0"]
    assert main(["plan", "groupsize", *tight]) == 0
    said = capsys.readouterr().out
    assert said.count("warning: qwen2.5-7b with 7.62 billion parameters needs 40.5 GiB") == 1
    assert said.count("warning: qwen2.5-7b in vLLM has a key-value cache of 352,299 tok") == 1
    assert said.count("\nsaving a training state of 91.4 GB takes about 91 s") == 1
    memory = (
        "\nGiB of a GPU's 44 by grpo: 40.5 in an update (states 14.2 + logits "
        "23.2 + activations 3.1), 19.5 in an optimizer step, 18.0 in sync and save, 34.8 in "
        "rollouts (vLLM 33.0 + policy 1.8)\n"
    )
    assert said.count(memory) == 1
    assert said.count("\nvLLM's key-value cache holds 1,834 tokens per sequence in training") == 1
    assert make_plan(declared()).warnings == ()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """A SLURM of one node, with no other program than git."""
    made = Programs(tmp_path / "bin", monkeypatch)
    made.install(
        "sinfo", f"echo 'gpu*|n1|{socket.gethostname()}|127.0.0.1|128|2000000|gpu:8|i|idle'"
    )
    link_programs(made.folder, "git", "wc", "cp")
    monkeypatch.setenv("PATH", str(made.folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return made


def sent(cluster: Programs) -> list[str]:
    """Calls of sbatch that send something."""
    return [call for call in cluster.calls() if re.match("sbatch (?!.*--test-only)", call)]


EPOCH = 2 * 256
"""Prompts, with the two batches of an epoch that TEN_EPOCHS has."""
TEN_EPOCHS = ["experiment.train.steps=20", "experiment.train.save_every=2"]


def local_files(
    tmp_path: Path,
    *,
    columns: str = "prompt,answer",
    n_rows: int = EPOCH,
    lacks: str | None = None,
) -> list[str]:
    """Overrides that take datasets and model from files here, whole ones but for what is said."""
    prompt, answer = columns.split(",")
    rows = tmp_path / "rows.jsonl"
    lines = (json.dumps({prompt: f"{i}+1?", answer: str(i + 1)}) for i in range(n_rows))
    rows.write_text("\n".join(lines) + "\n")
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"):
        if name != lacks:
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
    python, shared = "profile.placement.python=", "profile.shared_run_root=true"
    is_named = any(override.startswith(python) for override in overrides)
    interpreter = [] if is_named else [f"{python}{sys.executable}"]
    chosen = [*ON_GPUS, *interpreter, shared, *overrides]
    return main(["run", "groupsize", f"run_root={tmp_path}/runs", *chosen])


def refused(capfd: pytest.CaptureFixture[str]) -> str:
    said = capfd.readouterr()  # what a stage said of its failure is shown with the end of the pool
    return " ".join((said.out + said.err).split())


@pytest.mark.slow
def test_whole_files_are_fetched_and_the_sweep_is_sent(cluster: Programs, tmp_path: Path) -> None:
    assert run(tmp_path, *local_files(tmp_path)) == 0
    assert len(sent(cluster)) == 4
    data = tmp_path / "runs/groupsize/qwen2.5-7b/v1/_data/deepscaler"
    assert (data / "DONE.json").exists()


@pytest.mark.parametrize(
    ("files", "overrides", "said"),
    [
        ({"columns": "question,answer"}, [], "has no column 'prompt'; it has answer, question"),
        ({"lacks": "chat_template.jinja"}, [], "has no chat template"),
        ({"n_rows": EPOCH - 1}, [], "has 512 prompts ... dataset deepscaler has 511"),
        (
            {},
            ["experiment.train.eval_dataset.limit=29"],
            "eval_n_problems=30, but eval_dataset aime25 has 29: ask for fewer",
        ),
    ],
)
@pytest.mark.slow
def test_files_that_will_not_do_are_refused_before_anything_is_queued(
    files: dict[str, Any],
    overrides: list[str],
    said: str,
    cluster: Programs,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(tmp_path, *local_files(tmp_path, **files), *overrides) == 2
    message = refused(capfd)
    assert all(part in message for part in [*said.split(" ... "), "nothing was submitted"])
    assert sent(cluster) == []


def test_what_cannot_work_is_refused_before_anything_is_written(
    cluster: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(engine, "REPOSITORY", tmp_path)  # no environment is made here
    assert run(tmp_path, "profile.placement.python=null") == 2
    assert "run `make setup-openrlhf`" in refused(capfd)
    assert sent(cluster) == [] and not (tmp_path / "runs").exists()


def interpreter(folder: Path, line: str) -> Path:
    """A program in the place of OpenRLHF's Python, which writes down what it is asked."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/flags\n{line}\n')
    program.chmod(0o755)
    return program


@pytest.mark.slow
def test_a_flag_that_the_installed_openrlhf_does_not_know_is_refused_before_anything_is_queued(
    cluster: Programs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    python = interpreter(tmp_path, "echo OpenRLHF 9 has no flag ds.zpgs >&2; exit 2")
    chosen = [f"profile.placement.python={python}", "+experiment.train.extra.ds.zpgs=2"]
    assert run(tmp_path, *local_files(tmp_path), *chosen) == 2
    assert "extra is refused: OpenRLHF 9 has no flag ds.zpgs; mend or leave" in refused(capfd)
    asked = (tmp_path / "flags").read_text().split()
    assert asked[:2] == ["-m", "fgrpo_bench.engines.openrlhf.flags"]
    assert asked[-2:] == ["--ds.zpgs", "2"]
    assert sent(cluster) == [] and not (tmp_path / "runs").exists()


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
    paths, plan = planned(tmp_path, "groupsize", *ON_GPUS)
    stage = next(stage for stage in plan.stages if stage.kind == "train")
    trained = StagePaths(paths.folder / stage.name)
    base = StagePaths((trained.folder / stage.spec.as_json()["base"]).resolve())
    write_json(
        base.done, {"fingerprint": "f", "target": {}, "outputs": {}, "weights_sha256": "a" * 64}
    )
    states = states_folder(trained.folder)
    (states / "_actor" / "global_step10").mkdir(parents=True)
    mark_whole(states, 10, Origin(ranks=ranks, base_sha256=base_sha256))
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
    device: str, home: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    here = loaded("smoke", "profile.device=cuda").profile
    with pytest.raises(ValueError, match=r"driver here is 570.86.10.*580 or newer"):
        commands.check_interpreters(here, {"openrlhf"})
    commands.check_interpreters(here, {"base"})
    commands.check_interpreters(declared().profile, {"openrlhf"})  # nodes may have a newer one
    smi.write_text("#!/bin/sh\necho 580.65.06\n")
    commands.check_interpreters(here, {"openrlhf"})


def test_a_plan_refuses_a_model_that_brings_code_until_a_key_trusts_it(tmp_path):
    words = local_files(tmp_path)
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps({"auto_map": {"AutoModelForCausalLM": "modeling.Mine"}}))
    rule = r"config\.json brings code of its own .*experiment\.train\.pretrained\.trust_remote_code"
    with pytest.raises(ValueError, match=rule):
        make_plan(declared(*words))
    trusted = make_plan(declared(*words, "+experiment.train.pretrained.trust_remote_code=true"))
    evaluations = [stage for stage in trusted.stages if stage.kind in ("evaluate", "rare")]
    assert evaluations and all(stage.spec.trust_remote_code for stage in evaluations)
