"""anoncore takes no framework with it, and the kernels no pandas."""

import subprocess
import sys

import pytest

FRAMEWORKS = ("prefect", "mlflow", "great_expectations", "pydantic", "matplotlib", "sqlalchemy", "yaml")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("anoncore", FRAMEWORKS),
        ("anoncore.risk", FRAMEWORKS),
        ("flows.cli", ("prefect", "mlflow", "great_expectations")),
    ],
)
def test_importing_takes_no_framework_with_it(module, absent):
    code = f"import {module}, sys; print([m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
