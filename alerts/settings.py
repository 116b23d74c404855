"""`[alerts]`: who is told of what, how often, and what makes what needless.

Belongs here: names, bounds, defaults, and turning a bad value into a sentence. Never: a secret itself. An address may
be one, so it is not shown in any text.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from alerts.inhibitions import SHIPPED
from alerts.matching import narrows, parse
from domain.silence import Matcher

ALL_LABELS = "..."
"""As the only name in `group_by`: every alert is a group of its own."""


class Kind(StrEnum):
    """What a receiver is."""

    WEBHOOK = "webhook"
    ALERTMANAGER = "alertmanager"
    SLACK = "slack"
    DINGTALK = "dingtalk"
    FEISHU = "feishu"
    WECOM = "wecom"


_OF_A_KIND: dict[str, frozenset[Kind]] = {
    "secret_file": frozenset({Kind.WEBHOOK, Kind.DINGTALK, Kind.FEISHU}),
    "token_file": frozenset({Kind.WEBHOOK, Kind.ALERTMANAGER}),
    "resend_s": frozenset({Kind.ALERTMANAGER}),
    "template": frozenset({Kind.SLACK, Kind.DINGTALK, Kind.FEISHU, Kind.WECOM}),
}
"""Keys that not every kind has a use for."""


def _parsed(given: Any) -> Any:
    """Text, or several of it, as matchers; what is neither is left to the type's own complaint."""
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return given
    return tuple(matcher for text in texts for matcher in parse(text))


def _narrow(matchers: tuple[Matcher, ...]) -> tuple[Matcher, ...]:
    if not narrows(matchers):
        raise ValueError('must have a matcher that an alert without labels does not meet, as alertname="emergency"')
    return matchers


def _address(url: str, example: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port past 65535, half of an IPv6 address
        fits = False
    if not fits:
        raise ValueError(f"must be an address like {example}")
    return url


Matchers = Annotated[tuple[Matcher, ...], BeforeValidator(_parsed)]
"""In Alertmanager's syntax, as `severity=~"warning|critical"`: one text or a list."""
Narrow = Annotated[tuple[Matcher, ...], BeforeValidator(_parsed), AfterValidator(_narrow)]
"""The same; text that picks everything is refused."""
LabelName = Annotated[str, Field(min_length=1, max_length=128)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class _Table(BaseModel):
    """Frozen, no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ReceiverSettings(_Table):
    """`[alerts.receivers.NAME]`. Without `matchers` it is told of everything."""

    kind: Kind
    url: str | None = Field(default=None, repr=False)
    """Where to post; of `alertmanager` the server's address, without `/api/v2`."""
    url_file: Path | None = None
    """A file that holds it instead: who knows a chat webhook's address may write there."""
    secret_file: Path | None = None
    """Holds what notifications are signed with."""
    token_file: Path | None = None
    """Holds a bearer token."""
    matchers: Matchers = ()
    send_resolved: bool = True
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    """Deadline of one attempt."""
    max_pending: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """How many notifications wait at most while the receiver cannot be reached."""
    resend_s: Annotated[float, Field(ge=5, le=300)] = 60.0
    """How often Alertmanager is told that an alert is still true; it holds one over that it no longer hears of."""
    template: Path | None = None
    """A jinja2 file for the message, in place of the shipped one."""

    @field_validator("url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        return None if url is None else _address(url, "https://alerts.example/hook")

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("must have either url or url_file")
        for key in sorted(self.model_fields_set & _OF_A_KIND.keys()):
            if self.kind not in _OF_A_KIND[key]:
                kinds = ", ".join(kind for kind in Kind if kind in _OF_A_KIND[key])
                raise ValueError(f"must not have {key}: it is for {kinds}, and kind is {self.kind}")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _without_the_address(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Errors carry what they refuse, and whoever logs them would log the address."""
        try:
            return handler(given)
        except ValidationError as error:
            raise ValidationError.from_exception_data(cls.__name__, [_hidden(one) for one in error.errors()]) from None


def _hidden(fault: Any) -> InitErrorDetails:
    secret = not fault["loc"] or fault["loc"][0] == "url"
    # The message is an argument, not the template: braces in it would be filled in.
    told = PydanticCustomError(fault["type"], "{message}", {"message": fault["msg"].removeprefix("Value error, ")})
    return InitErrorDetails(type=told, loc=fault["loc"], input="..." if secret else fault["input"])


class InhibitSettings(_Table):
    """`[[alerts.inhibit]]`: while an alert that the source picks fires, nobody is told of one that the target picks
    where both agree in the labels of `equal`.
    """

    source_matchers: Narrow
    target_matchers: Matchers
    equal: tuple[LabelName, ...] = ("instance",)


class IncomingSettings(_Table):
    """`[alerts.incoming.NAME]`: what a firing alert that Alertmanager posts here sets off."""

    matchers: Narrow
    action: Literal["emergency_purge"]


def _shipped() -> tuple[InhibitSettings, ...]:
    rows = ((parse(row.source), parse(row.target), row.equal) for row in SHIPPED)
    return tuple(InhibitSettings(source_matchers=s, target_matchers=t, equal=equal) for s, t, equal in rows)


class AlertsSettings(_Table):
    """`[alerts]`. Times mean what they mean in Alertmanager."""

    group_by: tuple[LabelName, ...] = ("alertname",)
    group_wait_s: Annotated[float, Field(ge=0, le=3600)] = 10.0
    """How long the first notification of a group waits for others of it."""
    group_interval_s: Annotated[float, Field(ge=1, le=86400)] = 60.0
    """The least time between two notifications of one group."""
    repeat_interval_s: Annotated[float, Field(ge=1, le=366 * 86400)] = 14400.0
    """After so long an unchanged group that still fires is told again."""
    max_alerts: Annotated[int, Field(ge=2, le=1000)] = 64
    """Most alerts in one notification; of the rest it says how many there are."""
    external_url: str | None = None
    """Where people reach this daemon: what the links in messages begin with."""
    receivers: dict[Name, ReceiverSettings] = Field(default_factory=dict)
    inhibit: tuple[InhibitSettings, ...] = Field(default_factory=_shipped)
    incoming: dict[Name, IncomingSettings] = Field(default_factory=dict)

    @field_validator("external_url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        return None if url is None else _address(url, "https://gpu1.example:9178").rstrip("/")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.repeat_interval_s < self.group_interval_s:
            raise ValueError(
                f"repeat_interval_s = {self.repeat_interval_s:g} must not be under group_interval_s = "
                f"{self.group_interval_s:g}: nothing is told more often than that"
            )
        if ALL_LABELS in self.group_by and len(self.group_by) > 1:
            raise ValueError(f"group_by must have {ALL_LABELS!r} alone or not at all")
        return self
