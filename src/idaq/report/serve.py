"""The page of runs as they progress, served to this machine only."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.report.page import page_payload, render_page

HOST = "127.0.0.1"
NAMES = {HOST, "localhost", "[::1]"}  # a browser that names another was sent here by its page
TIMEOUT_SECONDS = 10.0  # for a request to come, or for an answer to be taken
WATCHED = ("run.json", "seeds.json", "summary.json", "adapt/*/*.npz", "seeds/*/metrics.jsonl")


class Source:
    """The payload of the page, made again when a file has changed."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._places, self._lock = list(places), Lock()
        self._stamp, self._payload = "", {}  # type: tuple[str, Json]

    def payload(self) -> Json:
        with self._lock:
            stamp = self._now()
            if stamp != self._stamp:
                try:
                    made = page_payload(self._places)
                except (IdaqError, OSError):  # no run yet, or one that is being written
                    made = self._payload or page_payload([])
                self._payload = made | {"live": True, "stamp": stamp}
                self._stamp = stamp
            return self._payload

    def _now(self) -> str:
        """A stamp that changes when a result does."""
        newest, count = 0, 0
        for place in self._places:
            for pattern in WATCHED:
                for file in place.rglob(pattern):
                    count += 1
                    newest = max(newest, file.stat().st_mtime_ns)
        return f"{count}-{newest}"


class Server(ThreadingHTTPServer):
    """One that does not report clients that have gone, or take too long."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def make_server(places: Sequence[Path], port: int) -> ThreadingHTTPServer:
    """A server of the places' page, which does not serve yet."""
    source = Source(places)

    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_SECONDS

        def do_GET(self) -> None:
            if not _is_here(self.headers.get("Host", "")):
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
                return
            try:
                url = urlsplit(self.path)
            except ValueError:
                self.send_error(HTTPStatus.BAD_REQUEST)
                return
            payload = source.payload()
            if url.path == "/":
                self._answer("text/html; charset=utf-8", render_page(payload))
            elif url.path == "/data.json" and url.query == payload["stamp"]:
                self.send_response(HTTPStatus.NO_CONTENT)
                self.end_headers()
            elif url.path == "/data.json":
                self._answer("application/json", json.dumps(payload, allow_nan=False))
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _answer(self, kind: str, text: str) -> None:
            content = text.encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing: requests are the page's own, every few seconds."""

    try:
        return Server((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise IdaqError(
            f"Port {port} cannot be used: {error}.", "Choose another `port`."
        ) from error


def _is_here(host: str) -> bool:
    """Whether a request means this machine; the port may be that of a tunnel."""
    return re.sub(r":[0-9]*$", "", host).lower() in NAMES


def serve(
    places: Sequence[Path],
    port: int,
    say: Callable[[str], None],
    check_stopped: Callable[[], None] = lambda: None,
) -> None:
    """Serve the page until it is interrupted; `check_stopped` is called twice a second."""
    missing = [str(place) for place in places if not place.is_dir()]
    if missing:
        raise IdaqError(f"There is no directory '{missing[0]}'.", "Name one that holds runs.")
    with make_server(places, port) as server:
        say(f"http://{HOST}:{server.server_address[1]}/ (Ctrl-C ends it)")
        server.service_actions = check_stopped  # type: ignore[method-assign]
        server.serve_forever()
