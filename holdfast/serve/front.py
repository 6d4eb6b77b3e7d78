"""The front of several replicas: one address that sends each request to the replica of its tenant."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.serve.forwarding import Call, Reply, json_reply
from holdfast.serve.gate import HEADERS, Gate
from holdfast.serve.inference_protocol import tenant_in
from holdfast.serve.limits import Limits, RefusedError, check_tenant
from holdfast.serve.merging import merged_metrics, merged_status
from holdfast.serve.metrics import Metrics, needs_serve
from holdfast.serve.reading import BodyRoom, tenant_of
from holdfast.serve.state_folder import shard_of

if TYPE_CHECKING:
    from fastapi import Request, Response

    from holdfast.serve.messages import Label

Reach: TypeAlias = Callable[[int, Call], Awaitable[Reply]]
PART_SECONDS = 5.0  # for one replica to send its part of a common answer


def create_front(
    reach: Reach, *, shards: int, limits: Limits, token: str | None = None, hosts: Collection[str] | None = None
) -> Any:
    """Return the ASGI application before `shards` replicas; `reach` sends a call to one of them."""
    try:
        from holdfast.serve.routes import application
    except ImportError as error:
        raise needs_serve(error) from error
    front = Front(reach, shards, limits)
    app = application(front)
    app.add_middleware(Gate, metrics=front.measured, token=token, hosts=hosts)
    return app


class Front:
    """The engine that sends a request to its tenant's replica.

    A tenant belongs to one shard by its name alone (`shard_of`), and the replica reads the name from the path that the
    front writes: no two replicas ever have the same tenant.
    """

    def __init__(self, reach: Reach, shards: int, limits: Limits) -> None:
        self.reach, self.shards, self.limits, self.measured = reach, shards, limits, Metrics()
        self.room = BodyRoom(limits)

    async def predict(self, tenant: str, request: "Request", *, logits: bool) -> "Response":
        """Predict the inputs in a body."""
        check_tenant(tenant)
        async with self.room.body(request) as body:
            return await self._of_tenant("predict", tenant, request, body)

    async def infer(self, model: str, tenant: str | None, request: "Request") -> "Response":
        """Predict the tensor in a request of the Open Inference Protocol."""
        length = request.headers.get("inference-header-content-length")
        headers = [pair for pair in request.scope["headers"] if pair[0] != b"x-tenant"]
        async with self.room.body(request) as body:
            name = check_tenant(tenant_of(tenant_in(body, length) if tenant is None else tenant))
            scope = {**request.scope, "headers": [*headers, (b"x-tenant", name.encode())]}
            return await self._reached(shard_of(name, self.shards), Call.of(scope, request.url.path, body))

    async def model(self, model: str, request: "Request") -> "Response":
        """Describe the model, which all replicas share."""
        return await self._from(0, request, request.url.path)

    async def status(self, tenant: str | None, request: "Request") -> "Response":
        """Return the status of all replicas as one, or of one tenant."""
        if tenant is not None:
            return await self._of_tenant("status", tenant, request)
        parts = [None if one is None else json.loads(one.body) for one in await self._all(request)]
        return json_reply(merged_status(parts))

    async def history(self, tenant: str, request: "Request", *, since: float) -> "Response":
        """Return the last decisions."""
        return await self._of_tenant("history", tenant, request)

    async def export(self, tenant: str, request: "Request") -> "Response":
        """Return a state as a file."""
        return await self._of_tenant("export", tenant, request)

    async def act(self, action: str, tenant: str, request: "Request") -> "Response":
        """Reset, freeze or resume."""
        return await self._of_tenant(action, tenant, request)

    async def feedback(self, label: "Label", request: "Request") -> "Response":
        """Send a label to the replica that predicted."""
        tenant = label.id.partition(":")[0]
        body = label.model_dump_json(exclude_unset=True).encode()
        return await self._from(shard_of(tenant, self.shards), request, "/v1/feedback", body)

    async def ready(self, request: "Request") -> "Response":
        """Return 200 while every replica serves predictions."""
        serving = [one is not None and one.status == 200 for one in await self._all(request)]
        return json_reply({"ready": all(serving), "replicas": serving}, 200 if all(serving) else 503)

    async def metrics(self, request: "Request") -> "Response":
        """Return the metrics of all replicas."""
        from fastapi import Response

        parts = {str(shard): one.body.decode() for shard, one in enumerate(await self._all(request)) if one is not None}
        text = merged_metrics({**parts, "front": self.measured.text().decode()})
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _of_tenant(self, what: str, tenant: str, request: "Request", body: bytes = b"") -> "Response":
        name = check_tenant(tenant)
        return await self._from(shard_of(name, self.shards), request, f"/v1/tenants/{name}/{what}", body)

    async def _from(self, shard: int, request: "Request", path: str, body: bytes = b"") -> "Response":
        return await self._reached(shard, Call.of(request.scope, path, body))

    async def _reached(self, shard: int, call: Call) -> "Response":
        from fastapi import Response

        reply = await self.reach(shard, call)
        kept = [pair for pair in reply.headers if pair not in HEADERS]  # the gate adds them again
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in kept}
        return Response(reply.body, reply.status, headers)

    async def _all(self, request: "Request") -> list[Reply | None]:
        async def part(shard: int) -> Reply | None:
            try:
                return await asyncio.wait_for(self.reach(shard, Call.of(request.scope, request.url.path)), PART_SECONDS)
            except (asyncio.TimeoutError, RefusedError):
                return None

        return list(await asyncio.gather(*[part(shard) for shard in range(self.shards)]))
