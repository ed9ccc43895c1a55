"""docs/guides/small-model.md with the model itself: its chat template, the end of its turn and its
tokenizer. `make small-model` puts it into place, and `make test-slow` begins with that."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.__main__ import main
from fgrpo_bench.stages.tables import DRAWS, read_table
from sweeps import REPOSITORY
from tests.pages.blocks import blocks

MADE = REPOSITORY / "build/smollm2"
MODEL = Path("build/smollm2/model")
PAGE = REPOSITORY / "docs/guides/small-model.md"
CHAT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
"""What the model was trained on, by its publisher's template."""
END = 2
"""<|im_end|>"""


@pytest.fixture
def folder(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A researcher's folder in which `make small-model` was run; returns its run root."""
    assert MADE.is_dir(), f"{MADE} is missing: run `make small-model`"
    (tmp_path / "build").mkdir()
    (tmp_path / "build/smollm2").symlink_to(MADE)
    monkeypatch.chdir(tmp_path)
    return root


def draws(root: Path, name: str) -> pl.DataFrame:
    (path,) = root.glob(f"evals/{name}/eval/*/*/*/draws.parquet")
    return read_table(path, DRAWS).sort("problem_id", "draw")


@pytest.mark.slow
@pytest.mark.rare
def test_the_guide_is_followed_on_twelve_problems(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoTokenizer

    lines = "".join(blocks(PAGE, "bash")).replace("\\\n", "").splitlines()
    evaluate, audit = (line for line in lines if line.startswith("fgrpo-bench evaluate"))
    assert main(shlex.split(evaluate, comments=True)[1:]) == 0
    said = capsys.readouterr().out
    assert "prompt: the tokenizer's chat template\n" in said
    rows = [line.split()[1:6] for line in said.splitlines() if " math" in line]
    (at_one,) = [row for row in rows if row[1:4] == ["12", "4", "1"]]
    assert 0 <= float(at_one[4]) <= 100
    (name,) = [path.name for path in folder.glob("evals/*")]
    drawn, tokenizer = draws(folder, name), AutoTokenizer.from_pretrained(MODEL)
    assert (drawn["problem_id"].n_unique(), len(drawn)) == (12, 48)
    assert drawn["response"].n_unique() > 24
    ended = drawn.filter(pl.col("finish_reason") == "stop")
    cut = drawn.filter(pl.col("finish_reason") == "length")
    assert len(ended) > 2 and set(ended["end_token"]) == {END} and len(ended) + len(cut) == 48
    assert set(cut["n_tokens"]) <= {32} and cut["end_token"].null_count() == len(cut)
    assert not drawn["response"].str.contains(r"<\|im_|\u0120|\u010a").any()
    again = [len(ids) for ids in tokenizer(ended["response"].to_list())["input_ids"]]
    same = [a + 1 == b for a, b in zip(again, ended["n_tokens"], strict=True)]
    assert sum(same) > 0.8 * len(same)  # a text may have other tokens than those that made it
    assert main(shlex.split(audit, comments=True)[1:]) == 0
    assert "math-" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.rare
def test_greedy_draws_are_those_of_transformers_own_generate(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    words = ["--data", "build/smollm2/heldout.jsonl", "--limit", "4", "--max-tokens", "32"]
    options = ["--temperature", "0", "--name", "greedy", "prompt=chat"]
    assert main(["evaluate", str(MODEL), *words, *options]) == 0
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    problems = (MADE / "heldout.jsonl").read_text(encoding="utf-8").splitlines()[:4]
    for problem, response in zip(problems, draws(folder, "greedy")["response"], strict=True):
        text = CHAT.format(json.loads(problem)["question"])
        prompt = tokenizer(text, return_tensors="pt")
        out = model.generate(**prompt, max_new_tokens=32, do_sample=False)
        tail = out[0, prompt["input_ids"].shape[1] :]
        assert tokenizer.decode(tail, skip_special_tokens=True) == response
