"""The process that judges: reads a gold and an answer a line, answers with a line, until its end.

In: normalised golds and answers, from `judge`, which starts this and speaks JSON over its standard
input, a socket. Out: math-verify's verdict, with its mistakes mended. math-verify and SymPy are
imported here and nowhere else. Before each judgement it arms a timer of processor time whose signal
kills it, in the middle of C code too; its address space is limited; it can write no file.

Two parts: the process and its judgement; math-verify's LaTeX parser, mended and faster. Its
comparisons are mended in `judge_comparisons`; what is rewritten or refused by its text alone is in
`math_reading`.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fgrpo_bench.graders.guard import guarded
from fgrpo_bench.graders.judge_comparisons import (
    equal_where_real,
    forget_notes,
    mend_comparisons,
    plain_math_verify,
    same_form,
    same_number,
)
from fgrpo_bench.graders.math_answer import cuts
from fgrpo_bench.graders.math_reading import as_read, chosen_part, parts, refusal
from fgrpo_bench.graders.math_retold import retold

TESTED = {"math-verify": "0.9.0", "latex2sympy2_extended": "1.11.0"}
"""Packages whose version is part of the grader's: another one may judge otherwise."""

REFUSED, ACCEPTED = "equal by math-verify alone: ", "equal, though not by math-verify alone: "
"""How a reason begins where math-verify's own verdict on what it was given is the other one."""
TO_SIX_DECIMALS = "equal by math-verify to 6 decimals"
AS_PERCENT = "equal by math-verify, which passes over a percent sign"
FORM = "an interval and an inequality, or a pair and a vector"
REAL = "equal wherever both are real"
NUMBER = "the same number"
SPACES = "the same but for spaces"
UPRIGHT = "an upright e or i"
CUT = "a part of an expression"


def by_math_verify(outcome: str, reason: str) -> str:
    """math-verify's own outcome on what it was given, from the judge's outcome and reason."""
    if reason.startswith(REFUSED):
        return "correct"
    return "incorrect" if reason.startswith(ACCEPTED) else outcome


