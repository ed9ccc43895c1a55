"""The transformers back end on a small checkpoint: each draw follows from its own seed alone."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoTokenizer

import evaluators.transformers as back_end
from evaluators.adapter import adapter_sha256
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


TEMPLATES = {
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}":
        "it took more than 1 s of processor time",
    "{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}":
        "it (needs more than 1024 MB of memory|took more than 1 s)",
    "{{ 'x' * 20000000 }}": "it wrote a text of more than 10,000,000 characters",
    "{{ raise_exception('no system message') }}": "it raised TemplateError: no system",
    "{{ messages.__class__.__mro__ }}": "it raised SecurityError: access to attribute",
    "{% for %}": "it raised TemplateSyntaxError: ",
    "{{ 1 / 0 }}": "it raised ZeroDivisionError: division by zero",
}  # fmt: skip


@pytest.mark.slow
def test_a_template_that_never_ends_grows_or_raises_is_a_sentence(model, monkeypatch):
    monkeypatch.setattr(chat, "SECONDS", 1.0)
    monkeypatch.setattr(chat, "_processes", OfProcess(chat._processes._make))
    tokenizer = AutoTokenizer.from_pretrained(model)
    asked = settings(prompt=replace(PLAIN, chat_template=True))
    for template, rule in TEMPLATES.items():
        tokenizer.chat_template = template
        encode = encoder(tokenizer, evaluation(), asked)
        with pytest.raises(
            ValueError, match=r"the chat template of .*small cannot be applied"
        ) as error:
            encode(heldout_problems(1)[0])
        assert re.search(rule, str(error.value)), (template, error.value)
        assert "\n" not in str(error.value) and "prompt=plain" in str(error.value), template
    chat._processes().close()


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


def test_tokens_outside_of_top_k_and_top_p_are_never_drawn():
    logits = torch.log(torch.tensor([[0.15, 0.4, 0.3, 0.05, 0.1]])).repeat(101, 1)
    numbers = torch.linspace(0, 1 - 2**-53, 101, dtype=torch.float64)

    def shares(**settings):
        tokens = back_end.chosen(logits, numbers, temperature=1.0, **settings)
        return [round(tokens.eq(token).double().mean().item(), 1) for token in range(5)]

    assert shares() == [0.1, 0.4, 0.3, 0.0, 0.1]
    assert shares(top_k=2) == [0.0, 0.6, 0.4, 0.0, 0.0]  # 4 : 3
    assert shares(top_k=9) == shares()
    # the least set of tokens that has the probability: 0.4 + 0.3 is less than 0.75
    assert shares(top_p=0.75) == [0.2, 0.5, 0.4, 0.0, 0.0]
    assert shares(top_p=0.05) == shares(top_k=1) == [0.0, 1.0, 0.0, 0.0, 0.0]
    # top_p is of what top_k leaves: 0.4 is 0.57 of two tokens
    assert shares(top_k=2, top_p=0.55) == shares(top_k=1)


GREEDY = {"temperature": 0.0, "n_samples": 1}


def test_greedy_draws_take_the_most_likely_token_under_every_back_end(model, problems, all_draws):
    greedy = told(back_end.transformers(asked(model, **GREEDY)).draw, wanted(problems[:3], draws=2))
    assert len(set(greedy.values())) <= 3  # whatever the seed
    coldest = told(make_engine(asked(model, temperature=0.01)).draw, wanted(problems[:3], draws=2))
    assert greedy == coldest != {key: all_draws[key] for key in greedy}
    assert told(embedded(asked(model, **GREEDY)).draw, wanted(problems[:3], draws=2)) == greedy


def test_a_text_ends_a_response_which_is_without_it(model, problems, all_draws):
    stop = max(
        "+-*/0123456789", key=lambda sign: sum(sign in text for text, *_ in all_draws.values())
    )
    stopped = told(make_engine(asked(model, stop=[stop, "no such text"])).draw, wanted(problems))
    is_cut = [stop in text for text, *_ in all_draws.values()]
    assert 0 < sum(is_cut) < len(is_cut)
    for key, (text, n_tokens, reason) in all_draws.items():
        if stop not in text:
            assert stopped[key] == (text, n_tokens, reason)
            continue
        cut, n_cut, why = stopped[key]
        assert cut == text[: text.index(stop)] and why == "stop" and n_cut <= n_tokens
        assert n_cut > len(cut)  # the tokens of the text are counted


def test_a_stopped_response_has_no_end_token(model, problems):
    parts = make_engine(asked(model, stop=list("0123456789"))).draw(wanted(problems[:1]))
    draws = [draw for part in parts for draw in part]
    assert {draw.end_token is None for draw in draws if draw.n_tokens < LENGTH} == {True, False}


def test_a_response_begins_with_the_prefix_and_goes_on_from_it(model, problems):
    some = problems[:2]
    begun = told(make_engine(asked(model, prefix="1+")).draw, wanted(some))
    longer = [replace(problem, prompt=problem.prompt + "1+") for problem in some]
    went_on = told(make_engine(asked(model)).draw, wanted(longer))
    assert begun == {key: ("1+" + text, *rest) for key, (text, *rest) in went_on.items()}


def test_a_prefix_begins_the_turn_of_a_chat_behind_solved_examples(model):
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }}{{ '=' if m.role == 'user' else '+' }}{% endfor %}"
        "{% if add_generation_prompt %}-{% endif %}"
    )
    problem = replace(heldout_problems(1)[0], prompt="12")
    chat = PromptSpec(chat_template=True, system="3", suffix="0")
    shown = [{"problem": "7", "answer": "8"}, {"problem": "5", "answer": "6"}]
    spec = evaluation(prefix="9", few_shot=shown)
    ids = encoder(tokenizer, spec, settings(prompt=chat, prompt_tokens=99))(problem)
    assert tokenizer.decode(ids) == "3+70=8+50=6+120=-9"


@pytest.mark.slow
def test_so_many_draws_are_made_at_once_and_are_the_same(model, problems, all_draws):
    by_five = make_engine(replace(asked(model), batch_size=5))
    assert by_five.facts["rows"] == 5
    parts = [len(part) for part in by_five.draw(wanted(problems))]
    assert max(parts) <= 5 and sum(parts) == len(all_draws)
    assert told(by_five.draw, wanted(problems)) == all_draws
    ours = make_engine(replace(asked(model, sampler="embedded"), batch_size=5))
    assert max(len(part) for part in ours.draw(wanted(problems[:3]))) == 5


def test_an_adapter_that_was_changed_since_is_refused(model, tmp_path):
    target = replace(asked(model), folder=tmp_path / "checkpoints" / "step-00000")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / "adapter").mkdir(exist_ok=True)
        (tmp_path / "adapter" / name).write_text("{}")
    recorded = {"peft": adapter_sha256(tmp_path / "adapter")}
    assert replace(target, settings=recorded).adapter == tmp_path / "adapter"
    assert target.adapter is None
    (tmp_path / "adapter" / "adapter_model.safetensors").write_text("{ }")
    with pytest.raises(ValueError, match=r"was changed since this evaluation began"):
        _ = replace(target, settings=recorded).adapter
