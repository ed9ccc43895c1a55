"""The prompt files: which problems, in which form, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from evaluators.records import encoded
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.engines.openrlhf.arguments import batches
from fgrpo_bench.engines.openrlhf.labels import dispatch, draw_seed, make_label, read_dispatched
from fgrpo_bench.engines.openrlhf.prompts import (
    base_tokenizer,
    bos_text,
    evaluation_problems,
    messages,
    token_counter,
    training_problems,
    write_prompts,
)
from fgrpo_bench.files.paths import DataPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import PromptSpec, SweepPoint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.tables import PROBLEMS, write_table
from sweeps.plan import expand
from tests.support.plans import loaded
from tests.support.points import point

PLAIN = PromptSpec(chat_template=False, system=None)
CHAT = PromptSpec(chat_template=True, system="Think.")
SMALL = ["experiment.train.prompts_per_step=4", "experiment.train.steps=20"]
"""Ten epochs of two steps of four prompts: eight prompts an epoch."""
ONE_EPOCH = ["experiment.train.steps=2", "experiment.train.epochs=1"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The stage of a dataset of twelve problems; problem i has i + 1 words."""
    paths = DataPaths(tmp_path / "data")
    rows = {
        "problem_id": [f"deepscaler-{i}" for i in range(12)],
        "prompt": [" ".join(["word"] * (i + 1)) for i in range(12)],
        "answer": [str(i) for i in range(12)],
        "gold_used": [str(i) for i in range(12)],
        "cluster": [None] * 12,
    }
    paths.problems.parent.mkdir(parents=True)
    write_table(paths.problems, pl.DataFrame(rows).cast(PROBLEMS), PROBLEMS)
    result = {"rows": 12, "sha256": sha256_file(paths.problems)}
    write_json(paths.lock, {"fingerprint": "f", "result": result})
    return paths.folder


def words_of(prompt: object) -> int:
    """Words of the problem, whatever form the prompt has."""
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]  # type: ignore[index]
    return len(text.split())


def small(*overrides: str) -> SweepPoint:
    return point("grpo", *SMALL, *overrides)


def test_all_prompts_are_there_to_be_chosen_from_unless_the_epochs_cannot_hold_them(
    data: Path,
) -> None:
    assert batches(small()).prompts_per_epoch == 8
    for overrides, n in (((), 12), (ONE_EPOCH, 8)):
        chosen = training_problems(small(*overrides), data, words_of)
        assert len({p.problem_id for p in chosen}) == len(chosen) == n
        assert all(p.grader == "math" and p.benchmark == "deepscaler" for p in chosen)


def test_the_seed_alone_decides_which_prompts_and_in_which_order(data: Path) -> None:
    other = point("cispo", *SMALL, group_size=32, focal_gamma=0.0)
    first = [p.problem_id for p in training_problems(small(), data, words_of)]
    assert [p.problem_id for p in training_problems(other, data, words_of)] == first
    reseeded = point("grpo", *SMALL, seed=12)
    assert [p.problem_id for p in training_problems(reseeded, data, words_of)] != first


def test_prompts_that_are_too_long_are_left_out_and_too_few_are_refused(data: Path) -> None:
    chosen = training_problems(small("experiment.train.prompt_tokens=9"), data, words_of)
    assert max(words_of(p.prompt) for p in chosen) <= 9
    rule = (
        r"an epoch of grpo-n8-g0\.5-s11 has 8 prompts .* of 12 there are only 7 with at most "
        r"prompt_tokens=7 \(5 are longer\): raise epochs, lower steps"
    )
    with pytest.raises(ValueError, match=rule):
        training_problems(small("experiment.train.prompt_tokens=7"), data, words_of)


def test_a_generated_task_gives_training_and_heldout_problems_that_do_not_meet() -> None:
    (it,) = expand(
        loaded("rehearsal", "sweep.grid.algorithm=[grpo]", "sweep.grid.focal_gamma=[0.0]")
    )
    chosen = training_problems(it, None, words_of)
    heldout = evaluation_problems(it, None, words_of)
    assert len(chosen) == 2 * 16 * 2 and len(heldout) == 8
    assert not {p.problem_id for p in chosen} & {p.problem_id for p in heldout}


def test_a_dataset_gives_the_first_problems_of_another_one_to_evaluate_on(data: Path) -> None:
    it = small("experiment.train.eval_n_problems=3")
    chosen = evaluation_problems(it, data, words_of)
    assert [p.problem_id for p in chosen] == [f"deepscaler-{i}" for i in range(3)]
    assert {p.benchmark for p in chosen} == {"aime25"} and {p.grader for p in chosen} == {"math"}
    assert evaluation_problems(small("experiment.train.eval_every=0"), data, words_of) == []


