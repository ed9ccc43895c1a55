"""The reward executor: seeds, judgements, and that no error is swallowed."""

import asyncio
import json
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import ray
from openrlhf.trainer.ppo_utils import samples_generator
from transformers import AutoTokenizer
from vllm import SamplingParams

from fgrpo_bench import graders
from fgrpo_bench.core.problems import Grade
from fgrpo_bench.engines.openrlhf import reward
from fgrpo_bench.engines.openrlhf.experience import OrderedSamples
from fgrpo_bench.engines.openrlhf.labels import (
    dispatch,
    draw_seed,
    make_label,
    read_dispatched,
)
from tests.support.openrlhf import train_problems

pytestmark = pytest.mark.openrlhf


class Engine:
    """Stands in for vLLM: answers every request with one text and keeps what it was asked."""

    def __init__(self, tokenizer, text):
        self.tokenizer, self.text, self.asked = tokenizer, text, []

    async def generate(self, tokens, params, multi_modal_data=None):
        self.asked.append(params)
        answer = [*self.tokenizer(self.text).input_ids, self.tokenizer.eos_token_id]
        log_probs = [{token: SimpleNamespace(logprob=-0.5)} for token in answer]
        output = SimpleNamespace(
            token_ids=answer,
            text=self.text,
            finish_reason="stop",
            logprobs=log_probs if params.logprobs is not None else None,
        )
        return SimpleNamespace(outputs=[output])


@pytest.fixture
def tokenizer(model):
    return AutoTokenizer.from_pretrained(model)


def execute(executor, engine, label, *, times=1, params=None):
    problem = train_problems(1)[0]
    params = params or SamplingParams(temperature=1.0, top_p=1.0, max_tokens=8)

    async def run():
        return await asyncio.gather(
            *(
                executor.execute(problem.prompt, label, params, 24, engine.tokenizer, engine)
                for _ in range(times)
            )
        )

    return asyncio.run(run())


def label(stream=5, position=0):
    return dispatch(make_label(train_problems(1)[0]), stream=stream, position=position)


def right_answer():
    digits, _, target = train_problems(1)[0].target.partition("-")
    a, b = digits
    answers = [f"{x}{o}{y}" for x, y in ((a, b), (b, a)) for o in "+-*"]
    grade = graders.get_grader("countdown")
    right = [x for x in answers if grade(train_problems(1)[0], x).outcome == "correct"]
    assert target and right
    return right[0]


def test_a_right_answer_is_rewarded_and_a_wrong_one_is_not(tokenizer):
    for text, wanted in ((right_answer(), 1.0), ("1+1+1", 0.0)):
        (out,) = execute(reward.AgentExecutor(), Engine(tokenizer, text), label())
        assert out["reward"] == out["scores"] == wanted and out["extra_logs"] == {"unscored": 0.0}
        assert out["solution"] == (graders.countdown.solution(text) if wanted else None)


def test_a_reward_is_learned_from_and_scores_say_what_is_correct(tokenizer, tmp_path):
    code = "def score(response, answer):\n    return len(response) - 1\n"
    (tmp_path / "mine.py").write_text(code)
    a, b = train_problems(1)[0].target.partition("-")[0]
    wrong = next(x for x in (f"{a}{o}{b}" for o in "+-*") if x != right_answer())
    for name, wanted in {
        "countdown-partial": {right_answer(): (1.0, 1.0), wrong: (0.1, 0.0), "1+1+1": (0.0, 0.0)},
        f"{tmp_path}::mine:score@3": {"1+1": (2.0, 0.0), "1+1+1": (4.0, 1.0)},
    }.items():
        problem = replace(train_problems(1)[0], grader=name)
        sent = dispatch(make_label(problem), stream=5, position=0)
        for text, (learned, correct) in wanted.items():
            (out,) = execute(reward.AgentExecutor(), Engine(tokenizer, text), sent)
            assert (out["reward"], out["scores"]) == (learned, correct), (name, text)


def test_every_draw_has_a_seed_of_its_own_and_a_rerun_has_the_same(tokenizer):
    engines = [Engine(tokenizer, "1+1") for _ in range(2)]
    for engine in engines:
        executor = reward.AgentExecutor()
        for stream in (5, 6):
            for position in range(3):
                execute(executor, engine, label(stream, position), times=4)
    seeds = [[params.seed for params in engine.asked] for engine in engines]
    assert seeds[0] == seeds[1]
    # position tells two dispatches of one problem apart, but their draws are the same draws
    assert len(set(seeds[0])) == 8
    assert set(seeds[0]) == {
        draw_seed(read_dispatched(label(stream), "x"), draw)
        for stream in (5, 6)
        for draw in range(4)
    }


def test_one_draw_of_a_group_tells_its_log_probabilities(tokenizer):
    engine = Engine(tokenizer, "1+1")
    outs = execute(reward.AgentExecutor(), engine, label(), times=3)
    assert [params.logprobs for params in engine.asked] == [0, None, None]
    start, end = outs[0]["action_ranges"][0]
    assert outs[0]["rollout_log_probs"][start:end] == [-0.5] * 4
    assert all(x != x for x in outs[1]["rollout_log_probs"])  # nan: not told
    assert len(outs[1]["rollout_log_probs"]) == len(outs[1]["observation_tokens"])


