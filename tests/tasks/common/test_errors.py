"""What may leave a task: a code and a safe message, and nothing of the cause."""

from __future__ import annotations

import errno
import io
import pickle
import sqlite3
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.microdata import Microdata, Schema, Variable
from tasks.common.errors import (
    DISK_FULL,
    Busy,
    ExitCode,
    Fault,
    InputOutputFault,
    Refused,
    ReleaseError,
    sanitise_errors,
    visible,
)

CANARY = "CANARY-4711"


def caught(function: Callable[[], object]) -> ReleaseError:
    with pytest.raises(ReleaseError) as raised:
        sanitise_errors(function)()
    return raised.value


def raising(error: BaseException) -> Callable[[], object]:
    def task() -> None:
        raise error

    return task


def chained() -> None:
    try:
        int(CANARY)
    except ValueError as error:
        raise RuntimeError(f"while reading {CANARY}") from error


def in_context() -> None:
    try:
        {}[CANARY]
    except KeyError:
        raise OSError(CANARY)  # noqa: B904  the implicit chain is what is tested


def grouped() -> None:
    raise ExceptionGroup(CANARY, [ValueError(CANARY)])


def with_note() -> None:
    error = Refused("the plan is wrong")
    error.add_note(CANARY)
    error.row = CANARY  # type: ignore[attr-defined]
    raise error


def pandas_numbers() -> None:
    pd.to_numeric(pd.Series([CANARY]))


def pandas_parser() -> None:
    pd.read_csv(io.StringIO(f"a\n1\n{CANARY},{CANARY}\n"), dtype={"a": float})


def pandas_key() -> None:
    pd.DataFrame({"a": [1]})[CANARY]


FOREIGN: dict[str, tuple[Callable[[], object], type[ReleaseError]]] = {
    "value": (raising(ValueError(CANARY)), Fault),
    "key": (raising(KeyError(CANARY)), Fault),
    "unicode": (lambda: (CANARY.encode() + b"\xff").decode(), Fault),
    "chained": (chained, Fault),
    "context": (in_context, InputOutputFault),
    "group": (grouped, Fault),
    "memory": (raising(MemoryError(CANARY)), Fault),
    "os text": (raising(OSError(CANARY)), InputOutputFault),
    "os reason": (raising(OSError(5, f"cannot parse {CANARY}", "data.csv")), InputOutputFault),
    "os folder": (raising(OSError(5, "x", f"/srv/{CANARY}/data.csv")), InputOutputFault),
    "os bytes": (raising(OSError(5, "x", CANARY.encode())), InputOutputFault),
    "pandas number": (pandas_numbers, Fault),
    "pandas parser": (pandas_parser, Fault),
    "pandas key": (pandas_key, Fault),
    "note": (with_note, Refused),
    "stop": (raising(StopIteration(CANARY)), Fault),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_nothing_of_a_foreign_error_gets_out(name: str) -> None:
    function, kind = FOREIGN[name]
    error = caught(function)
    assert type(error) is kind
    assert error.__context__ is None
    assert error.__cause__ is None
    shown = "".join(traceback.format_exception_only(error))
    for text in (str(error), repr(error), shown, repr(vars(error)), repr(pickle.dumps(error))):
        assert CANARY not in text
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_run_that_must_wait_is_told_from_one_that_is_refused() -> None:
    error = caught(raising(Busy("another run is under way")))
    assert type(error) is Busy
    assert error.code is ExitCode.REFUSED


def test_what_was_being_handled_outside_is_not_found_through_the_context() -> None:
    try:
        raise ValueError(CANARY)
    except ValueError:
        error = caught(raising(TypeError("x")))
    assert error.__context__ is None
    assert error.__cause__ is None


def test_the_message_says_where_a_fault_arose() -> None:
    frame = pd.DataFrame({"x": ["a"]})
    data = Microdata(frame, Schema([Variable("x", "nominal")]))
    error = caught(lambda: data.take(np.array([7])))
    assert "an unexpected IndexError in table.py, line " in str(error)


def test_the_message_of_a_failed_read_names_file_and_reason_without_the_folder() -> None:
    error = caught(lambda: Path("/nowhere/secret-folder/people.csv").read_text())
    assert str(error) == "input or output failed: No such file or directory (people.csv)"


@pytest.mark.parametrize("kind", [ReleaseError, Refused, Fault, InputOutputFault])
def test_our_errors_keep_their_type_and_message(kind: type[ReleaseError]) -> None:
    error = caught(raising(kind("variable 'sex': 3 records\nsecond line")))
    assert type(error) is kind
    assert str(error) == "variable 'sex': 3 records\nsecond line"


@pytest.mark.parametrize("kind", [AnonymizationError, InfeasibleError])
def test_errors_of_the_core_are_refusals(kind: type[AnonymizationError]) -> None:
    error = caught(raising(kind("k must be at least 2, got 1")))
    assert type(error) is Refused
    assert error.code == ExitCode.REFUSED
    assert str(error) == "k must be at least 2, got 1"


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_stop_passes(stop: BaseException) -> None:
    with pytest.raises(type(stop)):
        sanitise_errors(raising(stop))()


def test_control_characters_are_written_out() -> None:
    name = "sex\x1b[2J\rx\u202e\x00\udc80"
    error = caught(raising(AnonymizationError(f"column {name} is\nnot declared")))
    assert str(error) == r"column sex\x1b[2J\rx\u202e\x00\udc80 is" + "\nnot declared"
    assert visible("a\nb") == r"a\nb"
    assert visible("größe 身長") == "größe 身長"
    assert visible("0.9\u00a0%") == "0.9 %"


def test_results_arguments_and_name_pass_unchanged() -> None:
    def add(a: int, *, b: int) -> int:
        """Add."""
        return a + b

    assert sanitise_errors(add)(1, b=2) == 3
    assert sanitise_errors(add).__name__ == "add"
    assert sanitise_errors(add).__doc__ == "Add."


@pytest.mark.parametrize(("kind", "code"), [(ReleaseError, 1), (Fault, 1), (InputOutputFault, 1), (Refused, 2)])
def test_exit_codes(kind: type[ReleaseError], code: int) -> None:
    assert kind("x").code == code


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, f"{CANARY}", f"/{CANARY}"),
        OSError(errno.EDQUOT, "x"),
        sqlite3.OperationalError("database or disk is full"),
        RuntimeError(f"could not extend file {CANARY}: No space left on device"),
    ],
)
def test_a_full_disk_is_named_whatever_has_met_it(error: Exception) -> None:
    behind = RuntimeError("the store failed")
    behind.__cause__ = error
    for one in (error, behind):
        met = caught(raising(one))
        assert (type(met), str(met)) == (InputOutputFault, DISK_FULL)
    assert "disk is full" not in str(caught(raising(OSError(errno.EACCES, "x"))))
