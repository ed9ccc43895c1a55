"""Multiple choice: is the letter that a response settles on the right one?

In: a problem whose target is a letter, and a response. Out: a grade whose reason says by which kind
of statement the letter was read. Hedging settles nothing, and a response without a letter is
incorrect. docs/reference/grading.md has tables of both sides; tests/cases/choice.json the cases.

`grade` at the top asks `read` at the end. Between them stand the statements that name a letter, the
strongest first: a letter in a box; in `<answer>` tags; behind "the answer is" or before "is the
answer"; in a conclusion ("so it must be D", "leaving B", "probably C", "option B is correct", a
letter alone on the first or last line). A letter that is supposed, reported of others, denied,
asked or under a condition is no statement, nor is one that the next words call wrong. After a
correction ("Wait, ...", "No, ...") that ends in a statement, those before it no longer count. Of
what is left the strongest kind decides, and of that kind the last. Where that one names several
letters, or a later box or tag another letter or none, nothing is settled.

Every expression is possessive or bounded, so that the time is linear in the text.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterator, Mapping
from itertools import chain, permutations
from typing import NamedTuple

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.graders.math import after_thoughts, boxes

LETTERS = string.ascii_uppercase
"""What options may be called."""
PERMUTATION_SEED = 0
"""Changes the order of choices of every problem, and with it every prompt."""

_ORDERS = list(permutations(range(4)))


def permutation(record_id: str, seed: int = PERMUTATION_SEED) -> tuple[int, ...]:
    """Which choice stands at A, B, C and D; the same for all draws and models.

    It follows from the record alone, so neither a new order of rows nor another draw of random
    numbers changes it.

    >>> sorted(permutation("rec1"))
    [0, 1, 2, 3]
    """
    digest = hashlib.sha256(f"{seed}:{record_id}".encode()).digest()
    return _ORDERS[int.from_bytes(digest) % len(_ORDERS)]


def grade(problem: Problem, response: str) -> Grade:
    """Correct where the response settles on the letter problem.target."""
    statement = read(response)
    letter = None if statement is None else statement.letter
    if problem.target not in tuple("ABCD"):
        return Grade(outcome="unscored", extracted=letter, reason="the gold is no letter")
    if statement is None:
        return Grade(outcome="incorrect", extracted=None, reason="no letter found")
    if letter is None:
        return Grade(outcome="incorrect", extracted=None, reason=f"not settled, {statement.kind}")
    right = letter == problem.target
    return Grade(
        outcome="correct" if right else "incorrect",
        extracted=letter,
        reason=f"{'the right' if right else 'another'} choice, {statement.kind}",
    )


def guessing_floor(k: int, n_choices: int = 4) -> float:
    """pass@k of somebody who guesses: 1 - (1 - 1 / n_choices) ** k, a fraction.

    >>> guessing_floor(1), round(guessing_floor(16), 4)
    (0.25, 0.99)
    """
    if k < 1 or n_choices < 1:
        raise ValueError(f"k={k}, n_choices={n_choices}: both must be at least 1")
    return float(1.0 - (1.0 - 1.0 / n_choices) ** k)


_STYLED = r"(?:\\(?:text(?:bf|rm|sf)?|math(?:rm|bf)|bf)\s?\{|[*_`]{1,3})?+[ \t]?+"
_LABELS = (
    # on a line of its own: "A. 4", "(A) 4", "- **A)** 4", "A: 4", "A - 4"
    rf"^[ \t]*+(?:[-+*>\u2022][ \t]++)?+\$?{_STYLED}"
    r"(?:[(\[](@)[)\]][.:]?+|(@)(?:[*_`}]{0,3}+[.):](?!\w\.)|\t|[ \t]++[-\u2013\u2014](?=\s)))",
    # in the run of a line: "(A) 4 (B) 5", "A) 4 B) 5", "A. 4 B. 5"
    rf"{_STYLED}[(\[](@)[)\]]",
    rf"(?<![\w(]){_STYLED}(@)\)",
    rf"(?<!\S){_STYLED}(@)\.(?=\s)",
)
"""How a prompt calls its options; @ stands for one of the labels."""
_OPENS = re.compile(r"(?:^|[:?])\s*+\Z", re.MULTILINE)
"""What stands before the first of two labels in the run of a line."""
_TRIMMED = re.compile(r"\A(?:\s|\\[ ,;:]|[~}*_`])++|(?:\s|\\[ ,;:\\]|\\q?quad(?![a-z])|~)++\Z")
_REST_OF_LINE = re.compile(r"\s*+[^\n]*+")
_MENTIONED = re.compile(r"(?:[\s,;/&]|or\b|and\b)*+", re.IGNORECASE)
"""What stands between labels that name no options: "(A), (B) or (C)"."""
LONGEST_OPTION = 2_000
"""Characters of the last option that are read."""


def options_in(prompt: str) -> dict[str, str]:
    """Letter and text of the options that a prompt lists last; empty where it lists none.

    On lines of their own or in the run of a line, behind capitals or else small letters. The last
    option ends with its line.

    >>> options_in("Which is prime? (A) 4 (B) 5 (C) 6")
    {'A': '4', 'B': '5', 'C': '6'}
    >>> options_in("Answer with (A), (B) or (C).")
    {}
    """
    options = _listed(prompt, LETTERS) or _listed(prompt, LETTERS.lower())
    return {letter.upper(): text for letter, text in options.items()}


def _listed(prompt: str, labels: str) -> dict[str, str]:
    """The last list of lines, or one in the run of a line that is longer and not before it."""
    chosen, start = dict[str, str](), 0
    for pattern in _LABELS:
        lists = list[list[re.Match[str]]]()
        for label in re.finditer(pattern.replace("@", f"[{labels}]"), prompt, re.MULTILINE):
            name = label[label.lastindex or 0]
            if name == labels[0]:
                lists.append([label])
            elif lists and labels.find(name) == len(lists[-1]):
                lists[-1].append(label)
        for marks in reversed(lists):
            inline, begin = pattern is not _LABELS[0], marks[0].start()
            if len(marks) <= len(chosen) or (inline and marks[-1].start() < start):
                continue
            opens = not inline or _OPENS.search(prompt[max(0, begin - 9) : begin])
            if len(marks) < (2 if opens else 3):
                continue
            if options := _texts(prompt, marks):
                chosen, start = options, begin
            if chosen and not inline:
                break
    return chosen


def _texts(prompt: str, marks: list[re.Match[str]]) -> dict[str, str]:
    """What stands behind each label; empty where the labels are only mentioned."""
    begin = marks[-1].end()
    last = _REST_OF_LINE.match(prompt, begin, begin + LONGEST_OPTION)
    ends = [*(label.start() for label in marks[1:]), last.end() if last else begin]
    texts = [prompt[label.end() : end] for label, end in zip(marks, ends, strict=True)]
    if all(_MENTIONED.fullmatch(text) for text in texts[:-1]):
        return {}
    names = [label[label.lastindex or 0] for label in marks]
    return {name: _TRIMMED.sub("", text) for name, text in zip(names, texts, strict=True)}


_PRINT = r"\\(?:text(?:bf|rm|sf)?|math(?:rm|bf|sf)|boxed|bf|rm|q?quad)(?![a-z])|\\[ ,;:!()\[\]]"
_PRINT = rf"(?:{_PRINT}|[\s*_`$~{{}}])"
"""What shows only in print."""
_GOLD = re.compile(
    rf"{_PRINT}*+(?:(?:option|choice|answer)\b[\s:]*+)?+{_PRINT}*+[(\[]?+([A-Z]){_PRINT}*+"
    rf"(?:[)\].:]++{_PRINT}*+(.*+))?+",
    re.IGNORECASE | re.DOTALL,
)
"""Groups: a letter, the option's text behind it."""


