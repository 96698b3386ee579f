"""Tasks in processes: results in order, the dead replaced, errors without data, nothing left."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.partitions.store import Serial
from tasks.common.errors import Fault
from tasks.common.home import make_private
from tasks.engine.local import LocalPool
from tasks.engine.progress import Progress
from tasks.engine.store import EncryptedStore, new_key
from tests.tasks.engine import partition_tasks as tasks

CANARY = 73_113_377.25


@pytest.fixture(scope="module")
def seen() -> list[Progress]:
    return []


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, seen: list[Progress]) -> Iterator[LocalPool]:
    store = EncryptedStore(make_private(tmp_path_factory.mktemp("home") / "columns"), new_key())
    for partition in range(5):
        store.write("x", partition, np.arange(10.0) + partition)
    store.write("canary", 0, np.full(10, CANARY))
    with LocalPool(store, 2, seen.append) as pool:
        yield pool


def workers() -> list[psutil.Process]:
    """Return the processes of pools; their parent is the process that they are copies of."""
    return [child for child in psutil.Process().children(recursive=True) if child.ppid() != os.getpid()]


def test_results_are_those_of_one_process_in_their_order(pool: LocalPool, seen: list[Progress]) -> None:
    pids = pool.map(tasks.doubled, range(5), [0.3, 0, 0, 0, 0])
    assert len(set(pids)) == 2
    assert os.getpid() not in pids
    assert [(p.step, p.done, p.tasks) for p in seen] == [("doubled", n, 5) for n in range(2, 6)]
    sums = pool.map(tasks.total, ["doubled"] * 5, range(5))
    assert sums == Serial(pool.store).map(tasks.total, ["doubled"] * 5, range(5)) == [90.0 + 20 * p for p in range(5)]
    assert pool.map(tasks.total, [], []) == []


def test_a_task_whose_process_is_killed_is_carried_out_again(pool: LocalPool, tmp_path: Path) -> None:
    assert pool.map(tasks.killed, range(4), [str(tmp_path)] * 4, [0, 2, 0, 1]) == [0, 1, 2, 3]
    with pytest.raises(Fault, match="ended 4 times on the same task; most often memory ran out"):
        pool.map(tasks.killed, [9], [str(tmp_path)], [99])


def test_errors_come_back_by_kind_and_without_data(pool: LocalPool) -> None:
    with pytest.raises(InfeasibleError, match="k must be at most 4"):
        pool.map(tasks.infeasible, [4])
    with pytest.raises(AnonymizationError, match="no chunk of column y"):
        pool.map(tasks.total, ["y"], [0])
    with pytest.raises(Fault, match="unexpected ValueError") as caught:
        pool.map(tasks.quoting, ["canary"])
    assert "7311" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(Fault, match="a task replaces what it has read, column x, partition 1"):
        pool.map(tasks.replacing, [1])
    with pytest.raises(Fault, match="unexpected"):
        pool.map(tasks.unanswerable, [1])
    with pytest.raises(Fault, match="cannot be sent to another process"):
        pool.map(lambda store, partition: 0, [0])
    assert not workers()


def test_a_step_that_is_cancelled_leaves_no_process(pool: LocalPool) -> None:
    def cancel(progress: Progress) -> None:
        assert workers()
        raise KeyboardInterrupt

    with LocalPool(pool.store, 2, cancel) as cancelled, pytest.raises(KeyboardInterrupt):
        cancelled.map(tasks.doubled, [0, 1, 2, 3], [0.0, 0.0, 99.0, 99.0])
    assert not workers()


ENDLESS = """
    import sys, numpy as np
    from pathlib import Path
    from tasks.common.home import make_private
    from tasks.engine.local import LocalPool
    from tasks.engine.store import EncryptedStore, new_key
    from tests.tasks.engine import partition_tasks as tasks

    if __name__ == "__main__":
        store = EncryptedStore(make_private(Path(sys.argv[1])), new_key())
        for partition in range(2):
            store.write("x", partition, np.full(1000, 73_113_377.25))
        with LocalPool(store, 1, lambda progress: print("done", flush=True)) as pool:
            pool.map(tasks.doubled, [0, 1], [0.0, 99.0])
