"""A local publisher in the layout of Hugging Face: resolve addresses that redirect to a store.

`/datasets/<id>/resolve/<revision>/<file>` (models without `/datasets`) answers 302 with the commit,
the digest and the size, and the store at `/cdn/<file>` serves bytes, ranges of them too.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BLOCK = 16_384


class Publisher:
    """Files by address, e.g. `datasets/org/name/deepscaler.json`, and what was asked for."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.store = address.replace("127.0.0.1", "localhost")
        """Another host, as at the publisher's: its answers name no commit."""
        self.files: dict[str, bytes] = {}
        self.digests: dict[str, str] = {}
        """Digests to publish in place of the true ones."""
        self.asked: list[tuple[str, str, str | None]] = []
        """(method, path, range)."""
        self.stall_after: int | None = None
        """Bytes after which a transfer waits."""
        self.token: str | None = None
        """What opens every repository; None where none is gated."""
        self.stalled = threading.Event()
        self.go_on = threading.Event()

    def served(self) -> list[str | None]:
        """Range of every transfer from the store."""
        return [span for method, path, span in self.asked if method == "GET" and "/cdn/" in path]


@contextmanager
def publisher() -> Iterator[Publisher]:
    """A running publisher."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            span = self.headers.get("Range")
            here.asked.append((self.command, self.path, span))
            path = self.path.lstrip("/")
            if path.startswith("cdn/"):
                self.store(path.removeprefix("cdn/"), span)
                return
            repository, _, rest = path.partition("/resolve/")
            revision, _, name = rest.partition("/")
            if here.token and self.headers.get("Authorization") != f"Bearer {here.token}":
                self.reply(401, {"X-Error-Code": "GatedRepo", "Content-Length": "0"})
                return
            if path.startswith("api/"):  # no repository is described
                self.reply(404, {"X-Error-Code": "RepoNotFound", "Content-Length": "0"})
                return
            key = f"{repository}/{name}"
            if key not in here.files or revision not in ("main", COMMIT):
                self.reply(404, {"X-Error-Code": "EntryNotFound", "Content-Length": "0"})
                return
            digest = here.digests.get(key, hashlib.sha256(here.files[key]).hexdigest())
            facts = {
                "X-Repo-Commit": COMMIT,
                "X-Linked-Etag": f'"{digest}"',
                "X-Linked-Size": str(len(here.files[key])),
                "Location": f"{here.store}/cdn/{key}",
                "Content-Length": "0",
            }
            self.reply(302, facts)

        def store(self, key: str, span: str | None) -> None:
            content = here.files[key]
            first = int(span.removeprefix("bytes=").split("-")[0]) if span else 0
            facts = {"Content-Length": str(len(content) - first), "Accept-Ranges": "bytes"}
            if span:
                facts["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            self.reply(206 if span else 200, facts)
            if self.command == "HEAD":
                return
            for start in range(first, len(content), BLOCK):
                if here.stall_after is not None and start >= here.stall_after:
                    here.stalled.set()
                    here.go_on.wait(30)
                self.wfile.write(content[start : start + BLOCK])

        def reply(self, status: int, facts: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in facts.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the other side was killed
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Publisher(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield here
    finally:
        here.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
