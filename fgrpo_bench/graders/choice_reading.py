"""Which letter a response names as its answer, and by what kind of statement.

`read_choice` at the end asks for the statements that name a letter, the strongest first: a letter
in a box; in `<answer>` tags or JSON; behind "the answer is" or before "is the answer"; in a
conclusion ("so it must be D", "leaving B", "probably C", "option B is correct", a letter alone on
the first or last line). A letter that is supposed, reported of others, denied, asked or under a
condition is no statement, nor is one that the next words call wrong. After a correction ("Wait,
...", "No, ...") that ends in a statement, those before it no longer count. Of what is left the
strongest kind decides, and of that kind the last. Where that one names several letters, or a later
box or tag another letter or none, nothing is settled. Where no letter is stated, the text of an
option is one.

In an expression @ stands for the labels of the problem (`with_labels`). Every expression is
possessive or bounded, so that the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from fgrpo_bench.core.problems import BY_PLACE
from fgrpo_bench.graders.math import boxes, spoken

BOX, TAG, PHRASE, CONCLUSION = "in a box", "in a tag", "as the answer", "in a conclusion"
PLACE = BY_PLACE.removeprefix(", ")
KINDS = {BOX: 0, TAG: 1, PHRASE: 2, CONCLUSION: 3, PLACE: 3}
"""Of statements, the strongest first; those of one rank count alike."""
STATED, WEAK = (BOX, TAG, PHRASE), (CONCLUSION, PLACE)
LONGEST_BOX, LONGEST_TEXT = 60, 300
"""Characters of a box or tag that are read: a letter with its decoration has no more; an option's
text may have."""
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


class Other(NamedTuple):
    """What stands in a box or tag that names no letter."""

    kind: str
    content: str
    start: int
    end: int


@lru_cache(maxsize=1_024)
def with_labels(pattern: str, labels: str) -> re.Pattern[str]:
    """An expression in which @ stands for one of some labels."""
    return re.compile(pattern.replace("@", f"[{labels}]"), re.MULTILINE)


def either(*phrases: str) -> str:
    """An expression for one of some phrases: whole words in either case, up to three spaces."""
    return r"(?i:\b(?:" + "|".join(phrases).replace(" ", r"\s{1,3}+") + r")(?!\w))"


_STYLE = r"\\(?:text|textbf|textrm|mathrm|mathbf|mathsf|bm|rm|bf)(?![a-z])"
_BEFORE = rf"(?:{_STYLE}|\\[ ,;(\[]|[\s$:*_~`\"'{{])*+"
_CHOICE = either("(?:answer )?(?:option|choice|letter)") + r"[\s~:{}*]*+"
_NAMED = (
    rf"(?:(?:{either('the')}\s{{1,3}}+)?+"
    rf"(?:{either('correct', 'right')}\s{{1,3}}+)?+{_CHOICE})?+"
)
_ADVERB = either(
    *("therefore", "thus", "hence", "then", "clearly", "obviously", "definitely", "certainly"),
    *("most", "probably", "likely", "simply", "indeed", "actually", "presumably", "surely"),
    *("either", "between", "both", "in fact", "I (?:think|believe|guess)"),
)
_ADVERBS = rf"(?:[\s:,$*]++{_ADVERB}){{0,3}}+[\s:,$*]*+"
_GOES_ON = either("because", "since", "as", "due", "given", "which", "not", "rather", "instead")
_GOES_ON = rf"(?:{_GOES_ON}|{either('but', 'if', 'unless', 'only')})"
_JOINED = rf"{either('or', 'and')}[\s(*$'\"`]*+@(?:[)*$'\"`]*+(?:[.,;:!]|$)|\s(?:or|and))"
_BEHIND = (
    r"(?:(?<=['\"`]@)['\"`]|(?<=\*@)\*|(?=(?:[ \t$*_}\]'\"`]|\\[)\]])*+"
    r"(?:[.,;:!)](?!\w)|$|[\u2014&|]|/\W{0,3}@(?!\w)|-\s|\((?:I\s|(?!\w\b|\d))"
    rf"|{_GOES_ON}|{_JOINED})))"
)
"""What shows that a bare letter is no article, quantity or beginning of a word."""
_BARE = r"(?!I(?![*_$}\]'\"`]*+(?:[.!:)](?!\w)|\s*+$(?!\n[a-z])|,?\sbecause\b)))(@)"
"""A letter without brackets; "I" only where it cannot be the pronoun."""
_NO_MARKUP = r"(?!\w|[^<\n]{0,60}</)"
"""Behind a letter in angle brackets that opens no element of HTML: "<B>C</B>"."""
_LETTER = (
    rf"{_BEFORE}{_NAMED}{_BEFORE}"
    rf"(?:(?:[({{\[]++(?=@[)}}\]])|<(?=@>{_NO_MARKUP}))(@)[)}}\]>](?![ \t$*]*+\?)"
    rf"|{_BARE}{_BEHIND})"
)
"""Groups: a letter in brackets, whatever follows; a bare one."""
_LETTER_LAST = rf"{_BEFORE}{_NAMED}{_BEFORE}[({{\[]*+{_BARE}[)}}\]]*+{_BEHIND}"
"""A letter that ends a clause."""
_LETTER_AS_CHOICE = rf"{_BEFORE}{_CHOICE}{_BEFORE}\(?+{_BARE}\)?+{_BEHIND}"
"""One behind "option"."""
_LETTER_IN_PARENTHESES = rf"{_BEFORE}\((@)\){_BEHIND}"

_ALONE = rf"(?:{_STYLE}|[\s${{}}().~]|\\[ ,;])*+(@)[\s${{}}().]*+"
_ARTICLE = rf"(?:{either('the')}\s)?(?:{either('correct', 'right', 'best', 'final')}\s)?"
_CONTENT = (
    rf"{_BEFORE}(?:{_ARTICLE}{either('answer', 'option', 'choice')}(?:\s{either('is')})?[\s:~]*+)?+"
    rf"[\s{{}}]*+{_BEFORE}(?:\((@)\)(?=[\s~}}\\,.:]|$)"
    r"|(@)(?:[).](?=[\s~}\\]|$)|\)(?=\w)|:(?=[\s\\])(?!\s*@\b)|(?=[\s}*]*+\.?\Z)))"
)
"""How a box or tag begins that names a choice: with or without its text behind."""
_TAGS = re.compile(r"<(/?)answer>", re.IGNORECASE)
_JSON = re.compile(
    r"[\"'](?:(?:final|correct|best|selected|chosen)[ _]?)?(?:answer|choice)"
    r"(?:[ _]?(?:letter|key))?[\"']\s{0,3}+:\s{0,3}+\[?+\s{0,3}+[\"']([^\"'\n]{0,300}+)[\"']",
    re.IGNORECASE,
)
"""A value of JSON, which counts as a tag."""

_DENIAL = either("wrong", "incorrect", "false", "(?:not|never) (?:the|an?)(?: [a-z]{1,12})?")
_QUALITY = "(?:correct|right|best|only|final|remaining|closest)"
_ANSWER = either(
    *("answer", "ans", f"{_QUALITY} (?:option|choice|one|letter|statement|response|conclusion)"),
    *("(?:my|our|selected|chosen) (?:option|choice)", "the choice"),
)
_IS = either(
    "is", "would be", "must be", "should be", "has to be", "can only be", "(?:seems|appears) to be"
)
_PHRASE = (
    rf"({_DENIAL}\s{{1,3}}+)?+{_ANSWER}"
    rf"(?:\s{either('that', 'which', 'to', 'for', 'of')}[^.,;:()\n]{{1,60}}?)?"
    rf"[\s*_]*+(?:{_IS}|'s(?=\s)|[:=]|[-\u2014](?=\s)|(?<=\n)"
    r"|(?:\.\s|(?<=\s))(?=\(@\)[*_]*+(?:[.,;]|\s*+$)))"  # "Answer (D)."
    rf"{_ADVERBS}"
    rf"(?:{either('not')}\s\(?@\)?,?\s{either('but')}\s)?+{_LETTER}"
)
"""Groups: what denies the phrase, and those of _LETTER."""
_CALLED = (
    r"(?:[(\[](@)[)\]]|(?<![\w-])(?:(?<=ption\s)|(?<=hoice\s)|(?!I\s))(@))[*_$}'\"`]*+\s"
    rf"{either('is', 'are', 'must be', 'has to be')}(?:\s{_ADVERB})?\s"
    rf"(?:({either('the', 'our', 'my')}\s(?:{either(_QUALITY)}\s)?"
    rf"{either('answer', 'option', 'choice', 'one')})|{either('correct', 'right')}"
    rf"|{either('(?:the )?closest(?: one| match| value| option)?', 'the best (?:fit|match)')})"
    rf"(?=[*_]*+(?:[.,;:!)]|\s*+$|\s{_GOES_ON}))"
)
"""Groups: a letter in brackets, a bare one, and the noun where it has one."""
_BEFORE_BARE = either(
    *("option", "choice", "answer", "so", "that", "hence", "thus", "therefore", "but", "and"),
    *("or", "only", "both"),
)
_NAMED_BEFORE = re.compile(rf"(?:^|[^\w\s]|{_BEFORE_BARE})[\s*_$'\"`]*+\Z", re.MULTILINE)
"""What stands before a bare letter that is called correct; else it is a "statement B"."""
_OTHER_BEFORE = rf"(?<!\w)@[)*$'\"`]*+\s*+(?:,|/|&|{either('or', 'and')})+\s*+(?:{_CHOICE})?+\Z"
_LEADS = either(
    "(?:it|this|that) (?:must|has to|should|can only) be",
    "leav(?:es|ing)(?: only| us with| me with)?",
    "left with",
    "I(?: would|'d)? (?:say|guess|think|believe)",
    "guess is",
    "by elimination",
)
_PICK = either(
    "(?:I|we)(?: would| will|'d|'ll)? (?:go (?:with|for)|choose|pick|select|answer)",
    *("(?:I|we) (?:chose|picked|selected)", "going with"),
)
_OTHERWISE = either("wait", "no", "actually", "correction", "sorry") + "[,:]"
_HENCE = rf"(?:(?<!\bis )(?<!\bare ){either('therefore', 'thus', 'hence', 'so')}"
_HENCE += rf"|{either('probably', 'most likely', 'definitely', 'certainly')})"
_EQUALS = either(
    "(?:it|this|that|which) is",
    "(?:it|that)'s",
    "correspond(?:s|ing)? to",
    "match(?:es|ing)",
    "agrees with",
    "closest to",
)
# "it's B." where a clause begins, and ends
_IT = either("(?:it|that) is", "(?:it|that)'s")
_IT_IS = (
    r"(?:(?<![\s\w])|(?<=[.!?;:,]\s)|(?<=so\s)|(?<=hence\s)|(?<=thus\s)"
    r"|(?<=think\s)|(?<=believe\s)|(?<=guess\s))"
    rf"{_IT}{_ADVERBS}{_BEFORE}{_BARE}"
    r"(?=[)*_$}'\"`]*+(?:[.!](?!\w)|\s*+\Z|,?\s(?:because|since|not|but)\b))"
)
_FITS = either(
    "fits", "works", "remains", "matches", "holds", "is (?:correct|right|left|possible|consistent)"
)
_WHAT_FITS = either("all", "both", "these", "with", "the (?:data|description|criteria|conditions)")
_ONLY = (
    rf"(?<!not\s)(?<!Not\s){either('only')}\s{_NAMED}{_BEFORE}(?!I\b)\(?(@)\)?[*_$'\"`]*+\s{_FITS}"
    rf"(?=\s?(?:[.,;!]|$)|\s{_GOES_ON}|\s{_WHAT_FITS}[^.,;\n]{{0,40}}\.)"
)
_CONCLUSION = (
    r"\b(?=[a-zA-Z])(?:"  # most positions fail here, which is three times as fast
    rf"(?:{_LEADS}|{_OTHERWISE}){_ADVERBS}{_LETTER_LAST}|{_PICK}{_ADVERBS}{_LETTER}"
    rf"|{_IT_IS}|{_ONLY}"
    # not "so B, the field, is"
    rf"|{_HENCE}{_ADVERBS}{_LETTER_LAST}(?!,\s(?!{_GOES_ON}|[(*$]*+@(?:\W|$)))"
    rf"|{_EQUALS}{_ADVERBS}{_LETTER_IN_PARENTHESES}"
    rf"|(?:{_EQUALS}|{either('is')}){_ADVERBS}{_LETTER_AS_CHOICE})"
)
_SENTENCE = either("is", "was", "are", "has", "does", "can", "cannot", "would", "and", "or")
_LINE = (
    rf"^[ \t*_`$\"'#>]*+(?:-\s(?=\W{{0,9}}@[\s*_.)]{{0,9}}$))?+(?:{either('answer')}\s)?+{_NAMED}"
    rf"(?:{_STYLE}|\\[(\[]|[ \t$*_`\"'{{])*+"
    r"(?![(\[]?\d[.):\]]{1,2}\s+\S)"  # a step of an argument
    r"(?:[(\[](@)[)\]]|(?!I\.\s*\w)(@)(?:[.)](?!\w)|:(?=\s|\Z)|,\sI\s(?:think|guess)\b"
    r"|\s[-\u2014]\s(?!@\b|[^\n]*=)|(?<!I),?\s(?:because|since)\b"
    r"|(?=(?:[*_`$\"'}!]|\\[)\]])*+\s*?$)))"
    rf"(?!\s{_SENTENCE})[^\n]*+"
)
"""A line that begins with a choice, or is a letter alone."""
_LISTS = r"[ ({](?:@|[b-e])[.)]"
"""What shows that a line lists several."""

_NEXT = (
    rf"((?:{_STYLE}|\\(?:boxed|fbox)|\\[ ,;]|[\s$*_~(){{}}\[\]<>,/&|'\"`]"
    rf"|{either('or', 'and', 'nor', 'perhaps', 'maybe', 'possibly', 'option', 'choice', 'either')}"
    r"){1,40}+)(@)(?!\w)"
)
"""Groups: what stands between a letter and the next, the next."""
_EITHER = re.compile(rf"[/|]|{either('or', 'nor')}")
_LISTED = re.compile(rf"[,&]|{either('and')}")
_ENDS = re.compile(r"[ \t$*_)}\]>'\"`]*+(?:[.,;:!?/&|]|$|(?:or|and|nor|are)\b)", re.MULTILINE)
_CLAUSE = re.compile(r"[ \t$*_)}\]]*+(?:is|was|has|does|can|cannot|would)\b")


def enclosed(text: str, labels: str) -> tuple[list[Statement], list[Other]]:
    """Statements in boxes and tags, and what else stands in some."""
    statements, others = list[Statement](), list[Other]()
    until = -1
    for kind, spans in ((BOX, boxes(text)), (TAG, _tags(text))):
        for start, begin, end in spans:
            content = text[begin : min(end, begin + LONGEST_BOX)]
            named = _content(content, labels, whole=end - begin <= LONGEST_BOX)
            if named is None:
                others.append(Other(kind, text[begin : min(end, begin + LONGEST_TEXT)], start, end))
            elif kind == TAG:
                letter, _ = _run(text, named[0], begin + named[1], labels, most=end)
                statements.append(Statement(kind, letter, start, end))
            elif start >= until:  # else it is joined to the box before
                letter, until = _run(text, named[0], begin + named[1], labels)
                if letter is not None:  # nothing within is joined to it: look behind the box
                    letter, until = _run(text, letter, end, labels)
                statements.append(Statement(kind, letter, start, until))
    return statements, others


def _content(content: str, labels: str, *, whole: bool) -> tuple[str, int] | None:
    """The letter in a box or tag and where it ends; None where that holds something else."""
    if whole and (alone := with_labels(_ALONE, labels).fullmatch(content)):
        return alone[1], alone.end()
    if named := with_labels(_CONTENT, labels).match(content):
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
    for value in _JSON.finditer(text):
        yield value.start(), *value.span(1)


def phrases(text: str, labels: str) -> Iterator[Statement]:
    """Letters behind "the answer is" and its like."""
    for phrase in with_labels(_PHRASE, labels).finditer(text):
        if phrase[1] is None:
            letter, end = _run(text, phrase[2] or phrase[3], phrase.end(), labels)
            yield Statement(PHRASE, letter, phrase.start(), end)


def called(text: str, labels: str) -> Iterator[Statement]:
    """Letters before "is the answer" or "is correct"; the latter is a conclusion."""
    for match in with_labels(_CALLED, labels).finditer(text):
        before = text[max(0, match.start() - WINDOW) : match.start()]
        if match[1] or _NAMED_BEFORE.search(before):
            letter = (
                None if with_labels(_OTHER_BEFORE, labels).search(before) else match[1] or match[2]
            )
            kind = PHRASE if match[3] or letter is None else CONCLUSION
            yield Statement(kind, letter, match.start(), match.end())


def conclusions(text: str, labels: str) -> Iterator[Statement]:
    """Letters in which an argument ends, and those alone on the first or last line."""
    for conclusion in with_labels(_CONCLUSION, labels).finditer(text):
        group = conclusion.lastindex or 0
        letter, end = _run(text, conclusion[group], conclusion.end(), labels)
        yield Statement(CONCLUSION, letter, conclusion.start(group), end)
    lines = list(with_labels(_LINE, labels).finditer(text))
    if len({line[1] or line[2] for line in lines}) == 1:  # else the choices are listed
        for line in (lines[0], lines[-1]):
            first, last = not text[: line.start()].strip(), not text[line.end() :].strip()
            begin, end = line.span(line.lastindex or 0)
            several = with_labels(_LISTS, labels).search(text, end, line.end())
            if (first or last) and not several and not text.startswith("A:", begin):  # "A: Let us"
                kind = CONCLUSION if first and last else PLACE
                yield Statement(kind, line[1] or line[2], line.start(), line.end())


def _run(
    text: str, letter: str, end: int, labels: str, *, most: int | None = None
) -> tuple[str | None, int]:
    """The letter, None where another is joined to it; and the end of the last joined one.

    most: where the text ends that is read.
    """
    letters, most = {letter}, len(text) if most is None else most
    while following := with_labels(_NEXT, labels).match(text, end, most):
        between, after = following[1], following.end()
        ends = _ENDS.match(text, after, most) is not None
        either = _EITHER.search(between) is not None and (ends or following[2] != "I")
        if between.rstrip().endswith(("(", "[", "{")):
            joined = "\n" not in between and not _CLAUSE.match(text, after)
            joined = joined and (ends or following[2] not in "AI")
        else:
            joined = _LISTED.search(between) is not None and ends
        if not (joined or either):
            break
        letters.add(following[2])
        end = after
    return (letter if len(letters) == 1 else None), end


_TYPED = str.maketrans("\u2018\u2019\u201c\u201d\u00a0\u2013", "''\"\" -")
"""Quotes, spaces and dashes as they are typed."""
_SMALL_ENDS = r"(?=[)*_`\"'$}]*+(?:[.;:!](?!\w)|\s*+\Z|[ \t]*+\n|,?\s(?:because|since)\b))"
_SMALL_STATED = rf"{_ADVERBS}{_BEFORE}{_NAMED}{_BEFORE}"
_SMALL = (
    # "(a)", but no part of an argument that begins a line
    r"(?:\w[ \t]{1,3}|[^\w\s][ \t]{0,3}|(?:[:=]|\bis)\s{1,3})\((@)(?=\))"
    r"|^[ \t*_]{0,9}+\((@)(?=\)[*_]*+(?:[.,;:]|\s(?:is|are|because|since|and|or)\b|[ \t]*+$))"
    rf"|\\(?:boxed|fbox)\s?\{{{_BEFORE}\(?(@)(?=\)?\s?\.?\}}|[).:][\s~}}])"
    rf"|(?i:<answer>){_BEFORE}\(?(@)(?=\)?[\s.]*+<|[).:]\s)|[\"']:\s{{0,3}}[\"'](@)[\"']"
    # "the answer is a" may go on
    rf"|{_ANSWER}[\s*_]*+(?:{_IS}{_SMALL_STATED}(?!a\s*+(?:$|[,:]))(@){_SMALL_ENDS}"
    rf"|[:=]{_SMALL_STATED}(@){_SMALL_ENDS})"
    rf"|(?:{_CHOICE}|{_PICK}\s)(@){_SMALL_ENDS}"
    r"|^[ \t*_`\"'>#]*+(@)(?=[*_`\"'.!)]*+[ \t]*+$)"
)
"""Where a small letter names a choice."""
_PHRASE_OF_TEXT = re.compile(
    rf"({_DENIAL}\s{{1,3}}+)?+{_ANSWER}[\s*_]*+(?:{_IS}|[:=]){_ADVERBS}([^\n]{{1,300}}+)"
)
"""Groups: what denies the phrase, the rest of its line."""
_LABELLED = r"[\s*_]*+\(?(@)[.):]{1,2}+[*_]*+\s++(\S.*+)"
"""A line that begins with a small letter or a number. Groups: this, the rest."""
_WORD = re.compile(r"[A-Za-z]{2}")
_SPECIES = re.compile(r"\b[A-Z]\. [a-z]{3,30}+")
_SENTENCE_END = re.compile(r"[.;!](?=\s)|,?\s(?:because|since|as)\s")
_IS_OPTION = (
    rf"{either('is', 'be')}[\s:*_]*+(?:\((@)\)|(@)[.):])[*_]*+\s++([^\n]{{1,300}}+)"
    r"(?!\s{1,3}[*_]{0,2}\(?@[.)])"  # else all are listed
)
"""Groups: a letter in brackets, a bare one, the rest of its line."""
_AMONG_OTHERS = re.compile(
    either("another", "one", "others?", "first", "second", "third", "example", "possib(?:le|ility)")
)
_LETTER_BEHIND = re.compile(
    r",?\s(?:\(|(?:which is )?(?i:option|choice)\s\(?)([A-Z])\)?[*_.\s]*+\Z"
)
_BREAK = re.compile(
    rf"[.!?;](?=\s)|\n|{either('so', 'hence', 'thus', 'therefore', 'but', 'however', 'in fact')}"
)
"""Where a clause begins, which what stands before does not govern."""
_DENIED = re.compile(
    r"(?i:\b(?:not|nor|neither|never|(?:wrong|incorrect|false) (?:answer|choice|option)(?: is)?)"
    r"(?: the (?:\w{1,12} )?(?:answer|choice|option)(?: is)?)?[ :$*({]*+(?:option |choice )?)\Z"
)
_PASSED_OVER = re.compile(
    rf"(?:(?<=[A-Z)}}\]$*])\s{either('over')}|"
    rf"{either('rather than', 'instead of', 'as opposed to')})"
    r"[\s:$*({<]*+(?i:(?:option|choice)\s)?[\s$*({<]*+\Z"
)
"""What stands before the one that was not preferred: "B over C", "B rather than C"."""
_SUPPOSE = either(
    *("if", "whether", "suppose", "supposing", "assume", "imagine", "assuming that"),
    "let(?:'s| us) say",
)
_SUPPOSED = re.compile(
    rf"{_SUPPOSE}(?: for (?:a )?(?:contradiction|moment))?,?"
    rf"(?: {either('that', 'now', 'instead')})?"
    rf"(?: {either('the', 'it', 'my', 'our')})?(?: \w{{1,12}})?(?: {either('answer is')})?"
    r"[\s:$*(]*+\Z"
)
_WOULD_BE = re.compile(either("would be"))
_UNREAL = re.compile(
    either(
        *("if", "suppose", "supposing", "assum(?:e|ing)", "imagine", "were", "had", "without"),
        *("then", "in (?:that|this|which) case", "otherwise", "unless"),
    )
)
"""What makes an answer that "would be" one under a condition, in the sentences around it."""
_UNDER = re.compile(either("if", "whether", "unless", "suppose", "supposing", "assume", "were"))
"""What makes a conclusion behind it one under a condition."""
_SAY = "(?:thought|(?:say|think|claim|guess|expect)s?|said|(?:claim|guess|expect)ed"
_SAY += "|(?:argue|believe|conclude)[sd]?)"
_OTHERS = "(?:some(?:one|body)?|many|others|people|students?|(?:text)?books?|one|he|she|they)"
_REPORTED = re.compile(
    either(
        rf"{_OTHERS}[^,]{{0,40}} {_SAY}",
        rf"(?:might|could|would|may) (?:be tempted to )?{_SAY}",
        *(r"(?:I|we) (?:\w{1,12} )?thought", "tempting", "at first (?:glance|sight)"),
        *("unlikely", "I doubt", "no way", "(?:false|wrong) that"),
    )
    + r"|(?i:n't|\bnot|\bnever|\bno)\b[^,]{0,20}"
    + either("think", "believe", "say", "sure", "certain", "clear", "true", "mean", "convinced")
)
_IF = re.compile(
    rf"[\s*_$)}}\]'\"`]*+(?:{either('only')}\s)?{either('if', 'unless', 'provided')}"
    rf"(?!\s{either('we', 'I', 'one')})"
)
"""A condition behind a statement; "if we round" is none."""
_WRONG = either(
    *("wrong", "incorrect", "false", "mistaken", "mistake", "error", "impossible", "absurd"),
    *("contradiction", "not (?:right|correct|possible|true)"),
)
_TAKEN_BACK = re.compile(
    rf"\W{{0,12}}(?:{either('hmm', 'wait', 'no', 'oh', 'but', 'however', 'actually', 'a')}"
    r"\W{1,4}){0,4}(?:"
    + either(
        *("contradiction", "scratch that", "I was wrong", "I (?:have )?made an? (?:mistake|error)"),
        "(?:that|this|it|which) (?:cannot|can't|can not) be (?:right|correct|true)",
    )
    + "|"
    + either("(?:that|this|it|he|she|they|which)(?: is|'s| are| was| were| leads to)")
    + rf"(?:\s(?!not\b)\w{{1,12}}){{0,2}}\s{_WRONG}(?!\s{either('to', 'for', 'that')}))"
)
_CORRECTION = re.compile(
    r"(?:^|[.!?;:\u2026\u2014,-])[ \t]*+(?:"
    + either(
        *("wait", "hmm", "actually", "correction", "sorry", "oops", "hold on", "recheck"),
        *("scratch that", "on second thoughts?", "let me (?:re|double.)check"),
    )
    + rf"|{either('no')}(?=[,:.!]))",
    re.MULTILINE,
)
_NAMED_IN_BOX = (
    r"(?<![\w\\^])((?!\d)@{1,4}|@)(?=[\s$]*+(?:[).,:;/&|{}\]]|\\text|$|(?:or|and|nor)\b))"
)
"""Letters in a box that holds something else, several where they are joined."""
_UNIT = re.compile(r"(?<=\d)(?:[\s~]|\\[ ,;]|\\(?:text|mathrm|rm)(?![a-z])|\{)*+[A-Z]{1,2}\b")
_DENIES = re.compile(
    either(
        *("none", "neither", "nothing", "not", "all", "any", "both", "either", "cannot", "unknown")
    )
)


def read_choice(
    response: str, labels: str = "ABCD", options: Mapping[str, str] | None = None
) -> Statement | None:
    """The statement that decides, None without one; its letter is None where nothing is settled.

    Linear in the length of the text. labels: what the problem's options are called. options: their
    texts, which a response may state in place of a letter.

    >>> texts = "Not A. The answer is (C).", r"so \\boxed{\\text{b}}"
    >>> [read_choice(text).letter for text in texts]
    ['C', 'B']
    >>> read_choice("Suppose the answer is (B).") is None
    True
    >>> read_choice("The answer is (B) or (C).").letter is None
    True
    """
    options = options or {}
    text = _prepared(spoken(response), labels, options)
    in_boxes, others = enclosed(text, labels)
    by_letter = chain(in_boxes, phrases(text, labels), called(text, labels))
    statements = [
        statement
        for statement in chain(by_letter, conclusions(text, labels))
        if not _is_void(text, statement)
    ]
    if all(statement.kind not in STATED for statement in statements):
        last = max((statement.start for statement in statements), default=-1)
        statements += [
            statement
            for statement in by_text(text, labels, options, others)
            if statement.start > last and not _is_void(text, statement)
        ]
    if not statements:
        return None
    last = max(statement.start for statement in statements)
    corrections = [mark.start() for mark in _CORRECTION.finditer(text, 0, last)]
    since = corrections[-1] if corrections else 0
    decides = min(
        (statement for statement in statements if statement.start >= since),
        key=lambda statement: (KINDS[statement.kind], -statement.start),
    )
    later = [other.content for other in others if other.start > decides.start]
    if any(_takes_back(content[:LONGEST_BOX], decides.letter, labels) for content in later):
        return decides._replace(letter=None)
    return decides


def _prepared(text: str, labels: str, options: Mapping[str, str]) -> str:
    """As it is typed, with capitals where small letters name a choice, and without the dots in
    names that stand in an option ("E. coli")."""
    text = text.translate(_TYPED)
    small = "".join(label for label in labels.lower() if label not in options.values())
    if "(ii)" in text:
        small = small.replace("i", "")
    if small:
        text = with_labels(_SMALL, small).sub(_with_capital, text)
    for name in {name for option in options.values() for name in _SPECIES.findall(option)}:
        text = text.replace(name, name.replace(".", "\u2024"))
    return text


def _with_capital(small: re.Match[str]) -> str:
    begin, end = small.span(small.lastindex or 0)
    whole, start = small[0], small.start()
    return (
        whole[: begin - start] + whole[begin - start : end - start].upper() + whole[end - start :]
    )


_COMMANDS = r"\\(?:text(?:bf|rm|sf)?|math(?:rm|bf|sf)|boxed|bf|rm|q?quad)(?![a-z])|\\[ ,;:!()\[\]]"
PRINT = rf"(?:{_COMMANDS}|[\s*_`$~{{}}])"
"""What shows only in print."""


def letter_with_text(text: str, options: Mapping[str, str]) -> str | None:
    """The letter of the one option whose text this is, whatever shows only in print, and the case
    unless two options differ by it; None where none is, or several are."""
    for fold in (_folded, lambda text: _folded(text).casefold()):
        letters = [letter for letter, option in options.items() if fold(option) == fold(text)]
        if letters and fold(text):
            return letters[0] if len(letters) == 1 else None
    return None


def _folded(text: str) -> str:
    return re.sub(PRINT, "", text).rstrip(".,;")


def by_text(
    text: str, labels: str, options: Mapping[str, str], others: list[Other]
) -> Iterator[Statement]:
    """Options whose text a response states: in a box or tag, behind "the answer is" or "is (B)",
    alone on the first or last line."""
    for other in others:
        if letter := letter_with_text(other.content, options):
            yield Statement(other.kind, letter, other.start, other.end)
    for phrase in _PHRASE_OF_TEXT.finditer(text) if options else ():
        begin, end = phrase.span(2)
        sentence = _SENTENCE_END.search(text, begin, end)
        for stop in (end, sentence.start() if sentence else end):
            letter = _text_and_letter(text[begin:stop], options)
            if letter is not None and phrase[1] is None:
                yield Statement(PHRASE, letter, phrase.start(), stop)
                break
    for option in with_labels(_IS_OPTION, labels).finditer(text) if options else ():
        begin, end = option.span(3)
        sentence = _SENTENCE_END.search(text, begin, end)
        letter = letter_with_text(text[begin : sentence.start() if sentence else end], options)
        clause = _BREAK.split(text[max(0, option.start() - WINDOW) : option.start()])[-1]
        if letter in (option[1], option[2]) and letter and not _AMONG_OTHERS.search(clause):
            yield Statement(CONCLUSION, letter, option.start(), end)
    lines = text.strip().splitlines()
    for line in dict.fromkeys((*lines[:1], *lines[-1:])):
        is_all = len(lines) == 1
        letter = _text_and_letter(line, options)
        if labelled := with_labels(_LABELLED, labels.lower()).fullmatch(line):
            named, option_letter = labelled[1].upper(), letter_with_text(labelled[2], options)
            is_short = not options and is_all and len(line) <= LONGEST_BOX
            letter = named if option_letter == named or is_short else None
        if letter and (is_all or _WORD.search(line)):  # a number may be the last of a calculation
            start = text.find(line) if line == lines[0] else text.rfind(line)
            yield Statement(CONCLUSION if is_all else PLACE, letter, start, start + len(line))


def _text_and_letter(text: str, options: Mapping[str, str]) -> str | None:
    """The option of a text, behind which its letter may stand: "Noether (F)", "5 cm, option B"."""
    text = text.replace("\u2024", ".")
    named = _LETTER_BEHIND.search(text)
    letter = letter_with_text(text[: named.start()] if named else text, options)
    return letter if named is None or letter == named[1] else None


def _is_void(text: str, statement: Statement) -> bool:
    """Whether it is denied, supposed, reported, under a condition, or called wrong behind."""
    behind = text[statement.end : statement.end + WINDOW]
    before = text[max(0, statement.start - WINDOW) : statement.start]
    clause = _BREAK.split(before)[-1]
    would_be = _WOULD_BE.search(text, statement.start, statement.end) is not None
    return (
        _DENIED.search(clause) is not None
        or _PASSED_OVER.search(clause) is not None
        or _SUPPOSED.search(clause) is not None
        or (statement.kind in (PHRASE, *WEAK) and _REPORTED.search(clause) is not None)
        or (statement.kind in WEAK and _UNDER.search(clause) is not None)
        or (would_be and _UNREAL.search(before + _BREAK.split(behind, 1)[0]) is not None)
        or _TAKEN_BACK.match(behind) is not None
        or _IF.match(behind) is not None
    )


def _takes_back(box: str, letter: str | None, labels: str) -> bool:
    """Whether a box or tag with something else says that it is another letter, or none."""
    names = with_labels(_NAMED_IN_BOX, labels).findall(_UNIT.sub("", box))
    return bool(set("".join(names)) - {letter}) or _DENIES.search(box) is not None