def letter_of(gold: str, options: Mapping[str, str]) -> str | None:
    """The letter that a gold means, None where it means none, or one thing or another.

    gold: a letter in either case and with decoration, the text of an option, or the place of an
    option from 0 on, as MMLU publishes it; a number that is an option's text is that option.
    options: letter and text, as from `options_in`; empty: unknown, and any letter is one.

    >>> [letter_of(gold, {"A": "4", "B": "2"}) for gold in ("b", "(B) 2", "2", "0", "C", "5")]
    ['B', 'B', 'B', 'A', None, None]
    """
    gold, letters = gold.strip(), tuple(options) or tuple(LETTERS)
    if gold in letters:
        return gold
    meant = {by_text} if (by_text := letter_of_text(gold, options)) else set[str]()
    if (named := _GOLD.fullmatch(gold)) and (letter := named[1].upper()) in letters:
        text = letter_of_text(named[2] or "", options)
        if text not in (None, letter):
            return None
        meant.add(letter)
    if not meant and re.fullmatch(r"[0-9]{1,2}", gold) and int(gold) < len(letters):
        meant.add(letters[int(gold)])
    return meant.pop() if len(meant) == 1 else None


def letter_of_text(text: str, options: Mapping[str, str]) -> str | None:
    """The letter of the one option whose text this is, whatever shows only in print, and the case
    unless two options differ by it; None where none is, or several are."""
    for fold in (_folded, lambda text: _folded(text).casefold()):
        letters = [letter for letter, option in options.items() if fold(option) == fold(text)]
        if letters and fold(text):
            return letters[0] if len(letters) == 1 else None
    return None


