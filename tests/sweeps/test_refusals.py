"""What cannot be is refused by `plan` and `run` in one message, with value, rule and remedy;
nothing is written."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fgrpo_bench.files.paths import RESERVED, RunPaths, finished_draws
from fgrpo_bench.kinds.train import identity
from fgrpo_bench.paper.simulation import FOLDER
from fgrpo_bench.specs import Declaration, config, from_dict, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from sweeps.cli import main
from sweeps.plan import expand, make_plan
from tests.support.plans import loaded

Sweeps = Callable[..., tuple[int, str, str]]
TRAIN = "experiment.train"
TASK, MODEL = f"{TRAIN}.task", f"{TRAIN}.model"
EVALUATION = "experiment.evaluation"
BENCHMARKS = f"{EVALUATION}.benchmarks"
WANTED = f"{BENCHMARKS}.countdown.n_problems"
DESIGN = f"{EVALUATION}.design"
STAGED = f"groupsize evaluation@{EVALUATION}=staged"
SLURM = "smoke profile=slurm"
RARE = "smoke +rare@experiment.rare=paper"
OPENRLHF = "groupsize experiment=qwen2.5-7b profile=slurm-8gpu"
PLACED = f"{OPENRLHF} profile.placement"
OF_OTHER_DOMAINS = f"{OPENRLHF} evaluation@{EVALUATION}=out-of-domain"


def of(algorithm: str, **fields: str) -> str:
    """A sweep of one algorithm with these of its fields."""
    chosen = " ".join(f"++algorithms.{algorithm}.{name}={value}" for name, value in fields.items())
    return f"smoke sweep.grid.algorithm=[{algorithm}] sweep.grid.group_size=[8] {chosen}"


def refusal(words: str) -> str:
    with pytest.raises(ValueError) as refused:
        make_plan(loaded(*words.split()))
    return str(refused.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [  # where the message has three dots, anything may stand between
        ("smoke experiment=nope", "unknown experiment 'nope': valid ones are countdown,"),
        ("smoke profile=nope", "unknown profile 'nope': valid ones are local"),
        (f"smoke {TRAIN}.reward=nope", "unknown grader 'nope': valid ones are choice,"),
        (f"smoke {TRAIN}.reward=math", "does not call ... correct, which is a right response to"),
        (f"smoke {TRAIN}.reward=nope:grade", "there is no nope.py here ("),
        (f"smoke {TRAIN}.overlong_buffer_tokens=99", "a response has at most ... take fewer"),
        (f"smoke {TRAIN}.step=3", f"{TRAIN}.step ... (did you mean {TRAIN}.steps?)"),
        (f"smoke +{TRAIN}.stepz=3", "stepz: unknown key (did you mean steps?); rem"),
        ("smoke sed=11", "(did you mean seed=11?)"),
        ("smoke max_paralel=2", "(did you mean profile.max_parallel?)"),
        ("smoke grid.seed=[4]", "(did you mean sweep.grid.seed?)"),
        ("smoke smoke", "'smoke' is no override: write key=value, e.g. version=v2"),
        ("smoke sweep.grid.algorithm=[grop]", "unknown algorithm 'grop' (did you mean grpo?)"),
        ("smoke experiment.checkpoints=foo", "checkpoints = 'foo': input should be 'last' or"),
        ("smoke experiment.checkpoints=[2,2]", "=[2, 2] has a step more than once: name each once"),
        ("smoke experiment.checkpoints=[5,12]", "leaves none at step 5: choose from 6, 12"),
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
        ("smoke sweep.grid.group_size=[5]", "rollouts_per_step=64 is no multiple of group_si"),
        ("smoke sweep.grid.group_size=[64]", "every update needs a prompt"),
        (f"smoke {TRAIN}.steps=many", "steps = 'many': input should be a valid int"),
        (
            f"smoke {TRAIN}.steps=1000000000",
            f"{TRAIN}.steps = 1000000000: input should be less than or equal to ... "
            f"set {TRAIN}.steps=<value>",
        ),
        (f"smoke {TRAIN}.learning_rate=1e-300", "1e-300 is less than 1e-15: give a number that"),
        (f"smoke {TRAIN}.beta1=1.0", f"input should be less than 1; set {TRAIN}.beta1="),
        (f"smoke {TRAIN}.beta2=1.0", "beta2 = 1.0: input should be less than 1; set"),
        (f"smoke +{TRAIN}.warmup.beta2=1.0", "warmup.beta2 = 1.0: input should be less than 1"),
        (f"smoke {TRAIN}.temperature=1e-9", "= 1e-09: input should be greater than or equal to 0"),
        (f"smoke {TRAIN}.temperature=1e6", "input should be less than or equal to 100"),
        (f"smoke {EVALUATION}.temperature=1e-9", "must be 0, which is greedy, or at least 0.01"),
        (f"smoke {MODEL}.n_layers=100000", "input should be less than or equal to 1000"),
        (f"smoke {MODEL}.hidden_size=9600000", "input should be less than or equal to 65536"),
        (f"smoke {MODEL}.intermediate_size=1000000", "less than or equal to 262144"),
        (f"smoke {MODEL}.hidden_size=65532", "parameters, more than 20,000,000,000: its train"),
        (f"smoke {TRAIN}.rollouts_per_step=10000000", "10,000,000 rollouts per step, more than 1,"),
        ("smoke sweep.grid.focal_gamma=[-1.0]", "focal_gamma.0 = -1.0: input should be"),
        ("smoke sweep.grid.seed=[11,12,11]", "seed: 11 is given more than once: name each value"),
        ("smoke sweep.grid.focal_gamma=[0.0,-0.0]", "focal_gamma: 0.0 is given more than once: n"),
        ("smoke sweep.grid.focal_gamma=[0.5,1.0,0.5,1.0]", "0.5, 1.0 is given more than once: na"),
        ("smoke sweep.grid.algorithm=[grpo,grpo]", "algorithm: grpo is given more than once: name"),
        (f"smoke {EVALUATION}.ks=[1,1]", "ks=[1, 1]: must rise"),
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
        (
            f"gamma {TRAIN}.updates_per_batch=1",
            "compares cispo, dapo, grpo ... updates_per_batch to 2 or",
        ),
        (f"{RARE} experiment.rare.share=0.0", "experiment.rare.share"),
        (f"{RARE} experiment.rare.n_prompts=1052", "n_prompts=1052, but task countdown has n_trai"),
        (f"smoke {TASK}.name=nope", f"{TASK}.name = 'nope': must be one of 'countdown'"),
        (f"smoke {TASK}.n_digits=9", "n_digits = 9: input should be less ... Digits a prob"),
        (
            f"smoke +{TASK}.sides=6",
            "task.sides: unknown key ... heldout_fraction, max_target, n_digits, name, seed",
        ),
        (
            f"smoke {TASK}.heldout_fraction=1e-9",
            f"has n_heldout=0: ask for fewer, or change {TASK}.heldout_fraction",
        ),
        (f"smoke {TASK}.heldout_fraction=0.9999", "16 prompts per step, but task countdown has n_"),
        (f"smoke {WANTED}=263", f"{WANTED}=263, but task countdown has n_heldout=262"),
        (f"smoke {TRAIN}.eval_n_problems=263", "eval_n_problems=263, but task countdown has"),
        (f"maze {TASK}.size=16", "size=16 is even: ... choose 15 or 17"),
        (
            f"maze {BENCHMARKS}.maze.n_problems=257",
            "n_problems=257, but task maze has n_heldout=256",
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
        (f"smoke {WANTED}=null", "neither a dataset nor n_problems"),
        (f"{OPENRLHF} {BENCHMARKS}.math500.dataset=null", "benchmarks.math500.dataset"),
        (
            f"{OPENRLHF} {BENCHMARKS}.math500.dataset.name=deepscaler",
            "two datasets are named 'deepscaler' and differ",
        ),
        (
            f"{OPENRLHF} {TRAIN}.budget=constant_rollouts {TRAIN}.rollouts_per_step=2048 "
            f"{TRAIN}.prompts_per_step=null sweep.grid.group_size=[6]",
            "rollouts_per_step=2048 is no multiple of group_size=6: a step draws whole groups",
        ),
        (f"{OPENRLHF} {TRAIN}.prompts_per_step=254", "254 prompts per step, no multiple of updat"),
        (f"{PLACED}.states_kept=1", "states_kept=1: the oldest state is deleted before"),
        (f"{PLACED}.vllm_max_num_batched_tokens=128", "is less than vllm_max_num_seqs=192"),
        (f"{PLACED}.gpu_memory_gb=10.0", "it cannot fit; take a lower max_tokens_per_gpu, or more"),
        (
            of("pkpo", parameters="{k:9}"),
            "pkpo-n8-g0-s11 ... k=9 of pkpo: must be a whole number from 1 to 8 with baseline "
            "sloo_minus_one and group_size=8; change algorithms.pkpo.parameters, or leave the "
            "point out",
        ),
        (
            f"{of('passk')} ~algorithms.passk.parameters.k",
            "passk-n8-g0-s11 ... the advantage passk needs its parameter k; change algorithms.pas",
        ),
        (of("rloo", parameters="{k:2}"), "rloo-n8-g0-s11 ... k=2: the advantage rloo has no param"),
        (of("nsr", dynamic_sampling="true"), "nsr-n8-g0-s11 ... set algorithms.nsr.dynamic_sampli"),
        (of("maxrl", dynamic_sampling="true"), "the advantage maxrl teaches from some of these"),
        (of("ds_grpo", parameters="{beta:0}"), "beta=0 of ds_grpo: must be a number above 0"),
    ],
)
def test_what_cannot_be_is_refused_with_value_rule_and_remedy(words: str, said: str) -> None:
    message = refusal(words)
    assert all(part in message for part in said.split(" ... ")), message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "smokee",
            "unknown sweep 'smokee' (did you mean smoke?): valid ones are controls, factorial,",
        ),
        ("smoke sweep.grid.group_size=[1]", "one alone has no advantage to learn from."),
        (
            f"gamma algorithm=[dapo,grpo,grpo-kl] focal_gamma=[0] {TRAIN}.updates_per_batch=1",
            "the grid compares dapo, grpo with updates_per_batch=1",
        ),
        ("smoke/countdown/v1/x", "names no run: write sweep[/experiment[/version]], e.g. "),
        ("smoke/countdown experiment=maze", "smoke/countdown and experiment=maze name two"),
        ("gamma algorithm=grop", "unknown algorithm 'grop' (did you mean grpo?)"),
    ],
)
def test_run_and_plan_refuse_in_one_message_with_exit_code_2_and_write_nothing(
    words: str, said: str, sweeps: Sweeps, tmp_path: Path
) -> None:
    code, out, errors = sweeps("plan", *words.split())
    assert (code, out) == (2, "")
    assert "error: " in errors and said in errors
    assert sweeps("run", *words.split()) == (2, "", errors)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["pln", "smoke"], "(did you mean plan?)"),
        (["status", "smok"], "no run of smok (did you mean smoke?) under"),
        (
            ["status", "smoke/tiny"],
            "no run of smoke/tiny (did you mean smoke/countdown-tiny?) under",
        ),
        (["status", "smoke", "--jsn"], "unknown argument '--jsn' (did you mean --json?)"),
        (["plan", "smoke", "--fast"], "unknown argument '--fast'"),
        (["run", "smoke", "-m"], "its multirun, launchers and sweepers run nothing here"),
        (["run", "smoke", "--multirun", "sweep.grid.seed=1,2"], "its multirun, launchers and"),
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


@pytest.mark.slow
@pytest.mark.parametrize("root", ["file", "/proc/runs"])
def test_a_run_root_that_cannot_be_written_is_refused(
    tmp_path: Path, root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["run", "smoke", f"run_root={tmp_path / root}"]) == 2
    said = capsys.readouterr().err
    assert f"cannot write under the run root {tmp_path / root}" in said
    assert "run_root=<folder>" in said


def numbers(node: Any, kind: type) -> Iterator[tuple[Any, Any]]:
    """Where the numbers of a kind stand: what holds them, and the key or index there."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(value, dict | list | tuple):
            yield from numbers(value, kind)
        elif type(value) is kind:
            yield node, key


