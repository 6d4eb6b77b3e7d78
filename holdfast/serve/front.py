"""The front of several replicas: one address that sends each request to the replica of its tenant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeAlias

from holdfast.serve.app import ACTIONS, say_errors
from holdfast.serve.forwarding import Call, Reply
from holdfast.serve.gate import HEADERS, Gate
from holdfast.serve.limits import Limits, RefusedError, check_tenant
from holdfast.serve.merging import merged_metrics, merged_status
from holdfast.serve.metrics import Metrics, needs_serve
from holdfast.serve.page import page
from holdfast.serve.reading import body_of, object_of, tenant_of
from holdfast.serve.state_folder import shard_of

__all__ = ["Front", "Reach", "create_front"]

Reach: TypeAlias = Callable[[int, Call], Awaitable[Reply]]
PART_SECONDS = 5.0  # for one replica to send its part of a common answer


def create_front(
    reach: Reach, *, shards: int, limits: Limits, token: str | None = None, hosts: Collection[str] | None = None
) -> Any:
    """Return the ASGI application before `shards` replicas; `reach` sends a call to one of them."""
    try:
        from fastapi import FastAPI
    except ImportError as error:
        raise needs_serve(error) from error
    front = Front(reach, shards, limits)
    app = FastAPI(title="holdfast", docs_url=None, redoc_url=None, openapi_url=None)
    say_errors(app)
    for name in ("predict", "export", *ACTIONS):
        app.add_route(f"/v1/{name}", front.of_tenant, ["POST"])
        app.add_route(f"/v1/tenants/{{tenant}}/{name}", front.of_tenant, ["POST"])
    for name in ("status", "history"):
        app.add_route(f"/v1/{name}", front.of_tenant if name == "history" else front.status, ["GET"])
        app.add_route(f"/v1/tenants/{{tenant}}/{name}", front.of_tenant, ["GET"])
    app.add_route("/v1/feedback", front.feedback, ["POST"])
    watching = {"/": front.live, "/healthz": front.healthy, "/readyz": front.ready, "/metrics": front.measured}
    for path, call in {**watching, "/openapi.json": front.described}.items():
        app.add_route(path, call, ["GET"])
    app.add_middleware(Gate, metrics=front.metrics, token=token, hosts=hosts)
    return app


class Front:
    """Decides whose a request is, and sends it to that tenant's replica.

    A tenant belongs to one shard by its name alone (`shard_of`), and the replica reads the name from the path that the
    front writes: no two replicas ever have the same tenant.
    """

    def __init__(self, reach: Reach, shards: int, limits: Limits) -> None:
        self.reach, self.shards, self.limits, self.metrics = reach, shards, limits, Metrics()

    async def of_tenant(self, request: Any) -> Any:
        """Send a request of one tenant to its replica."""
        what = request.url.path.rpartition("/")[2]
        said = await object_of(request, self.limits) if what in ("export", *ACTIONS) else {}
        name = check_tenant(tenant_of(request, _named(request), said))
        body = await body_of(request, self.limits) if what == "predict" else b""
        return await self._from(shard_of(name, self.shards), request, f"/v1/tenants/{name}/{what}", body)

    async def feedback(self, request: Any) -> Any:
        """Send a label to the replica that predicted."""
        said = await object_of(request, self.limits)
        place = said.get("id", said.get("prediction_id"))
        name = place.partition(":")[0] if isinstance(place, str) else ""
        return await self._from(shard_of(name, self.shards), request, "/v1/feedback", json.dumps(said).encode())

    async def status(self, request: Any) -> Any:
        """Return the status of all replicas as one, or of one tenant."""
        if _named(request) or request.headers.get("x-tenant"):
            return await self.of_tenant(request)
        return _json(merged_status([None if one is None else json.loads(one.body) for one in await self._all(request)]))

    async def ready(self, request: Any) -> Any:
        """Return 200 while every replica serves predictions."""
        found = [one is not None and one.status == 200 for one in await self._all(request)]
        return _json({"ready": all(found), "replicas": found}, 200 if all(found) else 503)

    async def measured(self, request: Any) -> Any:
        """Return the metrics of all replicas."""
        from fastapi import Response

        parts = {str(shard): one.body.decode() for shard, one in enumerate(await self._all(request)) if one is not None}
        text = merged_metrics({**parts, "front": self.metrics.text().decode()})
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def described(self, request: Any) -> Any:
        """Return the description of the addresses, which all replicas share."""
        return await self._from(0, request, request.url.path)

    async def healthy(self, _: Any) -> Any:
        """Return 200 while the process runs."""
        return _json({"status": "ok"})

    async def live(self, _: Any) -> Any:
        """Return the live page."""
        from fastapi import Response

        return Response(page(), media_type="text/html; charset=utf-8")

    async def _from(self, shard: int, request: Any, path: str, body: bytes = b"") -> Any:
        from fastapi import Response

        reply = await self.reach(shard, Call.of(request.scope, path, body))
        response = Response(reply.body, reply.status)
        response.raw_headers = [pair for pair in reply.headers if pair not in HEADERS]  # the gate adds them again
        return response

    async def _all(self, request: Any) -> list[Reply | None]:
        async def part(shard: int) -> Reply | None:
            try:
                return await asyncio.wait_for(self.reach(shard, Call.of(request.scope, request.url.path)), PART_SECONDS)
            except (asyncio.TimeoutError, RefusedError):
                return None

        return list(await asyncio.gather(*[part(shard) for shard in range(self.shards)]))


def _named(request: Any) -> str | None:
    found: str | None = request.path_params.get("tenant", request.query_params.get("tenant"))
    return found


def _json(content: Any, status: int = 200) -> Any:
    from fastapi import Response

    return Response(json.dumps(content), status, media_type="application/json")
