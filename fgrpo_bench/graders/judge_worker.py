"""The process that judges: reads a gold and an answer a line, answers with a line, until its end.

In: normalised golds and answers, from `judge`, which starts this and speaks JSON over its standard
input, a socket. Out: math-verify's verdict, with its mistakes mended. math-verify and SymPy are
imported here and nowhere else. Before each judgement it arms a timer of processor time whose signal
kills it, in the middle of C code too; its address space is limited; it can write no file.

Three parts: the process and its judgement; where math-verify's comparisons are wrong; its LaTeX
parser, mended and faster. What is rewritten or refused by its text alone is in `math_reading`.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from typing import Any

from fgrpo_bench.graders.math_answer import cuts
from fgrpo_bench.graders.math_reading import as_read, chosen, parts, refusal
from fgrpo_bench.graders.math_retold import retold

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
    # limits come before any import, so that what the imports take counts as well
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # it kills; a handler would wait for C code
    sys.dont_write_bytecode = True
    line = socket.socket(fileno=0)
    try:
        ready = load()
    except Exception as error:
        line.sendall(_line({"error": str(error)}))
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # only now: an import may write a cache
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
        # "incorrect" may be a failed allocation that math-verify took for a wrong answer
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
    check_tested(TESTED, "math")
    mend_parser()
    speed_up_parser()
    mend_comparisons()
    note_places()
    _judge("\\frac12", "0.25", boxed=True)  # loads what SymPy and ANTLR import when first used
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


_ROMAN = re.compile(r"\\(?:text|math)rm\s*+\{\s*+([ie])\s*+\}|\\(?:text|operatorname)\{([ie])\}")
"""Euler's number and the imaginary unit in an upright font, which the gold has in none."""


def _judge(gold: str, answer: str, *, boxed: bool) -> dict[str, Any]:
    from math_verify import parse, verify

    several = parts(gold) > 1
    written = answer
    wanted = _parsed(gold, boxed)
    if not wanted:
        return {"outcome": "unscored", "extracted": None, "reason": "the gold cannot be read"}
    extracted: str | None = answer
    cut = False
    if boxed:
        answer = chosen(answer, gold)
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
    same = plainly = bool(verify(wanted, parsed, timeout_seconds=None))
    why = ""
    if mended:
        why = mended[0]
        with plain_math_verify():
            plainly = bool(verify(wanted, parsed, timeout_seconds=None))
    if not boxed and written != answer:
        why = UPRIGHT
        with plain_math_verify():
            plainly = bool(
                verify(wanted, parse(written, parsing_timeout=None), timeout_seconds=None)
            )
    if not same and boxed and (alike := in_one_form(wanted[0], parsed[0])):
        same = bool(verify(*alike, timeout_seconds=None))
        why = FORM if same else why
    if same and boxed and (objection := refusal(gold, answer, several=several)):
        same, why = False, objection
    elif not same and boxed:
        otherwise = _equal_otherwise(gold, answer, (wanted[0], parsed[0]))
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
    if equal_where_real(*read) and not refusal(gold, answer, several=parts(gold) > 1):
        return REAL
    for retold_gold, retold_answer, what in retold(gold, answer):
        several = parts(retold_gold) > 1
        wanted, parsed = (
            _read_box(as_read(retold_gold)),
            _read_box(as_read(retold_answer, several=several)),
        )
        if not wanted or not parsed:
            continue
        same = _squeezed(retold_gold) == _squeezed(retold_answer) or bool(
            verify(wanted, parsed, timeout_seconds=None)
        )
        if not same and (alike := in_one_form(wanted[0], parsed[0])):
            same = bool(verify(*alike, timeout_seconds=None))
        same = same or equal_where_real(wanted[0], parsed[0])
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


# Where math-verify takes for equal what a reader does not, or the reverse. Every comparison of its
# numbers, lists and equations ends in one of three functions, however deep in assignments, tuples
# or sets. They are replaced by ones that ask the original and then look closer, and that note where
# they decide otherwise, so that plain math-verify's verdict can be had too.
# https://github.com/huggingface/Math-Verify

