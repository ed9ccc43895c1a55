"""Where math-verify takes for equal what a reader does not, or the reverse.

Every comparison of its numbers, lists and equations ends in one of three functions, however deep in
assignments, tuples or sets. They are replaced by ones that ask the original and then look closer,
and that note where they decide otherwise, so that plain math-verify's verdict can be had too
(`mend_comparisons`). Beside them: what math-verify does not compare at all, expressions that are
equal wherever both are real, and answers that are equal once they are in one form.

In: SymPy's expressions of gold and answer. Out: whether they are equal, for `judge_worker`, in
whose process all of this runs. https://github.com/huggingface/Math-Verify
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

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
UNLIKE = "different numbers of more than 15 digits"
LARGE = 10**15
"""Size of a number, or of a numerator or denominator in one, from where it is compared exactly."""
PLACES = 200
"""Digits behind the point to which large numbers with roots, logarithms or pi are compared."""
MOST_DIGITS = 1_000
"""Of a number that is compared so; a larger one is left to math-verify."""

_mended: list[str] = []
_rounded: list[str] = []

Compare = Callable[[Any, Any, int, int], bool]


def forget_notes() -> tuple[list[str], list[str]]:
    """Begin anew: lists that fill while expressions are compared. First why a verdict may not be
    plain math-verify's, then numbers that are equal after rounding only."""
    _mended.clear()
    _rounded.clear()
    return _mended, _rounded


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
        off = _comparison_score(_largest_error, gold, answer)
        if off > SAME_TO or _comparison_score(_differ_exactly, gold, answer):
            _mended.append(ROUNDED if off > SAME_TO else UNLIKE)
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
            grader.sympy_expr_eq(gold_item, given, rounding, precision)
            for gold_item, given in zip(left, right, strict=True)
        )

    def solve_and_compare(gold: Any, answer: Any, rounding: int, precision: int) -> bool:
        if not solved(gold, answer, rounding, precision):
            return False
        if _unsolved(gold) and not _multiples(gold, answer):
            _mended.append(UNSOLVED)
            return False
        return True

    return dict(zip(_originals, (numeric_eq, deep_compare, solve_and_compare), strict=True))


def _comparison_score(compare: Callable[[Any, Any], float], gold: Any, answer: Any) -> float:
    """What a comparison says; 0 where SymPy fails, which math-verify would take for unequal."""
    try:
        return compare(gold, answer)
    except MemoryError:
        raise
    except Exception:  # SymPy has many
        return 0.0


def _differ_exactly(gold: Any, answer: Any) -> bool:
    """Whether two expressions that math-verify takes for equal have different large numbers, alone
    or as factors of a term that both have: it drops what is small beside another."""
    return any(left and right and _unlike(left, right) for left, right in _factors(gold, answer))


def _unlike(gold: Any, answer: Any) -> bool:
    from sympy import Float, Rational, log

    left, right = gold.doit(), answer.doit()
    rationals = left.atoms(Rational) | right.atoms(Rational)
    size = max(abs(side.evalf(15)) for side in (left, right))
    is_large = size > LARGE or any(max(abs(part.p), part.q) > LARGE for part in rationals)
    if not is_large or left.has(Float) or right.has(Float):
        return False
    if left.is_Rational and right.is_Rational:
        return bool(left != right)
    digits = PLACES + max(int(log(size, 10).evalf(15)), 0)
    if digits > MOST_DIGITS:
        return False
    # strict: raises where the digits cannot be had
    left, right = (side.evalf(digits, maxn=2 * digits, strict=True) for side in (left, right))
    return bool(abs(left - right) > Rational(1, 10 ** (PLACES // 2)))


def same_number(gold: Any, answer: Any) -> bool:
    """Whether two numbers, of which one has a decimal, are the same once each is taken to the
    letter. What has more than MOST_DIGITS digits is not written out."""
    from sympy import Expr, Float, Rational

    sides = gold, answer
    if not all(isinstance(side, Expr) and side.is_number for side in sides):
        return False
    if not any(side.has(Float) for side in sides):
        return False
    largest = Rational(10) ** MOST_DIGITS
    sizes = [abs(side.evalf(15)) for side in sides]
    if not all(size.is_Number and 1 / largest < size < largest for size in sizes):
        return False
    left, right = (
        side.xreplace({part: Rational(str(part)) for part in side.atoms(Float)}).doit()
        for side in sides
    )
    return bool(left == right)


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
                variable: sign * Rational(values_of_variable[point])
                for variable, sign, values_of_variable in zip(
                    variables, signs, POINTS, strict=False
                )
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
    if gold == answer:
        return 0.0
    return max((_error(left, right) for left, right in _factors(gold, answer)), default=0.0)


def _factors(gold: Any, answer: Any) -> list[tuple[Any, Any]]:
    """Two numbers as they are, else the factors of each term of either, 0 where one lacks it."""
    if not all(hasattr(side, "as_coefficients_dict") for side in (gold, answer)):
        return []
    if gold.is_number and answer.is_number:
        return [(gold, answer)]
    left, right = (side.doit().expand().as_coefficients_dict() for side in (gold, answer))
    return [(left[term], right[term]) for term in left.keys() | right.keys()]


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


def same_form(gold: Any, answer: Any) -> tuple[Any, Any] | None:
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