def _folded(text: str) -> str:
    return re.sub(_PRINT, "", text).rstrip(".,;")


BOX, TAG, PHRASE, CONCLUSION = "in a box", "in a tag", "as the answer", "in a conclusion"
KINDS = (BOX, TAG, PHRASE, CONCLUSION)
"""Of statements, the strongest first."""
LONGEST_BOX = 60
"""Characters of a box or tag that are read: a letter with its decoration has no more."""
WINDOW = 160
"""Characters before and behind a statement that may take it back."""


class Statement(NamedTuple):
    """A letter that a text names as its answer."""

    kind: str
    letter: str | None
    """None where another is joined to it."""
    start: int
    end: int
    """Behind the letter and those that are joined to it."""


def words(*phrases: str) -> str:
    """An expression for one of some phrases: whole words in either case, up to three spaces."""
    return r"(?i:\b(?:" + "|".join(phrases).replace(" ", r"\s{1,3}+") + r")(?!\w))"


_STYLE = r"\\(?:text|textbf|textrm|mathrm|mathbf|mathsf|bm|rm|bf)(?![a-z])"
_BEFORE = rf"(?:{_STYLE}|\\[ ,;(\[]|[\s$:*_~`\"'{{])*+"
_CHOICE = words("(?:answer )?(?:option|choice|letter)") + r"[\s~:{}*]*+"
_NAMED = (
    rf"(?:(?:{words('the')}\s{{1,3}}+)?+(?:{words('correct', 'right')}\s{{1,3}}+)?+{_CHOICE})?+"
)
_ADVERB = words(
    *("therefore", "thus", "hence", "then", "clearly", "obviously", "definitely", "certainly"),
    *("most", "probably", "likely", "simply", "indeed", "actually", "presumably", "surely"),
    *("either", "between", "both", "in fact"),
)
_ADVERBS = rf"(?:[\s:,$*]++{_ADVERB}){{0,3}}+[\s:,$*]*+"
_GOES_ON = words("because", "since", "as", "due", "given", "which", "not", "rather", "instead")
_GOES_ON = rf"(?:{_GOES_ON}|{words('but', 'if', 'unless', 'only')})"
_JOINED = rf"{words('or', 'and')}[\s(*$'\"`]*+[A-D](?:[)*$'\"`]*+(?:[.,;:!]|$)|\s(?:or|and))"
_BEHIND = (
    r"(?:(?<=['\"`][A-D])['\"`]|(?<=\*[A-D])\*|(?=(?:[ \t$*_}\]'\"`]|\\[)\]])*+"
    rf"(?:[.,;:!)](?!\w)|$|[\u2014/&|]|-\s|\((?!\w\b|\d)|{_GOES_ON}|{_JOINED})))"
)
"""What shows that a bare letter is no article, quantity or beginning of a word."""
_LETTER = (
    rf"{_BEFORE}{_NAMED}{_BEFORE}"
    rf"(?:[({{\[]++([A-D])[)}}\]](?![ \t$*]*+\?)|([A-D]){_BEHIND})"
)
"""Groups: a letter in brackets, whatever follows; a bare one."""
_LETTER_LAST = rf"{_BEFORE}{_NAMED}{_BEFORE}[({{\[]*+([A-D])[)}}\]]*+{_BEHIND}"
"""A letter that ends a clause."""
_LETTER_AS_CHOICE = rf"{_BEFORE}{_CHOICE}{_BEFORE}\(?+([A-D])\)?+{_BEHIND}"
"""One behind "option"."""
_LETTER_IN_PARENTHESES = rf"{_BEFORE}\(([A-D])\){_BEHIND}"

