"""The HTTP application of one service: its verbs behind the addresses."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.serve.forwarding import json_reply
from holdfast.serve.gate import Gate
from holdfast.serve.inference_protocol import inference_reply, model_metadata, read_inference
from holdfast.serve.limits import RefusedError
from holdfast.serve.metrics import needs_serve
from holdfast.serve.reading import BodyRoom, tenant_of
from holdfast.serve.service import Service

if TYPE_CHECKING:
    from fastapi import Request, Response

    from holdfast.serve.messages import Label


def create_app(service: Service, *, token: str | None = None, hosts: Collection[str] | None = None) -> Any:
    """Return the ASGI application of a service: it starts with the application and stops with it.

    With a `token` all but the page and the health checks want it; `hosts` are the names that the service answers to.
    """
    try:
        from holdfast.serve.routes import application
    except ImportError as error:
        raise needs_serve(error) from error

    @asynccontextmanager
    async def living(_: Any) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = application(Local(service), lifespan=living)
    app.add_middleware(Gate, metrics=service.metrics, token=token, hosts=hosts)
    return app


class Local:
    """The engine of a service in this process."""

    def __init__(self, service: Service) -> None:
        self.service, self.limits, self.room = service, service.limits, BodyRoom(service.limits)

    async def predict(self, tenant: str, request: "Request", *, logits: bool) -> "Response":
        """Predict the inputs in a body."""
        self.service.admit(tenant)
        async with self.room.body(request) as body:
            inputs = await self.service.decoding.decode(body, request.headers.get("content-type", ""))
        return json_reply((await self.service.predicted(tenant, inputs)).to_dict(logits=logits))

    async def infer(self, model: str, tenant: str | None, request: "Request") -> "Response":
        """Predict the tensor in a request of the Open Inference Protocol."""
        from fastapi import Response

        await self.model(model, request)
        decoding = self.service.decoding
        length = request.headers.get("inference-header-content-length")
        async with self.room.body(request) as body:
            asked = await decoding.run(read_inference, body, length, decoding.decoder)
        name = tenant_of(tenant, asked.tenant)
        self.service.admit(name)
        inputs = await decoding.run(decoding.decoder.tensor, asked.values)
        newest = self.service.newest(name)
        content, headers = inference_reply(model, asked, await self.service.predicted(name, inputs), newest)
        return Response(content, headers=headers)

    async def model(self, model: str, _: "Request") -> "Response":
        """Describe the model to clients of the Open Inference Protocol."""
        service = self.service
        if model != service.name:
            raise RefusedError(404, f"there is no model of this name; the service has {service.name}")
        network = service.tenants.model.method.model
        return json_reply(model_metadata(model, network.input_dtype, network.input_spec.shape, network.num_classes))

    async def status(self, tenant: str | None, _: "Request") -> "Response":
        """Say what the service does."""
        return json_reply(await asyncio.to_thread(self.service.status, tenant))

    async def history(self, tenant: str, _: "Request", *, since: float) -> "Response":
        """Return the last decisions."""
        return json_reply(await asyncio.to_thread(self.service.history, tenant, since))

    async def export(self, tenant: str, _: "Request") -> "Response":
        """Return a state as a file."""
        from fastapi import Response

        content = await asyncio.to_thread(self.service.export, tenant)
        attached = {"content-disposition": f'attachment; filename="{tenant}.safetensors"'}
        return Response(content, media_type="application/octet-stream", headers=attached)

    async def act(self, action: str, tenant: str, _: "Request") -> "Response":
        """Reset, freeze or resume."""
        return json_reply((await asyncio.to_thread(self.service.act, action, tenant)).to_dict())

    async def feedback(self, label: "Label", _: "Request") -> "Response":
        """Take a label."""
        take = partial(self.service.feedback, label.id, label.label, correct=label.correct)
        return json_reply({"counts": await asyncio.to_thread(take)})

    async def ready(self, _: "Request") -> "Response":
        """Say whether predictions are served."""
        return json_reply({"ready": self.service.ready}, 200 if self.service.ready else 503)

    async def metrics(self, _: "Request") -> "Response":
        """Return metrics for Prometheus."""
        from fastapi import Response

        return Response(self.service.gauge(), media_type="text/plain; version=0.0.4; charset=utf-8")
