"""Policies of others, as a distribution on sys.path brings them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.deciding import extensions
from controller.deciding.arbiter import Arbiter
from controller.deciding.extensions import GROUP
from controller.deciding.order import Deciding
from controller.settings import Settings, load
from domain.decision import Decision, Mode, Status
from domain.errors import SettingsError
from domain.knobs import MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT
from domain.view import View
from policies.guards import GuardSettings
from tests.views import knob, runtime, view, with_knobs

AT = datetime(2026, 1, 1, tzinfo=UTC)
DOCS = Path(__file__).parents[3] / "docs" / "custom-policy.md"
WORKED_EXAMPLE = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)[0]
GREEDY = """
from domain.decision import Priority, Proposal, Reason
from policies.base import PolicySettings

class Greedy:
    class Settings(PolicySettings):
        fails_from: int = 1000
        knob: str = "max_num_seqs"

    def __init__(self, settings):
        self.settings = settings

    def initial_state(self):
        return 0

    def decide(self, state, view):
        if state >= self.settings.fails_from:
            raise ZeroDivisionError("unforeseen")
        wish = Proposal("somebody", self.settings.knob, 4.0, Reason.SHED_QUEUE, "More!", priority=Priority.OPERATOR)
        return state + 1, (wish,)
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a test imported is gone afterwards."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("guest_") or name == "governor_patience":
            del sys.modules[name]


def install(folder: Path, module: str, code: str, **policies: str) -> None:
    """A distribution as pip leaves it: a module and its metadata."""
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in policies.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place on sys.path."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    return site


