"""How trainers and harnesses write what they drew: a table, an entry a format.

In: a row of a file. Out: the columns in which `dumps` finds problem, response, gold and verdict. An
entry says by which columns a format is known and what they mean; where a field lies deeper than a
column, a function of the row brings it up. A new format is an entry of FORMATS with a fixture in
tests/evaluators/written.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fgrpo_bench.data.columns import ANSWERS, PROMPTS
from fgrpo_bench.data.golds import quoted_items

Row = Mapping[str, Any]
BROKEN = (LookupError, TypeError, AttributeError, ValueError, RecursionError)
"""What a row raises that is not of the format that its columns say."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a program writes what it drew."""

    name: str
    """For a person."""
    program: str
    """Whose verdicts its scores are: a name of fgrpo_bench.graders.recorded.PROGRAMS."""
    marks: str
    """Columns that every row has, by which it is known, with spaces between; of a|b one is enough,
    and a dot leads into a column that holds objects."""
    columns: Mapping[str, str]
    """By field of DumpedDraw, the columns that may hold it: the first that a row has is read."""
    inside: str | None = None
    """Where a file that is one JSON object has its rows."""
    once: str | None = None
    """A column; rows with another value there than the first are the same draws once more."""
    arranged: Callable[[Row], Row] = dict
    """A row with its fields in columns, where they lie deeper; may raise BROKEN."""


def is_number(value: object) -> bool:
    """A finite number, true and false among them."""
    if not isinstance(value, int | float):
        return False
    return math.isfinite(value)


ENDS = {
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_length"), "length"),
    **dict.fromkeys(("stop", "eos", "end_turn", "stop_sequence", "complete", "completed"), "stop"),
    **dict.fromkeys(("unknown", ""), None),
}
"""How a response ended, by the words that programs have for it."""


def _from_lm_eval(row: Row) -> Row:
    """Its `doc` is a row of the dataset, and `resps` has a list for each request. What it scored is
    one verdict for all draws, by the name of each metric."""
    doc: Row = row["doc"] if isinstance(row.get("doc"), dict) else row
    texts = row["resps"]
    if isinstance(texts, list):
        texts = [
            text for group in texts for text in (group if isinstance(group, list) else [group])
        ]
    metrics = row.get("metrics")
    named = {"score": row.get(metrics[0])} if isinstance(metrics, list) and metrics else {}
    prompts = [name for names in PROMPTS for name in names]
    problem = next((doc[name] for name in prompts if isinstance(doc.get(name), str)), None)
    arguments = row.get("arguments")
    if problem is None and isinstance(arguments, dict) and arguments:
        problem = next(iter(arguments.values()))["arg_0"]
    fields = {"problem": problem, "problem_id": doc.get("problem_id"), "resps": texts}
    return dict(row) | named | fields


INSPECT = {"C": 1.0, "I": 0.0, "N": 0.0}
"""Its scores by letters: correct, incorrect, no answer."""


def _from_inspect(row: Row) -> Row:
    output = row["output"] or {}
    choice = (output.get("choices") or [None])[0]
    fields: dict[str, Any] = {"problem": row["input"], "draw": row["epoch"] - 1}
    fields["response"] = choice and [choice["message"]]
    fields["finish_reason"] = choice and choice.get("stop_reason")
    fields["n_tokens"] = (output.get("usage") or {}).get("output_tokens")
    scores = list((row.get("scores") or {}).values())
    if scores:
        fields["score"] = INSPECT.get(scores[0]["value"], scores[0]["value"])
    failure = row.get("error")
    fields["fault"] = failure.get("message") if isinstance(failure, dict) else failure
    return dict(row) | fields


SPECIAL = re.compile(r"(?:<\|[\w.-]{1,40}\|>|</s>|<eos>|<end_of_turn>|\s)+\Z")
"""What a response ends with that was decoded with its special tokens."""


def _from_skyrl(row: Row) -> Row:
    """Rewards of tokens are summed, as it does itself."""
    score = row["score"]
    score = sum(score) if isinstance(score, list) else score
    return dict(row) | {"score": score, "output_response": SPECIAL.sub("", row["output_response"])}


def _from_verl(row: Row) -> Row:
    """Its newer trainer names draws <sample>_<rollout>_<output>."""
    return dict(row) | ({"group": row["uid"].rsplit("_", 2)[0]} if "uid" in row else {})


