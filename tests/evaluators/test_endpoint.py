"""A server as a sampler: what it is asked, what it may do wrong, what a rerun asks for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluators import endpoint
from evaluators.__main__ import main
from evaluators.endpoint import ServedModel, address, read_answer, request_body
from evaluators.records import SampleRequest, SamplingTarget
from evaluators.stored import find
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs import PromptSpec, from_dict, to_dict
from fgrpo_bench.stages.stage import EXIT_CONTINUE
from fgrpo_bench.stages.tables import DRAWS, read_table
from sweeps import REPOSITORY
from sweeps.plan import make_plan
from tests.evaluators.evaluations import evaluation
from tests.evaluators.evaluations import settings as settings_of
from tests.evaluators.serving import Adding, serving
from tests.support.plans import loaded

SUMS = [(1, 1), (2, 3), (7, 5), (3, 9)]
KEY = "sk-very-secret"


@pytest.fixture
def server(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Adding]:
    """With problems in the present folder, and waits that cost no time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(endpoint, "WAITS", (0, 0.01))
    write("mine.jsonl", SUMS)
    with serving() as server:
        yield server


def write(name: str, sums: list[tuple[int, int]]) -> None:
    rows = [{"question": f"What is {a} + {b}?", "answer": str(a + b)} for a, b in sums]
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def words(server: Adding, *more: str, n: int = 4) -> list[str]:
    of_server = ["--endpoint", server.url, "--model", "policy"]
    return [*of_server, "--data", "mine.jsonl", "-n", str(n), *more]


