"""Run in a process of its own: release small tables by every method, and write what is released.

``python -m tests.anoncore.processor_releases FILE``
"""

import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_info

import anoncore
from anoncore import AnonymizationError
from anoncore.methods import GroupAnonymity
from tests.anoncore.tables import mixed_table, symmetric_table, tied_table
from tests.anoncore.test_method_contract import CASES


def releases() -> dict[tuple[str, str], tuple]:
    """Return the released frame and scores by table and method."""
    found = {}
    for name, table in (("mixed", mixed_table()), ("tied", tied_table()), ("symmetric", symmetric_table())):
        for params in CASES:
            variables = {n for n in ("income", "region") if repr(n) in str(params)}
            if variables - set(table.frame) or (isinstance(params, GroupAnonymity) and name != "mixed"):
                continue
            try:
                released = anoncore.anonymize(table, params, rng=np.random.default_rng(3))
                found[name, str(params)] = released.data.frame, released.scores
            except AnonymizationError as error:  # the method does not suit the table
                found[name, str(params)] = pd.DataFrame({"refused": [str(error)]}), None
    return found


def architectures() -> list[str]:
    """Return the processors whose kernels the linear algebra libraries of this process take."""
    return sorted({pool["architecture"] for pool in threadpool_info() if pool["user_api"] == "blas"})


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(pickle.dumps((architectures(), releases())))
