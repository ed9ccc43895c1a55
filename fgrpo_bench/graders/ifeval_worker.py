"""The process that checks instructions with lm-eval's checkers; see `ifeval`.

Two things differ from lm-eval on purpose, so that a text has one verdict: a `letter` that is no
letter is counted as the character that it is, where lm-eval draws a random letter; and the
detection of languages is seeded for every text.
"""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path
from typing import Any

from fgrpo_bench.graders.judge_worker import check_tested, serve

TESTED = {"lm-eval": "0.4.13", "nltk": "3.10.4", "langdetect": "1.0.9"}
"""Packages whose version is part of the grader's: another one may judge otherwise."""
LETTERS = "keywords:letter_frequency"


def load() -> dict[str, Any]:
    """Import; the versions found. RuntimeError where they are not the tested ones."""
    check_tested(TESTED, "ifeval")
    for library in ("OPENBLAS", "OMP"):  # a thread's buffers count as memory of this process
        os.environ[f"{library}_NUM_THREADS"] = "1"
    import langdetect
    import nltk

    from fgrpo_bench.graders import punkt

    try:  # before lm-eval is imported, which would try to download it
        folder = nltk.data.find(punkt.PLACE)
    except LookupError:
        folder = punkt.PLACE
    punkt.check(Path(folder))
    langdetect.DetectorFactory.seed = 0
    logging.getLogger("lm_eval.tasks.ifeval.instructions").disabled = True  # it prints whole texts
    from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT
    from lm_eval.tasks.ifeval.instructions_util import count_sentences

    langdetect.detect(f"{count_sentences('One. Two.')} sentences")  # loads what they need
    return {"versions": TESTED, "types": len(INSTRUCTION_DICT)}


def judge(asked: dict[str, Any]) -> dict[str, Any]:
    """strict and loose: for each instruction whether it is followed; or the reason why not told."""
    response, strict, loose = asked["response"], list[bool](), list[bool]()
    for name, arguments in zip(asked["instruction_id_list"], asked["kwargs"], strict=True):
        try:
            follows = _checker(name, arguments, asked["prompt"])
            strict.append(_follows(follows, response))
            loose.append(strict[-1] or any(_follows(follows, text) for text in variants(response)))
        except (MemoryError, OSError, ImportError):  # the last two are the machine's doing
            raise
        except Exception as error:
            return {"outcome": "unscored", "reason": f"{name} failed with {type(error).__name__}"}
    return {"outcome": "correct", "reason": "checked", "strict": strict, "loose": loose}


def variants(response: str) -> list[str]:
    """The texts of which one must do for loose: without first line, last line and asterisks."""
    lines = response.split("\n")
    shorter = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    plain = [text.replace("*", "") for text in (response, *shorter)]
    return list(dict.fromkeys([*shorter, *plain]))


def _follows(follows: Any, text: str) -> bool:
    return bool(text.strip()) and bool(follows(text))


def _checker(name: str, arguments: dict[str, Any], prompt: str) -> Any:
    """From a text to whether it follows one instruction."""
    from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT

    given = {key: value for key, value in arguments.items() if value}  # as lm-eval does
    letter = given.get("letter")
    if name == LETTERS and letter is not None and not (letter.isascii() and letter.isalpha()):
        return _counter(letter, **{key: given[key] for key in ("let_frequency", "let_relation")})
    random.seed(0)  # what lm-eval draws for arguments that are not given
    checker = INSTRUCTION_DICT[name](name)
    checker.build_description(**given)
    if "prompt" in (checker.get_instruction_args() or {}):
        checker.build_description(prompt=prompt)
    return checker.check_following


def _counter(letter: str, *, let_frequency: int, let_relation: str) -> Any:
    def follows(text: str) -> bool:
        count = text.lower().count(letter.lower())
        return count < let_frequency if let_relation == "less than" else count >= let_frequency

    return follows


if __name__ == "__main__":
    serve(load, judge)
