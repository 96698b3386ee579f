"""Sockets of servers, and requests to them."""

from __future__ import annotations

import pytest

from flows.servers.process import answers, listen, listen_near


def test_a_taken_port_is_refused_or_replaced_by_the_next() -> None:
    with listen() as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            listen(port)
        with listen_near(port) as other:
            assert 0 < other.getsockname()[1] - port < 20 or other.getsockname()[1] != port


def test_a_server_that_is_not_there_does_not_answer() -> None:
    with listen() as sock:
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        assert not answers(address, "/", 0.1)
    assert not answers(address, "/", 0.1)