TINY = 1e-3
"""math-verify rounds floats to 6 decimals and drops what is below 1e-15, so that below this size
it takes different numbers for equal ..."""
SAME_TO = 0.01
"""... which is refused where they differ by more than this relative to the larger."""
EXACT = 1e-12
"""Largest relative difference that comes from computing in 15 digits."""

ROUNDED = "different numbers that are both tiny"
UNSOLVED = "equations without a solution that are not multiples of each other"
ORDER = "the written order of a pair"
FORM = "an interval and an inequality, or a pair and a vector"
REAL = "equal wherever both are real"
SPACES = "the same but for spaces"
UPRIGHT = "an upright e or i"
UNLIKE = "different numbers of more than 15 digits"
LARGE = 10**15
"""From which on the numerator or denominator of a number is compared exactly."""

_mended: list[str] = []
_rounded: list[str] = []

Compare = Callable[[Any, Any, int, int], bool]


def forget_notes() -> tuple[list[str], list[str]]:
    """Begin anew: lists that fill while expressions are compared. First why a verdict may not be
    plain math-verify's, then numbers that are equal after rounding only."""
    _mended.clear()
    _rounded.clear()
    return _mended, _rounded


CUT = "a part of an expression"
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


def mend_comparisons() -> None:
    """Put all three in place, once a process."""
    from math_verify import grader

    if grader.sympy_numeric_eq.__module__ != __name__:
        _put(grader, _mends(grader))


@contextmanager
def plain_math_verify() -> Iterator[None]:
    """math-verify as it is, within."""
    from math_verify import grader

    ours = {name: getattr(grader, name) for name in _originals}
    _put(grader, _originals)
    try:
        yield
    finally:
        _put(grader, ours)


_originals: dict[str, Compare] = {}


def _put(grader: Any, functions: dict[str, Compare]) -> None:
    for name, function in functions.items():
        # math-verify calls these functions by their names in its module
        setattr(grader, name, function)


def _mends(grader: Any) -> dict[str, Compare]:
    """The replacements by name."""
    for name in (
        "sympy_numeric_eq",
        "sympy_deep_compare_set_and_tuple",
        "sympy_solve_and_compare",
    ):
        _originals[name] = getattr(grader, name)
    numeric, listed, solved = _originals.values()

    def numeric_eq(gold: Any, answer: Any, rounding: int, precision: int) -> bool:
        if not numeric(gold, answer, rounding, precision):
            return False
        if _differ_exactly(gold, answer):
            _mended.append(UNLIKE)
            return False
        off = _largest_error(gold, answer)
        if off > SAME_TO:
            _mended.append(ROUNDED)
            return False
        if off > EXACT:
            _rounded.append(str(gold))
        return True

    def deep_compare(gold: Any, answer: Any, rounding: int, precision: int) -> bool:
        if not _has_order(gold, answer):
            return listed(gold, answer, rounding, precision)
        _mended.append(ORDER)
        left, right = _as_written(gold), _as_written(answer)
        return len(left) == len(right) and all(
            grader.sympy_expr_eq(wanted, given, rounding, precision)
            for wanted, given in zip(left, right, strict=True)
        )

    def solve_and_compare(gold: Any, answer: Any, rounding: int, precision: int) -> bool:
        if not solved(gold, answer, rounding, precision):
            return False
        if _unsolved(gold) and not _multiples(gold, answer):
            _mended.append(UNSOLVED)
            return False
        return True

    return dict(zip(_originals, (numeric_eq, deep_compare, solve_and_compare), strict=True))


def _differ_exactly(gold: Any, answer: Any) -> bool:
    """Whether two numbers that math-verify takes for equal are different fractions of large
    numbers, of which it drops what is small beside another."""
    if not all(getattr(side, "is_number", False) for side in (gold, answer)):
        return False
    left, right = gold.doit(), answer.doit()
    if not (left.is_Rational and right.is_Rational):
        return False
    largest = max(abs(number) for side in (left, right) for number in (side.p, side.q))
    return bool(largest > LARGE and left != right)


