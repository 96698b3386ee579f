"""No run calls another machine: whatever a process or its children try is noted and refused."""

from __future__ import annotations

import sys

import pytest

from tests.reliability.outcomes import alone_in_a_network
from tests.reliability.running import Place

pytestmark = pytest.mark.platform
TRIES = """
import socket, subprocess, sys
def tried(call):
    try: call()
    except OSError: pass
tried(lambda: socket.create_connection(("192.0.2.1", 9)))
tried(lambda: socket.getaddrinfo("example.org", 80))
tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.2", 9)))
tried(lambda: socket.create_connection(("127.0.0.1", 9)))
if len(sys.argv) < 2: subprocess.run([sys.executable, __file__, "child"])
"""


def test_what_calls_another_machine_is_noted(place: Place) -> None:
    place.clear()
    script = place.root / "input" / "tries.py"
    script.write_text(TRIES)
    import subprocess

    subprocess.run([sys.executable, str(script)], env=place.environment(), cwd=place.left / "work", check=True)
    once = ["socket.getaddrinfo '192.0.2.1'", "socket.getaddrinfo 'example.org'", "socket.sendto '192.0.2.2'"]
    assert place.beyond() == once * 2


def test_a_release_through_prefect_calls_nobody(place: Place) -> None:
    """Prefect with its server, MLflow and Great Expectations are in it."""
    place.clear()
    done = place.command("demo", "--json")
    assert done.code == 0, done.said
    assert place.beyond() == []


def test_a_release_needs_no_network(place: Place) -> None:
    place.clear()
    done = alone_in_a_network(place, "run", str(place.plan), "--inline")
    if done is None:
        pytest.skip("no network of its own may be made here")
    assert done.code in (0, 4), done.said
