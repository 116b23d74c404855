"""Settings: what is refused, and the sentence that says so."""

from pathlib import Path

import pytest

from controller.settings import load
from domain.decision import Mode
from domain.errors import SettingsError
from domain.slo import Latency, Slo


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_hold() -> None:
    settings = load(None, {})
    assert (settings.mode, settings.tick_s, settings.engine.lease_s) == (Mode.AUTO, 1.0, 15.0)
    assert settings.slo.objectives() == ()


def test_objectives_come_from_the_slo_table(tmp_path: Path) -> None:
    path = write(tmp_path, "[slo.inter_token_latency]\npercentile = 99\nbound_s = 0.05\n")
    assert load(path, {}).slo.objectives() == (Slo(Latency.ITL, 99, 0.05),)


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
        ("[policies.batch_resize]\ngrowth_factor = 3\n", r"growth_factor = 3 .*less than or equal to 1.8"),
        ("[slo.inter_token_latency]\npercentile = 95\n", r"slo.inter_token_latency.bound_s .*required"),
        ("mode = 'fast'\n", r"mode = 'fast' .*'auto'"),
        ("[engine]\nurl = 'localhost:8000'\n", r"engine.url = 'localhost:8000' .*http://"),
        ("[engine]\nlease_s = 1\n", r"engine.lease_s = 1 .*greater than or equal to 3"),
        ("mode = \n", r"cannot understand the settings file .*line 1"),
    ],
)
def test_a_bad_setting_is_named_with_its_value_and_bound(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load(write(tmp_path, text), {})


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(write(tmp_path, "tick_s = 0\nmode = 'x'\n"), {})
    assert len(str(caught.value).splitlines()) == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read the settings file .*none\.toml: No such file"):
        load(tmp_path / "none.toml", {})


def test_an_unknown_environment_variable_is_fatal_and_named() -> None:
    with pytest.raises(SettingsError, match=r"GOVERNOR_MODDE.*did you mean GOVERNOR_MODE\?"):
        load(None, {"GOVERNOR_MODDE": "observe"})


def test_the_seeds_switches_select_the_static_mode() -> None:
    settings = load(None, {"VLLM_DISABLE_DYNAMIC": "1", "VLLM_FIXED_BATCH_SIZE": "12"})
    assert settings.mode is Mode.STATIC
    assert settings.policies.static.fixed_batch_size == 12
    assert load(None, {"VLLM_DISABLE_DYNAMIC": "0"}).mode is Mode.AUTO
