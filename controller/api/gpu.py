"""POST /api/v1/gpu/release and /api/v1/gpu/take.

Belongs here: these two calls. Never: how NVML is let go of (controller/sensors/nvml).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.steering import GpuOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind


def gpu_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    gpu = operations.gpu

    async def release(call: Call[None, None]) -> GpuOut:
        return GpuOut.model_validate(await gpu.release(call.who))

    async def take(call: Call[None, None]) -> GpuOut:
        return GpuOut.model_validate(await gpu.take(call.who))

    silent = (Kind.UNAVAILABLE,)
    said = "let go of NVML, so that a GPU can be reset"
    yield Route("POST", "/api/v1/gpu/release", Access.ADMIN, release, said, GpuOut, problems=silent)
    yield Route("POST", "/api/v1/gpu/take", Access.ADMIN, take, "read NVML again", GpuOut, problems=silent)
