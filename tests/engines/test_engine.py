"""What stands outside an engine's package asks its Engine, and the tables load nothing heavy."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench import engines
from fgrpo_bench.core import registry
from fgrpo_bench.specs import TrainSpec, config, to_dict
from fgrpo_bench.specs.stored import from_stored
from sweeps import REPOSITORY
from sweeps.plan import check, expand
from tests.support.plans import loaded
from tests.support.points import declared

NAMED = {
    "fgrpo_bench/conformance/__init__.py": "its estimators are checked as those of other trainers",
    "fgrpo_bench/conformance/trainers/__init__.py": "likewise",
    "fgrpo_bench/conformance/trainers/openrlhf.py": "likewise",
    "fgrpo_bench/integrations/openrlhf.py": "an agent for it as it is, without the engine",
}
"""Files outside fgrpo_bench/engines that may name an engine's package or classes, and why."""


def test_no_file_outside_the_engines_names_one() -> None:
    words = re.compile("openrlhf|EmbeddedTrain", re.IGNORECASE)
    packages = ("fgrpo_bench", "sweeps", "evaluators", "dashboards")
    files = [path for package in packages for path in (REPOSITORY / package).rglob("*.py")]
    found = {
        path.relative_to(REPOSITORY).as_posix() for path in files if words.search(path.read_text())
    }
    assert {name for name in found if not name.startswith("fgrpo_bench/engines/")} == set(NAMED)


@pytest.mark.slow
def test_the_tables_of_engines_and_objectives_load_nothing_heavy() -> None:
    code = (
        "from fgrpo_bench.core import registry; import sys;"
        "[registry.table(name) for name in registry.TABLES];"
        "print(*{m.partition('.')[0] for m in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "ray", "transformers", "vllm", "hydra"} & set(done.stdout.split())


def test_every_sampler_and_environment_has_one_engine() -> None:
    samplers = [sampler for each in engines.all_engines() for sampler in each.samplers]
    assert sorted(samplers) == ["embedded", "transformers", "vllm"]
    environments = [each.environment.name for each in engines.all_engines()]
    assert sorted(environments) == ["base", "openrlhf"]
    with pytest.raises(ValueError, match="unknown environment 'nope': there are base, openrlhf"):
        engines.environment("nope")


def test_inputs_are_those_of_a_task_or_of_a_dataset() -> None:
    own = loaded("smoke").experiment.train
    inputs = engines.engine_for(own).inputs(own)
    assert inputs.task is not None and inputs.pretrained is None and inputs.prompt is None
    train = declared().experiment.train
    inputs = engines.engine_for(train).inputs(train)
    assert inputs.task is None and inputs.dataset is not None and inputs.pretrained is not None
    assert inputs.eval_dataset is not None and inputs.prompt is not None
    never = replace(train, eval_every=0)
    assert engines.engine_for(never).inputs(never).eval_dataset is None  # nothing is fetched for it


@pytest.mark.slow
def test_a_control_that_an_engine_does_not_have_is_refused_with_those_that_do() -> None:
    declaration = loaded("frontier", "experiment=qwen2.5-7b")
    with pytest.raises(
        ValueError,
        match=r"has rewards that are drawn at random \(random_rewards\), which engine openrlhf "
        "does not have: exclude that algorithm, or choose an experiment of engine embedded",
    ):
        check(declaration, expand(declaration))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("engine=nope", r"experiment.train.engine = 'nope': must be one of 'embedded', 'openrlhf'"),
        ("steps=0", r"experiment.train.steps = 0: .* set experiment.train.steps=<value>"),
        ("model.n_heads=none", r"experiment.train.model.n_heads = 'none': .* It is: Attention"),
    ],
)
def test_errors_within_a_training_spec_name_field_value_and_meaning(
    override: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        config.load("groupsize", [f"experiment.train.{override}"])


def test_an_unknown_field_of_an_engine_is_refused_with_those_it_has() -> None:
    with pytest.raises(
        ValueError, match=r"train.epochs: unknown key; remove it \(valid"
    ) as refused:
        config.load("groupsize", ["+experiment.train.epochs=2"])
    assert "warmup" in str(refused.value) and "adam_eps" not in str(refused.value)
    assert registry.table("engines").keys() == {"embedded", "openrlhf"}


def test_what_a_later_version_stored_in_a_training_spec_or_task_is_passed_over() -> None:
    train = loaded("smoke").experiment.train
    stored = to_dict(train)
    stored |= {"later": 1, "task": stored["task"] | {"further": 2}}
    assert from_stored(TrainSpec, stored, Path("spec.json")) == train
    with pytest.raises(ValueError, match=r"spec.json: embedded.steps is missing; another version"):
        from_stored(TrainSpec, {k: v for k, v in stored.items() if k != "steps"}, Path("spec.json"))
