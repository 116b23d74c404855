"""Who may call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from vllm_governor_engine.auth import TOKEN_FILE_VARIABLE, require_token
from vllm_governor_engine.errors import GovernorError


def _code(authorization: list[bytes], environ: dict[str, str]) -> str | None:
    try:
        require_token(authorization, environ)
    except GovernorError as error:
        return error.code
    return None


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("  s3cret\n")
    return file


def test_the_token_passes_with_the_white_space_around_it_dropped(token_file: Path) -> None:
    environ = {TOKEN_FILE_VARIABLE: str(token_file)}
    assert _code([b"Bearer s3cret"], environ) is None
    assert _code([b"bearer  s3cret "], environ) is None


@pytest.mark.parametrize(
    "authorization",
    [[], [b""], [b"Bearer"], [b"Bearer "], [b"Bearer wrong"], [b"s3cret"], [b"Basic s3cret"], [b"Bearer s3cret"] * 2],
)
def test_anything_else_is_unauthorized(token_file: Path, authorization: list[bytes]) -> None:
    assert _code(authorization, {TOKEN_FILE_VARIABLE: str(token_file)}) == "unauthorized"


def test_without_a_usable_token_the_door_is_closed_even_to_an_empty_token(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text(" \n")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    huge = tmp_path / "huge"
    huge.write_text("x" * 5000)
    for path in ("", str(tmp_path / "none"), str(tmp_path), str(empty), str(pipe), str(huge), "a\0b"):
        assert _code([b"Bearer "], {TOKEN_FILE_VARIABLE: path}) == "closed", path
    assert _code([b"Bearer x"], {}) == "closed"


def test_a_new_token_counts_at_the_next_call(token_file: Path) -> None:
    environ = {TOKEN_FILE_VARIABLE: str(token_file)}
    token_file.write_text("other")
    assert _code([b"Bearer s3cret"], environ) == "unauthorized"
    assert _code([b"Bearer other"], environ) is None


def test_no_message_gives_the_token_or_the_path_away(token_file: Path) -> None:
    for environ in ({TOKEN_FILE_VARIABLE: str(token_file)}, {TOKEN_FILE_VARIABLE: str(token_file) + "x"}):
        with pytest.raises(GovernorError) as caught:
            require_token([b"Bearer wrong"], environ)
        assert "s3cret" not in caught.value.message
        assert str(token_file) not in caught.value.message
