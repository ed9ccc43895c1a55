"""What cannot be meant is refused where it is declared, with value, rule and remedy."""

from __future__ import annotations

import copy
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fgrpo_bench.files.paths import RESERVED
from fgrpo_bench.kinds.train import identity
from fgrpo_bench.specs import Declaration, config, from_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from sweeps.plan import expand, make_plan

Where = tuple[str | int, ...]


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    return config.compose(["sweep=smoke", "+rare@experiment.rare=paper"])


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    return config.compose(["sweep=transfer", "experiment=qwen2.5-7b", "profile=slurm-8gpu"])


def leaves(node: Any, where: Where = ()) -> Iterator[tuple[Where, Any]]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        if isinstance(value, dict | list):
            yield from leaves(value, (*where, key))
        else:
            yield (*where, key), value


def changed(declared: dict[str, Any], where: Where, value: object) -> dict[str, Any]:
    made = copy.deepcopy(declared)
    node: Any = made
    for key in where[:-1]:
        node = node[key]
    node[where[-1]] = value
    return made


def refused(declared: dict[str, Any], where: str, value: object) -> str:
    with pytest.raises(ValueError, match="the configuration is refused") as error:
        config.validate(changed(declared, tuple(where.split(".")), value))
    return str(error.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_no_number_of_a_declaration_may_be_nan_infinite_or_absurd(declared, published, value):
    for whole in (declared, published):
        places = [where for where, known in leaves(whole) if type(known) is float]
        assert len(places) > 15
        for where in places:
            with pytest.raises(ValidationError):
                from_dict(Declaration, changed(whole, where, value))


def test_no_count_of_a_declaration_may_be_absurd(declared, published):
    for whole in (declared, published):
        places = [where for where, known in leaves(whole) if type(known) is int]
        assert len(places) > 25
        for where in places:
            with pytest.raises(ValidationError):
                from_dict(Declaration, changed(whole, where, 10**15))


def test_a_number_out_of_bounds_is_named_with_rule_and_remedy(declared):
    said = refused(declared, "experiment.train.steps", 1_000_000_000)
    assert "experiment.train.steps = 1000000000: input should be less than or equal to" in said
    assert "set experiment.train.steps=<value>" in said
    said = refused(declared, "experiment.train.learning_rate", 1e-300)
    assert "1e-300 is less than 1e-15: give a number that can be meant" in said


TRAIN, TINY = "experiment.train", "experiment.train.task.heldout_fraction"
WANTED = "experiment.evaluation.benchmarks.countdown.n_problems"


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (f"{TRAIN}.beta1", 1.0, "input should be less than 1; set experiment.train.beta1="),
        (f"{TRAIN}.beta2", 1.0, "input should be less than 1"),
        (f"{TRAIN}.warmup.beta2", 1.0, "input should be less than 1"),
        (f"{TRAIN}.temperature", 1e-9, "input should be greater than or equal to 0.01"),
        (f"{TRAIN}.temperature", 1e6, "input should be less than or equal to 100"),
        ("experiment.evaluation.temperature", 1e-9, "greater than or equal to 0.01"),
        (f"{TRAIN}.model.n_layers", 100_000, "input should be less than or equal to 1000"),
        (f"{TRAIN}.model.hidden_size", 9_600_000, "input should be less than or equal to 65536"),
        (f"{TRAIN}.model.intermediate_size", 10**6, "less than or equal to 262144"),
    ],
)
def test_a_value_that_cannot_be_trained_is_refused_with_its_bound(declared, where, value, words):
    said = refused(declared, where, value)
    assert f"{where} = {value!r}: " in said and words in said and f"set {where}=" in said


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (TINY, 1e-9, "task countdown has n_heldout=0: ask for fewer, or change " + TINY),
        (TINY, 0.005, f"{WANTED}=16, but task countdown has n_heldout=6: ask for fewer"),
        (TINY, 0.9999, f"{TRAIN} has 16 prompts per step, but task countdown has n_train=1: ask"),
        (WANTED, 263, f"{WANTED}=263, but task countdown has n_heldout=262"),
        (f"{TRAIN}.eval_n_problems", 263, f"{TRAIN}.eval_n_problems=263, but task countdown has"),
        ("experiment.rare.n_prompts", 1052, "rare.n_prompts=1052, but task countdown has n_train"),
        (f"{TRAIN}.rollouts_per_step", 10**7, "10,000,000 rollouts per step, more than 1,000,000"),
        (f"{TRAIN}.model.hidden_size", 65_532, "parameters, more than 20,000,000,000: its train"),
    ],
)
def test_what_fits_no_task_or_memory_is_refused_by_the_plan(declared, where, value, words):
    with pytest.raises(ValueError) as error:
        make_plan(config.validate(changed(declared, tuple(where.split(".")), value)))
    assert words in str(error.value)


def test_a_fault_of_hundreds_of_values_is_explained_for_the_first(declared):
    said = refused(declared, "sweep.grid.seed", [f"x{i}" for i in range(300)])
    assert "sweep.grid.seed.0 = 'x0': input should be a valid integer" in said
    assert said.endswith("and 250 more, of 300: mend these first")
    assert len(said.splitlines()) == 52