_ALONE = re.compile(rf"(?:{_STYLE}|[\s${{}}().~]|\\[ ,;])*+([A-D])[\s${{}}().]*+")
_ARTICLE = rf"(?:{words('the')}\s)?(?:{words('correct', 'right', 'best', 'final')}\s)?"
_CONTENT = re.compile(
    rf"{_BEFORE}(?:{_ARTICLE}{words('answer', 'option', 'choice')}(?:\s{words('is')})?[\s:~]*+)?+"
    rf"[\s{{}}]*+{_BEFORE}(?:\(([A-D])\)(?=[\s~}}\\,.:]|$)"
    r"|([A-D])(?:[).](?=[\s~}\\]|$)|\)(?=\w)|:(?=[\s\\])(?!\s*[A-D]\b)|(?=[\s}*]*+\.?\Z)))"
)
"""How a box or tag begins that names a choice: with or without its text behind."""
_TAGS = re.compile(r"<(/?)answer>", re.IGNORECASE)

_DENIAL = words("wrong", "incorrect", "false", "(?:not|never) (?:the|an?)(?: [a-z]{1,12})?")
_QUALITY = "(?:correct|right|best|only|final|remaining|closest)"
_ANSWER = words("answer", "ans", f"{_QUALITY} (?:option|choice|one|letter)")
_IS = words("is", "must be", "should be", "has to be", "can only be", "(?:seems|appears) to be")
_PHRASE = re.compile(
    rf"({_DENIAL}\s{{1,3}}+)?+{_ANSWER}"
    rf"(?:\s{words('that', 'which', 'to', 'for', 'of')}[^.,;:()\n]{{1,60}}?)?"
    rf"[\s*_]*+(?:{_IS}|[:=]|[-\u2014](?=\s)|(?<=\n)){_ADVERBS}"
    rf"(?:{words('not')}\s\(?[A-D]\)?,?\s{words('but')}\s)?+{_LETTER}",
    re.MULTILINE,
)
"""Groups: what denies the phrase, and those of _LETTER."""
_CALLED = re.compile(
    r"(?:[(\[]([A-D])[)\]]|(?<![\w-])([A-D]))[*_$}'\"`]*+\s"
    rf"{words('is', 'are', 'must be', 'has to be')}(?:\s{_ADVERB})?\s"
    rf"(?:({words('the', 'our', 'my')}\s(?:{words(_QUALITY)}\s)?"
    rf"{words('answer', 'option', 'choice', 'one')})|{words('correct', 'right')})"
    rf"(?=[*_]*+(?:[.,;:!)]|\s*+$|\s{_GOES_ON}))",
    re.MULTILINE,
)
"""Groups: a letter in brackets, a bare one, and the noun where it has one."""
_BEFORE_BARE = words(
    *("option", "choice", "answer", "so", "that", "hence", "thus", "therefore", "but", "and"),
    *("or", "only", "both"),
)
_NAMED_BEFORE = re.compile(rf"(?:^|[^\w\s]|{_BEFORE_BARE})[\s*_$'\"`]*+\Z", re.MULTILINE)
"""What stands before a bare letter that is called correct; else it is a "statement B"."""
_OTHER_BEFORE = re.compile(
    rf"(?<!\w)[A-D][)*$'\"`]*+\s*+(?:,|/|&|{words('or', 'and')})+\s*+(?:{_CHOICE})?+\Z"
)
_LEADS = words(
    "(?:it|this|that) (?:must|has to|should|can only) be",
    "leav(?:es|ing)(?: only| us with| me with)?",
    "left with",
    "(?:I|we)(?: would| will|'d|'ll)? (?:go with|choose|pick|select)",
    "I(?: would|'d)? (?:say|guess)",
    "guess is",
    "by elimination",
)
_OTHERWISE = words("wait", "no", "actually", "correction", "sorry") + "[,:]"
_HENCE = rf"(?:(?<!\bis )(?<!\bare ){words('therefore', 'thus', 'hence', 'so')}"
_HENCE += rf"|{words('probably', 'most likely')})"
_EQUALS = words(
    "(?:it|this|that|which) is",
    "(?:it|that)'s",
    "correspond(?:s|ing)? to",
    "match(?:es|ing)",
    "agrees with",
    "closest to",
)
_CONCLUSION = re.compile(
    r"\b(?=[a-zA-Z])(?:"  # most positions fail here, which is three times as fast
    rf"(?:{_LEADS}|{_OTHERWISE}){_ADVERBS}{_LETTER_LAST}"
    # not "so B, the field, is"
    rf"|{_HENCE}{_ADVERBS}{_LETTER_LAST}(?!,\s(?!{_GOES_ON}|[(*$]*+[A-D](?:\W|$)))"
    rf"|{_EQUALS}{_ADVERBS}{_LETTER_IN_PARENTHESES}"
    rf"|(?:{_EQUALS}|{words('is')}){_ADVERBS}{_LETTER_AS_CHOICE})",
    re.MULTILINE,
)
_SENTENCE = words("is", "was", "are", "has", "does", "can", "cannot", "would", "and", "or")
_LINE = re.compile(
    rf"^[ \t*_`$\"'#>]*+{_NAMED}(?:{_STYLE}|[ \t$*_`\"'{{])*+"
    r"(?:\(([A-D])\)|([A-D])(?:[.)](?!\w)|(?=[*_`$\"'}]*+\s*?$)))"
    rf"(?!\s{_SENTENCE})(?![^\n]*[ ({{][A-D][.)])[^\n]*+",
    re.MULTILINE,
)
"""A line that begins with a choice, or is a letter alone."""

