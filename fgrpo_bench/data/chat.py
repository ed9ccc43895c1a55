"""A problem as a model's chat template writes it.

In: a tokenizer of transformers and the messages of a chat. Out: its text. A template is somebody's
code, in a sandbox that bounds neither time nor memory, so it runs in a process with limits of both
that can be killed (`chat_worker`, started as fgrpo_bench.graders starts judges), never here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrpo_bench.graders.worker import OfProcess, Workers

SECONDS, WALL_SECONDS = 5.0, 60.0
"""Of processor and on the wall for a chat."""
MEGABYTES = 1024
"""Address space of the process."""
LIFETIME = 1_000_000
"""Chats after which a process is replaced."""


def chat_tokens(
    tokenizer: Any, chat: Sequence[dict[str, str]], *, prefix: str = "", **arguments: Any
) -> list[int]:
    """Token ids of a chat up to where the model's answer begins, and of what it begins with.

    prefix: read as one text with the chat, as a token may reach over both. arguments: further ones
    of the template. ValueError where the template raises or breaks a limit.
    """
    if tokenizer.chat_template is None:  # e.g. of mistral_common, which writes chats itself
        if prefix:
            raise ValueError(
                f"the tokenizer of {tokenizer.name_or_path} writes chats itself, so that nothing "
                "can be put behind them: leave --prefix out, or add --no-chat-template"
            )
        return list(
            tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, return_dict=False, **arguments
            )
        )
    request = {
        "template": tokenizer.get_chat_template(),
        "chat": chat,
        "arguments": tokenizer.special_tokens_map | arguments,
    }
    reply = _processes().ask(request, WALL_SECONDS)
    if "text" not in reply:
        raise ValueError(
            f"the chat template of {tokenizer.name_or_path} cannot be applied to a problem: it "
            f"{reply['reason']}; mend chat_template.jinja (or tokenizer_config.json), or ask "
            "without it (prompt=plain; under a sweep experiment.train.prompt.chat_template=false)"
        )
    # a template writes the special tokens itself
    return list(tokenizer(reply["text"] + prefix, add_special_tokens=False)["input_ids"])


_processes = OfProcess(
    lambda: Workers(
        1,
        seconds=SECONDS,
        megabytes=MEGABYTES,
        lifetime=LIFETIME,
        module="fgrpo_bench.data.chat_worker",
    )
)
"""The process that applies templates for this one."""
