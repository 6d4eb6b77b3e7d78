"""The HTTP application: addresses, and what each of them calls."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast import __version__
from holdfast.serve.gate import Gate
from holdfast.serve.limits import RefusedError
from holdfast.serve.metrics import needs_serve
from holdfast.serve.page import page
from holdfast.serve.reading import DEFAULT_TENANT, body_of, object_of, tenant_of
from holdfast.serve.service import Answer, Service

if TYPE_CHECKING:
    from fastapi import Response as JsonResponse

__all__ = ["create_app", "say_errors"]

ACTIONS = {
    "reset": "Return a tenant to the source.",
    "freeze": "Predict a tenant without adapting.",
    "resume": "Adapt to a tenant again.",
}
TENANT_HEADER = {
    "name": "X-Tenant",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "default": DEFAULT_TENANT, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
    "description": "The stream that the request belongs to.",
}
BINARY = {"schema": {"type": "string", "format": "binary"}}
NUMBERS = {"type": "array", "items": {}}
PREDICT = {
    "parameters": [
        {"name": "logits", "in": "query", "required": False, "schema": {"type": "boolean", "default": False}},
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object", "properties": {"inputs": NUMBERS}}},
            **dict.fromkeys(("application/x-npy", "image/png", "image/jpeg", "audio/wav", "audio/flac"), BINARY),
            "multipart/form-data": {"schema": {"type": "object", "additionalProperties": BINARY["schema"]}},
        },
    },
}
FEEDBACK = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["id", "label"],
                    "properties": {"id": {"type": "string"}, "label": {"type": "integer", "nullable": True}},
                }
            }
        },
    }
}


def create_app(service: Service, *, token: str | None = None, hosts: Collection[str] | None = None) -> Any:
    """Return the ASGI application of a service: it starts with the application and stops with it.

    With a `token` all but the page and the health checks want it; `hosts` are the names that the service answers to.
    """
    try:
        from fastapi import FastAPI, Response
    except ImportError as error:
        raise needs_serve(error) from error

    @asynccontextmanager
    async def living(_: Any) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = FastAPI(title="holdfast", version=__version__, lifespan=living, docs_url=None, redoc_url=None)
    say_errors(app)

    def route(method: str, path: str, call: Any, summary: str, **documented: Any) -> None:
        app.add_api_route(
            path,
            call,
            methods=[method],
            response_class=Response,
            summary=summary,
            operation_id=f"{method.lower()} {path}",
            openapi_extra=documented,
        )

    def of_tenant(method: str, name: str, call: Any, summary: str, **documented: Any) -> None:
        by_header = [TENANT_HEADER, *documented.get("parameters", [])]
        route(method, f"/v1/{name}", call, summary, **{**documented, "parameters": by_header})
        route(method, f"/v1/tenants/{{tenant}}/{name}", call, summary, **documented)

    of_tenant("POST", "predict", _predicting(service), "Predict inputs of one tenant, and adapt to them.", **PREDICT)
    reading = _reading(service)
    of_tenant("GET", "status", reading["status"], "Return what the service does, for all tenants or one.")
    of_tenant("GET", "history", reading["history"], "Return the last decisions of one tenant.")
    of_tenant("POST", "export", reading["export"], "Return the state of a tenant as a safetensors file.")
    for action, summary in ACTIONS.items():
        of_tenant("POST", action, _acting(service, action), summary)
    route("POST", "/v1/feedback", _labelling(service), "Send the true class of a prediction.", **FEEDBACK)
    watching = _watching(service)
    route("GET", "/healthz", watching["healthy"], "Return 200 while the process runs.")
    route("GET", "/readyz", watching["ready"], "Return 200 while predictions are served.")
    route("GET", "/metrics", watching["metrics"], "Return metrics for Prometheus.")
    app.add_api_route("/", watching["live"], methods=["GET"], response_class=Response, include_in_schema=False)
    app.add_middleware(Gate, metrics=service.metrics, token=token, hosts=hosts)
    return app


def say_errors(app: Any) -> None:
    """Let the framework's own errors have the form of all others: {"error": one sentence}."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    async def refused(_: Any, error: Any) -> Any:
        known = {404: "there is nothing at this address", 405: "this address takes another method: GET or POST"}
        return _json({"error": known.get(error.status_code, "the request is not understood")}, error.status_code)

    async def misread(_: Any, error: Any) -> Any:
        wrong = ", ".join(str(one["loc"][-1]) for one in error.errors())
        return _json({"error": f"these parameters have wrong values: {wrong}"}, 422)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, misread)


def _predicting(service: Service) -> Any:
    from fastapi import Request, Response

    async def predict(request: Request, tenant: str | None = None) -> Response:
        name = tenant_of(request, tenant)
        service.admit(name)
        body = await body_of(request, service.limits)
        inputs = await service.decoding.decode(body, request.headers.get("content-type", ""))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()

        def settle(result: object) -> None:
            if not future.done():  # the client may have gone
                future.set_result(result)

        def answer(result: object) -> None:
            loop.call_soon_threadsafe(settle, result)

        service.submit(name, inputs, answer)
        result = await future
        if isinstance(result, Exception):
            raise result
        assert isinstance(result, Answer)
        with_logits = request.query_params.get("logits", "").lower() in ("1", "true")
        return _json(result.to_dict(logits=with_logits))

    return predict


def _acting(service: Service, action: str) -> Any:
    from fastapi import Request, Response

    async def act(request: Request, tenant: str | None = None) -> Response:
        name = tenant_of(request, tenant, await object_of(request, service.limits))
        return _json((await asyncio.to_thread(service.act, action, name)).to_dict())

    return act


def _labelling(service: Service) -> Any:
    from fastapi import Request, Response

    async def feedback(request: Request) -> Response:
        body = await object_of(request, service.limits)
        place, label = body.get("id", body.get("prediction_id")), body.get("label")
        known = "label" in body and (label is None or (isinstance(label, int) and not isinstance(label, bool)))
        if not isinstance(place, str) or not known:
            raise RefusedError(422, 'send {"id": "…", "label": a class, or null}')
        return _json({"counts": await asyncio.to_thread(service.feedback, place, label)})

    return feedback


def _reading(service: Service) -> dict[str, Any]:
    from fastapi import Request, Response

    async def status(request: Request, tenant: str | None = None) -> Response:
        name = tenant or request.headers.get("x-tenant")
        return _json(await asyncio.to_thread(service.status, name))

    async def history(request: Request, tenant: str | None = None, since: float = 0.0) -> Response:
        return _json(await asyncio.to_thread(service.history, tenant_of(request, tenant), since))

    async def export(request: Request, tenant: str | None = None) -> Response:
        name = tenant_of(request, tenant, await object_of(request, service.limits))
        content = await asyncio.to_thread(service.export, name)
        attached = {"content-disposition": f'attachment; filename="{name}.safetensors"'}
        return Response(content, media_type="application/octet-stream", headers=attached)

    return {"status": status, "history": history, "export": export}


def _watching(service: Service) -> dict[str, Any]:
    from fastapi import Response

    async def healthy() -> Response:
        return _json({"status": "ok"})

    async def ready() -> Response:
        return _json({"ready": service.ready}, 200 if service.ready else 503)

    async def metrics() -> Response:
        return Response(service.gauge(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def live() -> Response:
        return Response(page(), media_type="text/html; charset=utf-8")

    return {"healthy": healthy, "ready": ready, "metrics": metrics, "live": live}


def _json(content: Any, status: int = 200) -> "JsonResponse":
    from fastapi import Response

    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")