_NEXT = re.compile(
    rf"((?:{_STYLE}|\\(?:boxed|fbox)|\\[ ,;]|[\s$*_~(){{}}\[\],/&|'\"`]"
    rf"|{words('or', 'and', 'nor', 'perhaps', 'maybe', 'possibly', 'option', 'choice', 'either')}"
    r"){1,40}+)([A-D])(?!\w)"
)
"""Groups: what stands between a letter and the next, the next."""
_EITHER = re.compile(rf"[/|]|{words('or', 'nor')}")
_LISTED = re.compile(rf"[,&]|{words('and')}")
_ENDS = re.compile(r"[ \t$*_)}\]'\"`]*+(?:[.,;:!?/&|]|$|(?:or|and|nor|are)\b)", re.MULTILINE)
_CLAUSE = re.compile(r"[ \t$*_)}\]]*+(?:is|was|has|does|can|cannot|would)\b")


def enclosed(text: str) -> tuple[list[Statement], list[tuple[int, str]]]:
    """Statements in boxes and tags; and those that hold something else: beginning and content."""
    statements, others = list[Statement](), list[tuple[int, str]]()
    until = -1
    for kind, spans in ((BOX, boxes(text)), (TAG, _tags(text))):
        for start, begin, end in spans:
            content = text[begin : min(end, begin + LONGEST_BOX)]
            named = _content(content, whole=end - begin <= LONGEST_BOX)
            if named is None:
                others.append((start, content))
            elif kind == TAG or start >= until:  # else it is joined to the box before
                letter, until = _run(text, named[0], begin + named[1])
                if letter is not None:  # nothing within is joined to it: look behind the box
                    letter, until = _run(text, letter, end)
                statements.append(Statement(kind, letter, start, until))
    return statements, others


def _content(content: str, *, whole: bool) -> tuple[str, int] | None:
    """The letter in a box or tag and where it ends; None where that holds something else."""
    if whole and (alone := _ALONE.fullmatch(content)):
        return alone[1], alone.end()
    if named := _CONTENT.match(content):
        return named[1] or named[2], named.end()
    return None


def _tags(text: str) -> Iterator[tuple[int, int, int]]:
    """As `boxes`; the last tag may be open, as where sampling stops at the closing one."""
    opened = None
    for tag in _TAGS.finditer(text):
        if not tag[1]:
            opened = tag
        elif opened is not None:
            yield opened.start(), opened.end(), tag.start()
            opened = None
    if opened is not None:
        yield opened.start(), opened.end(), len(text)


def phrases(text: str) -> Iterator[Statement]:
    """Letters behind "the answer is" and its like."""
    for phrase in _PHRASE.finditer(text):
        if phrase[1] is None:
            letter, end = _run(text, phrase[2] or phrase[3], phrase.end())
            yield Statement(PHRASE, letter, phrase.start(), end)


