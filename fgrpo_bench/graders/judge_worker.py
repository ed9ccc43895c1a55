"""The process that judges: reads a gold and an answer a line, answers with a line, until its end.

It is started by `judge` and speaks JSON over its standard input, a socket. math-verify and SymPy
are imported here and nowhere else. Before each judgement it arms a timer of processor time whose
signal kills it, in the middle of C code too; its address space is limited; it can write no file.
"""

from __future__ import annotations

import json
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fgrpo_bench.graders import judge_equality
from fgrpo_bench.graders.judge_reading import as_read, chosen
from fgrpo_bench.graders.judge_words import refusal
from fgrpo_bench.graders.math_parts import parts

TESTED = {"math-verify": "0.9.0", "latex2sympy2_extended": "1.11.0"}
"""Packages whose version is part of the grader's: another one may judge otherwise."""

REFUSED, ACCEPTED = "equal by math-verify alone: ", "equal, though not by math-verify alone: "
"""How a reason begins where math-verify's own verdict on what it was given is the other one."""
TO_SIX_DECIMALS = "equal by math-verify to 6 decimals"
AS_PERCENT = "equal by math-verify, which passes over a percent sign"


def by_math_verify(outcome: str, reason: str) -> str:
    """math-verify's own outcome on what it was given, from the judge's outcome and reason."""
    if reason.startswith(REFUSED):
        return "correct"
    return "incorrect" if reason.startswith(ACCEPTED) else outcome


def serve(
    load: Callable[[], dict[str, Any]], judge: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Answer the questions that arrive at standard input, each within the limits of the arguments.

    load: imports what is needed; its answer is the greeting. judge: from a question to an outcome,
    what was extracted and a reason; MemoryError is an outcome too, and what else it raises ends
    this process.
    """
    seconds, megabytes = float(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    sys.dont_write_bytecode = True
    line = socket.socket(fileno=0)
    try:
        ready = load()
    except Exception as error:
        line.sendall(_line({"error": str(error)}))
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    line.sendall(_line(ready))
    peak = _peak_bytes()
    room = (megabytes << 20) - peak
    for request in line.makefile("rb"):
        asked = json.loads(request)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            reply = judge(asked)
        except MemoryError:
            reply = {"outcome": "unscored", "extracted": None, "reason": ""}
        signal.setitimer(signal.ITIMER_PROF, 0)
        before, peak = peak, _peak_bytes()
        if not reply["reason"] or (reply["outcome"] != "correct" and peak - before > room / 4):
            reason = f"needs more than {megabytes} MB of memory"
            reply = {"outcome": "unscored", "extracted": None, "reason": reason, "spent": True}
        line.sendall(_line(reply))


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
    from fgrpo_bench.graders import judge_parser

    check_tested(TESTED, "math")
    judge_parser.mend()
    judge_parser.speed_up()
    judge_equality.mend()
    _judge("\\frac12", "0.25", boxed=True)
    packages = [*TESTED, "sympy", "antlr4-python3-runtime"]
    return {"versions": {package: version(package) for package in packages}}


def judge(asked: dict[str, Any]) -> dict[str, Any]:
    """math-verify's verdict on a gold and an answer, unscored where it raises.

    Raises MemoryError where it shows, and what the machine causes, such as a module that cannot be
    read: that ends this process, and the question is asked again.
    """
    try:
        return _judge(asked["gold"], asked["answer"], boxed=asked["boxed"])
    except (MemoryError, OSError, ImportError):
        raise
    except Exception as error:
        reason = f"math-verify failed with {type(error).__name__}"
        return {"outcome": "unscored", "extracted": None, "reason": reason}


def _judge(gold: str, answer: str, *, boxed: bool) -> dict[str, Any]:
    from math_verify import parse, verify

    several = parts(gold) > 1
    wanted = _parsed(gold, boxed)
    if not wanted:
        return {"outcome": "unscored", "extracted": None, "reason": "the gold cannot be read"}
    extracted: str | None = answer
    if boxed:
        answer = chosen(answer, gold)
        parsed = _read_box(as_read(answer, several=several))
    else:
        parsed = parse(answer, parsing_timeout=None)
        extracted = str(parsed[-1]) if parsed else None
    if not parsed:
        reason = "the answer cannot be read" if boxed else "no answer found"
        return {"outcome": "incorrect", "extracted": extracted, "reason": reason}
    mended, rounded = judge_equality.forget()
    same = plainly = bool(verify(wanted, parsed, timeout_seconds=None))
    why = ""
    if mended:
        why = mended[0]
        with judge_equality.plain():
            plainly = bool(verify(wanted, parsed, timeout_seconds=None))
    if not same and boxed and (alike := judge_equality.in_one_form(wanted[0], parsed[0])):
        same = bool(verify(*alike, timeout_seconds=None))
        why = judge_equality.FORM if same else why
    if same and boxed and (objection := refusal(gold, answer, several=several)):
        same, why = False, objection
    reason = "equal by math-verify" if same else "not equal by math-verify"
    if same != plainly:
        reason = f"{ACCEPTED if same else REFUSED}{why}"
    elif same and rounded:
        reason = AS_PERCENT if ("%" in gold) != ("%" in answer) else TO_SIX_DECIMALS
    outcome = "correct" if same else "incorrect"
    return {"outcome": outcome, "extracted": extracted, "reason": reason}


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


if __name__ == "__main__":
    serve(load, judge)
