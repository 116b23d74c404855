"""`vllm-governor explain`: one decision in plain words.

Belongs here: the arguments, the words. Never: queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from controller.cli import explain_asked
from controller.cli.daemon import Config, Token, Url, Where
from controller.cli.decisions import to_json
from controller.cli.histories import Db, reading
from controller.cli.main_signals import MAIN_SIGNALS
from controller.cli.plain_json import dumps
from controller.cli.words import length
from controller.history.around import WINDOW_S, Around, Side, around
from domain.decision import Decision, Status
from domain.errors import SettingsError
from policies.trial import shown
from store.history import StoredDecision, StoredRun

Found = tuple[StoredDecision, StoredRun | None, Around]


def explain(
    number: Annotated[int, typer.Argument(metavar="ID", help="The decision's number, as `decisions` shows it.")],
    db: Db = None,
    window: Annotated[
        float, typer.Option(min=10, max=86400, metavar="SECONDS", help="What was measured so long before and after.")
    ] = WINDOW_S,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, with every signal.")] = False,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    """Say why a decision was taken, which guards changed it, what came of it, and what was measured before and after.

    Examples:

      vllm-governor explain 123

      vllm-governor explain 123 --db /var/lib/vllm-governor/vllm-governor.db
    """
    where = Where(config, url, token_file)
    found = asyncio.run(_load(db, number, window) if db is not None else explain_asked.ask(where, number, window))
    if as_json:
        row, run, near = found
        engine = None if run is None else asdict(run) | {"started_at": run.started_at.isoformat()}
        typer.echo(dumps(to_json(row) | {"run": engine} | _around_json(near)))
    else:
        for line in words(found):
            typer.echo(line)


async def _load(db: str, number: int, window_s: float) -> Found:
    async with reading(db) as history:
        found = await history.decisions.one(number)
        if found is None:
            raise SettingsError(
                f"cannot explain decision {number}: the history has none of that number; "
                "`vllm-governor decisions` lists them"
            )
        return *found, await around(history, found[0], window_s)


def _around_json(near: Around) -> dict[str, Any]:
    def side(one: Side | None) -> dict[str, Any] | None:
        if one is None:
            return None
        means = None if one.means is None else dict(one.means.means)
        return {"since": one.since.isoformat(), "until": one.until.isoformat(), "means": means}

    return {
        "earlier": None if near.earlier is None else near.earlier.id,
        "later": None if near.later is None else near.later.id,
        "before": side(near.before),
        "after": side(near.after),
        "changed_meanwhile": [other.id for other in near.others],
    }


def words(found: Found) -> Iterator[str]:
    """The explanation, line by line."""
    row, run, near = found
    one = row.decision
    yield f"Decision {row.id}, {one.at:%Y-%m-%d %H:%M:%S} UTC: {one.knob}, {_what(one)}."
    if run is not None:
        yield f"Engine: vLLM {run.vllm_version} at {run.engine_url}, boot {run.boot_id} on {run.node}."
    yield ""
    yield f"Why: {one.sentence}"
    yield f"It is the policy {one.policy} that wanted it (reason {one.reason}), in mode {one.mode}."
    if one.evidence:
        yield "It rested on:"
        yield from (f"  {name}: {_shown(value)}" for name, value in one.evidence.items())
    yield ""
    yield from _guards(one)
    yield ""
    if one.diagnoses:
        yield "Diagnosed at that moment:"
        yield from (f"  {diagnosis}" for diagnosis in one.diagnoses)
    else:
        yield "Nothing was diagnosed at that moment."
    yield ""
    yield from _came_of_it(one)
    if near.before is not None and near.after is not None:
        yield ""
        yield from _measured(near.before, near.after, near.others)
    if near.earlier is not None or near.later is not None:
        yield ""
        yield from _neighbours(one, near)


def _what(one: Decision) -> str:
    if one.status is Status.NOTED:
        return "an event"
    if one.status is Status.HOLD:
        return "wanted nothing that can be said" if one.wanted is None else f"held at {_shown(one.old)}"
    if one.requested is None:
        return f"{_shown(one.wanted)} wanted in place of {_shown(one.old)}, not carried out"
    return f"{_shown(one.old)} -> {_shown(one.requested)}, {one.status}"


def _guards(one: Decision) -> Iterator[str]:
    if not one.guards:
        yield "No guard changed it."
        return
    yield "The guards said:"
    yield from (f"  {note}" for note in one.guards)
    if one.requested is not None and one.requested != one.wanted:
        yield f"So {_shown(one.wanted)} was wanted and {_shown(one.requested)} was asked for."


def _came_of_it(one: Decision) -> Iterator[str]:
    match one.status:
        case Status.HOLD | Status.RECORDED | Status.NOTED:
            yield "Nothing was changed, so nothing came of it."
            return
        case Status.INTENDED:
            yield "It was written down and never concluded: the daemon ended in between, or the history did."
            return
        case Status.APPLIED:
            yield f"The engine read {_shown(one.observed)} back."
        case _:
            why = one.error or "no reason was given"
            yield f"It did not take effect as asked, the engine reads {_shown(one.observed)}: {why}."
            return
    if one.outcome is None:
        yield "What came of it: not judged yet, or never (the daemon ended before)."
        return
    yield f"What came of it: {one.outcome.sentence}"
    if one.outcome.undo:
        yield f"It broke an objective, so {_shown(one.outcome.numbers.get('instead_of'))} was wanted back."
    yield from (f"  {name}: {_shown(value)}" for name, value in one.outcome.numbers.items())


def _measured(before: Side, after: Side, others: tuple[StoredDecision, ...]) -> Iterator[str]:
    if before.means is None or after.means is None:
        side = "before" if before.means is None else "after"
        yield f"Nothing that was measured {side} it is kept finely enough to compare."
        return
    yield (
        f"Measured in {_span(before)} before and {_span(after)} after it took effect (means, whatever the load was):"
    )
    for name in MAIN_SIGNALS:
        old, new = before.means.means.get(name), after.means.means.get(name)
        if old is not None or new is not None:
            moved = f"{new / old - 1:+.1%}" if old and new is not None else ""
            yield f"  {name:<26}{_mean(old):>12} -> {_mean(new):<12}{moved:>8}".rstrip()
    for other in others:
        yield f"  meanwhile: decision {other.id}, {other.decision.knob}, {_what(other.decision)}"


def _neighbours(one: Decision, near: Around) -> Iterator[str]:
    for word, other in (("earlier", near.earlier), ("later", near.later)):
        if other is not None:
            gap = length(abs((one.at - other.decision.at).total_seconds()))
            yield f"{gap} {word}, decision {other.id}: {one.knob}, {_what(other.decision)}."


def _span(side: Side) -> str:
    return length((side.until - side.since).total_seconds())


def _mean(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _shown(value: float | str | None) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    return shown(value)