def serve_questions(
    load: Callable[[], dict[str, Any]], judge: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Answer the questions that arrive at standard input, each within the limits of the arguments.

    load: imports what is needed; its answer is the greeting. judge: from a question to an outcome,
    what was extracted and a reason; MemoryError is an outcome too, and what else it raises ends
    this process.
    """
    seconds, megabytes = float(sys.argv[1]), int(sys.argv[2])
    line = socket.socket(fileno=os.dup(0))
    guarded(line)
    process_id = os.getpid()
    with open(os.devnull) as nothing:  # noqa: PTH123 (light)
        os.dup2(nothing.fileno(), 0)  # what reads standard input reads no questions
    # limits come before any import, so that what the imports take counts as well
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # it kills; a handler would wait for C code
    sys.dont_write_bytecode = True
    try:
        ready = load()
    except Exception as error:
        line.sendall(_line({"error": str(error)}))
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # only now: an import may write a cache
    line.sendall(_line(ready))
    peak = _peak_bytes()
    room = (megabytes << 20) - peak
    for text in line.makefile("rb"):
        request = json.loads(text)
        number = request.pop("question")
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            reply = judge(request)
        except MemoryError:
            reply = {"outcome": "unscored", "extracted": None, "reason": ""}
        if os.getpid() != process_id:  # what was called has forked, and both came back
            os._exit(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        before, peak = peak, _peak_bytes()
        # "incorrect" may be a failed allocation that math-verify took for a wrong answer
        if not reply["reason"] or (reply["outcome"] != "correct" and peak - before > room / 4):
            reason = f"needs more than {megabytes} MB of memory"
            reply = {"outcome": "unscored", "extracted": None, "reason": reason, "spent": True}
        line.sendall(_line(reply | {"question": number}))


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _peak_bytes() -> int:
    """Largest address space so far. math-verify takes a failed allocation for a wrong answer; that
    the peak has leapt is what is left to see of it."""
    with open("/proc/self/status") as status:  # noqa: PTH123 (light)
        return next(int(row.split()[1]) << 10 for row in status if row.startswith("VmPeak"))


def check_tested(packages: Mapping[str, str], grader: str) -> None:
    """RuntimeError where a package is missing or of another version than the grader's tested one.

    packages: tested version by name.
    """
    for package, tested in packages.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            installed = "missing"
        if installed != tested:
            raise RuntimeError(
                f"{package} is {installed}, but the {grader} grader is tested with {tested} and "
                f"another version judges otherwise: `pip install {package}=={tested}` in this "
                "environment"
            )


def load() -> dict[str, Any]:
    """Import and warm up; the versions found. RuntimeError where they are not the tested ones."""
    check_tested(TESTED, "math")
    mend_parser()
    speed_up_parser()
    mend_comparisons()
    note_places()
    _judge("\\frac12", "0.25", boxed=True)  # loads what SymPy and ANTLR import when first used
    packages = [*TESTED, "sympy", "antlr4-python3-runtime"]
    return {"versions": {package: version(package) for package in packages}}


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """math-verify's verdict on a gold and an answer, unscored where it raises.

    Raises MemoryError where it shows, and what the machine causes, such as a module that cannot be
    read: that ends this process, and the question is asked again.
    """
    try:
        return _judge(request["gold"], request["answer"], boxed=request["boxed"])
    except (MemoryError, OSError, ImportError):
        raise
    except Exception as error:
        reason = f"math-verify failed with {type(error).__name__}"
        return {"outcome": "unscored", "extracted": None, "reason": reason}


_ROMAN = re.compile(r"\\(?:text|math)rm\s*+\{\s*+([ie])\s*+\}|\\(?:text|operatorname)\{([ie])\}")
"""Euler's number and the imaginary unit in an upright font, which the gold has in none."""


def _judge(gold: str, answer: str, *, boxed: bool) -> dict[str, Any]:
    from math_verify import parse, verify

    several = parts(gold) > 1
    written = answer
    parsed_gold = _parsed(gold, boxed)
    if not parsed_gold:
        return {"outcome": "unscored", "extracted": None, "reason": "the gold cannot be read"}
    extracted: str | None = answer
    cut = False
    if boxed:
        answer = chosen_part(answer, gold)
        parsed = _read_box(as_read(answer, several=several))
    else:
        _places.clear()
        answer = _ROMAN.sub(r"\1\2", answer)
        parsed = parse(answer, parsing_timeout=None)
        extracted = str(parsed[-1]) if parsed else None
        cut = bool(_places) and cuts(answer, *_places[-1])
        extracted = None if cut else extracted
    if not parsed:
        reason = "the answer cannot be read" if boxed else "no answer found"
        return {"outcome": "incorrect", "extracted": extracted, "reason": reason}
    mended, rounded = forget_notes()
    # no timeout of its own: it uses SIGALRM and takes a late answer for a wrong one
    same = plainly = bool(verify(parsed_gold, parsed, timeout_seconds=None))
    why = ""
    if mended:
        why = mended[0]
        with plain_math_verify():
            plainly = bool(verify(parsed_gold, parsed, timeout_seconds=None))
    if not boxed and written != answer:
        why = UPRIGHT
        with plain_math_verify():
            plainly = bool(
                verify(parsed_gold, parse(written, parsing_timeout=None), timeout_seconds=None)
            )
    if not same and boxed and (alike := same_form(parsed_gold[0], parsed[0])):
        same = bool(verify(*alike, timeout_seconds=None))
        why = FORM if same else why
    if same and boxed and (objection := refusal(gold, answer, several=several)):
        same, why = False, objection
    elif not same and boxed:
        otherwise = _equal_otherwise(gold, answer, (parsed_gold[0], parsed[0]))
        same, why = otherwise is not None, otherwise or why
    if same and not boxed and cut:
        same, why = False, CUT
    reason = "equal by math-verify" if same else "not equal by math-verify"
    if same != plainly:
        reason = f"{ACCEPTED if same else REFUSED}{why}"
    elif same and rounded:
        reason = AS_PERCENT if ("%" in gold) != ("%" in answer) else TO_SIX_DECIMALS
    outcome = "correct" if same else "incorrect"
    return {"outcome": outcome, "extracted": extracted, "reason": reason}


def _equal_otherwise(gold: str, answer: str, read: tuple[Any, Any]) -> str | None:
    """By which other way of writing or reading both an answer is equal to the gold; None by none.

    read: both as math-verify read them.
    """
    from math_verify import verify

    if _squeezed(gold) == _squeezed(answer):
        return SPACES
    if not refusal(gold, answer, several=parts(gold) > 1):
        if same_number(*read):
            return NUMBER
        if equal_where_real(*read):
            return REAL
    for retold_gold, retold_answer, what in retold(gold, answer):
        several = parts(retold_gold) > 1
        parsed_gold = _read_box(as_read(retold_gold))
        parsed = _read_box(as_read(retold_answer, several=several))
        if not parsed_gold or not parsed:
            continue
        same = _squeezed(retold_gold) == _squeezed(retold_answer) or bool(
            verify(parsed_gold, parsed, timeout_seconds=None)
        )
        both = parsed_gold[0], parsed[0]
        if not same and (alike := same_form(*both)):
            same = bool(verify(*alike, timeout_seconds=None))
        same = same or same_number(*both) or equal_where_real(*both)
        if same and not refusal(retold_gold, retold_answer, several=several):
            return what
    return None


_SPACES = re.compile(r"\s++(?![0-9A-Za-z])|(?<![0-9A-Za-z])\s++")


def _squeezed(text: str) -> str:
    """Without spaces that part nothing."""
    return _SPACES.sub("", text)


@lru_cache(maxsize=1024)
def _parsed(gold: str, boxed: bool) -> list[Any]:
    """What math-verify reads in a gold; as it is published for an answer without a box."""
    from math_verify import parse

    if boxed:
        return _read_box(as_read(gold))
    parsed: list[Any] = parse(f"\\boxed{{{gold}}}", parsing_timeout=None)
    return parsed


def _read_box(content: str) -> list[Any]:
    """What math-verify reads in a box as LaTeX; where it cannot, it would take the last number."""
    from math_verify import LatexExtractionConfig, parse

    expressions: list[Any] = parse(
        f"\\boxed{{{content}}}", [LatexExtractionConfig()], parsing_timeout=None
    )
    return expressions


_places: list[tuple[int, int]] = []
"""Where math-verify found numbers in the text that it was given last."""


def note_places() -> None:
    """Keep where the numbers stand that math-verify finds in a text, once a process."""
    from math_verify import parser

    extract = parser.extract_match
    if extract.__module__ == __name__:
        return

    def extract_match(match: Any, target: Any) -> Any:
        spans = [match.span(name) for name, value in match.groupdict().items() if value]
        if isinstance(target, parser.ExprExtractionConfig) and spans:
            _places.append((min(span[0] for span in spans), max(span[1] for span in spans)))
        else:
            _places.clear()
        return extract(match, target)

    # math-verify calls it by this name: it tells where a number stands, and this parser alone knows
    parser.extract_match = extract_match


# math-verify's LaTeX parser, mended, and with less work for the same result. Two things take most
# of its time. ANTLR looks ahead with the full context wherever a shorter look does not decide (LL
# prediction); its other mode (SLL) never does, and gives the same tree or a syntax error
# (antlr4.atn.PredictionMode.SLL says so), so it goes first and the full one only after an error.
# And SymPy imports all of itself anew to read a number, so each number is read once.
# https://github.com/huggingface/latex2sympy2_extended

LONGEST_NUMBER = 30
"""Characters of a number that is remembered."""


def mend_parser() -> None:
    """Give the parser generated for ANTLR 4.9.3 a rule that it lacks and that is asked for before
    percentages: without it `50\\%` cannot be read, though it can under other runtimes."""
    from latex2sympy2_extended.antlr_parser import PSParser

    context = PSParser.AtomContext
    if not hasattr(context, "FUNC_GAMMA"):
        context.FUNC_GAMMA = lambda self: None


class TwoStages:
    """Stands for ANTLR's parser of a text, of which `math` alone is called."""

    def __init__(self, make: Any, text: str) -> None:
        self._make, self._text = make, text

    def math(self) -> Any:
        """The tree; raises what the parser raises."""
        from antlr4.atn.PredictionMode import PredictionMode

        quick = self._make(self._text)
        quick._interp.predictionMode = PredictionMode.SLL
        try:
            return quick.math()
        except MemoryError:
            raise
        except Exception:  # a new one: the lexer is past what it stumbled over
            return self._make(self._text).math()


def speed_up_parser() -> None:
    """Put both in place, once a process."""
    from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy

    make, read = _Latex2Sympy.create_parser, _Latex2Sympy.parse_number
    if make.__module__ == __name__:
        return
    remembered = lru_cache(maxsize=8_192)(lambda text: read(None, text))

    def create_parser(self: Any, text: str) -> TwoStages:
        return TwoStages(lambda text: make(self, text), text)

    def parse_number(self: Any, text: str) -> Any:
        return remembered(text) if len(text) <= LONGEST_NUMBER else read(self, text)

    # math-verify makes its parser by these names: a parse in two stages, and each number read once
    _Latex2Sympy.create_parser = create_parser
    _Latex2Sympy.parse_number = parse_number


if __name__ == "__main__":
    serve_questions(load, judge)
