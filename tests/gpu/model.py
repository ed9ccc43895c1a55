"""Models of the published sizes with random weights, and a tokenizer and problems to go with them:
nothing is downloaded.
"""

from __future__ import annotations

import gc
import json
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

from fgrpo_bench.files.whole import read_json, write_json, write_text

# The sizes that the publishers' files have. What fixes the number of weights is checked by
# tests/gpu/test_checks.py; the end token and the longest context change no speed here.
CONFIGS: dict[str, dict[str, Any]] = {
    name: read_json(Path(__file__).parent / "configs" / f"{name}.json")
    for name in ("qwen2.5-1.5b", "qwen3-4b-base", "qwen2.5-7b")
}
"""The config.json of each model, by its name; the first that a GPU of 80 GiB has room for."""
SMALL = {
    **{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 128, "vocab_size": 1024},
}
"""In place of these sizes on processors."""
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def sizes(model: str, device: str) -> dict[str, Any]:
    """The model's config.json, on processors with SMALL sizes."""
    whole = CONFIGS[model]
    return whole if device == "cuda" else whole | {k: v for k, v in SMALL.items() if k in whole}


def make_model(folder: Path, content: dict[str, Any], *, device: str) -> None:
    """A folder as publishers make it: config.json, random weights in bf16, and a tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder.mkdir(parents=True)
    write_json(folder / "config.json", content)
    torch.manual_seed(0)
    with torch.device(device):
        own = AutoConfig.from_pretrained(folder)
        policy = AutoModelForCausalLM.from_config(own, dtype=torch.bfloat16)
    policy.save_pretrained(folder)
    write_json(folder / "config.json", content)  # as published, and not as this version writes it
    byte_tokenizer(content["vocab_size"]).save_pretrained(folder)
    del policy
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()  # for the run, which is another process


def byte_tokenizer(size: int) -> Any:
    """A tokenizer over bytes with `size` tokens, so that every id that a model draws is one: the
    bytes, their pairs and triples in order, and SPECIAL."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = map("".join, product(letters, letters))
    every = chain(product(letters, letters), product(pairs, letters))
    merges = list(islice(every, size - len(letters) - len(SPECIAL)))
    words = [*letters, *map("".join, merges)]
    tokenizer = Tokenizer(
        models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    end, _, _ = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=end,
        pad_token=end,
        additional_special_tokens=list(SPECIAL[1:]),
        chat_template=CHAT,
    )


def write_problems(path: Path, count: int) -> None:
    """Sums in more words than they need, as long as a problem in words is."""
    story = " ".join(f"Box {i} holds {i} red and {i + 1} blue marbles." for i in range(1, 9))
    rows = [
        {"problem": f"{story} What is {n} + {n}?", "answer": str(2 * n)}
        for n in range(1, count + 1)
    ]
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
