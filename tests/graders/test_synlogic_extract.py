"""What is read out of a response to a SynLogic game, and our parsers against Python's."""

from __future__ import annotations

import ast
import operator
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fgrpo_bench.graders.synlogic import extract
from fgrpo_bench.graders.synlogic.extract import (
    LARGEST,
    LONGEST_EXPRESSION,
    LONGEST_LITERAL,
    arithmetic,
    arithmetic_tokens,
    parse_literal,
    read_number,
)

WORDS = st.text(alphabet="abc XAT.-", max_size=8)
LITERALS = st.recursive(
    st.integers(-(10**14), 10**14) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(WORDS, inner, max_size=3)
    ),
    max_leaves=12,
).filter(lambda value: isinstance(value, list | tuple | dict))
PROSE = st.lists(
    st.sampled_from([*"[](){}a1, \n'\"", "```", "\\boxed"]),
    max_size=30,
).map("".join)


@given(LITERALS)
def test_a_literal_is_what_python_makes_of_it(value):
    read = parse_literal(repr(value))
    assert read == value or depth(value) > 6
    spaced = repr(value).replace(",", " ,\n\t").replace("[", "[ ")
    assert parse_literal(spaced) == read or any(sign in repr(value) for sign in "'")


def depth(value: object) -> int:
    """How deep lists, tuples and dictionaries nest."""
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list | tuple) else 0


@pytest.mark.slow
@given(PROSE)
@example("[1 2]")
@example("{'a', 'b'}")
@example("{1: 2}")
@example("[,]")
@example("(1,)")
@example("(1)")
@example("[01]")
@example("['a' 'b']")
@example("[1_000]")
@example("['\\x41']")
def test_what_is_read_as_a_literal_python_reads_alike(text):
    read = parse_literal(text)
    if read is not None and "#" not in text:
        assert read == ast.literal_eval(text.strip())


@pytest.mark.parametrize(
    "text",
    ["[" * 7 + "]" * 7, "[1" + ",1" * LONGEST_LITERAL + "]", "[1] * 9", "[f(1)]", "[x]", "[1.5]",
     "[True]", "[9999999999999999]", "[1], [2]", "7", "'a'", "[[1]", "[1]]", "{'a': 1, 'b'}",
     "[1:2]"],
)  # fmt: skip
def test_what_is_no_literal_or_beyond_a_bound_is_none(text):
    assert parse_literal(text) is None


@pytest.mark.slow
@given(PROSE, LITERALS.filter(lambda value: depth(value) <= 5))
def test_a_literal_at_the_end_is_found_in_a_box_a_block_and_parentheses(prose, value):
    plain = prose.replace("`", "").replace("\\boxed", "")
    for around in ("{}", "\\boxed{{{}}}", "```python\n{}\n```", "(that is {})"):
        text = f"{plain}\n{around.format(repr(value))}"
        assert extract.literal(text, lambda found: found == value) == value
        assert extract.literal(text, lambda found: found == value, in_block="python") == value
    text = f"{plain}\n```python\n{value!r}\n```\n[['after']]"
    assert extract.literal(text, bool, in_block="python") == (value or [["after"]])
    assert extract.literal(text, bool) == [["after"]]


@given(PROSE)
def test_brackets_that_are_found_match_and_nest(text):
    found = extract.spans(text)
    assert [end for _, end in found] == sorted({end for _, end in found})
    for start, end in found:
        assert text[start] + text[end - 1] in ("()", "[]", "{}")
        assert all(other[1] <= start or other[0] >= end or inside(other, (start, end))
                   or inside((start, end), other) for other in found)  # fmt: skip


def inside(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return other[0] <= one[0] and one[1] <= other[1]


EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map("".join)
        | inner.map(lambda text: f"({text})")
        | inner.map(lambda text: f"-({text})")
    ),
    max_leaves=10,
)


OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def exact(node: ast.expr) -> Fraction:
    """Value of an expression by Python's grammar. Raises KeyError for another operation."""
    if isinstance(node, ast.Constant):
        return Fraction(node.value)
    inner = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
    return OPERATIONS[type(node.op)](*map(exact, inner))


@given(EXPRESSIONS)
@example("2**3")
@example("2//3")
@example("1-+-2%-3")
@example("5 % 0")
def test_arithmetic_is_that_of_python_with_exact_fractions(expression):
    tokens = arithmetic_tokens(expression)
    value = None if tokens is None else arithmetic(tokens)
    try:
        right = exact(ast.parse(expression, mode="eval").body)
    except (KeyError, ZeroDivisionError):
        assert value is None
        return
    assert value == right or len(expression) > LONGEST_EXPRESSION or value is None
    if value is None:
        assert "/" in expression or len(expression) > 30, "only large values are none"


@given(st.text(alphabet="0123456789+-*/%() a.", max_size=20))
def test_any_text_has_a_value_of_bounded_size_or_none(text):
    tokens = arithmetic_tokens(text)
    value = None if tokens is None else arithmetic(tokens)
    assert value is None or max(abs(value.numerator), value.denominator) <= LARGEST
    assert arithmetic(["999999999999999", "*"] * 20 + ["9"]) is None


@given(st.integers(-(10**20), 10**20), st.integers(1, 10**9))
def test_numbers_are_read_exactly_as_written(top, bottom):
    assert read_number(str(top)) == top
    assert read_number(f"{top:,}") == top
    assert read_number(f"{top}/{bottom}") == Fraction(top, bottom)
    assert read_number(f"\\frac{{{top}}}{{{bottom}}}") == Fraction(top, bottom)
    assert read_number(f"{top}.25") == top + (-1 if top < 0 else 1) * Fraction(1, 4)
    assert read_number(f"{top} apples") is None and read_number(f"{top}{bottom}x") is None


@given(PROSE, st.text(alphabet="xyz ,1", min_size=1, max_size=20).filter(lambda text: text.strip()))
def test_the_last_answer_tags_a_box_and_a_block_count_whatever_stands_before(prose, answer):
    assert extract.final_text(f"<answer>no</answer>{prose}<answer>{answer}</answer>{prose}") == (
        answer.strip()
    )
    assert extract.boxed(f"{prose}\n\\boxed{{{answer}}}") == " ".join(answer.split())
    before = prose.replace("`", "")
    assert extract.block(f"```python\nno\n```{before}```python\n{answer}\n```") == answer.strip()
    assert extract.double_bracketed(f"[[no]] {before} [[{answer}]]") == answer.strip()
    assert extract.after_phrase(f"The answer is no.\n{prose}\nAnswer: {answer.strip()}") == (
        answer.strip()
    )


@pytest.mark.parametrize(
    ("text", "answer"),
    [("7", "7"), ("Steps.\nThe answer is: **7**.", "7"), ("Steps.\n\n`7`\n", "7"), ("", ""),
     ("Steps.\n```\n7\n```", "7"), ("First 6.\nSo \\boxed{7} it is.\nBye.", "7"),
     ("\u6b65\u9aa4\n\u7b54\u6848\u662f\uff1a7\u3002", "7"), ("I say that the answer is 7.", "7")],
)  # fmt: skip
def test_a_short_answer_is_found_where_it_stands(text, answer):
    assert extract.short_answer(text) == answer


def test_only_the_end_of_a_response_is_read():
    far = "[[1]]" + " word" * extract.WINDOW
    assert extract.literal(extract.final_text(far), bool) is None
    assert extract.literal(extract.final_text(far + "[[2]]"), bool) == [[2]]
    assert extract.final_text("</answer>x<answer>") == "</answer>x<answer>"
    assert extract.block("```python\n[1]") is None
