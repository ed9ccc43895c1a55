"""What is refused before a run begins."""

import asyncio
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from evaluators.vllm import engine_settings
from fgrpo_bench.engines.openrlhf import driver, guards, rollout
from fgrpo_bench.engines.openrlhf.guards import DriverOptions, parse_options
from tests.openrlhf.vllm_draws import EVALUATION, PLACEMENT

pytestmark = pytest.mark.openrlhf

STEPS = "--fgrpo.save_every 5 --fgrpo.steps 9 --fgrpo.base_sha256 0"
SIZES = "--fgrpo.vllm_max_num_seqs 64 --fgrpo.vllm_max_num_batched_tokens 512"


@pytest.mark.parametrize("name", ["openrlhf", "ray"])
def test_a_run_with_another_version_ends_before_ray_or_openrlhf_is_started(name, monkeypatch):
    monkeypatch.setitem(guards.TESTED, name, "9.9.9")
    monkeypatch.setattr(driver, "connected", lambda address: pytest.fail("Ray was started"))
    with pytest.raises(RuntimeError, match=rf"^{name} [\d.]+ is installed, .* for 9\.9\.9 "):
        driver.train(options(), [])


def nested(**changes):
    values = {
        "algo.advantage.estimator": "group_norm",
        "algo.advantage.is_correction_level": "off",
        "algo.kl.init_coef": 0.0,
        "algo.kl.use_loss": False,
        "train.async_enable": False,
        "train.colocate_all": False,
        "train.colocate_actor_ref": False,
        "actor.policy_loss_type": "ppo",
        "actor.num_nodes": 2,
        "actor.num_gpus_per_node": 4,
        "ref.num_nodes": 1,
        "ref.num_gpus_per_node": 3,
        "vllm.num_engines": 2,
        "vllm.tensor_parallel_size": 2,
        "ckpt.save_hf": False,
        "ckpt.max_num": 2,
    } | changes
    from openrlhf.utils.config import hierarchize

    return hierarchize(SimpleNamespace(**values))


def options(objective="clip"):
    flags = "--fgrpo.focal_gamma 0.5 --fgrpo.metrics m --fgrpo.stop_flag s --fgrpo.checkpoints c"
    words = f"{flags} {STEPS} {SIZES} --fgrpo.objective {objective}".split()
    return parse_options(words)[0]


def test_arguments_that_mean_what_they_say_pass():
    guards.check_arguments(nested(), options())
    guards.check_arguments(
        nested(**{"algo.kl.init_coef": 1e-3, "algo.kl.use_loss": True}), options()
    )


@pytest.mark.parametrize(
    ("changes", "objective", "message"),
    [
        ({"algo.advantage.estimator": "reinforce"}, "clip", "estimator reinforce: pass group_norm"),
        ({"train.async_enable": True}, "clip", "async_enable: leave it out"),
        ({"algo.kl.init_coef": 0.1}, "clip", r"init_coef 0\.1 .* add --algo\.kl\.use_loss"),
        ({"algo.advantage.is_correction_level": "seq"}, "cispo", "level seq: CISPO .* pass off"),
        ({"actor.policy_loss_type": "gspo"}, "clip", "policy_loss_type gspo: pass ppo"),
        ({"ckpt.save_hf": True}, "clip", "save_hf: leave it out"),
        ({"ckpt.max_num": 1}, "clip", "max_num 1: pass 2 or more"),
    ],
)
def test_arguments_that_would_train_something_else_are_refused(changes, objective, message):
    with pytest.raises(ValueError, match=message):
        guards.check_arguments(nested(**changes), options(objective))


@pytest.mark.parametrize(
    ("changes", "gpus"),
    [
        ({}, 8 + 4),
        ({"train.colocate_all": True}, 8),
        ({"algo.kl.init_coef": 1e-3}, 8 + 4 + 3),
        ({"algo.kl.init_coef": 1e-3, "train.colocate_actor_ref": True}, 8 + 4),
    ],
)
def test_gpus_are_counted_once(changes, gpus):
    assert guards.gpu_count(nested(**changes)) == gpus


def test_the_drivers_options_are_told_from_openrlhfs():
    words = "--fgrpo.focal_gamma 2 --fgrpo.objective cispo --fgrpo.metrics m --fgrpo.stop_flag s"
    words += f" --fgrpo.checkpoints c {STEPS} {SIZES}"
    words += " --train.seed 3 --vllm.enforce_eager --fgrpo.batch_invariant"
    ours, rest = parse_options(words.split())
    assert isinstance(ours, DriverOptions)
    assert (ours.focal_gamma, ours.objective, ours.save_every) == (2.0, "cispo", 5)
    assert ours.metrics.is_absolute() and ours.batch_invariant and not options().batch_invariant
    assert rollout.engine_sizes(ours) == {"max_num_seqs": 64, "max_num_batched_tokens": 512}
    assert rest == ["--train.seed", "3", "--vllm.enforce_eager"]


@pytest.mark.parametrize("wrong", ["--fgrpo.focal_gamma -1", "--fgrpo.save_every 0", "--fgrpo.x 1"])
def test_a_wrong_option_of_the_driver_is_refused(wrong, capsys):
    flags = "--fgrpo.focal_gamma 0 --fgrpo.metrics m --fgrpo.stop_flag s --fgrpo.checkpoints c"
    with pytest.raises(SystemExit):
        parse_options(f"{flags} {STEPS} {SIZES} --fgrpo.objective clip {wrong}".split())
    assert wrong.split()[0] in capsys.readouterr().err


def test_vllm_knows_the_sizes_that_both_kinds_of_engine_get():
    from vllm import AsyncEngineArgs

    sizes = rollout.engine_sizes(options("clip"))
    evaluation = engine_settings(EVALUATION, PLACEMENT, max_model_len=24)
    assert {*sizes, *evaluation} <= {field.name for field in fields(AsyncEngineArgs)}
    assert sizes.keys() <= evaluation.keys()


def test_where_vllm_refuses_to_be_batch_invariant_its_words_are_told(monkeypatch):
    async def refuse(self, *args, **kwargs):
        raise RuntimeError("batch_invariant mode is not supported for MAMBA")

    monkeypatch.setattr(rollout.STOCK, "__init__", refuse)
    invariant = replace(options(), batch_invariant=True)
    for chosen, error, rule in (
        (invariant, ValueError, r"not supported for MAMBA; .*train\.batch_invariant=false"),
        (options(), RuntimeError, r"^batch_invariant mode is not supported for MAMBA$"),
    ):
        actor = guards.actor_class(rollout.rollout_actor(chosen, engines=1, nodes=1))
        with pytest.raises(error, match=rule):
            asyncio.run(actor.__init__(object.__new__(actor)))


def test_processes_that_judge_are_an_engines_share_of_the_processors():
    assert [rollout.judge_count(64, engines=n) for n in (1, 8, 16)] == [62, 6, 2]
    assert rollout.judge_count(2, engines=1) == rollout.judge_count(8, engines=8) == 1
