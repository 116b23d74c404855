"""What the vLLM at hand can do, found by looking at what its code really reads.

Here: questions about classes. Never here: a version number compared; an attribute that is present but no longer read
would pass such a test, and setting it would do nothing.
"""

from __future__ import annotations

import importlib
import inspect
from types import CodeType


def reads(owner: type, method: str, attribute: str) -> bool | None:
    """Whether `owner.method` reads `attribute`; None when that cannot be told.

    Looks at the names in the method's byte code, nested functions included. A subclass that overrides the method
    and calls its parent's is followed through the MRO; one that replaces it altogether is judged by its own code.
    """
    for cls in owner.__mro__:
        function = cls.__dict__.get(method)
        if function is None:
            continue
        code = getattr(inspect.unwrap(function), "__code__", None)
        if not isinstance(code, CodeType):
            return None  # compiled code: no way to look inside
        names = _names(code)
        if attribute in names:
            return True
        if method not in names:  # it does not call its parent's, so the parent's code does not count
            return False
    return None


def vllm_version() -> str:
    """The version vLLM says it has; "unknown" when it does not say."""
    try:
        return str(importlib.import_module("vllm").__version__)
    except Exception:
        return "unknown"


def _names(code: CodeType) -> set[str]:
    """Every global and attribute name that the code, or code nested in it, uses."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
