"""Makes the platform plugin findable without installing anything: a folder with the metadata of an entry point.

``python -m bench.emulated_gpu.plugin_path DIR`` writes it and prints the folder, to be put on ``PYTHONPATH``.
Belongs here: that metadata. Never: an import of vLLM.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

PLUGIN_NAME = "emulated_gpu"
"""The name to list in ``VLLM_PLUGINS`` where that is set."""
_METADATA = "Metadata-Version: 2.1\nName: emulated-gpu\nVersion: 0\n"
_ENTRY_POINTS = f"[vllm.platform_plugins]\n{PLUGIN_NAME} = bench.emulated_gpu.platform:register\n"


def write_plugin(directory: str | os.PathLike[str]) -> Path:
    """Writes the entry point's metadata below ``directory`` and returns it, absolute."""
    target = Path(directory).resolve()
    metadata = target / "emulated_gpu-0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(_METADATA, encoding="utf-8")
    (metadata / "entry_points.txt").write_text(_ENTRY_POINTS, encoding="utf-8")
    return target


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: one argument, the folder. Prints its absolute path and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.emulated_gpu.plugin_path")
    parser.add_argument("directory", help="where to write the plugin's metadata")
    print(write_plugin(parser.parse_args(argv).directory))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
