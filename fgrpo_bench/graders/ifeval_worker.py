"""The process that checks instructions with lm-eval's checkers; see `ifeval`.

Two things differ from lm-eval on purpose, so that a text has one verdict: a `letter` that is no
letter is counted as the character that it is, where lm-eval draws a random letter; and the
detection of languages is seeded for every text. Four checkers whose expressions take time that
grows with the square of the text, 1.7 s for each look at 80 kB of `<`, have linear ones here
(LINEAR) that say the same.
"""

from __future__ import annotations

import logging
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fgrpo_bench.graders.judge_worker import check_tested, serve_questions

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
    # langdetect draws at random, so that a verdict would change from call to call
    langdetect.DetectorFactory.seed = 0
    logging.getLogger("lm_eval.tasks.ifeval.instructions").disabled = True  # it prints whole texts
    from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT
    from lm_eval.tasks.ifeval.instructions_util import count_sentences

    langdetect.detect(f"{count_sentences('One. Two.')} sentences")  # loads what they need
    return {"versions": TESTED, "types": len(INSTRUCTION_DICT)}


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """strict and loose: for each instruction whether it is followed; or the reason why not told."""
    response, strict, loose = request["response"], list[bool](), list[bool]()
    for name, arguments in zip(request["instruction_id_list"], request["kwargs"], strict=True):
        try:
            follows = _checker(name, arguments, request["prompt"])
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
    needed = checker.get_instruction_args() or {}
    if name in LINEAR:
        return lambda text: LINEAR[name](text, **needed)
    if "prompt" in needed:
        checker.build_description(prompt=prompt)
    return checker.check_following


def _counter(letter: str, *, let_frequency: int, let_relation: str) -> Any:
    def follows(text: str) -> bool:
        count = text.lower().count(letter.lower())
        return count < let_frequency if let_relation == "less than" else count >= let_frequency

    return follows


# Each expression consumes what cannot match, so that no later start looks at it again.
_PLACEHOLDER = re.compile(r"\[[^\]\n]*+(\])?")
_STAR = re.compile(r"^\s*+(\*[^*].*$)?", re.MULTILINE)
_DASH = re.compile(r"^\s*+(-.*$)?", re.MULTILINE)
_POSTSCRIPTS = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}


def placeholders(text: str, num_placeholders: int) -> bool:
    """At least so many [placeholders] that end on their line."""
    return sum(match[1] is not None for match in _PLACEHOLDER.finditer(text)) >= num_placeholders


def bullets(text: str, num_bullets: int) -> bool:
    """Exactly so many lines that begin with one star, or with a dash."""
    lines = (match[1] for marks in (_STAR, _DASH) for match in marks.finditer(text))
    return sum(line is not None for line in lines) == num_bullets


def title(text: str) -> bool:
    """A line with something between its first `<<` and its last `>>`."""
    for line in text.split("\n"):
        begin, end = line.find("<<"), line.rfind(">>")
        if 0 <= begin < end - 2 and line[begin : end + 2].lstrip("<").rstrip(">").strip():
            return True
    return False


def postscript(text: str, postscript_marker: str) -> bool:
    """The marker anywhere, in either case; one that is not known is an expression, as lm-eval has
    it."""
    marker = _POSTSCRIPTS.get(postscript_marker, postscript_marker.lower())
    return re.search(marker, text.lower(), re.MULTILINE) is not None


LINEAR: dict[str, Callable[..., bool]] = {
    "detectable_content:number_placeholders": placeholders,
    "detectable_content:postscript": postscript,
    "detectable_format:number_bullet_lists": bullets,
    "detectable_format:title": title,
}


if __name__ == "__main__":
    serve_questions(load, judge)
