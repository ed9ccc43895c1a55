"""The short answer within what a file's column of answers holds.

In: problems with their answers as published, and who is to judge. Out: of each the gold that a
grader, a reward or a function of one's own gets, with where it was taken from; then the responses
by which a gold is tried before anything is drawn. Pure: `prepare` does the trying.

A gold is taken out of its wrappings one after another, in the order of FORMS. Graders that expect
something else than an answer (instructions, mazes, games) get it as it is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fgrpo_bench.graders import BOXED, CHOICE
from fgrpo_bench.graders.choice import letter_in, n_options, options_in
from fgrpo_bench.graders.choice_reading import letter_with_text
from fgrpo_bench.graders.math import final_answer
from fgrpo_bench.graders.math_notation import stored_gold
from fgrpo_bench.graders.maze import checked_maze

AS_IT_IS = "as they stand"
LONGEST = 20_000
"""Characters of an answer in mathematics; one that is longer is a solution."""
NAMES = (
    *("answer", "gold", "target", "expected_answer", "final_answer", "ground_truth"),
    *("gt", "gold_answer", "correct_answer", "value"),
)
"""Keys of an object that mean its answer."""


@dataclass(frozen=True, kw_only=True)
class Gold:
    """What a row's answer is taken for."""

    text: str
    """What a grader gets, or would get if it were not refused."""
    form: str = AS_IT_IS
    """Where it stood, as a line for a person says it."""
    refused: str | None = None
    """Why it is no gold of this grader; without anything of its content."""


def understood(rows: Sequence[tuple[str, str]], grader: str) -> list[Gold]:
    """The golds of all rows of a file, in their order. rows: problem and answer, both filled."""
    if grader in CHOICE:
        return _choices([(prompt, _taken(gold, _CHOICE_FORMS)) for prompt, gold in rows])
    if grader in BOXED:
        golds = [_mathematics(_taken(gold, FORMS), prompt) for prompt, gold in rows]
        letters = all(_LETTER.fullmatch(gold.text) for gold in golds)
        if letters and all(options_in(prompt) for prompt, _ in rows):
            return [replace(gold, refused=NO_ANSWER) for gold in golds]
        return golds
    if ":" in grader:
        # what is no answer by itself may be what the function expects
        taken = [(gold, _taken(gold, FORMS)) for _, gold in rows]
        return [Gold(text=gold) if short.refused else short for gold, short in taken]
    if grader in ("maze", "maze-reached"):
        return [_maze(gold) for _, gold in rows]
    return [Gold(text=gold) for _, gold in rows]


NO_ANSWER = (
    "the answer names an option by its letter, which grader math does not know: choose --grader "
    "choice (grader: choice in a benchmark's file), or write the option's text"
)


def is_mark(gold: str, options: Mapping[str, str]) -> bool:
    """Whether an answer to a problem with these options names some of them, by letters or a place,
    and is not the text of one."""
    gold = gold.strip()
    is_place = re.fullmatch("[0-9]{1,2}", gold) and int(gold) <= len(options)
    is_text = letter_with_text(gold, options) is not None
    return bool(_LETTERS.fullmatch(gold) or is_place) and not is_text


def forms_summary(forms: Iterable[str]) -> str | None:
    """e.g. "answers: behind ####, 150 of 150"; None where all are taken as they stand."""
    counts = Counter(forms)
    if not counts.keys() - {AS_IT_IS}:
        return None
    total = counts.total()
    return "answers: " + "; ".join(
        f"{form}, {count:,} of {total:,}" for form, count in counts.most_common()
    )


def _maze(gold: str) -> Gold:
    try:
        return Gold(text=checked_maze(gold))
    except ValueError as error:
        return Gold(text=gold, refused=str(error))


# Forms: each takes an answer and gives a shorter one, or None where it is not of that form.

_LETTER = re.compile(r"[(\[]?[A-Z][)\].]?")
_LETTERS = re.compile(r"[(\[]?[A-Z](?:[ ,]{0,2}[A-Z]){0,9}[)\].]?")
_QUOTED = r"(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")"
_LIST = re.compile(rf"\[\s*+({_QUOTED}(?:\s*+,?\s*+{_QUOTED})*+|[-+]?[0-9.]++)\s*+\]", re.DOTALL)
_ITEM = re.compile(_QUOTED, re.DOTALL)


