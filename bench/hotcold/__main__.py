"""`python -m bench.hotcold`; see the package. Only the exit code belongs here."""

import sys

from bench.hotcold.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