def settings_of(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load(path)


def engine(queue: float = NO_LIMIT, oldest_s: float | None = 0.0, now_s: float = 100.0) -> View:
    queued = knob(MAX_NUM_QUEUED_REQS, queue, NO_LIMIT, 0, 1_000_000)
    seen = with_knobs(runtime(cap=32, waiting=0, running=0), queued)
    return view(now_s, runtime=seen, oldest_waiting_s=oldest_s, demand=0.0)


def deciding(settings: Settings, mode: Mode = Mode.AUTO) -> Deciding:
    return Deciding(settings.policies, mode, Arbiter(1.0, GuardSettings(warm_up_s=0)))


def of(decisions: list[Decision], policy: str) -> list[Decision]:
    return [decision for decision in decisions if decision.policy == policy]


def test_the_worked_example_bounds_the_queue_and_lets_go_of_it(folder: Path, tmp_path: Path) -> None:
    install(folder, "governor_patience", WORKED_EXAMPLE, patience="governor_patience:Patience")
    chosen = "[policies.patience]\npatience_s = 20\n[policies.load_shed]\nenabled = false\n"
    steered = deciding(settings_of(tmp_path, chosen))
    (late,) = of(steered.decide(AT, engine(oldest_s=25.0)).decisions, "patience")
    assert (late.requested, late.status) == (50, Status.INTENDED)
    assert late.sentence == "The oldest request has waited 25.0 s (patience 20 s)."
    (still,) = of(steered.decide(AT, engine(50.0, oldest_s=15.0, now_s=110.0)).decisions, "patience")
    assert still.status is Status.HOLD
    (free,) = of(steered.decide(AT, engine(50.0, oldest_s=5.0, now_s=120.0)).decisions, "patience")
    assert free.requested == NO_LIMIT
    (blind,) = of(steered.decide(AT, engine(50.0, oldest_s=None, now_s=130.0)).decisions, "patience")
    assert blind.wanted is None


def test_its_settings_are_a_table_like_any_other(folder: Path, tmp_path: Path) -> None:
    install(folder, "governor_patience", WORKED_EXAMPLE, patience="governor_patience:Patience")
    with pytest.raises(SettingsError, match=r"policies.patience.patience_s = -1 .*greater than 0"):
        settings_of(tmp_path, "[policies.patience]\npatience_s = -1\n")
    with pytest.raises(SettingsError, match=r"policies.patience.patience .*did you mean patience_s\?"):
        settings_of(tmp_path, "[policies.patience]\npatience = 1\n")


def test_without_the_distribution_its_table_is_an_unknown_key(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"policies.patience .*there is no such key"):
        settings_of(tmp_path, "[policies.patience]\npatience_s = 1\n")


@pytest.mark.parametrize(
    ("code", "value", "says"),
    [
        ("raise RuntimeError('old API')", "guest_broken:Greedy", "RuntimeError: old API"),
        ("", "guest_broken:Greedy", "AttributeError"),
        ("", "guest_missing:Greedy", "ModuleNotFoundError"),
        ("Greedy = 3", "guest_broken:Greedy", "it is not a class"),
        ("class Greedy: pass", "guest_broken:Greedy", "it has no class Settings"),
        (
            "from pydantic import BaseModel\nclass Greedy:\n    class Settings(BaseModel): pass",
            "guest_broken:Greedy",
            "it has no initial_state and no decide",
        ),
        (
            "from pydantic import BaseModel\nclass Greedy:\n    class Settings(BaseModel):\n        x: int",
            "guest_broken:Greedy",
            "every key of its Settings needs a default",
        ),
    ],
)
def test_a_broken_policy_is_named_and_left_out_with_its_table_let_be(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, code: str, value: str, says: str
) -> None:
    install(folder, "guest_broken", code, greedy=value)
    settings = settings_of(tmp_path, "[policies.greedy]\nanything = 1\n")
    (said,) = [record.message for record in caplog.records]
    assert said.startswith(f"policy greedy of guest_broken is left out: cannot use {value}: ")
    assert says in said
    assert {policy.name for policy in deciding(settings).policies}.isdisjoint({"greedy"})


def test_a_name_that_is_shipped_cannot_be_taken(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(folder, "guest_greedy", GREEDY, batch_resize="guest_greedy:Greedy", Greedy="guest_greedy:Greedy")
    assert extensions.find().policies == {}
    told = " ".join(record.message for record in caplog.records)
    assert "a policy of that name is shipped" in told
    assert "its name must be lower-case" in told


def test_it_proposes_in_its_own_name_and_cannot_claim_an_operators_priority(folder: Path, tmp_path: Path) -> None:
    install(folder, "guest_greedy", GREEDY, greedy="guest_greedy:Greedy")
    settings = settings_of(tmp_path, "[policies.batch_resize]\nenabled = false\n")
    (decision,) = of(deciding(settings).decide(AT, engine()).decisions, "greedy")
    assert (decision.knob, decision.requested) == (MAX_NUM_SEQS, 4)
    warming = Deciding(settings.policies, Mode.AUTO, Arbiter(1.0, GuardSettings(warm_up_s=60)))
    (decision,) = of(warming.decide(AT, engine()).decisions, "greedy")
    assert decision.status is Status.RECORDED


@pytest.mark.parametrize(
    ("mode", "runs"),
    [(Mode.AUTO, True), (Mode.OBSERVE, True), (Mode.STATIC, False), (Mode.MANUAL, False), (Mode.PAUSED, False)],
)
def test_it_runs_in_the_modes_that_decide(folder: Path, tmp_path: Path, mode: Mode, runs: bool) -> None:
    install(folder, "guest_greedy", GREEDY, greedy="guest_greedy:Greedy")
    policies = deciding(settings_of(tmp_path, ""), mode).policies
    assert ("greedy" in {policy.name for policy in policies}) is runs


def test_one_that_raises_abstains_and_is_taken_out_at_the_third_time(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(folder, "guest_greedy", GREEDY, greedy="guest_greedy:Greedy")
    steered = deciding(settings_of(tmp_path, "[policies.greedy]\nfails_from = 1\n"))
    assert of(steered.decide(AT, engine()).decisions, "greedy")
    for failures in range(3):
        assert ("greedy" in {policy.name for policy in steered.policies}) is (failures < 3)
        rest = steered.decide(AT, engine(now_s=101.0 + failures)).decisions
        assert of(rest, "greedy") == []
        assert of(rest, "batch_resize")
    assert "greedy" not in {policy.name for policy in steered.policies}
    assert [r.message for r in caplog.records if "greedy" in r.message] == [
        "policy greedy failed (1 of 3)",
        "policy greedy failed (2 of 3)",
        "policy greedy failed 3 times, it is taken out",
    ]


def test_a_knob_that_does_not_exist_is_a_failure_of_the_policy(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(folder, "guest_greedy", GREEDY, greedy="guest_greedy:Greedy")
    steered = deciding(settings_of(tmp_path, "[policies.greedy]\nknob = 'max_num_sequences'\n"))
    assert of(steered.decide(AT, engine()).decisions, "greedy") == []
    assert "there is no knob max_num_sequences" in caplog.text


def test_a_disabled_one_does_not_run(folder: Path, tmp_path: Path) -> None:
    install(folder, "governor_patience", WORKED_EXAMPLE, patience="governor_patience:Patience")
    policies = deciding(settings_of(tmp_path, "[policies.patience]\nenabled = false\n")).policies
    assert "patience" not in {policy.name for policy in policies}