def test_a_problem_to_evaluate_on_that_is_too_long_is_refused_by_its_name(data: Path) -> None:
    it = small("experiment.train.eval_n_problems=12", "experiment.train.prompt_tokens=9")
    rule = r"deepscaler-9 of eval_dataset aime25 has 10 tokens, more than prompt_tokens=9: raise"
    with pytest.raises(ValueError, match=rule):
        evaluation_problems(it, data, words_of)


def test_a_prompt_is_text_or_the_messages_of_a_chat() -> None:
    assert messages("1+1?", PLAIN) == "1+1?"
    user = {"role": "user", "content": "1+1?"}
    assert messages("1+1?", CHAT) == [{"role": "system", "content": "Think."}, user]
    assert messages("1+1?", PromptSpec(chat_template=True, system=None)) == [user]


def test_a_line_of_a_prompt_file_holds_the_prompt_and_the_whole_problem(tmp_path: Path) -> None:
    problem = Problem(benchmark="b", problem_id="b-1", prompt="1+\n1?", target="2", grader="math")
    write_prompts(tmp_path / "prompts.jsonl", [problem, problem], CHAT, tokenizer=None)
    lines = (tmp_path / "prompts.jsonl").read_text().splitlines()
    assert len(lines) == 2
    row = json.loads(lines[0])
    assert row["prompt"] == messages("1+\n1?", CHAT)
    label = dispatch(row["label"], stream=7, position=3)
    read = read_dispatched(label, "1+\n1?")
    assert (read.problem, read.stream, read.position) == (problem, 7, 3)


def test_draws_of_a_problem_have_seeds_of_their_own() -> None:
    problem = Problem(benchmark="b", problem_id="b-1", prompt="x", target="2", grader="math")

    def seeds(stream: int) -> list[int]:
        read = read_dispatched(dispatch(make_label(problem), stream=stream, position=0), "x")
        return [draw_seed(read, draw) for draw in range(256)]

    counted = Counter(seeds(1) + seeds(2))
    assert set(counted.values()) == {1} and all(0 <= seed < 2**63 for seed in counted)


def tokenizer(folder: Path, *, template: str | None, added: str = "$A") -> Path:
    """added: what the tokenizer makes of a text, e.g. `<s> $A`."""
    words = ["?", "word", "Think.", "<s>", "</s>", "1"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [("<s>", 3), ("</s>", 4)]
    inner.post_processor = processors.TemplateProcessing(single=added, special_tokens=special)
    outer = PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="?", bos_token="<s>", eos_token="</s>"
    )
    outer.chat_template = template
    outer.save_pretrained(folder)
    return folder


TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.mark.parametrize(("added", "more"), [("$A", 0), ("<s> $A", 1)])
def test_training_and_evaluation_read_a_prompt_alike_and_count_it_so(
    added: str, more: int, tmp_path: Path
) -> None:
    template = "<s>" + TEMPLATE if more else TEMPLATE
    base = tokenizer(tmp_path, template=template, added=added)
    problem = Problem(benchmark="b", problem_id="b", prompt="word 1", target="2", grader="math")
    for spec, tokens in ((PLAIN, 2 + more), (CHAT, 2 + 3 + 1 + more)):
        read = base_tokenizer(base, spec)
        file = tmp_path / "prompts.jsonl"
        write_prompts(file, [problem], spec, read)
        written = json.loads(file.read_text())["prompt"]
        text = written
        if spec.chat_template:  # as openrlhf.datasets.prompts_dataset.preprocess_data
            text = read.apply_chat_template(written, tokenize=False, add_generation_prompt=True)
        in_training = read(text, add_special_tokens=False)["input_ids"]  # as its executors
        in_evaluation = encoded(read, spec, problem.prompt)
        assert in_training == in_evaluation
        assert in_training.count(read.bos_token_id) == more
        counted = messages(problem.prompt, spec)
        assert token_counter(read, spec)(counted) == len(in_training) == tokens


def test_a_tokenizer_that_adds_more_than_its_bos_is_refused_for_plain_prompts(
    tmp_path: Path,
) -> None:
    read = base_tokenizer(tokenizer(tmp_path, template=TEMPLATE, added="<s> $A </s>"), CHAT)
    assert bos_text(read, CHAT) == ""
    with pytest.raises(ValueError, match=r"'1' as \['<s>', '1', '</s>'\].*chat_template=true"):
        bos_text(read, PLAIN)


def test_a_model_without_a_tokenizer_or_the_template_that_is_asked_for_is_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match=r"has no tokenizer .*put the tokenizer's files beside"):
        base_tokenizer(tmp_path, PLAIN)
    base = tokenizer(tmp_path, template=None)
    with pytest.raises(ValueError, match=r"no chat template: set experiment\.train\.prompt\.chat"):
        base_tokenizer(base, CHAT)
    assert token_counter(base_tokenizer(base, PLAIN), PLAIN)("word") == 1