@pytest.mark.slow
@pytest.mark.parametrize("words", [RARE, OPENRLHF])
@pytest.mark.parametrize(
    ("kind", "absurd"), [(float, (math.nan, math.inf, -math.inf, 1e300)), (int, (10**15,))]
)
def test_no_number_of_a_declaration_may_be_nan_infinite_or_absurd(
    words: str, kind: type, absurd: tuple[float, ...]
) -> None:
    declared = config.compose(f"sweep={words}".split())
    places = list(numbers(declared, kind))
    assert len(places) > 15
    from_dict(Declaration, declared)
    for node, key in places:
        known = node[key]
        for value in absurd:
            node[key] = value
            with pytest.raises(ValidationError):
                from_dict(Declaration, declared)
        node[key] = known


def test_a_fault_of_hundreds_of_values_is_explained_for_the_first() -> None:
    said = refusal(f"smoke sweep.grid.seed=[{','.join(f'x{i}' for i in range(300))}]")
    assert "sweep.grid.seed.0 = 'x0': input should be a valid integer" in said
    assert said.endswith("and 250 more, of 300: mend these first")
    assert len(said.splitlines()) == 52


def test_minus_zero_is_zero_with_the_same_identity() -> None:
    plus, minus = (expand(loaded("smoke", f"sweep.grid.focal_gamma=[{z}]")) for z in (0.0, -0.0))
    assert [point.point_id for point in plus] == [point.point_id for point in minus]
    assert [fingerprint(identity(p)) for p in plus] == [fingerprint(identity(p)) for p in minus]


