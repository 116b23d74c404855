"""The table of all routes.

Belongs here: which routes there are. Never: what one answers.
"""

from __future__ import annotations

from controller.api.alerts import alert_routes
from controller.api.check import check_routes
from controller.api.cost import cost_routes
from controller.api.decisions import decision_routes
from controller.api.events import event_routes
from controller.api.gpu import gpu_routes
from controller.api.health import health_routes
from controller.api.history import history_routes
from controller.api.knobs import knob_routes
from controller.api.metrics import metrics
from controller.api.mode import mode_routes
from controller.api.openapi import openapi_route
from controller.api.policies import policy_routes
from controller.api.purge import purge_routes
from controller.api.receivers import receiver_routes
from controller.api.replay import replay_routes
from controller.api.rollback import rollback_routes
from controller.api.routes import Route
from controller.api.settings import settings_routes
from controller.api.signals import signal_routes
from controller.api.silences import silence_routes
from controller.api.static import Files, static_routes
from controller.api.status import status_routes
from controller.loop import Loop
from controller.operations.application import Operations
from controller.settings import ApiSettings


def table(operations: Operations, loop: Loop, settings: ApiSettings) -> list[Route]:
    """Every route of the daemon."""
    rows = [
        *status_routes(operations, loop.clock),
        *check_routes(operations),
        *signal_routes(operations),
        *knob_routes(operations),
        *policy_routes(operations),
        *mode_routes(operations),
        *decision_routes(operations),
        *history_routes(operations),
        *cost_routes(operations),
        *purge_routes(operations),
        *rollback_routes(operations),
        *alert_routes(operations),
        *silence_routes(operations),
        *receiver_routes(operations),
        *gpu_routes(operations),
        *replay_routes(operations),
        *event_routes(operations, settings.streams),
        *settings_routes(operations),
        *health_routes(operations),
        metrics(loop.observed),
        *static_routes(Files()),
    ]
    return [*rows, openapi_route(rows, reads_need_token=settings.read_token_file is not None)]