def quoted_items(text: str) -> list[str] | None:
    """The texts of a list as JSON or Python writes it; None where a text is no such list.

    >>> quoted_items('["24"]'), quoted_items("['a', 'b']"), quoted_items("[24]")
    (['24'], ['a', 'b'], ['24'])
    >>> quoted_items("[1, 2]")
    """
    whole = _LIST.fullmatch(text.strip())
    if whole is None:
        return None
    items = _ITEM.findall(whole[1]) or [f'"{whole[1]}"']
    return [_unquoted(item) for item in items]


def _unquoted(item: str) -> str:
    if item.startswith('"'):
        try:
            return str(json.loads(item))
        except ValueError:  # a single backslash, as LaTeX in Python's notation may have
            pass
    return re.sub(r"\\([\\'\"])", r"\1", item[1:-1])


def _only_item(gold: str) -> str | None:
    items = quoted_items(gold)
    if items is not None and len(items) > 1:
        raise ValueError(
            f"it is a list of {len(items)} answers: write one, with its parts joined by commas, or "
            "name a column with one"
        )
    return items[0].strip() if items else None


def _only_key(gold: str) -> str | None:
    """Of a JSON object: the value of its one key that means an answer."""
    if not gold.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(gold)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    keys = [key for key in value if key.lower() in NAMES] or list(value)
    if len(keys) != 1 or not isinstance(value[keys[0]], str | int | float):
        raise ValueError(
            f"it is an object with {len(value)} keys: name the one that is the answer with a dot "
            "behind the column, e.g. --answer answer.value (answer_key in a benchmark's file)"
        )
    return str(value[keys[0]])


_TAG = re.compile(r"<answer>([^<]*+(?:<(?!/?answer>)[^<]*+)*+)</answer>", re.IGNORECASE)
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*+([^\n]*+)")
_SAYS_SO = re.compile(r"[\s*_]*+the answer is:?[^\n]*+\s*+", re.IGNORECASE)


def _tagged(gold: str) -> str | None:
    tags = _TAG.findall(gold)
    return tags[-1].strip() if tags else None


def _behind_hashes(gold: str) -> str | None:
    """Behind the last ####, unless it begins a further part of the text, as a heading does."""
    marks = list(_HASHES.finditer(gold))
    if not marks:
        return None
    rest = gold[marks[-1].end() :]
    if not (marks[-1][1] + rest).strip():
        raise ValueError("nothing stands behind its ####")
    return marks[-1][1].strip() if not rest.strip() or _SAYS_SO.fullmatch(rest) else None


def _boxed(gold: str) -> str | None:
    return final_answer(gold, "1, 2") if "\\boxed" in gold or "\\fbox" in gold else None


_ANSWER = re.compile(
    r"(?:^[\s*_]*+A[*_]*+:|\banswer[*_]*+(?:\s++(?:is|was)\b|\s*+[:=]))[\s*_:]*+",
    re.IGNORECASE,
)
_NOT = re.compile(r"(?:not|never|no longer)\b|None of", re.IGNORECASE)
LONGEST_ANSWER = 200
"""Characters of an answer behind the word."""


def _behind_answer(gold: str) -> str | None:
    """Behind "A:" or the last "answer is" of the last line."""
    line = gold.strip().rpartition("\n")[2]
    ends = [mark.end() for mark in _ANSWER.finditer(line)]
    answer = line[ends[-1] :].strip(" *_") if ends else ""
    is_answer = answer and len(answer) <= LONGEST_ANSWER and not _NOT.match(answer)
    return answer.removesuffix(".") or None if is_answer else None


_DOLLARS = re.compile(r"\$([^$]++)\$|\$\$([^$]++)\$\$|\\\(((?:(?!\\\)).)++)\\\)")
_UNIT = re.compile(
    r"([-+]?\$?[0-9][0-9,]*+(?:\.[0-9]++|/[0-9]++|:[0-9]++)?+%?)\s++"
    r"\((?:[mghlL]|(?![A-Za-z]\))(?!(?:mod|base|in base|or|and|pi)\b)[^\W\d_][^\d()\\$=+*^]*+)\)"
)
"""No unit: a factor, a modulus, another number."""
_WHOLE = re.compile(r"([-+]?[0-9]++)\.0++")


