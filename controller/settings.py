"""Settings: a TOML file, then the environment on top. An unknown key is fatal and named.

Belongs here: names, bounds, defaults, and turning a bad value into a sentence. Never: reading them twice at run time.
"""

from __future__ import annotations

import difflib
import os
import socket
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as EnvironmentSettingsError

from alerts.settings import AlertsSettings
from controller.deciding import extensions
from controller.objectives.timetable import Timetable
from controller.preflight.settings import CheckSettings
from controller.settings_table import Table
from controller.slo_settings import MaintenanceSettings, SlosSettings, TimeZoneName
from domain.decision import Mode
from domain.errors import SettingsError
from policies.guards import GuardSettings
from policies.judgement import JudgementSettings
from policies.registry import PoliciesSettings
from policies.static import StaticSettings

ENV_PREFIX = "GOVERNOR_"
ENV_NESTED = "__"

Seconds = Annotated[float, Field(gt=0, le=3600)]


def _address(url: str, example: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"must be an address like {example}")
    if parts.username or parts.password:
        raise ValueError("must not carry credentials: the token belongs into token_file")
    return url.rstrip("/")


class EngineSettings(Table):
    """The vLLM to steer. `token_file` holds the bearer token of the plugin's routes."""

    url: str = "http://127.0.0.1:8000"
    """Where vLLM listens, without a path."""
    token_file: Path | None = None
    """The file that the plugin's VLLM_GOVERNOR_TOKEN_FILE names, or one with the same token."""
    unix_socket: Path | None = None
    """Where vLLM listens on a Unix socket (vLLM's --uds); `url` then only names the host."""
    admin_socket: Path | None = None
    """The plugin's own Unix socket (VLLM_GOVERNOR_SOCKET), for the admin calls alone."""
    ca_file: Path | None = None
    """Certificates to trust instead of the system's, for an https `url`."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """How long a call of vLLM may take."""
    lease_s: Annotated[float, Field(ge=3, le=3600)] = 15.0
    """So long after the daemon's last word the engine goes back to its start-up values; at least three ticks."""

    @field_validator("url")
    @classmethod
    def _http(cls, url: str) -> str:
        return _address(url, "http://127.0.0.1:8000")


