"""`python -m bench.overhead`; see the package. Only the exit code belongs here."""

import sys

from bench import in_vllm
from bench.overhead.command import main

if __name__ == "__main__":
    in_vllm.leave(main(sys.argv[1:]))
