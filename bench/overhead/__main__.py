"""`python -m bench.overhead`; see the package. Only the exit code belongs here."""

import sys

from bench.overhead.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
