"""Small files as trainers and harnesses write them: two problems, and of each two draws.

Of every problem the first draw is right and boxed, and the second is right without a box, which the
program calls wrong where it says anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import polars as pl

PROBLEMS = (("What is 1 + 1?", "2"), ("What is 2 + 3?", "5"))
DRAWS = [
    (question, gold, text.format(gold), score)
    for question, gold in PROBLEMS
    for text, score in (("So \\boxed{{{}}}.", 1.0), ("It is {}", 0.0))
]
"""Problem, gold, response and the program's verdict."""
TEMPLATE = "system\nYou are helpful.\nuser\n{}\nassistant\n"


def lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def of_problem(question: str) -> list[tuple[str, float]]:
    """Response and verdict of each of its draws."""
    return [(text, score) for asked, _, text, score in DRAWS if asked == question]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def verl(path: Path, step: int = 200) -> None:
    lines(path, [
        {"input": TEMPLATE.format(question), "output": text, "gts": gold, "score": 2 * score - 1,
         "step": step, "acc": bool(score), "uid": f"{gold}_{i % 2}_0"}
        for i, (question, gold, text, score) in enumerate(DRAWS)
    ])  # fmt: skip


def verl_generation(path: Path) -> None:
    pl.DataFrame([
        {"data_source": "sums", "prompt": [user(question)], "ability": "math",
         "reward_model": {"ground_truth": gold, "style": "rule"},
         "responses": [text for text, _ in of_problem(question)]}
        for question, gold in PROBLEMS
    ]).write_parquet(path)  # fmt: skip


def qwen(path: Path) -> None:
    lines(path, [
        {"idx": i, "question": question, "gt_cot": "", "gt": gold, "pred": [gold, ""],
         "code": [text for text, _ in of_problem(question)], "report": [None, None],
         "score": [bool(score) for _, score in of_problem(question)],
         "finish_reason": ["stop", "length"]}
        for i, (question, gold) in enumerate(PROBLEMS)
    ])  # fmt: skip


def trl(path: Path) -> None:
    pl.DataFrame([
        {"step": 100, "prompt": TEMPLATE.format(question), "completion": text,
         "accuracy_reward": score, "answer": gold, "advantage": score - 0.5}
        for question, gold, text, score in DRAWS
    ]).write_parquet(path)  # fmt: skip


def nemo_skills(path: Path, draw: int = 0) -> None:
    lines(path, [
        {"problem": question, "expected_answer": gold, "generation": of_problem(question)[draw][0],
         "predicted_answer": gold, "symbolic_correct": bool(of_problem(question)[draw][1]),
         "num_generated_tokens": 7}
        for question, gold in PROBLEMS
    ])  # fmt: skip


def skyrl(path: Path) -> None:
    lines(path, [
        {"input_prompt": f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n",
         "output_response": f"{text}<|im_end|>", "score": [0.0, 0.0, score],
         "stop_reason": "stop", "env_class": "gsm8k", "data_source": "sums",
         "env_extras": {"reward_spec": {"method": "rule", "ground_truth": gold}}}
        for question, gold, text, score in DRAWS
    ])  # fmt: skip


def verifiers(path: Path) -> None:
    lines(path, [
        {"example_id": i // 2, "prompt": [user(question)], "completion": [assistant(text)],
         "answer": gold, "reward": score, "metrics": {}, "is_truncated": False, "error": None}
        for i, (question, gold, text, score) in enumerate(DRAWS)
    ])  # fmt: skip


def traces(path: Path) -> None:
    lines(path, [
        {"id": f"e{i}", "task": {"type": "Sum", "data": {"prompt": question, "answer": gold}},
         "group": {"id": f"g{i // 2}"}, "ok": True, "errors": [],
         "run": {"type": "train", "id": "r", "work": {"type": "eval", "step": 20}},
         "traces": [{
             "agent": {"name": "agent", "trainable": True},
             "nodes": [{"message": user(question)}, {"message": assistant(text), "sampled": True}],
             "calls": [{"finish_reason": "stop", "usage": {"completion_tokens": 7}}],
             "rewards": {"right": {"score": score, "weight": 1.0}, "format": None}}]}
        for i, (question, gold, text, score) in enumerate(DRAWS)
    ])  # fmt: skip


def every_eval_ever(path: Path) -> None:
    lines(path, [
        {"schema_version": "0.3.0", "evaluation_id": "e", "model_id": "lab/m",
         "evaluation_name": "sums", "evaluation_result_id": "pass_at_1",
         "sample_id": f"sum-{i // 2}", "interaction_type": "single_turn",
         "input": {"raw": question, "reference": [gold]}, "output": {"raw": [text]},
         "answer_attribution": [], "evaluation": {"score": score, "is_correct": bool(score)}}
        for i, (question, gold, text, score) in enumerate(DRAWS)
    ])  # fmt: skip