@pytest.mark.parametrize(
    "where", ["sweep.name", "experiment.name", "version", "experiment.evaluation.name"]
)
def test_names_of_other_things_in_a_run_root_are_refused(where: str) -> None:
    declared = to_dict(loaded("smoke"))

    def named(name: str) -> str:
        changed = node = deepcopy(declared)
        *path, key = where.split(".")
        for part in path:
            node = node[part]
        node[key] = name
        with pytest.raises(ValueError, match="the configuration is refused") as refused:
            config.validate(changed)
        return str(refused.value)

    for name in sorted(RESERVED):
        assert f"{where}: {name!r} is the name of something else" in named(name)
        assert "choose another name" in named(name)
    for name in ("_data", ".hidden", "../x", "/x", "", "a b"):
        assert f"{where} = {name!r}: string should match pattern" in named(name)


def test_reserved_are_all_names_that_the_project_gives_in_a_run_root(tmp_path: Path) -> None:
    paths = RunPaths(root=tmp_path, sweep="s", experiment="e", version="v")
    made = (
        *(paths.mlflow_db, paths.mlflow_artifacts, paths.mlflow_lock, paths.verdicts),
        finished_draws(tmp_path, "digest").parent,
    )
    assert {path.name for path in made} | {FOLDER, "evals"} <= RESERVED