POINTS = (
    ("7/5", "11/3", "2/9", "97/3", "3/7", "1013/5"),
    ("13/7", "2/9", "53/4", "5/11", "1/8", "7/3"),
    ("17/11", "19/4", "3/13", "41/3", "5/9", "1/7"),
    ("23/6", "5/13", "29/3", "1/9", "8/7", "2/3"),
)
"""Values of up to four variables at six points, by which expressions are compared."""
DIGITS = 60
"""Of their values there."""


def equal_where_real(gold: Any, answer: Any) -> bool:
    """Whether two expressions with roots or logarithms of variables are equal wherever both are
    real: at every point, with every choice of the variables' signs at which they are, one at least.
    sqrt(a b) = sqrt(a) sqrt(b) is, sqrt(x^2) = x is not. Steps and pieces are not compared so."""
    from sympy import Eq, Expr, Max, Min, Piecewise, Pow, Rational, ceiling, floor, log

    if isinstance(gold, Eq) and isinstance(answer, Eq) and gold.lhs == answer.lhs:
        gold, answer = gold.rhs, answer.rhs
    if not all(isinstance(side, Expr) for side in (gold, answer)):
        return False
    variables = sorted(gold.free_symbols | answer.free_symbols, key=str)
    if not 0 < len(variables) <= len(POINTS):
        return False
    powers = [*gold.atoms(Pow), *answer.atoms(Pow)]
    has_root = any(not power.exp.is_integer and power.base.free_symbols for power in powers)
    logs = [logarithm.args[0] for side in (gold, answer) for logarithm in side.atoms(log)]
    if not has_root and not logs:
        return False
    if any(side.has(floor, ceiling, Min, Max, Piecewise) for side in (gold, answer)):
        return False
    real_points = 0
    for signs in product((1, -1), repeat=len(variables)):
        for point in range(len(POINTS[0])):
            values = {
                variable: sign * Rational(of_variable[point])
                for variable, sign, of_variable in zip(variables, signs, POINTS, strict=False)
            }
            roots = [power.base for power in powers if not power.exp.is_integer]
            within = [part.subs(values) for part in (*roots, *logs)]
            left, right = (side.doit().subs(values).evalf(DIGITS) for side in (gold, answer))
            are_real = all(part.is_nonnegative for part in within) and all(
                side.is_real and side.is_finite for side in (left, right)
            )
            if are_real and abs(left - right) > abs(left) * Rational(1, 10**45):
                return False
            real_points += are_real
    return real_points > 0


def _largest_error(gold: Any, answer: Any) -> float:
    """Of two expressions that math-verify takes for equal: by how much they differ relative to the
    larger, or the factors of a term that both have. 0 where that cannot be told, and at most
    SAME_TO where they are not tiny: rounding is right there."""
    if gold == answer or not all(hasattr(side, "as_coefficients_dict") for side in (gold, answer)):
        return 0.0
    try:
        if gold.is_number and answer.is_number:
            return _error(gold, answer)
        left, right = (side.doit().expand().as_coefficients_dict() for side in (gold, answer))
        return max(_error(left[term], right[term]) for term in left.keys() | right.keys())
    except MemoryError:
        raise
    except Exception:  # SymPy has many, and math-verify would take any for unequal
        return 0.0


def _error(gold: Any, answer: Any) -> float:
    left, right = (side.doit().evalf(15) for side in (gold, answer))
    if not (left.is_Number and right.is_Number and left.is_finite and right.is_finite):
        return 0.0
    larger = max(abs(left), abs(right))
    off = float(abs(left - right) / larger) if larger else 0.0
    return off if larger < TINY else min(off, SAME_TO)


