"""GET /metrics: the daemon's own series.

Belongs here: this one resource. Never: which series there are.
"""

from __future__ import annotations

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from controller.api.routes import Access, Call, Route
from controller.metrics.exposition import registry
from controller.metrics.observed import Observed

MEDIA = ("text/plain", "application/openmetrics-text")


def metrics(observed: Observed) -> Route:
    """OpenMetrics or Prometheus' text, as the scraper's Accept header asks; gzip where it takes that."""
    expose = make_aiohttp_handler(registry(observed))

    async def show(call: Call[None, None]) -> web.StreamResponse:
        return await expose(call.request)

    return Route("GET", "/metrics", Access.OPEN, show, "series for Prometheus", media=MEDIA)