class Remote:
    """Stands in for a method of a Ray actor: keeps what Ray would send."""

    def __init__(self):
        self.sent = []

    def remote(self, **arguments):
        self.sent.append(ray.cloudpickle.dumps(arguments))
        return 0


def test_prompts_are_sent_without_the_tokenizer_and_their_draws_may_end_at_once(
    model, tokenizer, monkeypatch
):
    arguments = SimpleNamespace(
        actor=SimpleNamespace(model_name_or_path=str(model)),
        data=SimpleNamespace(disable_fast_tokenizer=False),
        train=SimpleNamespace(seed=11),
        rollout=SimpleNamespace(n_samples_per_prompt=8),
        algo=SimpleNamespace(advantage=SimpleNamespace(is_correction_level="off")),
    )
    monkeypatch.setattr(samples_generator, "ray", SimpleNamespace(get=list))
    method = Remote()
    engine = SimpleNamespace(get_num_unfinished_requests=Remote(), generate_responses=method)
    sampler = OrderedSamples(SimpleNamespace(args=arguments), None, None, tokenizer, [engine])
    problems = train_problems(3)
    sampler._dispatch_prompts_to_vllm(
        [p.prompt for p in problems], [make_label(p) for p in problems], max_new_tokens=8
    )
    assert len(method.sent) == 3 and all(b"<eos>" not in sent for sent in method.sent)
    first, second, _ = map(ray.cloudpickle.loads, method.sent)
    arrived = first["hf_tokenizer"]
    assert arrived is second["hf_tokenizer"]  # read once
    assert arrived.get_vocab() == tokenizer.get_vocab() and arrived.padding_side == "left"
    assert first["sampling_params"].min_tokens == SamplingParams().min_tokens  # an evaluation's


def test_at_another_temperature_no_log_probabilities_are_asked_for(tokenizer):
    engine = Engine(tokenizer, "1+1")
    params = SamplingParams(temperature=0.5, max_tokens=8)
    execute(reward.AgentExecutor(), engine, label(), params=params)
    assert engine.asked[0].logprobs is None


def use(monkeypatch, grade):
    monkeypatch.setitem(graders.GRADERS, "countdown", (1, grade))


def test_an_unscored_response_has_no_reward_and_says_so(tokenizer, monkeypatch):
    unscored = Grade(outcome="unscored", extracted=None, reason="took too long")
    use(monkeypatch, lambda problem, response: unscored)
    (out,) = execute(reward.AgentExecutor(), Engine(tokenizer, "1+1"), label())
    assert (out["reward"], out["extra_logs"]) == (0.0, {"unscored": 1.0})


def test_a_grader_that_raises_ends_the_run_with_its_reason(tokenizer, monkeypatch):
    def broken(problem, response):
        raise KeyError("no such answer")

    use(monkeypatch, broken)
    problem = train_problems(1)[0].problem_id
    rule = rf"grader 'countdown' on problem '{problem}' raised KeyError: 'no such answer'"
    with pytest.raises(RuntimeError, match=rule):
        execute(reward.AgentExecutor(), Engine(tokenizer, "1+1"), label())


def test_a_judgement_that_hangs_ends_the_run(tokenizer, monkeypatch):
    monkeypatch.setattr(reward, "JUDGEMENT_SECONDS", 0.05)
    monkeypatch.setattr("fgrpo_bench.graders.WAITING", {"countdown"})
    use(monkeypatch, lambda problem, response: time.sleep(0.5))
    with pytest.raises(RuntimeError, match=r"gave no judgement within 0\.05 s"):
        execute(reward.AgentExecutor(), Engine(tokenizer, "1+1"), label())


def test_the_wait_for_a_judgements_turn_is_not_counted(tokenizer, monkeypatch):
    """24 judgements of a tenth of a second, two at a time, with a limit of one second."""
    monkeypatch.setattr(reward, "JUDGEMENT_SECONDS", 1.0)
    monkeypatch.setattr("fgrpo_bench.graders.WAITING", {"countdown"})
    monkeypatch.setenv("FGRPO_JUDGES", "2")
    reward._threads.cache_clear()
    running, most, lock = 0, 0, threading.Lock()

    def slow(problem, response):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.1)
        with lock:
            running -= 1
        return Grade(outcome="correct", extracted=None, reason="")

    use(monkeypatch, slow)
    begun = time.monotonic()
    outs = execute(reward.AgentExecutor(), Engine(tokenizer, "1+1"), label(), times=24)
    reward._threads.cache_clear()
    assert [out["reward"] for out in outs] == [1.0] * 24
    assert most == 2 and time.monotonic() - begun > 1.0


@pytest.mark.parametrize("wrong", ["", "12", "[]", json.dumps({"target": "x"}), label()[:-4]])
def test_a_label_that_is_none_is_refused_with_the_remedy(tokenizer, wrong):
    with pytest.raises(ValueError, match=r"no JSON of benchmark.*labels\.make_label"):
        execute(reward.AgentExecutor(), Engine(tokenizer, "1+1"), wrong)
