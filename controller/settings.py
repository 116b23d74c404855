"""Settings: a TOML file, then the environment on top. An unknown key is fatal and named.

Belongs here: names, bounds, defaults, and turning a bad value into a sentence. Never: reading them twice at run time.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as EnvironmentSettingsError

from domain.decision import Mode
from domain.errors import SettingsError
from domain.slo import Latency, Slo
from policies.registry import PoliciesSettings
from policies.static import StaticSettings

ENV_PREFIX = "GOVERNOR_"
ENV_NESTED = "__"

Seconds = Annotated[float, Field(gt=0, le=3600)]


class Table(BaseModel):
    """A TOML table: frozen, no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class EngineSettings(Table):
    """The vLLM to steer. `token_file` holds the bearer token of the plugin's routes."""

    url: str = "http://127.0.0.1:8000"
    token_file: Path | None = None
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    lease_s: Annotated[float, Field(ge=3, le=3600)] = 15.0

    @field_validator("url")
    @classmethod
    def _http(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an address like http://127.0.0.1:8000")
        if parts.username or parts.password:
            raise ValueError("must not carry credentials: the token belongs into token_file")
        return url.rstrip("/")


class StoreSettings(Table):
    """Where the history lies: the path of a SQLite file or a SQLAlchemy URL."""

    url: str = Field(default_factory=lambda: str(Path(os.environ.get("STATE_DIRECTORY", ".")) / "vllm-governor.db"))


class SloSettings(Table):
    """One objective: `percentile` percent of the samples lie at or under `bound_s` seconds."""

    percentile: Annotated[float, Field(gt=0, lt=100)] = 95.0
    bound_s: Annotated[float, Field(gt=0)]


class SlosSettings(Table):
    """Any of the three; none is needed."""

    time_to_first_token: SloSettings | None = None
    inter_token_latency: SloSettings | None = None
    e2e_request_latency: SloSettings | None = None

    def objectives(self) -> tuple[Slo, ...]:
        by_latency = {
            Latency.TTFT: self.time_to_first_token,
            Latency.ITL: self.inter_token_latency,
            Latency.E2E: self.e2e_request_latency,
        }
        return tuple(Slo(latency, s.percentile, s.bound_s) for latency, s in by_latency.items() if s is not None)


class LogSettings(Table):
    """`level` as Python's logging names it."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


class Settings(BaseSettings):
    """All settings. `GOVERNOR_ENGINE__URL` in the environment is `url` in the table `[engine]`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_NESTED, env_ignore_empty=True
    )

    mode: Mode = Mode.AUTO
    tick_s: Annotated[float, Field(ge=0.2, le=60)] = 1.0
    engine: EngineSettings = Field(default_factory=EngineSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    slo: SlosSettings = Field(default_factory=SlosSettings)
    policies: PoliciesSettings = Field(default_factory=PoliciesSettings)
    log: LogSettings = Field(default_factory=LogSettings)

    @model_validator(mode="after")
    def _lease_outlives_ticks(self) -> Settings:
        if self.engine.lease_s < 3 * self.tick_s:
            raise ValueError(
                f"engine.lease_s = {self.engine.lease_s:g} must be at least three times tick_s = {self.tick_s:g}, "
                "or the lease runs out between two ticks"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (env_settings, init_settings)  # the file comes in as init values; the environment wins


def load(path: Path | None) -> Settings:
    """Read and validate. Raises SettingsError with one line for each fault."""
    values = _read_toml(path) if path is not None else {}
    _reject_unknown_environment()
    source = f"{path} and the environment" if path else "the environment"
    try:
        return _with_seed_variables(Settings(**values))
    except ValidationError as error:
        raise SettingsError("\n".join(_sentence(fault, source) for fault in error.errors())) from error
    except EnvironmentSettingsError as error:
        raise SettingsError(
            f"cannot use the environment: {error}; name one setting, as GOVERNOR_ENGINE__URL"
        ) from error


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot understand the settings file {path}: {error}") from error


def _with_seed_variables(settings: Settings) -> Settings:
    """The seeds' rollback switches, over everything else: VLLM_DISABLE_DYNAMIC=1, VLLM_FIXED_BATCH_SIZE=8."""
    changes: dict[str, Any] = {}
    if os.environ.get("VLLM_DISABLE_DYNAMIC", "0") not in ("", "0"):
        changes["mode"] = Mode.STATIC
    fixed = os.environ.get("VLLM_FIXED_BATCH_SIZE")
    if fixed:
        try:
            static = StaticSettings.model_validate({"fixed_batch_size": fixed})
        except ValidationError as error:
            fault = error.errors()[0]["msg"]
            raise SettingsError(f"cannot use VLLM_FIXED_BATCH_SIZE = {fixed!r}: {fault}") from error
        changes["policies"] = settings.policies.model_copy(update={"static": static})
    return settings.model_copy(update=changes)


def _reject_unknown_environment() -> None:
    for name in os.environ:
        if not name.upper().startswith(ENV_PREFIX):
            continue
        first = name.upper().removeprefix(ENV_PREFIX).split(ENV_NESTED)[0].lower()
        if first not in Settings.model_fields:
            near = difflib.get_close_matches(first, Settings.model_fields, 1)
            hint = f"; did you mean {ENV_PREFIX}{near[0].upper()}?" if near else ""
            raise SettingsError(f"cannot use the environment variable {name}: there is no such setting{hint}")


def _sentence(fault: Any, source: str) -> str:
    location = [str(part) for part in fault["loc"]]
    if not location:
        return f"cannot use the settings (from {source}): {fault['msg'].removeprefix('Value error, ')}"
    key = ".".join(location)
    if fault["type"] == "extra_forbidden":
        near = difflib.get_close_matches(location[-1], _known_keys(location[:-1]), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"cannot use the setting {key} (from {source}): there is no such key{hint}"
    message = fault["msg"][:1].lower() + fault["msg"][1:]
    return f"cannot use the setting {key} = {fault.get('input')!r} (from {source}): {message}"


def _known_keys(path: list[str]) -> list[str]:
    model: Any = Settings
    for part in path:
        annotation = model.model_fields[part].annotation
        options = [annotation, *getattr(annotation, "__args__", ())]
        model = next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)
