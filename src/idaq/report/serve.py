"""The page of runs as they progress, served to this machine only."""

import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.report.page import page_payload, render_page

HOST = "127.0.0.1"
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


def make_server(places: Sequence[Path], port: int) -> ThreadingHTTPServer:
    """A server of the places' page, which does not serve yet."""
    source = Source(places)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
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
        return ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise IdaqError(
            f"Port {port} cannot be used: {error}.", "Choose another `port`."
        ) from error


def serve(places: Sequence[Path], port: int, say: Callable[[str], None]) -> None:
    """Serve the page until it is interrupted."""
    missing = [str(place) for place in places if not place.is_dir()]
    if missing:
        raise IdaqError(f"There is no directory '{missing[0]}'.", "Name one that holds runs.")
    with make_server(places, port) as server:
        say(f"http://{HOST}:{server.server_address[1]}/ (Ctrl-C ends it)")
        server.serve_forever()
