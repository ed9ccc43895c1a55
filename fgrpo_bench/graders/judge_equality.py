"""Where math-verify takes for equal what a reader does not, or the reverse; for `judge_worker`.

Every comparison of its numbers, lists and equations ends in one of three functions, however deep in
assignments, tuples or sets. They are replaced by ones that ask the original and then look closer.
They note where they decide otherwise, so that plain math-verify's verdict can be had too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
FORM = "an interval and an inequality, or a pair and a vector"

_mended: list[str] = []
_rounded: list[str] = []

Compare = Callable[[Any, Any, int, int], bool]


def forget() -> tuple[list[str], list[str]]:
    """Begin anew: lists that fill while expressions are compared. First why a verdict may not be
    plain math-verify's, then numbers that are equal after rounding only."""
    _mended.clear()
    _rounded.clear()
    return _mended, _rounded


def mend() -> None:
    """Put all three in place, once a process."""
    from math_verify import grader

    if grader.sympy_numeric_eq.__module__ != __name__:
        _put(grader, _mends(grader))


@contextmanager
def plain() -> Iterator[None]:
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
    if not all(isinstance(each, Relational | And) for each in alternatives):
        return written if isinstance(written, Set) else None
    relations = written.atoms(Relational)
    if len(written.free_symbols) != 1 or not all(map(_is_bound, relations)):
        return None
    try:
        return Union(*(each.as_set() for each in alternatives))
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
