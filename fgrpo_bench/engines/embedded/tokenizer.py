"""One token a character, with a padding and an end token; the same in Hugging Face's format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_record

# ids of SPECIAL
PAD, EOS = 0, 1
SPECIAL = ("<pad>", "<eos>")


class Tokenizer:
    """Characters to numbers and back; 0 is padding, 1 the end, then the vocabulary in order.

    size: tokens in all, of which the last may be reserved: they stand for no character. None is as
    many as there are.
    """

    def __init__(self, vocabulary: str, size: int | None = None) -> None:
        self.vocabulary = vocabulary
        n_used = len(SPECIAL) + len(vocabulary)
        reserved = tuple(f"<reserved-{i}>" for i in range((size or n_used) - n_used))
        self.symbols = (*SPECIAL, *vocabulary, *reserved)
        self._table = np.zeros(128, np.int64)
        for i, character in enumerate(vocabulary):
            self._table[ord(character)] = i + len(SPECIAL)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.symbols)

    def encode(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Texts of one length over the vocabulary -> [texts, length]."""
        raw = np.frombuffer("".join(texts).encode("ascii"), np.uint8)
        return self._table[raw.reshape(len(texts), -1)]

    def encode_responses(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Texts of any lengths, each with the end token and then padding -> [texts, longest + 1]"""
        width = max(map(len, texts)) + 1
        rows = np.full((len(texts), width), PAD)
        for row, text in zip(rows, texts, strict=True):
            row[: len(text)] = self.encode([text])[0]
            row[len(text)] = EOS
        return rows

    def decode(self, tokens: NDArray[np.int64]) -> list[str]:
        """Sampled rows [rows, length] -> texts, the end token left out.

        A sampled padding token ends a response too, but shows as `<pad>`: it is no answer's end.
        Reserved tokens show as `<reserved-0>` and so on.
        """
        out = []
        for row in tokens.tolist():
            text = ""
            for token in row:
                if token == EOS:
                    break
                text += self.symbols[token]
                if token == PAD:
                    break
            out.append(text)
        return out

    def files(self, max_length: int) -> dict[str, dict[str, Any]]:
        """tokenizer.json and tokenizer_config.json for a checkpoint folder."""
        special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        return {
            "tokenizer.json": {
                "version": "1.0",
                "truncation": None,
                "padding": None,
                "added_tokens": [
                    {"id": i, "content": token, "special": True, **special}
                    for i, token in enumerate(SPECIAL)
                ],
                "normalizer": None,
                "pre_tokenizer": {
                    "type": "Split",
                    "pattern": {"Regex": "."},
                    "behavior": "Isolated",
                    "invert": False,
                },
                "post_processor": None,
                "decoder": {"type": "Fuse"},
                "model": {
                    "type": "WordLevel",
                    "vocab": {token: i for i, token in enumerate(self.symbols)},
                    "unk_token": SPECIAL[PAD],
                },
            },
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "pad_token": SPECIAL[PAD],
                "eos_token": SPECIAL[EOS],
                "model_max_length": max_length,
                "clean_up_tokenization_spaces": False,
            },
        }


@dataclass(frozen=True, kw_only=True)
class WordLevel(Record):
    """The model of a tokenizer.json whose tokens are whole words, here characters."""

    vocab: dict[str, int]
    """Id by token."""


@dataclass(frozen=True, kw_only=True)
class TokenizerFile(Record):
    """tokenizer.json, as far as it is read."""

    model: WordLevel


def load_tokenizer(checkpoint: Path) -> Tokenizer:
    """The tokenizer of a checkpoint that this engine saved."""
    vocabulary = read_record(checkpoint / "tokenizer.json", TokenizerFile).model.vocab
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    characters = [token for token in ordered if len(token) == 1]
    return Tokenizer("".join(characters), len(ordered))
