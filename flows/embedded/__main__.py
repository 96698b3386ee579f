"""The embedded server's own program: ``python -m flows.embedded ROLE FD``, as ``Child`` starts it."""

import sys

from flows.embedded.child import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
