"""The page is served to this machine alone, and nobody can make it wait or fail."""

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from idaq.report import serve as module
from idaq.report.serve import make_server
from tests.report.test_figures import make_run


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    make_run(tmp_path / "run", methods=("posterior",), with_data=False)
    with make_server([tmp_path], 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


def answer(port: int, request: str) -> str:
    """The first line of what the server says."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request.encode())
        return connection.makefile("rb").readline().decode()


def get(port: int, path: str = "/", host: str = "127.0.0.1") -> str:
    return answer(port, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8765", "LOCALHOST:9000", "[::1]:8765"])
def test_this_machine_is_answered(port: int, host: str) -> None:
    """The port may be another one, as through a tunnel."""
    assert " 200 " in get(port, host=host)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "localhost.evil", "", "x:y"])
def test_other_names_of_this_machine_are_not(port: int, host: str) -> None:
    """A page elsewhere whose name leads here (DNS rebinding) reads nothing."""
    assert " 421 " in get(port, host=host)
    assert " 421 " in get(port, "/data.json", host=host)


def test_a_request_without_a_host(port: int) -> None:
    assert " 421 " in answer(port, "GET / HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize("path", ["http://[", "//[", "http://[::1", "/\x00", "/none"])
def test_addresses_that_are_none(port: int, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert any(code in get(port, path) for code in (" 400 ", " 404 "))
    assert " 200 " in get(port)
    assert "Traceback" not in capsys.readouterr().err


def test_a_silent_client_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)
    with make_server([tmp_path], 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with socket.create_connection(("127.0.0.1", server.server_address[1]), 20) as client:
                assert client.recv(1) == b"", "the connection is closed"
        finally:
            server.shutdown()
            thread.join()


def test_a_client_that_goes_away(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
    assert " 200 " in get(port)
    assert "Traceback" not in capsys.readouterr().err


def test_a_damaged_run_is_listed(port: int, tmp_path: Path) -> None:
    (tmp_path / "run/adapt/posterior/seed-000.npz").write_bytes(b"x")
    (tmp_path / "run/summary.json").unlink(missing_ok=True)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET /data.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert b"seed-000.npz' cannot be read" in client.makefile("rb").read()