def nemo_rl(path: Path) -> None:
    rows = [
        {"prompt": TEMPLATE.format(question), "response": text, "reward": score,
         "message_log": str([user(question), assistant(text)]),
         "extra_env_info": str({"ground_truth": gold, "other": None}), "sample_index": i}
        for i, (question, gold, text, score) in enumerate(DRAWS)
    ]  # fmt: skip
    path.write_text(json.dumps({"evaluation_data": rows}, indent=2), encoding="utf-8")


def nemo_rl_validation(path: Path) -> None:
    lines(path, [
        {"content": [[user(question), assistant(text)]], "rewards": [score], "idx": i}
        for i, (question, _, text, score) in enumerate(DRAWS)
    ])  # fmt: skip


def evalchemy(path: Path) -> None:
    examples = [
        {"id": i, "problem": question, "expected_answer": gold, "model_answers": [gold, ""],
         "model_outputs": [text for text, _ in of_problem(question)]}
        for i, (question, gold) in enumerate(PROBLEMS)
    ]  # fmt: skip
    results = {"results": {"AIME24": {"examples": examples, "num_total": 2}}, "config": {}}
    path.write_text(json.dumps(results, indent=2), encoding="utf-8")


def lighteval(path: Path) -> None:
    pl.DataFrame([
        {"doc": {"query": question, "choices": ["0", gold], "gold_index": [1], "id": str(i)},
         "model_response": {"input": TEMPLATE.format(question), "text": [text]},
         "metric": {"extractive_match": score}}
        for i, (question, gold, text, score) in enumerate(DRAWS)
    ]).write_parquet(path)  # fmt: skip


def lm_eval(path: Path) -> None:
    lines(path, [
        {"doc_id": i, "doc": {"question": question}, "target": gold, "metrics": ["exact_match"],
         "resps": [[text for text, _ in of_problem(question)]], "filter": name, "exact_match": 1.0}
        for name in ("strict", "flexible")
        for i, (question, gold) in enumerate(PROBLEMS)
    ])  # fmt: skip


def _samples() -> list[dict[str, Any]]:
    return [
        {"id": f"sum-{i // 2}", "epoch": i % 2 + 1, "input": question, "target": gold,
         "output": {"choices": [{"message": assistant(text), "stop_reason": "stop"}],
                    "usage": {"output_tokens": 7}},
         "scores": {"match": {"value": "C" if score else "I"}}}
        for i, (question, gold, text, score) in enumerate(DRAWS)
    ]  # fmt: skip


def inspect(path: Path) -> None:
    path.write_text(json.dumps({"samples": _samples()}), encoding="utf-8")


def inspect_archive(path: Path) -> None:
    with ZipFile(path, "w") as archive:
        for i, sample in enumerate(_samples()):
            archive.writestr(f"samples/{i}.json", json.dumps(sample))


def completions(path: Path) -> None:
    lines(path, [
        {"problem": question, "answer": gold, "responses": [t for t, _ in of_problem(question)],
         "score": [score for _, score in of_problem(question)]}
        for question, gold in PROBLEMS
    ])  # fmt: skip


def table(path: Path) -> None:
    rows = [
        {"task": question, "gold": gold, "reply": text, "points": score}
        for question, gold, text, score in DRAWS
    ]
    pl.DataFrame(rows).write_csv(path)


FILES: dict[str, Callable[[Path], None]] = {
    "val/200.jsonl": verl,
    "generated.parquet": verl_generation,
    "test_cot_2_seed0_t1.0_s0_e-1.jsonl": qwen,
    "completions_00100.parquet": trl,
    "output-rs0.jsonl": nemo_skills,
    "global_step_20_evals/sums.jsonl": skyrl,
    "results.jsonl": verifiers,
    "traces.jsonl": traces,
    "instances.jsonl": every_eval_ever,
    "evaluation_data.json": nemo_rl,
    "val_data_step20.jsonl": nemo_rl_validation,
    "results_AIME24.json": evalchemy,
    "details_sums.parquet": lighteval,
    "samples_sums.jsonl": lm_eval,
    "log.json": inspect,
    "log.eval": inspect_archive,
    "drawn.jsonl": completions,
    "table.csv": table,
}
"""A writer of each, by the name that such a file has."""


def write_all(folder: Path) -> None:
    """All of them, and a second draw of NeMo-Skills."""
    for name, write in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name)
    nemo_skills(folder / "output-rs1.jsonl", 1)