def called(text: str) -> Iterator[Statement]:
    """Letters before "is the answer" or "is correct"; the latter is a conclusion."""
    for match in _CALLED.finditer(text):
        before = text[max(0, match.start() - WINDOW) : match.start()]
        if match[1] or _NAMED_BEFORE.search(before):
            letter = None if _OTHER_BEFORE.search(before) else match[1] or match[2]
            kind = PHRASE if match[3] or letter is None else CONCLUSION
            yield Statement(kind, letter, match.start(), match.end())


def conclusions(text: str) -> Iterator[Statement]:
    """Letters in which an argument ends, and those alone on the first or last line."""
    for conclusion in _CONCLUSION.finditer(text):
        group = conclusion.lastindex or 0
        letter, end = _run(text, conclusion[group], conclusion.end())
        yield Statement(CONCLUSION, letter, conclusion.start(group), end)
    lines = list(_LINE.finditer(text))
    if len({line[1] or line[2] for line in lines}) == 1:  # else the choices are listed
        for line in (lines[0], lines[-1]):
            if not text[: line.start()].strip() or not text[line.end() :].strip():
                yield Statement(CONCLUSION, line[1] or line[2], line.start(), line.end())


def _run(text: str, letter: str, end: int) -> tuple[str | None, int]:
    """The letter, None where another is joined to it; and the end of the last joined one."""
    letters = {letter}
    while following := _NEXT.match(text, end):
        between, after = following[1], following.end()
        either = _EITHER.search(between) is not None
        if between.rstrip().endswith(("(", "[", "{")):
            joined = "\n" not in between and not _CLAUSE.match(text, after)
        else:
            joined = _LISTED.search(between) is not None and _ENDS.match(text, after) is not None
        if not (joined or either):
            break
        letters.add(following[2])
        end = after
    return (letter if len(letters) == 1 else None), end


_TYPED = str.maketrans("\u2018\u2019\u201c\u201d\u00a0\u2013", "''\"\" -")
"""Quotes, spaces and dashes as they are typed."""
_SMALL = re.compile(r"(?<!\w)\([a-d]\)")
_BREAK = re.compile(
    rf"[.!?;](?=\s)|\n|{words('so', 'hence', 'thus', 'therefore', 'but', 'however', 'in fact')}"
)
"""Where a clause begins, which what stands before does not govern."""
_DENIED = re.compile(
    r"(?i:\b(?:not|nor|neither|never|(?:wrong|incorrect|false) (?:answer|choice|option)(?: is)?)"
    r"(?: the (?:\w{1,12} )?(?:answer|choice|option)(?: is)?)?[ :$*({]*+(?:option |choice )?)\Z"
)
_SUPPOSE = words(
    *("if", "whether", "suppose", "supposing", "assume", "imagine", "assuming that"),
    "let(?:'s| us) say",
)
_SUPPOSED = re.compile(
    rf"{_SUPPOSE}(?: for (?:a )?(?:contradiction|moment))?,?(?: {words('that', 'now', 'instead')})?"
    rf"(?: {words('the', 'it', 'my', 'our')})?(?: \w{{1,12}})?(?: {words('answer is')})?"
    r"[\s:$*(]*+\Z"
)
_UNDER = re.compile(words("if", "whether", "unless", "suppose", "supposing", "assume", "were"))
"""What makes a conclusion behind it one under a condition."""
_SAY = "(?:thought|(?:say|think|claim|guess|expect)s?|said|(?:claim|guess|expect)ed"
_SAY += "|(?:argue|believe|conclude)[sd]?)"
_OTHERS = "(?:some(?:one|body)?|many|others|people|students?|(?:text)?books?|one|he|she|they)"
_REPORTED = re.compile(
    words(
        rf"{_OTHERS}[^,]{{0,40}} {_SAY}",
        rf"(?:might|could|would|may) (?:be tempted to )?{_SAY}",
        *(r"(?:I|we) (?:\w{1,12} )?thought", "tempting", "at first (?:glance|sight)"),
        *("unlikely", "I doubt", "no way", "(?:false|wrong) that"),
    )
    + r"|(?i:n't|\bnot|\bnever|\bno)\b[^,]{0,20}"
    + words("think", "believe", "say", "sure", "certain", "clear", "true", "mean", "convinced")
)
_IF = re.compile(
    rf"[\s*_$)}}\]'\"`]*+(?:{words('only')}\s)?{words('if', 'unless', 'provided')}"
    rf"(?!\s{words('we', 'I', 'one')})"
)
"""A condition behind a statement; "if we round" is none."""
_WRONG = words(
    *("wrong", "incorrect", "false", "mistaken", "mistake", "error", "impossible", "absurd"),
    *("contradiction", "not (?:right|correct|possible|true)"),
)
_TAKEN_BACK = re.compile(
    rf"\W{{0,12}}(?:{words('hmm', 'wait', 'no', 'oh', 'but', 'however', 'actually', 'a')}"
    r"\W{1,4}){0,4}(?:"
    + words(
        *("contradiction", "scratch that", "I was wrong", "I (?:have )?made an? (?:mistake|error)"),
        "(?:that|this|it|which) (?:cannot|can't|can not) be (?:right|correct|true)",
    )
    + "|"
    + words("(?:that|this|it|he|she|they|which)(?: is|'s| are| was| were| leads to)")
    + rf"(?:\s(?!not\b)\w{{1,12}}){{0,2}}\s{_WRONG}(?!\s{words('to', 'for', 'that')}))"
)
_CORRECTION = re.compile(
    r"(?:^|[.!?;:\u2026\u2014,-])[ \t]*+(?:"
    + words(
        *("wait", "hmm", "actually", "correction", "sorry", "oops", "hold on", "recheck"),
        *("scratch that", "on second thoughts?", "let me (?:re|double.)check"),
    )
    + rf"|{words('no')}(?=[,:.!]))",
    re.MULTILINE,
)
_NAMED_IN_BOX = re.compile(
    r"(?<![\w\\^])([A-D]{1,4})(?=[\s$]*+(?:[).,:;/&|{}\]]|\\text|$|(?:or|and|nor)\b))"
)
_DENIES = re.compile(
    words(
        *("none", "neither", "nothing", "not", "all", "any", "both", "either", "cannot", "unknown")
    )
)


