"""A grader for short sums: `--grader requirements.last_number:grade`.

The grader `math` takes `52 + 56`, with which a small model begins many a response, for its own sum.
"""

import re


def grade(response: str, answer: str) -> bool:
    """Whether the last number of a response is the answer.

    >>> grade("52 + 56 = 108.", "108"), grade("108? That is 52 + 56", "108")
    (True, False)
    """
    numbers = re.findall(r"\d++", response.replace(",", ""))
    return bool(numbers) and numbers[-1] == answer
