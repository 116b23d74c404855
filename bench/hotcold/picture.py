"""The four loads as a picture. Belongs here: drawing, as SVG, with the standard library alone. Never: measuring."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.hotcold.contest import Outcome

BARS = {
    "lru": ("stock LRU", "#7a7a7a"),
    "tier30": ("tiers 0.3", "#6d9fd4"),
    "tier40": ("tiers 0.4", "#1f5fa8"),
    "belady": ("Belady", "#c4661f"),
}
_PANEL_W, _PANEL_H, _GAP, _TOP = 400, 230, 24, 84
_BAR_W, _BASE, _PLOT_H = 62, 190, 140


def draw(outcomes: Sequence[Outcome], caption: str) -> str:
    """An SVG of two panels by two: bars for the replay, a line across each for the live run."""
    width, height = 2 * _PANEL_W + 3 * _GAP, _TOP + 2 * (_PANEL_H + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12" fill="#222">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(_GAP, 30, "Prefix cache: share of prompt tokens found", size=17),
        _text(_GAP, 50, caption, colour="#555"),
        _text(
            _GAP, 68, "bars: replay of the stock run's events; black line: live, each on its own engine", colour="#555"
        ),
    ]
    for index, outcome in enumerate(outcomes):
        row, column = divmod(index, 2)
        parts += _panel(_GAP + column * (_PANEL_W + _GAP), _TOP + row * (_PANEL_H + _GAP), outcome)
    return "\n".join([*parts, "</svg>", ""])


def _panel(left: int, top: int, outcome: Outcome) -> list[str]:
    highest = max(*outcome.replayed.values(), 1e-9)
    lru = outcome.replayed["lru"]
    parts = [
        f'<g transform="translate({left},{top})">',
        f'<rect width="{_PANEL_W}" height="{_PANEL_H}" fill="none" stroke="#ddd"/>',
        _text(12, 20, outcome.load.name, size=14),
        _text(12, 36, outcome.load.what, size=9, colour="#555"),
        f'<line x1="12" x2="{_PANEL_W - 12}" y1="{_BASE}" y2="{_BASE}" stroke="#999"/>',
    ]
    for place, (name, (label, colour)) in enumerate(BARS.items()):
        x, rate = 26 + place * (_BAR_W + 32), outcome.replayed[name]
        tall = (_PLOT_H - 20) * rate / highest
        times = f" ({rate / lru:.2f}x)" if lru and name != "lru" else ""
        parts.append(
            f'<rect x="{x}" y="{_BASE - tall:.1f}" width="{_BAR_W}" height="{tall:.1f}" fill="{colour}"/>'
            + _text(x + _BAR_W / 2, _BASE - tall - 5, f"{rate:.1%}{times}", anchor="middle", size=11)
            + _text(x + _BAR_W / 2, _BASE + 17, label, anchor="middle", size=11)
        )
        if name in outcome.live and highest > 1e-9:
            y = _BASE - (_PLOT_H - 20) * outcome.live[name].hit_rate / highest
            parts.append(
                f'<line x1="{x}" x2="{x + _BAR_W}" y1="{y:.1f}" y2="{y:.1f}" stroke="#000" stroke-width="1.5"/>'
            )
    parts.append(_text(12, _PANEL_H - 8, f"requests/s live, tiers 0.4 over stock: {outcome.rps_ratio:.3f}", size=11))
    return [*parts, "</g>"]


def _text(x: float, y: float, said: str, *, size: int = 12, anchor: str = "start", colour: str = "#222") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{escape(said)}</text>'
    )