def read(response: str) -> Statement | None:
    """The statement that decides, None without one; its letter is None where nothing is settled.

    Linear in the length of the text. Capitals count, and small letters in parentheses.

    >>> [read(text).letter for text in ("Not A. The answer is (C).", r"so \\boxed{\\text{B}}")]
    ['C', 'B']
    >>> read("Suppose the answer is (B).") is None, read("The answer is (B) or (C).").letter
    (True, None)
    """
    text = after_thoughts(response).translate(_TYPED)
    text = _SMALL.sub(lambda small: small[0].upper(), text)
    in_boxes, others = enclosed(text)
    statements = [
        statement
        for statement in chain(in_boxes, phrases(text), called(text), conclusions(text))
        if not _is_void(text, statement)
    ]
    if not statements:
        return None
    last = max(statement.start for statement in statements)
    corrections = [mark.start() for mark in _CORRECTION.finditer(text, 0, last)]
    since = corrections[-1] if corrections else 0
    decides = min(
        (statement for statement in statements if statement.start >= since),
        key=lambda statement: (KINDS.index(statement.kind), -statement.start),
    )
    if any(start > decides.start and _takes_back(box, decides.letter) for start, box in others):
        return decides._replace(letter=None)
    return decides


def _is_void(text: str, statement: Statement) -> bool:
    """Whether it is denied, supposed, reported, under a condition, or called wrong behind."""
    behind = text[statement.end : statement.end + WINDOW]
    before = text[max(0, statement.start - WINDOW) : statement.start]
    clause = _BREAK.split(before)[-1]
    return (
        _DENIED.search(clause) is not None
        or _SUPPOSED.search(clause) is not None
        or (statement.kind in (PHRASE, CONCLUSION) and _REPORTED.search(clause) is not None)
        or (statement.kind == CONCLUSION and _UNDER.search(clause) is not None)
        or _TAKEN_BACK.match(behind) is not None
        or _IF.match(behind) is not None
    )


def _takes_back(box: str, letter: str | None) -> bool:
    """Whether a box or tag with something else says that it is another letter, or none."""
    named = {character for name in _NAMED_IN_BOX.findall(box) for character in name}
    return bool(named - {letter}) or _DENIES.search(box) is not None