def _in_dollars(gold: str) -> str | None:
    whole = _DOLLARS.fullmatch(gold.strip())
    return None if whole is None else (whole[whole.lastindex or 0]).strip()


def _before_unit(gold: str) -> str | None:
    whole = _UNIT.fullmatch(gold.strip())
    return whole[1] if whole else None


def _whole(gold: str) -> str | None:
    number = _WHOLE.fullmatch(gold.strip())
    return number[1] if number else None


Form = tuple[str, Callable[[str], str | None]]
FORMS: tuple[Form, ...] = (
    ("in a list of one", _only_item),
    ("in an object", _only_key),
    ("in <answer>", _tagged),
    ("behind ####", _behind_hashes),
    ("in the last box", _boxed),
    ('behind "answer"', _behind_answer),
    ("in dollars", _in_dollars),
    ("before a unit in parentheses", _before_unit),
    ("as whole numbers", _whole),
)
"""Where a short answer stands, and what takes it from there; ValueError where it cannot be one."""
_CHOICE_FORMS = FORMS[:5]
"""Those that an option's text is not mistaken for: "A: 18" is option A."""


def _taken(answer: str, forms: Sequence[Form]) -> Gold:
    gold, where = answer, AS_IT_IS
    for name, take in forms:
        try:
            short = take(gold)
        except ValueError as error:
            return Gold(text=answer, refused=str(error))
        if short:
            gold, where = short, name if where == AS_IT_IS else where
    return Gold(text=gold if where != AS_IT_IS else answer, form=where)


# Mathematics.

_PROSE = re.compile(r"\\[A-Za-z]++|(?<![A-Za-z])[A-Za-z]{2,}+(?![A-Za-z])")
_EMPTY = re.compile(r"(?:\\boxed|\\fbox|[\s${}])*+")
_SENTENCE = re.compile(
    r"(?:therefore|thus|so|hence|the|there|he|she|they|it|we|[A-Z][a-z]++)\b[^$\n]*?"
    r"\b(?:is|are|was|were|has|have|had|makes?|equals?|gets?|costs?|needs?|left)\b[^$\n]*?[0-9]",
    re.IGNORECASE,
)
_NAMED = re.compile(r"[(\[]?([A-Z])[)\].:]\s++\S")
MAX_WORDS = 25
"""Of an answer: one that has more is a solution, and so is one with FEW words that has several
lines or is a sentence that comes to a number."""
FEW = 5
"""Words from which on several lines, or a sentence, are a solution."""


def _mathematics(gold: Gold, prompt: str) -> Gold:
    if gold.refused:
        return gold
    text = gold.text
    short = replace(gold, text=stored_gold(text))
    if (named := _NAMED.match(text)) and named[1] in options_in(prompt):
        return replace(short, refused=NO_ANSWER)
    if _EMPTY.fullmatch(text):
        return replace(short, refused="it is empty")
    n_words = sum(not word.startswith("\\") for word in _PROSE.findall(text[:LONGEST]))
    lines = "\n" in text.strip() and "\\begin{" not in text
    is_solution = (lines or _SENTENCE.match(text[:LONGEST_ANSWER])) and n_words >= FEW
    if n_words > MAX_WORDS or is_solution or len(text) > LONGEST:
        return replace(
            short,
            refused=f"it is a text of {n_words} words in which no short answer stands behind ####, "
            "in a box or behind 'answer:'; name a column of short answers with --answer "
            "(answer_key in a benchmark's file)",
        )
    return short


_NUMBER = re.compile(
    r"[-+]?[$€£]?\s?+([0-9]{1,3}(?:,[0-9]{3})++|[0-9]++)((?:\.[0-9]++)?+)\s*+"
    r"(?:[A-Za-z]{2,20}|\\text\s?\{\s?[A-Za-z ]{2,30}\})?+"
)


