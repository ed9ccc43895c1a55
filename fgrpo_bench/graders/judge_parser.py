"""math-verify's LaTeX parser, mended, and with less work for the same result; for `judge_worker`.

Two things take most of its time. ANTLR looks ahead with the full context wherever a shorter look
does not decide (LL prediction); its other mode (SLL) never does, and gives the same tree or a
syntax error (antlr4.atn.PredictionMode.SLL says so), so it goes first and the full one only after
an error. And SymPy imports all of itself anew to read a number, so each number is read once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

LONGEST_NUMBER = 30
"""Characters of a number that is remembered."""


def mend() -> None:
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


def speed_up() -> None:
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

    _Latex2Sympy.create_parser = create_parser
    _Latex2Sympy.parse_number = parse_number