def _has_order(gold: Any, answer: Any) -> bool:
    """Whether the places in a list matter: one of the two is a pair or longer tuple and the other a
    list of as many, or the gold names different quantities and the answer names none."""
    from sympy import FiniteSet, Tuple

    if isinstance(gold, Tuple) and isinstance(answer, FiniteSet):
        return len(_as_written(answer)) == len(gold)
    if not isinstance(gold, FiniteSet):
        return False
    if isinstance(answer, Tuple):
        return len(answer) == len(_as_written(gold)) == 2
    if not isinstance(answer, FiniteSet) or len(gold) < 2:
        return False
    names = {_name(item) for item in gold.args}
    return len(names) == len(gold) and "" not in names and not any(map(_name, answer.args))


def _as_written(items: Any) -> list[Any]:
    return list(getattr(items, "_unsorted_args", items.args))


def _name(item: Any) -> str:
    """What is set equal to something, without its index: x_1 and x_2 are both roots x; empty for
    what is no assignment to a variable."""
    left = getattr(item, "lhs", None)
    return str(left).partition("_")[0] if left is not None and left.is_Symbol else ""


def in_one_form(gold: Any, answer: Any) -> tuple[Any, Any] | None:
    """Both as tuples where one is a row or column and the other a pair or longer tuple, or both as
    sets of numbers where one is an interval or a union and the other inequalities; else None."""
    from sympy import FiniteSet, MatrixBase, Set

    if isinstance(gold, MatrixBase) != isinstance(answer, MatrixBase):
        both = _entries(gold), _entries(answer)
    elif isinstance(gold, Set) or isinstance(answer, Set):
        both = _solutions(gold), _solutions(answer)
        if both == (gold, answer) or any(isinstance(side, FiniteSet) for side in both):
            return None
    else:
        return None
    return None if None in both else both


def _entries(items: Any) -> Any:
    """The entries of a row, a column, a tuple or what is read as an open interval; else None."""
    from sympy import Interval, MatrixBase, Tuple

    if isinstance(items, MatrixBase):
        return Tuple(*items.flat()) if 1 in items.shape else None
    if isinstance(items, Interval) and items.is_open:
        return Tuple(items.start, items.end)
    return items if isinstance(items, Tuple) else None


def _solutions(written: Any) -> Any:
    """The real numbers of a set, or those within one of several bounds of one variable; None for
    all else, such as an inequality that has yet to be solved."""
    from latex2sympy2_extended.logic import And
    from sympy import FiniteSet, Set, Union
    from sympy.core.relational import Relational

    alternatives = written.args if isinstance(written, FiniteSet) else (written,)
    if not all(isinstance(relation, Relational | And) for relation in alternatives):
        return written if isinstance(written, Set) else None
    relations = written.atoms(Relational)
    if len(written.free_symbols) != 1 or not all(map(_is_bound, relations)):
        return None
    try:
        return Union(*(relation.as_set() for relation in alternatives))
    except MemoryError:
        raise
    except Exception:  # SymPy has many for what has no real solution
        return None


def _is_bound(relation: Any) -> bool:
    """Whether a variable, or the absolute value of its difference from a number, is compared with a
    number or another such."""
    from sympy import Abs, Eq

    def plain(side: Any) -> bool:
        if isinstance(side, Abs):
            return all(term.is_Symbol or term.is_number for term in side.args[0].as_ordered_terms())
        return bool(side.is_Symbol or side.is_number)

    return not isinstance(relation, Eq) and all(map(plain, relation.args))


def _unsolved(equation: Any) -> bool:
    from sympy import Eq, solve

    return isinstance(equation, Eq) and not solve(equation, equation.free_symbols)


def _multiples(gold: Any, answer: Any) -> bool:
    """Whether two equations differ by a factor that is a number and not 0."""
    from sympy import simplify

    factor = simplify((gold.lhs - gold.rhs) / (answer.lhs - answer.rhs))
    return bool(factor.is_number and factor.is_finite and not factor.is_zero) and bool(
        gold.free_symbols
    )


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
    serve(load, judge)
