"""The history can be written, and has room.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.looking import GIB
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, WARN, Check, DoesNotApply, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from store import health
from store.database import database_url, sqlite_path

FULL, NEARLY = 0.05, 0.1


def _look(around: Surroundings) -> Found:
    store = around.settings.store
    path = sqlite_path(database_url(store.url))
    if path is None:
        raise DoesNotApply("the history is no file on this machine")
    folder = path.absolute().parent
    problem = health.directory_problem(path)
    if problem is not None:
        return Found(FAIL, problem, f"sudo install -d -o vllm-governor -g vllm-governor -m 0750 {folder}")
    free, share = health.free_bytes(path), health.free_ratio(path)
    if free is None or share is None:
        raise NotKnown(f"the file system of {folder} does not tell its size")
    told = f"{share:.0%} of the file system of {folder} is free, {free / GIB:.3g} GiB"
    cure = "vllm-governor db prune"
    if share < FULL:
        return Found(FAIL, told, cure)
    if share < NEARLY or free < _still_to_grow(around):
        return Found(WARN, f"{told}; the history may grow to {store.max_mb:g} MB", cure)
    return Found(PASS, told)


def _still_to_grow(around: Surroundings) -> float:
    path = sqlite_path(database_url(around.settings.store.url))
    has = 0 if path is None else health.file_bytes(path) or 0
    return max(0.0, around.settings.store.max_mb * 1024 * 1024 - has)


CHECK = Check(
    "disk",
    "the history's directory can be written and a tenth of its file system is free",
    "field cases S4 and D2",
    frozenset({PASS, WARN, FAIL, NOT_APPLICABLE}),
    _look,
)