FAULTS = {
    "tab": (b"name: smoke\n\tquestion: x\n", ", line 2: found character"),
    "duplicate key": (b"name: smoke\nname: other\n", ", line 2: found duplicate key name"),
    "tag": (b"name: !!python/object/apply:os.getcwd []\n", ", line 1: could not determine"),
    "NUL": (b"name: a\x00b\n", "cannot be read: unacceptable character #x0000"),
    "no UTF-8": (b"name: \xff\n", "cannot be read: 'utf-8' codec can't decode byte 0xff"),
    "anchor": (b"name: &a [*a]\n", "it holds itself, or is nested too deeply"),
    "nesting": (b"name: " + b"[" * 400 + b"]" * 400, "it holds itself, or is nested too deeply"),
    "number": (b"5\n", "cannot be read: Invalid loaded object type: int"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_of_conf_is_named_with_its_fault_in_one_line(
    fault: str, tmp_path: Path
) -> None:
    content, words = FAULTS[fault]
    damaged = shutil.copytree(config.CONF, tmp_path / "conf") / "benchmark" / "math500.yaml"
    damaged.write_bytes(content)
    with pytest.raises(ValueError) as error:
        config.load_benchmark("math500", conf=tmp_path / "conf")
    said = str(error.value)
    assert said.startswith(str(damaged)) and words in said and said.endswith(": mend the file")
    assert "\n" not in said and len(said) < 400


@pytest.mark.slow
def test_an_override_without_bottom_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="these overrides are nested too deeply") as error:
        config.load("smoke", ["+x=" + "[" * 400 + "]" * 400])
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


@pytest.mark.slow
@pytest.mark.parametrize("where", ["sweep.question", "+profile.setup.0"])
def test_a_secret_of_the_environment_gets_into_no_declaration(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(ValueError, match="reads the environment") as error:
        config.load("smoke", [f"{where}=${{oc.env:HF_TOKEN}}"])
    assert "hf_secret" not in str(error.value) and "only run_root may" in str(error.value)


@pytest.mark.slow
def test_the_run_root_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRATCH", "/fast")
    assert config.load("smoke", ["run_root=${oc.env:SCRATCH}/x"]).run_root == "/fast/x"
