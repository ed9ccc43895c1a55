"""The transformers back end on a small checkpoint: each draw follows from its own seed alone."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoTokenizer

import evaluators.transformers as back_end
from evaluators.backends import embedded, make_engine
from evaluators.records import encoder
from fgrpo_bench.data import chat
from fgrpo_bench.graders.worker import OfProcess
from fgrpo_bench.specs import PromptSpec
from tests.evaluators.evaluations import LENGTH, PLAIN, asked, evaluation, settings, wanted
from tests.support.openrlhf import heldout_problems


def told(draw, asked):
    made = [each for part in draw(asked) for each in part]
    assert len(made) == len(asked) == len({(d.problem_id, d.draw) for d in made})
    return {(d.problem_id, d.draw): (d.response, d.n_tokens, d.finish_reason) for d in made}


@pytest.fixture(scope="module")
def draw(model):
    made, facts = make_engine(asked(model))
    assert facts["engine"] == "transformers" and facts["transformers"]
    return made


@pytest.fixture(scope="module")
def problems():
    longer = [replace(p, prompt="1" + p.prompt) for p in heldout_problems(1)]
    return [*heldout_problems(3), replace(longer[0], problem_id="longer")]


@pytest.fixture(scope="module")
def all_draws(draw, problems):
    return told(draw, wanted(problems))


def test_what_is_drawn_beside_it_changes_no_draw(draw, problems, all_draws, monkeypatch):
    assert len({response for response, *_ in all_draws.values()}) > 20
    monkeypatch.setitem(back_end.ROWS, "cpu", 7)
    assert told(draw, wanted(problems)) == all_draws
    monkeypatch.setattr(back_end, "KEEP", 1.0)  # every row that is done leaves at once
    assert told(draw, list(reversed(wanted(problems)))) == all_draws
    some = wanted(problems)[30:41]
    assert told(draw, some).items() <= all_draws.items()


def test_other_seeds_give_other_draws(draw, problems, all_draws):
    assert told(draw, wanted(problems, further=1)) != all_draws


def test_the_draws_are_those_of_the_engine_that_trained_the_model(model, problems, all_draws):
    ours = embedded(asked(model)).draw
    expected = told(ours, wanted(problems[:3]))
    same = [all_draws[key] == value for key, value in expected.items() if "<pad>" not in value[0]]
    assert len(same) > 30 and all(same)


def test_tokens_are_counted_with_the_end_token_and_ends_are_told_from_limits(all_draws):
    assert {reason for *_, reason in all_draws.values()} == {"stop", "length"}
    for response, tokens, reason in all_draws.values():
        assert tokens == LENGTH or reason == "stop"
        assert len(response) <= tokens - (reason == "stop")  # special tokens are not shown


def test_a_token_is_chosen_with_its_probability():
    logits = torch.log(torch.tensor([[0.2, 0.5, 0.3]])).repeat(5, 1)
    numbers = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.999], dtype=torch.float64)
    assert back_end.chosen(logits, numbers, temperature=1.0).tolist() == [0, 0, 1, 1, 2]
    cold = back_end.chosen(logits, numbers, temperature=1e-3)
    assert cold.tolist() == [1] * 5


def test_every_end_token_of_the_generation_config_ends_a_response():
    tokenizer = SimpleNamespace(eos_token_id=9)
    for named, ends in ((3, {3}), ([3, 5], {3, 5}), (None, {9})):
        model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=named))
        assert back_end.end_tokens(model, tokenizer) == ends


def test_other_weights_than_the_stage_recorded_are_refused(model):
    with pytest.raises(ValueError, match=r"their stage recorded 000.*delete that stage's DONE"):
        back_end.transformers(replace(asked(model), sha256="0" * 64))


def test_a_prompt_that_is_too_long_is_refused_by_its_id_and_not_its_text(model):
    tokenizer, problem = AutoTokenizer.from_pretrained(model), heldout_problems(1)[0]
    encode = encoder(tokenizer, evaluation(), settings())
    assert len(encode(problem)) == len(problem.prompt)
    with pytest.raises(ValueError, match="more than prompt_tokens=2: raise prompt_tokens") as found:
        encoder(tokenizer, evaluation(), settings(prompt_tokens=2))(problem)
    assert problem.problem_id in str(found.value) and problem.prompt not in str(found.value)


def test_a_chat_template_is_applied_with_the_system_message(model):
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}={% endfor %}"
    problem = replace(heldout_problems(1)[0], prompt="12")
    chat = PromptSpec(chat_template=True, system="3")
    ids = encoder(tokenizer, evaluation(), settings(prompt=chat))(problem)
    assert tokenizer.decode(ids) == "3=12="


@pytest.mark.parametrize(
    ("template", "rule"),
    [
        ("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
         "it took more than 1 s of processor time"),
        ("{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
         "it (needs more than 1024 MB of memory|took more than 1 s)"),
        ("{{ 'x' * 20000000 }}", "it wrote a text of more than 10,000,000 characters"),
        ("{{ raise_exception('no system message') }}", "it raised TemplateError: no system"),
        ("{{ messages.__class__.__mro__ }}", "it raised SecurityError: access to attribute"),
        ("{% for %}", "it raised TemplateSyntaxError: "),
        ("{{ 1 / 0 }}", "it raised ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_a_template_that_never_ends_grows_or_raises_is_a_sentence(
    model, monkeypatch, template, rule
):
    monkeypatch.setattr(chat, "SECONDS", 1.0)
    monkeypatch.setattr(chat, "_processes", OfProcess(chat._processes._make))
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = template
    encode = encoder(tokenizer, evaluation(), settings(prompt=replace(PLAIN, chat_template=True)))
    with pytest.raises(
        ValueError, match=r"the chat template of .*small cannot be applied"
    ) as error:
        encode(heldout_problems(1)[0])
    chat._processes().close()
    assert re.search(rule, str(error.value)), error.value
    assert "\n" not in str(error.value) and "prompt=plain" in str(error.value)


def test_a_sampler_can_be_stopped_at_every_token_and_says_what_it_discards(
    draw, problems, monkeypatch, capsys
):
    monkeypatch.setitem(back_end.ROWS, "cpu", 16)
    some = wanted(problems)[:16]
    parts = [len(draws) for draws in draw(some)]
    assert sum(parts) == 16 and 0 in parts and len(parts) <= LENGTH
    for n_tokens in (1, len(parts) - 1):
        drawing = draw(some)
        n_finished = sum(len(next(drawing)) for _ in range(n_tokens))
        drawing.close()
        discarded = f"stopped: {16 - n_finished} half-drawn responses are discarded\n"
        assert capsys.readouterr().out == discarded
