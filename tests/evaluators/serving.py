"""A small server that speaks OpenAI's protocol and adds, with faults by a plan."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

POLICY = {"id": "policy", "owned_by": "vllm", "root": "/models/policy", "max_model_len": 4096}
"""A model as vLLM lists it."""


class Adding(ThreadingHTTPServer):
    """Answers the last sum of a prompt, right for seeds that are even."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models: list[dict[str, Any]] = [POLICY, {"id": "other", "owned_by": "vllm"}]
        self.faults: deque[str | None] = deque()  # None: it answers
        """Of the next requests for a draw: a code, `drop`, `html` or `empty`."""
        self.gone = False
        """Whether every request for a draw is answered by 503."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Name and body of every request for a draw, in order."""
        self.keys: list[str | None] = []
        """Authorization of every request."""
        self.answered: list[int] = []
        """Seeds of the draws that were answered."""
        self.hold_from: int | None = None
        """Number of answers after which requests wait; None: none waits."""
        self.released, self.lock = Event(), Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: Any) -> None:
        """A client that was killed is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Adding
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.keys.append(self.headers["Authorization"])
        if self.path == "/v1/models":
            self._answer(200, {"object": "list", "data": self.server.models})
        else:
            self._answer(404, {"error": {"message": "no such path"}})

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.keys.append(self.headers["Authorization"])
            server.asked.append((self.path.removeprefix("/v1/"), body))
            fault = "503" if server.gone else server.faults.popleft() if server.faults else None
        if fault == "drop":
            self.close_connection = True
            self.connection.close()
        elif fault == "html":
            self._send(200, b"<html>who are you</html>")
        elif fault == "empty":
            self._answer(200, {"choices": [], "usage": {}})
        elif fault is not None:
            said = f"key {self.headers['Authorization']}\nis refused"
            self._answer(int(fault), {"error": {"message": said}})
        else:
            self._draw(body)

    def _draw(self, body: dict[str, Any]) -> None:
        server = self.server
        with server.lock:
            waits = server.hold_from is not None and len(server.answered) >= server.hold_from
            if not waits:
                server.answered.append(body["seed"])
        if waits:
            server.released.wait(60)
            self.close_connection = True
            return
        is_chat = "messages" in body
        text = body["messages"][-1]["content"] if is_chat else body["prompt"]
        first, second = re.findall(r"(\d+) \+ (\d+)", text)[-1]
        total = int(first) + int(second) + body["seed"] % 2
        said = f"It is \\boxed{{{total}}}"
        choice = {"message": {"role": "assistant", "content": said}} if is_chat else {"text": said}
        end = "length" if body["seed"] % 4 == 0 else "stop"
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        self._answer(200, {"choices": [choice | {"finish_reason": end}], "usage": usage})

    def _answer(self, code: int, value: dict[str, Any]) -> None:
        self._send(code, json.dumps(value).encode())

    def _send(self, code: int, content: bytes) -> None:
        self.send_response(code)
        if code == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Adding]:
    """Such a server while it is needed."""
    server = Adding()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