def evaluated(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What the command prints on both streams."""
    capsys.readouterr()
    exit_code = main(words)
    shown = capsys.readouterr()
    assert exit_code == code, shown
    assert "Traceback" not in shown.err
    return shown.out + shown.err


def drawn(root: Path) -> Any:
    (folder,) = (root / "evals").glob("policy-*")
    (stored,) = find(folder.name)
    return stored, read_table(stored.paths.draws, DRAWS)


@pytest.mark.slow
def test_a_servers_model_is_evaluated_with_all_faults_that_pass_and_extended(
    server: Adding, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults.extend(["429", "500", "drop", "503"])
    said = evaluated(capsys, *words(server, "--max-tokens", "64"))
    assert f"sampler: policy (/models/policy) of {server.url}; a seed is sent with every" in said
    assert "prompt: the server's chat template, system message 'Please reason" in said
    assert "length: responses of up to 64 tokens" in said
    assert "counts 176 tokens of prompts and 112 of responses" in said
    stored, draws = drawn(root)
    assert len(draws) == 16 and len(server.asked) == 20
    assert sorted(draws["seed"]) == sorted(server.answered)
    for row in draws.iter_rows(named=True):
        assert row["n_tokens"] == 7 and row["end_token"] is None
        assert row["finish_reason"] == ("length" if row["seed"] % 4 == 0 else "stop")
    where, body = server.asked[0]
    assert where == "chat/completions" and body["max_tokens"] == 64 and body["top_k"] == -1
    assert [turn["role"] for turn in body["messages"]] == ["system", "user"]
    (facts,) = read_json(stored.paths.manifest)["engines"]
    assert facts["engine"] == "endpoint" and facts["seed"] == "sent, not promised"
    assert (facts["url"], facts["model"], facts["software"]) == (server.url, "policy", "vllm")
    # more draws are those that are missing
    server.answered.clear()
    evaluated(capsys, *words(server, "--max-tokens", "64", n=6))
    assert len(server.answered) == 8 and drawn(root)[1]["seed"].n_unique() == 24
    # the key goes to the server, and nowhere else
    assert set(server.keys) == {f"Bearer {KEY}"} and KEY not in said
    files = [path for path in Path.cwd().rglob("*") if path.is_file()]  # links lead there too
    assert stored.paths.draws.resolve() in [path.resolve() for path in files]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


REFUSED = {
    "--model polcy": "--model polcy (did you mean policy?): {url} has policy, other",
    "": "name a model with --model; {url} has policy, other",
    "--model policy --device cpu": "--device beside --endpoint: the server computes as it does",
    "--model policy --max-prompt-tokens 9": "--max-prompt-tokens beside --endpoint: the server",
    "--model policy --peft x": "--peft beside --endpoint",
    "--model policy --sampler vllm": "a server (--endpoint) draws by sampler=endpoint alone",
    "--model policy --dtype float32": "dtype=float32 with sampler=endpoint: a server has chosen",
    "--model policy --max-tokens 4096": "the context of policy is 4096 tokens (max_model_len)",
    "--model policy --few-shot mine.jsonl": "solved example 1 (--few-shot) is problem mine-",
}


@pytest.mark.slow
@pytest.mark.parametrize("more", REFUSED)
def test_what_cannot_be_meant_is_refused_before_any_draw(
    server: Adding, more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--endpoint", server.url, "--data", "mine.jsonl", *more.split()]
    said = evaluated(capsys, *asked, code=1)
    assert f"{REFUSED[more].format(url=server.url)}" in said and "error: " in said
    assert not server.asked


def test_an_address_where_nobody_answers_is_refused(
    server: Adding, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = words(server)
    server.shutdown()
    server.server_close()
    assert "no server answers there (ConnectionRefusedError" in evaluated(capsys, *asked, code=1)


@pytest.mark.slow
def test_a_refusal_is_one_sentence_and_keeps_the_draws_before_it(
    server: Adding, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = words(server, "--batch-size", "1")
    for n_before, (fault, said) in enumerate({
        "400": "refused the request (HTTP 400: key Bearer *** is refused): change what it names",
        "401": "set OPENAI_API_KEY to a key of that server",
        "302": "refused the request (HTTP 302",
        "html": "did not answer with JSON: check --endpoint",
        "empty": "the server's answer is none of OpenAI's protocol",
    }.items()):  # fmt: skip
        server.faults.extend(["429", "500", *[None] * n_before, fault])
        shown = evaluated(capsys, *asked, code=1)
        assert said in shown and "error: problem mine-" in shown and KEY not in shown
    evaluated(capsys, *asked)
    assert len(drawn(root)[1]) == 16 == len(server.answered)


@pytest.mark.slow
def test_a_server_that_stays_away_stops_the_stage_and_a_rerun_asks_for_the_rest(
    server: Adding, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.gone = True
    said = evaluated(capsys, *words(server), code=EXIT_CONTINUE)
    assert "does not answer (HTTP 503: key Bearer *** is refused; 3 tries)" in said
    assert "run the same command again to continue" in said
    server.gone = False
    evaluated(capsys, *words(server))
    assert len(drawn(root)[1]) == 16 == len(set(server.answered)) == len(server.answered)


@pytest.mark.slow
def test_a_killed_run_goes_on_and_no_draw_is_answered_twice(
    server: Adding, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.hold_from = 9
    command = [sys.executable, "-m", "evaluators", "run", *words(server, "--batch-size", "2")]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while len(shards := list(Path.cwd().rglob("draws-*.jsonl"))) < 1 or lines(shards[0]) < 9:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    server.hold_from = None
    server.released.set()
    evaluated(capsys, *words(server))
    assert (
        Counter(server.answered) == Counter(drawn(root)[1]["seed"]) and len(server.answered) == 16
    )


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


@pytest.mark.slow
def test_a_name_that_stands_for_another_model_is_another_evaluation(
    server: Adding, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that was started anew with other weights under the same name."""
    evaluated(capsys, *words(server, n=1))
    server.models = [server.models[0] | {"root": "/models/policy-2"}]
    evaluated(capsys, *words(server, n=1))
    assert len(list((root / "evals").glob("policy-*"))) == 2 and len(server.answered) == 8
    said = evaluated(capsys, *words(server, "--name", "policy-x", n=1))
    assert len(server.answered) == 12, said  # nothing is taken over: weights are not known
    server.models = [server.models[0] | {"root": "/models/policy-3"}]
    said = evaluated(capsys, *words(server, "--name", "policy-x", n=1), code=1)
    assert "belongs to policy of" in said and "give it another name=" in said


@pytest.mark.slow
def test_what_is_asked_is_stored_with_the_draws_and_said_where_two_are_compared(
    server: Adding, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    solved = {"problem": "What is 0 + 0?", "solution": "Nothing, 0.", "answer": "0"}
    Path("solved.jsonl").write_text(json.dumps(solved))
    evaluated(capsys, *words(server, "--name", "plain", n=2))
    server.asked.clear()
    more = ["--prefix", "So ", "--stop", "Q:", "--stop", "\n\n", "--few-shot", "solved.jsonl"]
    said = evaluated(capsys, *words(server, "--name", "shown", "--no-chat-template", *more, n=2))
    assert "few-shot: 1 solved examples of solved.jsonl, columns 'problem' and 'solution'" in said
    assert "prefix: every response begins with 'So ', graded with it" in said
    where, body = server.asked[0]
    assert where == "completions" and body["stop"] == ["Q:", "\n\n"]
    assert body["prompt"].startswith("What is 0 + 0?\n\nPut your final answer within")
    assert "\nNothing, 0.\n\nWhat is" in body["prompt"] and body["prompt"].endswith(".\nSo ")
    (stored,) = find("shown")
    assert all(read_table(stored.paths.draws, DRAWS)["response"].str.starts_with("So It is"))
    compared = evaluated(capsys, "compare", "plain", "shown")
    for remark in (
        "texts that end a response: plain none, shown ['Q:', '\\n\\n'].",
        "prefix of the responses: plain none, shown So .",
        "solved examples: plain none, shown 1 in every prompt.",
        "use of the chat template: plain yes, shown no.",
    ):
        assert f"They differ in {remark}" in " ".join(compared.split())


def test_a_benchmark_is_drawn_from_a_server_without_data(
    server: Adding, keys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = [f"evaluation.benchmarks.math500.dataset.{key}" for key in keys]
    dataset += ["evaluation.benchmarks.math500.dataset.source=file"]
    dataset += [
        f"evaluation.benchmarks.math500.dataset.{n}=null" for n in ("repository", "revision")
    ]
    dataset += ["evaluation.benchmarks.math500.n_problems=3"]
    of_server = [f"endpoint={server.url}", "checkpoint=policy", "benchmarks=[math500]"]
    said = evaluated(capsys, "plan", *of_server, *dataset, "temperature=0")
    assert "sampler endpoint" in said and f"checkpoint policy of {server.url}" in said
    assert "3 problems x 1 draws; 0 are there, 3 to make" in said and not server.asked


def test_a_stop_gives_up_what_is_in_flight_and_says_so(
    server: Adding, capsys: pytest.CaptureFixture[str]
) -> None:
    server.hold_from = 2
    served = endpoint.served_model(server.url, "policy")
    asked = target(CHAT, settings=settings_of(prompt=CHAT) | {"served": served.identity})
    sum_ = replace(PROBLEM, prompt="1 + 1?")
    requests = [SampleRequest(problem=sum_, draw=i, seed=i) for i in range(5)]
    drawing = endpoint.endpoint(replace(asked, batch_size=4)).draw(requests)
    n_drawn = 0
    while n_drawn < 2:
        n_drawn += len(next(drawing))
    assert next(drawing) == []  # where it can be stopped while nothing is answered
    drawing.close()  # type: ignore[attr-defined]
    assert "stopped: 3 half-drawn responses are discarded" in capsys.readouterr().out


# What a request holds.

PROBLEM = Problem(benchmark="mine", problem_id="p", prompt="1+1?", target="2", grader="math")
REQUEST = SampleRequest(problem=PROBLEM, draw=0, seed=3)
SERVED = ServedModel(url="http://x/v1", model="m", root=None, software=None, context=None)
CHAT = PromptSpec(chat_template=True, system="S", suffix="!")
PLAIN = PromptSpec(chat_template=False, system=None, suffix="!")
FEW = ({"problem": "0+1?", "answer": "1"},)
BASE = {"model": "m", "max_tokens": 8, "temperature": 1.0, "top_p": 1.0, "seed": 3, "n": 1}
MESSAGES = [{"role": "system", "content": "S"}, {"role": "user", "content": "1+1?!"}]
BODIES: list[tuple[dict[str, Any], PromptSpec, str | None, dict[str, Any]]] = [
    ({}, CHAT, None, {"messages": MESSAGES}),
    ({}, PLAIN, None, {"prompt": "1+1?!"}),
    ({}, PLAIN, "llamacpp", {"prompt": "1+1?!"}),
    ({}, PLAIN, "sglang", {"prompt": "1+1?!", "top_k": -1, "min_p": 0.0, "repetition_penalty": 1}),
    ({"top_k": 5, "top_p": 0.5}, PLAIN, "vllm", {"prompt": "1+1?!", "top_k": 5, "top_p": 0.5,
     "min_p": 0.0, "repetition_penalty": 1}),
    ({"stop": ["Q:", "\n"]}, PLAIN, None, {"prompt": "1+1?!", "stop": ["Q:", "\n"]}),
    ({"temperature": 0.0, "n_samples": 1}, PLAIN, None, {"prompt": "1+1?!", "temperature": 0.0}),
    ({"prefix": "So"}, PLAIN, None, {"prompt": "1+1?!So"}),
    ({"prefix": "So"}, CHAT, None, {"messages": [*MESSAGES, {"role": "assistant", "content": "So"}],
     "add_generation_prompt": False, "continue_final_message": True}),
    ({"few_shot": FEW}, PLAIN, None, {"prompt": "0+1?!\n1\n\n1+1?!\n"}),
    ({"few_shot": FEW}, CHAT, None, {"messages": [MESSAGES[0], {"role": "user", "content": "0+1?!"},
     {"role": "assistant", "content": "1"}, MESSAGES[1]]}),
]  # fmt: skip


def target(
    prompt: PromptSpec, settings: dict[str, Any] | None = None, **changes: Any
) -> SamplingTarget:
    """A server's model, asked by an evaluation with changes."""
    benchmark = to_dict(evaluation().benchmarks["countdown"]) | {"name": "mine"}
    return SamplingTarget(
        folder=Path(),
        sha256=None,
        evaluation=evaluation(
            sampler="endpoint", dtype=None, benchmarks={"mine": benchmark}, **changes
        ),
        settings=settings or settings_of(prompt=prompt),
        device="cpu",
        placement=None,
    )


@pytest.mark.parametrize(("changes", "prompt", "software", "expected"), BODIES)
def test_every_setting_reaches_the_server(
    changes: dict[str, Any], prompt: PromptSpec, software: str | None, expected: dict[str, Any]
) -> None:
    where, body = request_body(
        target(prompt, **changes), replace(SERVED, software=software), REQUEST
    )
    assert body == BASE | expected
    assert where == ("chat/completions" if prompt.chat_template else "completions")


def answer(**changes: Any) -> dict[str, Any]:
    choice = {"message": {"content": "two"}, "finish_reason": "stop"} | changes
    return {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}


@pytest.mark.parametrize(
    ("changes", "text", "reason"),
    [
        ({}, "two", "stop"),
        ({"finish_reason": "length"}, "two", "length"),
        ({"finish_reason": "content_filter"}, "two", "stop"),
        ({"message": {"content": None}}, "", "stop"),
        ({"message": {"content": "two", "reasoning_content": "1"}}, "<think>1</think>two", "stop"),
        ({"message": {"content": None, "reasoning": "1"}, "finish_reason": "length"}, "<think>1",
         "length"),
        ({"message": {"content": "a\ud800"}}, "a?", "stop"),
    ],
)  # fmt: skip
def test_what_a_server_answers_is_a_draw(changes: dict[str, Any], text: str, reason: str) -> None:
    draw, counts, _ = read_answer(REQUEST, answer(**changes))
    assert (draw.response, draw.finish_reason, draw.n_tokens, draw.seed) == (text, reason, 2, 3)
    assert counts == {"prompt_tokens": 1, "completion_tokens": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [3], "usage": {}},
        answer(finish_reason=None),
        answer(message={"content": ["two"]}),
        answer() | {"usage": None},
        answer() | {"usage": {"completion_tokens": 2}},
        answer() | {"usage": {"prompt_tokens": 1, "completion_tokens": -2}},
    ],
)
def test_what_is_no_answer_of_the_protocol_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="none of OpenAI's protocol"):
        read_answer(REQUEST, wrong)


