"""``python -m anonflow``, the same as the command."""

from anonflow import main

if __name__ == "__main__":
    main()
