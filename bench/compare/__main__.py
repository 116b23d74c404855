"""`python -m bench.compare`: the runs alone, with vLLM's interpreter. Only the exit code belongs here."""

import sys

from bench import in_vllm
from bench.compare.measure import main

if __name__ == "__main__":
    in_vllm.leave(main(sys.argv[1:]))
