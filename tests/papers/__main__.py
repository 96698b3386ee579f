"""Write the pages on the papers, all or those named: ``python -m tests.papers [lasko areas bases boxes clusters]``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from tests.papers import areas_page, bases_page, boxes_page, clusters_page, reproduction


def _written(write: Callable[[], None]) -> Callable[[], Sequence[str]]:
    def wrong() -> Sequence[str]:
        write()
        return ()

    return wrong


PARTS: dict[str, Callable[[], Sequence[str]]] = {
    "lasko": reproduction.write,
    "areas": _written(areas_page.PAGE.write),
    "bases": _written(bases_page.PAGE.write),
    "boxes": _written(boxes_page.PAGE.write),
    "clusters": _written(clusters_page.PAGE.write),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the parts one after the other and say how long each took; 1 where an ordering that must hold does not."""
    parser = argparse.ArgumentParser(description="Write the pages on the papers.")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    chosen = parser.parse_args(arguments).parts or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))} is no part; choose from {', '.join(PARTS)}")
    wrong: list[str] = []
    for part in chosen:
        start = time.perf_counter()
        wrong += PARTS[part]()
        sys.stderr.write(f"{part}: {time.perf_counter() - start:.0f} s\n")
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