class GpuSettings(Table):
    """The GPUs that the engine uses. `devices` is written as CUDA_VISIBLE_DEVICES is; without it the engine's counts,
    as the plugin reports it, and all GPUs where the engine may see all.
    """

    devices: str | None = None
    """Indices or UUIDs, as 0,1 or GPU-5a1b."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 1.0
    """How long a reading of NVML may take."""
    reopen_s: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """How long to wait before NVML is initialised again after it was lost."""


class PrometheusSettings(Table):
    """A Prometheus-compatible server to ask for long windows. Without `url` none is asked.

    The selectors are label matchers, as `job="vllm",instance="gpu1:8000"`: they pick this engine's series and this
    daemon's own out of what the server scrapes.
    """

    url: str | None = None
    """Where it listens, as http://127.0.0.1:9090."""
    token_file: Path | None = None
    """A file with the bearer token that it wants."""
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0
    """How long a query may take."""
    interval_s: Annotated[float, Field(ge=5, le=3600)] = 60.0
    """How often it is asked."""
    vllm_selector: str = ""
    """Picks this engine's series."""
    governor_selector: str = ""
    """Picks this daemon's own."""

    @field_validator("url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        return None if url is None else _address(url, "http://127.0.0.1:9090")

    @field_validator("vllm_selector", "governor_selector")
    @classmethod
    def _matchers_alone(cls, selector: str) -> str:
        bare = selector.strip().strip(",")
        if bare.startswith("{"):
            raise ValueError('must be label matchers without braces, as job="vllm"')
        return bare


class ApiSettings(Table):
    """Where the daemon itself listens; `port` 0 turns it off. `token_file` holds the bearer token of the calls that
    change something; without it those are refused, and what only reads is open to this machine.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 9178
    token_file: Path | None = None
    read_token_file: Path | None = None
    """The token of the calls that only read; with it this machine needs one for them too."""
    unix_socket: Path | None = None
    """A socket to listen on besides, with mode 0660: whoever may open it may do everything."""
    cert_file: Path | None = None
    """The port's certificate (PEM, the chain included): it then speaks https alone."""
    key_file: Path | None = None
    allow_plain: bool = False
    """Take tokens from other machines without TLS: only where the network, or a proxy, keeps them safe."""
    requests_per_s: Annotated[float, Field(ge=1, le=100_000)] = 1000.0
    """Of one peer; a change counts as 20."""
    connections: Annotated[int, Field(ge=8, le=10_000)] = 512
    """At a time, all together; the Unix socket's are not counted."""
    streams: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Event streams at a time."""

    @model_validator(mode="after")
    def _both_or_none(self) -> ApiSettings:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file must be set together")
        return self


class StoreSettings(Table):
    """Where the history lies: the path of a SQLite file or a SQLAlchemy URL."""

    url: str = Field(default_factory=lambda: str(Path(os.environ.get("STATE_DIRECTORY", ".")) / "vllm-governor.db"))
    recording_hours: Annotated[float, Field(ge=0, le=24 * 14)] = 24.0
    """How far back what the policies saw is kept, tick by tick, for `replay` and `report`; 0 keeps none."""
    node: Annotated[str, Field(max_length=255)] | None = None
    """Name of this daemon's rows; None: the machine's name and the engine's port, as gpu1:8000."""
    seconds_kept_hours: Annotated[float, Field(gt=0, le=24 * 14)] = 24.0
    """How long the signals are kept tick by tick before minutes are made of them."""
    minutes_kept_days: Annotated[float, Field(gt=0, le=366)] = 31.0
    """How long those are kept before hours are made of them."""
    hours_kept_days: Annotated[float, Field(gt=0, le=3660)] = 366.0
    """How long the hours are kept."""
    decisions_kept_days: Annotated[float, Field(gt=0, le=3660)] = 366.0
    """Of decisions, alerts, deliveries and operators' actions."""
    max_mb: Annotated[float, Field(ge=16)] = 2048.0
    """SQLite: the file grows no further; the oldest recordings and readings make room."""
    wal_max_mb: Annotated[float, Field(ge=4)] = 64.0
    """SQLite: where a long reader lets the write-ahead log grow past this, all but decisions wait in memory."""
    commit_timeout_s: Annotated[float, Field(gt=0, le=10)] = 1.0
    """A change waits so long at most for its intent to be on disk, then it is made and recorded when it can be."""
    queue: Annotated[int, Field(ge=100, le=1_000_000)] = 10_000
    """How many writes wait in memory at most while the database cannot be written; then the oldest are dropped."""


class TariffSettings(Table):
    """What things cost. None: not known, and the cost that rests on it is not told."""

    currency: Annotated[str, Field(min_length=1, max_length=8)] = "CNY"
    """Of all prices."""
    per_kwh: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Electricity."""
    per_gpu_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Rent of one card, or its depreciation."""
    per_network_gb: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """What is sent to clients."""


class LogSettings(Table):
    """`level` as Python's logging names it."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """What is less urgent is not logged."""


class Settings(BaseSettings):
    """All settings. `GOVERNOR_ENGINE__URL` in the environment is `url` in the table `[engine]`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_NESTED, env_ignore_empty=True
    )

    mode: Mode = Mode.AUTO
    """What the governor may do: steer, look on, hold the static batch, leave the knobs to people, nothing."""
    tick_s: Annotated[float, Field(ge=0.2, le=60)] = 1.0
    """How often it measures and decides."""
    time_zone: TimeZoneName = None
    """Of the schedule's and the maintenance windows' times, as Europe/Berlin; None: the machine's."""
    engine: EngineSettings = Field(default_factory=EngineSettings)
    gpu: GpuSettings = Field(default_factory=GpuSettings)
    prometheus: PrometheusSettings = Field(default_factory=PrometheusSettings)
    api: ApiSettings = Field(default_factory=ApiSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    tariff: TariffSettings = Field(default_factory=TariffSettings)
    slo: SlosSettings = Field(default_factory=SlosSettings)
    maintenance: tuple[MaintenanceSettings, ...] = ()
    policies: PoliciesSettings = Field(default_factory=PoliciesSettings)
    guards: GuardSettings = Field(default_factory=GuardSettings)
    outcomes: JudgementSettings = Field(default_factory=JudgementSettings)
    alerts: AlertsSettings = Field(default_factory=AlertsSettings)
    check: CheckSettings = Field(default_factory=CheckSettings)
    log: LogSettings = Field(default_factory=LogSettings)

    @property
    def node(self) -> str:
        """The name of this daemon's rows in the history."""
        if self.store.node is not None:
            return self.store.node
        engine = urlsplit(self.engine.url)
        return f"{socket.gethostname()}:{engine.port or engine.scheme}"

    @model_validator(mode="after")
    def _lease_outlives_ticks(self) -> Settings:
        if self.engine.lease_s < 3 * self.tick_s:
            raise ValueError(
                f"engine.lease_s = {self.engine.lease_s:g} must be at least three times tick_s = {self.tick_s:g}, "
                "or the lease runs out between two ticks"
            )
        return self

    @model_validator(mode="after")
    def _times_have_a_zone(self) -> Settings:
        try:
            Timetable(self.slo, self.maintenance, self.time_zone)
        except (LookupError, OSError, ValueError) as error:
            raise ValueError(f"time_zone must be set: this machine does not say its own ({error})") from error
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
    values = read_toml(path, "settings") if path is not None else {}
    _reject_unknown_environment()
    source = f"{path} and the environment" if path else "the environment"
    kind = _with_extensions(extensions.find())
    try:
        return with_seed_variables(kind(**values))
    except ValidationError as error:
        raise refusal(error, source, kind) from error
    except EnvironmentSettingsError as error:
        raise SettingsError(
            f"cannot use the environment: {error}; name one setting, as GOVERNOR_ENGINE__URL"
        ) from error


def _with_extensions(found: extensions.Extensions) -> type[Settings]:
    """Settings with a table for each policy of somebody else."""
    table: Any = found.settings
    if table is PoliciesSettings:
        return Settings
    return create_model("Settings", __base__=Settings, policies=(table, Field(default_factory=table)))


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a file; `what` it is, for the sentence. Raises SettingsError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the {what} file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot understand the {what} file {path}: {error}") from error


def with_seed_variables(settings: Settings) -> Settings:
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


def refusal(error: ValidationError, source: str, kind: type[BaseModel], table: str = "") -> SettingsError:
    """One sentence for each fault. `kind` is the class that refused, `table` its key where it is one of several."""
    above = (table,) if table else ()
    return SettingsError("\n".join(_sentence(fault, source, kind, above) for fault in error.errors()))


def _sentence(fault: Any, source: str, kind: type[BaseModel], above: tuple[str, ...]) -> str:
    location = [str(part) for part in fault["loc"]]
    if not location and not above:
        return f"cannot use the settings (from {source}): {fault['msg'].removeprefix('Value error, ')}"
    key = ".".join((*above, *location))
    if fault["type"] == "extra_forbidden":
        near = difflib.get_close_matches(location[-1], _known_keys(kind, location[:-1]), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"cannot use the setting {key} (from {source}): there is no such key{hint}"
    message = fault["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"cannot use the setting {key} = {fault.get('input')!r} (from {source}): {message}"


def _known_keys(kind: type[BaseModel], path: list[str]) -> list[str]:
    model: Any = kind
    for part in path:
        if part not in model.model_fields:  # the place in a list of tables, or a table's own name
            continue
        annotation = model.model_fields[part].annotation
        options = [annotation, *getattr(annotation, "__args__", ())]
        model = next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)