def _plain_number(gold: str) -> str | None:
    """The number that a gold is, written in digits; None where it is none. A unit is left out.

    >>> [_plain_number(gold) for gold in ("57,500", "-18 apples", "2x", "1, 2")]
    ['57500', '-18', None, None]
    """
    whole = _NUMBER.fullmatch(gold.strip())
    sign = "-" if gold.strip().startswith("-") else ""
    return f"{sign}{whole[1].replace(',', '')}{whole[2]}" if whole else None


# Multiple choice.


def _choices(rows: Sequence[tuple[str, Gold]]) -> list[Gold]:
    """Golds as letters. Whether numbers are the text of an option or its place, and from 0 or from
    1, follows from all rows."""
    listed = [options_in(prompt) for prompt, _ in rows]
    numbered = []
    for (prompt, gold), options in zip(rows, listed, strict=True):
        # options without texts say nothing of what a number means
        if _is_number(gold) and (options or not n_options(prompt, gold.text)):
            letter = letter_with_text(gold.text, options)
            numbered.append((int(gold.text), options, letter))
    place, why = _place(numbered)
    choices = []
    for (prompt, gold), options in zip(rows, listed, strict=True):
        meaning = (place, why) if _is_number(gold) else (None, None)
        choices.append(_choice(prompt, gold, options, *meaning))
    return choices


def _is_number(gold: Gold) -> bool:
    return bool(re.fullmatch("[0-9]{1,2}", gold.text.strip()))


_BY_TEXT = -1


def _place(
    numbered: Sequence[tuple[int, dict[str, str], str | None]],
) -> tuple[int | None, str | None]:
    """What numbers are: _BY_TEXT, or the place of the first option, 0 or 1; else why it is not
    known. numbered: a number, the options of its problem, which of these has it as its text."""
    if not numbered:
        return None, None
    if not all(options for _, options, _ in numbered):
        return None, "a number, but the problem lists no options"
    fit = [
        first
        for first in (0, 1)
        if all(first <= number < first + len(options) for number, options, _ in numbered)
    ]
    if all(letter for *_, letter in numbered):
        differs = [
            first
            for first in fit
            if any(letter != chr(ord("A") + number - first) for number, _, letter in numbered)
        ]
        if not differs:
            return _BY_TEXT, None
        return None, "a number that may be an option's text or its place"
    if len(fit) == 1:
        return fit[0], None
    if fit:
        return None, "a number that may count the options from 0 or from 1"
    return None, "a number that is neither the place of an option nor its text"


def _choice(
    prompt: str, gold: Gold, options: dict[str, str], place: int | None, why: str | None
) -> Gold:
    if gold.refused:
        return gold
    text = gold.text.strip()
    if not options and n_options(prompt, text):
        return Gold(text=text, form="numbers of listed options")
    if why is not None:
        return replace(
            gold,
            refused=f"the answer is {why}: write letters in that column, A for the first option",
        )
    letters = "".join(options)
    if place is not None and place != _BY_TEXT:
        return Gold(text=chr(ord("A") + int(text) - place), form=f"index from {place}")
    letter = letter_in(text, options)
    if letter is None:
        among = f"none of the letters {letters}" if letters else "no letter"
        return replace(
            gold,
            refused=f"the answer is {among}, nor the text of one option: name another column with "
            "--answer, or another --grader",
        )
    is_text = len(text) > 1 and not _LETTER.fullmatch(text.upper())
    if gold.form != AS_IT_IS:
        return Gold(text=letter, form=gold.form)
    return Gold(text=letter, form="an option's text" if is_text else AS_IT_IS)


# Trials: a gold is graded against itself before anything is drawn.


def trials(gold: str, grader: str) -> Iterator[str]:
    """Responses that give a gold, each of which the grader must call correct."""
    if grader not in BOXED | CHOICE:
        return
    yield f"\\boxed{{{gold}}}"
    if grader in BOXED and (number := _plain_number(gold)) not in (None, gold):
        yield f"\\boxed{{{number}}}"
    # without a box LaTeX stands in dollars, as models write it
    is_latex = "\\" in gold and "$" not in gold
    yield f"The answer is ${gold}$." if is_latex else f"The answer is {gold}."