def test_an_address_is_the_root_of_the_protocol() -> None:
    assert address("http://h:8000") == address("http://h:8000/v1/") == "http://h:8000/v1"
    assert address("https://h/api/v1/chat/completions") == "https://h/api/v1"


@pytest.mark.parametrize(
    "url", ["h:8000", "ftp://h/v1", "http://", "http://h:x/v1", "http://h?a=1"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="--endpoint "):
        address(url)


def test_a_password_in_an_address_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="set OPENAI_API_KEY") as refusal:
        address("http://me:hush@h:x/v1")
    assert "hush" not in str(refusal.value)


def test_a_sweep_does_not_draw_from_a_server() -> None:
    of_server = ("experiment.evaluation.sampler=endpoint", "experiment.evaluation.dtype=null")
    with pytest.raises(ValueError, match="does not draw from the checkpoints that a sweep trains"):
        make_plan(loaded("smoke", *of_server))


def test_settings_at_their_defaults_are_no_part_of_an_identity() -> None:
    plain = settings_of()
    assert not {"top_k", "stop", "prefix", "few_shot", "peft", "served"} & plain.keys()
    spec = evaluation(top_k=5, stop=["Q"], prefix="So", few_shot=FEW)
    assert from_dict(type(spec), to_dict(spec)) == spec
