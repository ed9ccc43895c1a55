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
    many as there are. Of a character that is not ASCII, Hugging Face's format needs tokens for its
    parts too, which are the first of those reserved.
    """

    eos, pad = EOS, PAD

    def __init__(self, vocabulary: str, size: int | None = None) -> None:
        self.vocabulary = vocabulary
        written = [_written(character) for character in vocabulary]
        joins = [(text[:i], text[i]) for text in written for i in range(1, len(text))]
        self._joins = list(dict.fromkeys(joins))
        parts = dict.fromkeys(part for join in joins for part in join)
        n_used = len(SPECIAL) + len(vocabulary)
        reserved = [f"<reserved-{i}>" for i in range(max(len(parts), (size or 0) - n_used))]
        self.symbols = (*SPECIAL, *vocabulary, *reserved)
        self._written = [*SPECIAL, *written, *parts, *reserved[len(parts) :]]
        self._ids = np.full(max(map(ord, vocabulary), default=0) + 2, -1)  # by character
        for token, character in enumerate(vocabulary, len(SPECIAL)):
            self._ids[ord(character)] = token

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.symbols)

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The tokens of each text; ValueError for a character that is not of the vocabulary."""
        text = "".join(texts)
        places = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        tokens = self._ids[np.minimum(places, len(self._ids) - 1)]
        if len(unknown := np.flatnonzero(tokens < 0)):
            raise ValueError(
                f"{text[unknown[0]]!r} is no character of the vocabulary {self.vocabulary!r}: give "
                "the task's vocabulary every character of its prompts and demonstrations"
            )
        return np.split(tokens, np.cumsum([len(text) for text in texts])[:-1])

    def encode_responses(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Texts of any lengths, each with the end token and then padding -> [texts, longest + 1]"""
        rows = [np.append(tokens, EOS) for tokens in self.encode(texts)]
        return padded(rows, max(map(len, rows)))

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
        plain = {"add_prefix_space": False, "trim_offsets": True}
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
                # what transformers and vLLM take for that of a Qwen2 whatever stands here
                "pre_tokenizer": {"type": "ByteLevel", "use_regex": False, **plain},
                "post_processor": None,
                "decoder": {"type": "ByteLevel", "use_regex": False, **plain},
                "model": {
                    "type": "BPE",
                    "vocab": {token: i for i, token in enumerate(self._written)},
                    "merges": self._joins,
                },
            },
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "characters": self.vocabulary,
                "pad_token": SPECIAL[PAD],
                "eos_token": SPECIAL[EOS],
                "model_max_length": max_length,
                "clean_up_tokenization_spaces": False,
            },
        }


def padded(rows: Sequence[NDArray[np.int64]], width: int) -> NDArray[np.int64]:
    """Rows of up to so many tokens, with padding behind -> [rows, width]."""
    whole = np.full((len(rows), width), PAD)
    for place, row in zip(whole, rows, strict=True):
        place[: len(row)] = row
    return whole


def _written(character: str) -> str:
    """A character as a token of a byte-level vocabulary: each of its bytes as one that shows, as
    GPT-2 has them (Radford et al. 2019, section 2.2), e.g. Ġ for a blank."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return "".join(
        chr(byte if byte in shown else 256 + hidden.index(byte)) for byte in character.encode()
    )


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Record):
    """tokenizer_config.json of a checkpoint, as far as it is read."""

    characters: str | None = None
    """The vocabulary, where it is one of this engine's; None of another tokenizer."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary(Record):
    """The model of tokenizer.json, as far as it is read."""

    vocab: dict[str, int]
    """Id by token."""


@dataclass(frozen=True, kw_only=True)
class TokenizerFile(Record):
    """tokenizer.json, as far as it is read."""

    model: Vocabulary


def characters(checkpoint: Path) -> str | None:
    """The vocabulary of a tokenizer that this engine saved; None where it is another one."""
    file = checkpoint / "tokenizer_config.json"
    return read_record(file, TokenizerConfig).characters if file.exists() else None


def load_tokenizer(checkpoint: Path) -> Tokenizer:
    """The tokenizer of a checkpoint that this engine saved."""
    vocabulary = characters(checkpoint)
    assert vocabulary is not None
    tokens = read_record(checkpoint / "tokenizer.json", TokenizerFile).model.vocab
    return Tokenizer(vocabulary, len(tokens))
