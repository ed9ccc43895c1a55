"""Words of ours on the pages, each with its meaning: marked once a page where it first stands, for
the pointer, the keyboard and screen readers.

In: text of ours. Out: markup in which such a word can have the focus, and at the end of the page
their meanings. Next: docs/start/glossary.md, which has more words; app.js, which shows a meaning
beside its word.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from markupsafe import Markup, escape

from dashboards.text import visible


class Term(NamedTuple):
    """A word that a page explains."""

    pattern: str
    """Where it stands in a text, as a regular expression."""
    meaning: str


TERMS = {
    "at equal pass@1": Term(
        r"\b[Aa]t equal pass@1\b",
        "compared where both reach the same pass@1 in training, so that a faster method has no "
        "disadvantage",
    ),
    "pass@k": Term(
        r"\bpass@(?:k|\d+)\b",
        "the chance that at least one of k draws is correct, estimated from n draws of each "
        "problem",
    ),
    "focal weight": Term(
        r"\bfocal weight\b",
        "(1 - success rate) ** gamma, multiplied onto a group's advantages: groups that mostly "
        "succeed teach less",
    ),
    "gamma": Term(r"\bgamma\b", "exponent of the focal weight; 0 is no focal weight"),
    "base model": Term(
        r"\b[Bb]ase models?\b", "the model before reinforcement learning, one per training seed"
    ),
    "cell": Term(
        r"\bcells?\b", "a setting of the method over all seeds, e.g. F-GRPO, N = 8, gamma = 0.5"
    ),
    # "points" in a sentence are percentage points.
    "point": Term(r"^[Pp]oints?$|\bby point$", "a cell with one seed: one training run"),
    "draw": Term(r"\b[Dd]raws?\b", "a response sampled in an evaluation"),
    "rollout": Term(r"\b[Rr]ollouts?\b", "a response sampled in training"),
    "significant": Term(
        r"\bsignificant\b", "a difference that holds after Holm's correction in its family"
    ),
    "suggestive": Term(
        r"\bsuggestive\b",
        "the 95% interval excludes 0, but the difference is outside the family or does not hold "
        "after the correction",
    ),
    "inconclusive": Term(
        r"\b[Ii]nconclusive\b", "neither significant nor suggestive; not the same as no difference"
    ),
    "Holm": Term(
        r"\bHolm\b",
        "the correction: with it the chance of one false claim or more in the family, the "
        "comparisons that a sweep declares before it has results, stays below 5%",
    ),
    "p draws": Term(
        r"\bp draws\b",
        "p of the luck of the draws alone; it conditions on these models and problems",
    ),
    "plane": Term(
        r"\bplane\b", "the figure of pass@1 against pass@k: up and to the right is better"
    ),
    "dominated": Term(
        r"\bdominated\b",
        "another cell is significantly better at one of the two k and not worse at the other",
    ),
    "within reach": Term(
        r"\b[Ww]ithin reach\b", "k draws more likely than not contain a correct one"
    ),
    "retained, lost, gained": Term(
        r"^Retained, gained and lost$|^lost$",
        "problems within reach of k draws before and after training, before alone, after alone",
    ),
    "active": Term(
        r"\bactive\b", "a group with an advantage that is not 0: neither all right nor all wrong"
    ),
    "entropy": Term(r"\bentropy\b", "of the policy as it samples, in nats per token"),
    "gap": Term(
        r": gap$",
        "how far rollout engine and policy disagree on the same tokens, in nats per token",
    ),
    "clipped": Term(r"\bclipped\b", "share of tokens cut by the clip bounds"),
    "truncated": Term(r"\btruncated\b", "a response cut off at the longest length"),
    "unscored": Term(
        r"\bunscored\b", "a draw that the grader could not judge; neither right nor wrong"
    ),
}
"""By the word, the longer before those that are a part of them."""
_ANY = re.compile("|".join(f"(?P<t{i}>{term.pattern})" for i, term in enumerate(TERMS.values())))


class Glossary:
    """The words of one page, in the order of their marks."""

    def __init__(self) -> None:
        self.used: dict[str, str] = {}
        """Meanings by the part of the page that holds them."""

    def mark(self, text: str) -> Markup:
        """The text, escaped, with the words marked that were not marked before."""
        text, parts, end = visible(text), Markup(""), 0
        for match in _ANY.finditer(text):
            place = int(str(match.lastgroup)[1:])
            name = f"term-{place}"
            if name in self.used:
                continue
            self.used[name] = list(TERMS.values())[place].meaning
            word = Markup('<dfn class="term" tabindex="0" aria-describedby="{}">{}</dfn>')
            parts += escape(text[end : match.start()]) + word.format(name, match[0])
            end = match.end()
        return parts + escape(text[end:])