def _from_trl(row: Row) -> Row:
    """What its only reward function gave, by whatever name; none of several is the verdict. Null
    stands where one did not score a completion, so a column that is null here may be one too."""
    others = [name for name in row if name not in ("step", "advantage")]
    rewards = [name for name in others if row[name] is None or isinstance(row[name], int | float)]
    return dict(row) | ({"score": row[rewards[0]]} if len(rewards) == 1 else {})


def _from_verifiers(row: Row) -> Row:
    out = dict(row) | {"completion": row["completion"] or ""}
    is_cut = row.get("is_truncated")
    if is_cut is not None:
        out["finish_reason"] = "length" if is_cut else "stop"
    return out


def _from_episode(row: Row) -> Row:
    """An episode of verifiers: of its traces the one whose tokens train. Rewards that were not
    given, as after an error, make no verdict."""
    traces = [trace for trace in row["traces"] if trace.get("agent", {}).get("trainable", True)]
    if len(traces) > 1:
        raise ValueError("it has several trained agents, and a draw has one response")
    group = row.get("group") or {}
    fields: dict[str, Any] = {"task": row["task"]["data"], "group": group.get("id")}
    errors = row.get("errors") or []
    fields["fault"] = errors[-1]["message"] if errors and not row["ok"] else None
    for trace in traces:
        sampled = [node for node in trace["nodes"] if node.get("sampled")]
        fields["response"] = [sampled[-1]["message"]] if sampled else None
        calls = trace.get("calls") or []
        fields["finish_reason"] = calls[-1].get("finish_reason") if calls else None
        usage = [(call.get("usage") or {}).get("completion_tokens") for call in calls]
        fields["n_tokens"] = sum(usage) if usage and None not in usage else None
        rewards = [r for r in trace.get("rewards", {}).values() if r is not None]
        fields["score"] = sum(r["score"] * r.get("weight", 1) for r in rewards) if rewards else None
        advantages = {value for node in sampled for value in node.get("advantages") or ()}
        fields["advantage"] = advantages.pop() if len(advantages) == 1 else None
    work = (row.get("run") or {}).get("work") or {}
    return fields | {"response": fields.get("response"), "step": work.get("step")}


def _from_every_eval_ever(row: Row) -> Row:
    verdict, texts = row["evaluation"], row["output"]["raw"]
    fields = {"response": texts[0] if len(texts) == 1 else texts}
    return dict(row) | fields | {"score": verdict.get("is_correct", verdict.get("score"))}


_TRUTH = re.compile(r"'ground_truth': ('(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|[-+]?[0-9.]++)")


def _from_nemo_rl(row: Row) -> Row:
    """Its evaluation writes what the environment knows as Python's text of a dictionary."""
    truth = _TRUTH.search(str(row.get("extra_env_info")))
    items = quoted_items(f"[{truth[1]}]") if truth else None
    return dict(row) | ({"ground_truth": items[0]} if items else {})


def _from_validation(row: Row) -> Row:
    """NeMo-RL writes batches of one draw, whose chat has the response as its last message."""
    content = row["content"]
    chat = content[0] if content and isinstance(content[0], list) else content
    return dict(row) | {"content": chat}


def _from_lighteval(row: Row) -> Row:
    """Several draws have metrics of all of them, which are no verdicts."""
    doc, answer = row["doc"], row["model_response"]
    places = doc["gold_index"] if isinstance(doc["gold_index"], list) else [doc["gold_index"]]
    numbers = [value for value in (row.get("metric") or {}).values() if is_number(value)]
    fields: dict[str, Any] = {"gold": [doc["choices"][place] for place in places]}
    if len(numbers) == 1 and len(answer["text"]) == 1:
        fields["score"] = numbers[0]
    return dict(row) | fields