def test_minus_zero_is_zero_with_the_same_identity(declared):
    points = []
    for gamma in (0.0, -0.0):
        grid = changed(declared, ("sweep", "grid", "focal_gamma"), [gamma])
        grid["sweep"]["cells"] = []
        points.append(expand(config.validate(grid)))
    assert [point.point_id for point in points[0]] == [point.point_id for point in points[1]]
    marks = [[fingerprint(identity(point)) for point in each] for each in points]
    assert marks[0] == marks[1]


@pytest.mark.parametrize(
    ("axis", "values", "repeated"),
    [
        ("seed", [11, 12, 11], "11"),
        ("group_size", [4, 4], "4"),
        ("focal_gamma", [0.0, -0.0], "0.0"),
        ("focal_gamma", [0.5, 1.0, 0.5, 1.0], "0.5, 1.0"),
        ("algorithm", ["grpo", "grpo"], "grpo"),
    ],
)
def test_a_value_given_twice_on_an_axis_is_refused(declared, axis, values, repeated):
    said = refused(declared, f"sweep.grid.{axis}", values)
    assert f"sweep.grid.{axis}: {repeated} is given more than once: name each value once" in said


def test_repeated_ks_and_checkpoints_are_refused(declared):
    assert "ks=[1, 1]: must rise" in refused(declared, "experiment.evaluation.ks", [1, 1])
    said = refused(declared, "experiment.checkpoints", [2, 2])
    assert "checkpoints=[2, 2] has a step more than once: name each once" in said


@pytest.mark.parametrize(
    "where", ["sweep.name", "experiment.name", "version", "experiment.evaluation.name"]
)
def test_names_of_other_things_in_a_run_root_are_refused(declared, where):
    for name in sorted(RESERVED):
        said = refused(declared, where, name)
        assert f"{where}: {name!r} is the name of something else" in said
        assert "choose another name" in said
    for name in ("_data", ".hidden", "../x", "/x", "", "a b"):
        assert f"{where} = {name!r}: string should match pattern" in refused(declared, where, name)


def test_reserved_are_all_names_that_the_project_gives_in_a_run_root(tmp_path):
    from fgrpo_bench.files.paths import RunPaths
    from fgrpo_bench.simulation import FOLDER

    paths = RunPaths(root=tmp_path, sweep="s", experiment="e", version="v")
    own = (paths.mlflow_db, paths.mlflow_artifacts, paths.mlflow_lock, paths.verdicts, paths.draws)
    assert {path.name for path in own} | {FOLDER, "evals"} <= RESERVED


FAULTS = {
    "tab": (b"name: smoke\n\tquestion: x\n", ", line 2: found character"),
    "duplicate key": (b"name: smoke\nname: other\n", ", line 2: found duplicate key name"),
    "tag": (b"name: !!python/object/apply:os.getcwd []\n", ", line 1: could not determine"),
    "NUL": (b"name: a\x00b\n", "cannot be read: unacceptable character #x0000"),
    "no UTF-8": (b"name: \xff\n", "cannot be read: 'utf-8' codec can't decode byte 0xff"),
    "anchor": (b"name: &a [*a]\n", "it holds itself, or is nested too deeply"),
    "nesting": (b"name: " + b"[" * 1200 + b"]" * 1200, "it holds itself, or is nested too deeply"),
    "number": (b"5\n", "cannot be read: Invalid loaded object type: int"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_of_conf_is_named_with_its_fault_in_one_line(fault, tmp_path):
    content, words = FAULTS[fault]
    conf = tmp_path / "conf"
    shutil.copytree(config.CONF, conf)
    damaged = conf / "benchmark" / "math500.yaml"
    damaged.write_bytes(content)
    with pytest.raises(ValueError) as error:
        config.load_benchmark("math500", conf=conf)
    said = str(error.value)
    assert said.startswith(str(damaged)) and words in said and said.endswith(": mend the file")
    assert "\n" not in said and len(said) < 400


def test_a_damaged_sweep_is_named_too(tmp_path):
    conf = tmp_path / "conf"
    shutil.copytree(config.CONF, conf)
    (conf / "sweep" / "smoke.yaml").write_bytes(FAULTS["tab"][0])
    with pytest.raises(ValueError, match=r"smoke\.yaml, line 2: found character"):
        config.load("smoke", conf=conf)


def test_an_override_without_bottom_is_refused_in_one_line():
    with pytest.raises(ValueError, match="these overrides are nested too deeply") as error:
        config.load("smoke", ["+x=" + "[" * 1200 + "]" * 1200])
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize(
    "where", ["sweep.question", "+profile.setup.0", "experiment.evaluation.name"]
)
def test_a_secret_of_the_environment_gets_into_no_declaration(where, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(ValueError, match="reads the environment") as error:
        config.load("smoke", [f"{where}=${{oc.env:HF_TOKEN}}"])
    assert "hf_secret" not in str(error.value) and "only run_root may" in str(error.value)


def test_the_run_root_may_come_from_the_environment(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("SCRATCH", str(tmp_path))
    assert config.load("smoke", ["run_root=${oc.env:SCRATCH}/x"]).run_root == f"{tmp_path}/x"
