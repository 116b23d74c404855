"""Settings: what is refused, and the sentence that says so."""

import os
from pathlib import Path

import pytest

from controller.settings import load
from domain.decision import Mode
from domain.errors import SettingsError
from domain.slo import Latency, Slo


@pytest.fixture(autouse=True)
def no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("GOVERNOR_", "VLLM_")):
            monkeypatch.delenv(name)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_hold() -> None:
    settings = load(None)
    assert (settings.mode, settings.tick_s, settings.engine.lease_s) == (Mode.AUTO, 1.0, 15.0)
    assert settings.slo.objectives() == ()


def test_objectives_come_from_the_slo_table(tmp_path: Path) -> None:
    path = write(tmp_path, "[slo.inter_token_latency]\npercentile = 99\nbound_s = 0.05\n")
    assert load(path).slo.objectives() == (Slo(Latency.ITL, 99, 0.05),)


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, '[engine]\nurl = "http://127.0.0.1:1"\ntimeout_s = 4\n')
    monkeypatch.setenv("GOVERNOR_ENGINE__URL", "http://127.0.0.1:2")
    engine = load(path).engine
    assert (engine.url, engine.timeout_s) == ("http://127.0.0.1:2", 4)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tick = 1\n", r"the setting tick .*no such key; did you mean tick_s\?"),
        ("[policies.batch_resize]\ngrowth_facto = 1.5\n", r"growth_facto .*did you mean growth_factor\?"),
        ("[policies.batch_resize]\ngrowth_factor = 3\n", r"growth_factor = 3 .*less than or equal to 2.5"),
        ("[slo.inter_token_latency]\npercentile = 95\n", r"slo.inter_token_latency.bound_s .*required"),
        ("mode = 'fast'\n", r"mode = 'fast' .*'auto'"),
        ("[engine]\nurl = 'localhost:8000'\n", r"engine.url = 'localhost:8000' .*http://"),
        ("[engine]\nurl = 'http://'\n", r"engine.url = 'http://' .*an address"),
        ("[engine]\nurl = 'http://me:secret@host'\n", r"must not carry credentials"),
        ("tick_s = 10\n", r"engine.lease_s = 15 must be at least three times tick_s = 10"),
        ("policies = 3\n", r"policies = 3 "),
        ("[policies.batch_resize]\nshrink_factor = 0.6\n", r"steep_shrink_factor must not be over"),
        ("[engine]\nlease_s = 1\n", r"engine.lease_s = 1 .*greater than or equal to 3"),
        ("mode = \n", r"cannot understand the settings file .*line 1"),
    ],
)
def test_a_bad_setting_is_named_with_its_value_and_bound(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(write(tmp_path, text))


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, "tick_s = 0\nmode = 'x'\n"))
    assert len(str(caught.value).splitlines()) == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the settings file .*none\.toml: No such file"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["GOVERNOR_MODDE", "governor_modde"])
def test_an_unknown_environment_variable_is_fatal_and_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "observe")
    with pytest.raises(SettingsError, match=rf"{name}.*did you mean GOVERNOR_MODE\?"):
        load(None)


def test_a_table_in_one_variable_that_is_no_json_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOVERNOR_ENGINE", "notjson")
    with pytest.raises(SettingsError, match="name one setting, as GOVERNOR_ENGINE__URL"):
        load(None)


def test_the_seeds_switches_win_over_everything_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOVERNOR_MODE", "auto")
    monkeypatch.setenv("VLLM_DISABLE_DYNAMIC", "1")
    monkeypatch.setenv("VLLM_FIXED_BATCH_SIZE", "12")
    settings = load(write(tmp_path, "[policies.static]\nfixed_batch_size = 30\n"))
    assert settings.mode is Mode.STATIC
    assert settings.policies.static.fixed_batch_size == 12


def test_the_seeds_switch_off_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_DISABLE_DYNAMIC", "0")
    assert load(None).mode is Mode.AUTO


def test_a_fixed_batch_size_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FIXED_BATCH_SIZE", "eight")
    with pytest.raises(SettingsError, match="VLLM_FIXED_BATCH_SIZE = 'eight'"):
        load(None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[slo.schedule]]\nname = "a"\ncron = "0 25 * * *"\n', r"slo.schedule.0.cron = '0 25 \* \* \*' .*: .*maximum"),
        ('[[slo.schedule]]\nname = "a"\ncron = "0 8 * *"\n', r"slo.schedule.0.cron = '0 8 \* \*' .*: must have five"),
        ('[[slo.schedule]]\nname = "a"\ncrn = "0 8 * * *"\n', r"slo.schedule.0.crn .*did you mean cron\?"),
        (
            '[[slo.schedule]]\nname = "a"\ncron = "0 8 * * *"\ninter_token_latency = {bound = 1}\n',
            r"slo.schedule.0.inter_token_latency.bound .*did you mean bound_s\?",
        ),
        (
            '[[slo.schedule]]\nname = "a"\ncron = "0 8 * * *"\n[[slo.schedule]]\nname = "a"\ncron = "0 9 * * *"\n',
            r"setting slo = .*a name of its own, not a, a",
        ),
        ('time_zone = "Mars/Base"\n', r"time_zone = 'Mars/Base' .*as Europe/Berlin"),
        ('[[maintenance]]\ncron = "0 3 * * 8"\nduration_s = 600\n', r"maintenance.0.cron = '0 3 \* \* 8' .*0 to 7"),
        ('[[maintenance]]\ncron = "0 3 * * 0"\n', r"maintenance.0 = .*cron and duration_s, or begin and end"),
        (
            "[[maintenance]]\nbegin = 2026-01-02T00:00:00\nend = 2026-01-01T00:00:00\n",
            r"maintenance.0 = .*end after begin",
        ),
        (
            "[[maintenance]]\nbegin = 2026-01-01T00:00:00Z\nend = 2026-01-02T00:00:00\n",
            r"maintenance.0 = .*both an offset or neither",
        ),
        ("[slo.propose]\nmin_samples = 5\n", r"slo.propose.min_samples = 5 .*greater than or equal to 20"),
    ],
)
def test_a_bad_schedule_window_or_time_zone_is_named_with_its_value(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(write(tmp_path, text))


def test_a_schedule_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = '[{"name": "day", "cron": "0 8 * * *", "inter_token_latency": {"bound_s": 0.05}}]'
    monkeypatch.setenv("GOVERNOR_SLO__SCHEDULE", entry)
    (found,) = load(None).slo.schedule
    assert found.objectives() == (Slo(Latency.ITL, 95, 0.05),)
