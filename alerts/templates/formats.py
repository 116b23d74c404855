"""How each chat service writes bold, links and line ends, and how a text is kept from being read as any of that.

Belongs here: one `Format` per service. Never: what a message says, requests.

Slack: mrkdwn, where & < > alone are escaped; Mattermost and Rocket.Chat, which take the same, read `@all` and
`[words](address)` too: an invisible space keeps the characters apart. DingTalk: Markdown with backslashes. Feishu:
Markdown in a card, where special characters are written as HTML entities. WeCom: a Markdown of its own that has no way
to escape; an invisible space here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from alerts.sanitise import one_line

_URL_SAFE = "%/:?=&#@!$,;+~'[]"
_APART = "\u200b"
_FIRST = "(?:^|(?<=^ ))"
"""Where a line begins: some characters mean something there alone."""


@dataclass(frozen=True, slots=True)
class Format:
    """`escape` takes one line of plain text; `bold` takes escaped text, `link` an address and escaped text."""

    name: str
    escape: Callable[[str], str]
    bold: Callable[[str], str]
    link: Callable[[str, str], str]
    line_end: str = "\n"


def _slack(text: str) -> str:
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"@(?=(?:all|here|channel|everyone)\b)|\](?=\()", rf"\g<0>{_APART}", plain, flags=re.IGNORECASE)


def _dingtalk(text: str) -> str:
    return re.sub(rf"([\\`*_\[\]<]|{_FIRST}[#>+-])", r"\\\1", text)


def _feishu(text: str) -> str:
    # A bare `<at id=all></at>` in a value would call everybody.
    return re.sub(rf"[&<>*~\[\]`\\]|{_FIRST}[#+-]", lambda found: f"&#{ord(found[0])};", text)


def _wecom(text: str) -> str:
    return re.sub(rf"([<*\]]|{_FIRST}[#>])", rf"\1{_APART}", text.replace("`", "'"))


def _address(url: str) -> str:
    return quote(one_line(url), safe=_URL_SAFE)


def _markdown_bold(text: str) -> str:
    return f"**{text}**"


def _markdown_link(url: str, text: str) -> str:
    return f"[{text}]({_address(url)})"


SLACK = Format(
    "slack", _slack, lambda text: f"*{text}*", lambda url, text: f"<{_slack(_address(url))}|{text.replace('|', '/')}>"
)
# Two spaces: DingTalk joins lines that a plain newline parts.
DINGTALK = Format("dingtalk", _dingtalk, _markdown_bold, _markdown_link, line_end="  \n")
FEISHU = Format("feishu", _feishu, _markdown_bold, _markdown_link)
WECOM = Format("wecom", _wecom, _markdown_bold, _markdown_link)
