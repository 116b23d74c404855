"""What a failed setup raises. One class: a caller only ever shows the sentence and exits."""

from __future__ import annotations


class SetupError(Exception):
    """The environments cannot be made; the text is one sentence that names the reason and the remedy."""