"""


def test_a_run_that_is_killed_leaves_ciphertext_and_no_process(tmp_path: Path) -> None:
    script, folder = tmp_path / "endless.py", tmp_path / "columns"
    script.write_text(textwrap.dedent(ENDLESS))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.Popen(
        [sys.executable, script, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert run.stdout is not None
    assert run.stdout.readline() == b"done\n"
    group = psutil.Process(run.pid).children(recursive=True)
    assert len(group) == 3
    assert not any(b"73113377" in " ".join(child.cmdline()).encode() for child in group)
    run.kill()
    run.communicate(timeout=20)
    deadline = time.monotonic() + 10
    while any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in group):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert len(left) == 3
    assert not any(np.float64(73_113_377.25).tobytes() in path.read_bytes() for path in left)


ENGINES = {
    "local": """
        from tasks.engine.store import EncryptedStore, new_key
        from tasks.engine.local import LocalPool
        from tests.tasks.engine import partition_tasks as tasks
        store = EncryptedStore(home, new_key())
        store.write("x", 0, np.arange(3.0))
        with LocalPool(store, 1) as pool:
            assert len(pool.map(tasks.doubled, [0], [0])) == 1
    """,
    "dask": """
        from tasks.engine.cluster.connection import started
        with started(1, home) as client:
            assert client.submit(abs, -1).result() == 1
    """,
}


INTERRUPTED = {
    "local": """
        from tasks.engine.store import EncryptedStore, new_key
        from tasks.engine.local import LocalPool
        from tests.tasks.engine import partition_tasks as tasks
        store = EncryptedStore(home, new_key())
        for partition in range(4):
            store.write("x", partition, np.arange(3.0))
        with LocalPool(store, 2, lambda progress: print("done", flush=True)) as pool:
            pool.map(tasks.doubled, [0, 1, 2, 3], [0.0, 0.0, 99.0, 99.0])
    """,
    "dask": """
        import time
        from tasks.engine.cluster.connection import started
        with started(2, home) as client:
            client.submit(abs, -1).result()
            print("done", flush=True)
            client.submit(time.sleep, 99).result()
    """,
}


def _script(folder: Path, body: str) -> list[str]:
    """Return the command of a script in another folder, as the installed command is: the current one is not sought."""
    script = folder / "apart" / "script.py"
    script.parent.mkdir()
    head = f"""
        import signal
        from pathlib import Path
        import numpy as np
        from tasks.common.home import make_private
        if __name__ == "__main__":
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
            home = make_private(Path({str(folder / "home")!r}))
    """
    script.write_text(textwrap.dedent(head) + textwrap.indent(textwrap.dedent(body), "    "))
    return [sys.executable, str(script)]


@pytest.mark.parametrize("engine", INTERRUPTED)
def test_an_interrupt_from_the_terminal_is_said_once(tmp_path: Path, engine: str) -> None:
    """It reaches all processes of the group, of which each said where it was interrupted."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    run = subprocess.Popen(
        _script(tmp_path, INTERRUPTED[engine]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "done\n"
    group = psutil.Process(run.pid).children(recursive=True)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert said.count("Traceback") == 1, said
    assert said.rstrip().endswith("KeyboardInterrupt")
    psutil.wait_procs(group, timeout=20)
    assert not any(child.is_running() for child in group)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_process_carries_out_files_of_the_current_folder(tmp_path: Path, engine: str) -> None:
    """Whoever may write to a shared folder of plans would otherwise run programs as the custodian."""
    plans, ran = tmp_path / "plans", tmp_path / "ran"
    plans.mkdir()
    for name in ("html", "csv", "statistics", "signal", "dask", "numpy"):
        (plans / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name}')")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    command = _script(tmp_path, ENGINES[engine])
    done = subprocess.run(command, cwd=plans, env=environment, capture_output=True, text=True)
    assert not ran.exists(), ran.read_text()
    assert done.returncode == 0, done.stderr
