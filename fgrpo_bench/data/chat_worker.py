"""The process that applies a chat template; see `chat`."""

from __future__ import annotations

from typing import Any

from fgrpo_bench.graders.judge_worker import serve_questions

LONGEST = 10_000_000
"""Characters of a text: far beyond any context."""


def load() -> dict[str, Any]:
    """Import what applies templates."""
    import transformers.utils.chat_template_utils  # noqa: F401

    return {}


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """`text`, or the reason why there is none, for the sentence that begins with "it"."""
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        rendered: Any = render_jinja_template(
            conversations=[request["chat"]],
            chat_template=request["template"],
            add_generation_prompt=True,
            **request["arguments"],
        )
    except MemoryError:
        raise
    except Exception as error:
        message = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return {"outcome": "unscored", "reason": f"raised {message}"}
    text = rendered[0][0]
    if len(text) > LONGEST:
        reason = f"wrote a text of more than {LONGEST:,} characters"
        return {"outcome": "unscored", "reason": reason}
    return {"outcome": "correct", "reason": "written", "text": text}


if __name__ == "__main__":
    serve_questions(load, judge)