USUAL_PROMPTS = " ".join(name for names in PROMPTS for name in names)
USUAL_ANSWERS = " ".join(name for names in ANSWERS for name in names)
USUAL = {
    "problem": f"problem {USUAL_PROMPTS}",
    "problem_id": "problem_id",
    "gold": USUAL_ANSWERS,
    "score": "score reward correct is_correct",
    "draw": "draw",
    "seed": "seed",
    "step": "step",
    "finish_reason": "finish_reason",
    "n_tokens": "n_tokens",
    "advantage": "advantage",
}
"""Of a file of no program that is known here."""
COLUMNS = Format(name="columns", program="columns", marks="", columns=USUAL)
FORMATS = (
    Format(
        name="lm-eval samples",
        program="lm-eval",
        marks="resps",
        columns={"problem": "problem", "problem_id": "problem_id", "response": "resps",
                 "gold": "target", "score": "score"},
        once="filter",
        arranged=_from_lm_eval,
    ),
    Format(
        name="inspect log",
        program="inspect",
        marks="id epoch input output",
        columns={name: name for name in ("problem", "response", "score", "draw", "finish_reason",
                                         "n_tokens", "fault")}
        | {"problem_id": "id", "gold": "target"},
        inside="samples",
        arranged=_from_inspect,
    ),
    Format(
        name="verl dump of a step",
        program="verl",
        marks="input output gts score step",
        columns={"problem": "input", "response": "output", "gold": "gts", "score": "acc score",
                 "step": "step", "group": "group"},
        arranged=_from_verl,
    ),
    Format(
        name="verl generation",
        program="verl",
        marks="prompt responses reward_model.ground_truth",
        columns={"problem": "prompt", "response": "responses",
                 "gold": "reward_model.ground_truth"},
    ),
    Format(
        name="Qwen2.5-Math evaluation",
        program="qwen2.5-math",
        marks="question gt code",
        columns={"problem": "question", "response": "code", "gold": "gt", "score": "score",
                 "finish_reason": "finish_reason"},
    ),
    Format(
        name="TRL completions",
        program="trl",
        marks="step prompt completion advantage",
        columns={"problem": "prompt", "response": "completion", "gold": USUAL_ANSWERS,
                 "score": "score", "step": "step", "advantage": "advantage"},
        arranged=_from_trl,
    ),
    Format(
        name="NeMo-Skills output",
        program="nemo-skills",
        marks="expected_answer generation",
        columns={"problem": "problem question", "response": "_full_generation generation",
                 "gold": "expected_answer", "score": "symbolic_correct is_correct",
                 "n_tokens": "num_generated_tokens", "finish_reason": "finish_reason"},
    ),
    Format(
        name="SkyRL evaluation",
        program="skyrl",
        marks="input_prompt output_response score env_class",
        columns={"problem": "input_prompt", "response": "output_response", "score": "score",
                 "gold": "env_extras.reward_spec.ground_truth env_extras.reward_model.ground_truth",
                 "finish_reason": "stop_reason"},
        arranged=_from_skyrl,
    ),
    Format(
        name="verifiers results",
        program="verifiers",
        marks="example_id prompt completion reward",
        columns={"problem": "prompt", "response": "completion", "gold": "answer",
                 "score": "reward", "finish_reason": "finish_reason", "group": "example_id",
                 "fault": "error"},
        arranged=_from_verifiers,
    ),
    Format(
        name="verifiers traces",
        program="verifiers",
        marks="task.data traces ok",
        columns={name: name for name in ("response", "score", "finish_reason", "n_tokens",
                                         "advantage", "group", "step", "fault")}
        | {"problem": "task.prompt", "gold": "task.answer task.info.answer"},
        arranged=_from_episode,
    ),
    Format(
        name="Every Eval Ever instances",
        program="every-eval-ever",
        marks="sample_id input.raw output.raw evaluation",
        columns={"problem": "input.raw", "problem_id": "sample_id", "response": "response",
                 "gold": "input.reference", "score": "score",
                 "n_tokens": "token_usage.output_tokens", "fault": "error"},
        once="evaluation_result_id",
        arranged=_from_every_eval_ever,
    ),
    Format(
        name="NeMo-RL evaluation",
        program="nemo-rl",
        marks="prompt response reward sample_index",
        columns={"problem": "prompt", "response": "response", "gold": "ground_truth",
                 "score": "reward"},
        inside="evaluation_data",
        arranged=_from_nemo_rl,
    ),
    Format(
        name="NeMo-RL validation",
        program="nemo-rl",
        marks="content rewards idx",
        columns={"problem": "content", "response": "content", "score": "rewards"},
        arranged=_from_validation,
    ),
    Format(
        name="evalchemy examples",
        program="evalchemy",
        marks="problem expected_answer model_outputs",
        columns={"problem": "problem", "response": "model_outputs", "gold": "expected_answer"},
        inside="examples",
    ),
    Format(
        name="lighteval details",
        program="lighteval",
        marks="doc.query model_response.text",
        columns={"problem": "doc.query", "response": "model_response.text", "gold": "gold",
                 "score": "score"},
        arranged=_from_lighteval,
    ),
    Format(
        name="completions",
        program="completions",
        marks="responses|response",
        columns=USUAL | {"response": "responses response"},
    ),
)  # fmt: skip
