"""The addresses of the service, for every engine: what each takes, returns and calls."""

from collections.abc import Mapping
from typing import Any, Protocol

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from holdfast import __version__
from holdfast.serve.decision import Decision
from holdfast.serve.forwarding import json_reply
from holdfast.serve.inference_protocol import server_metadata
from holdfast.serve.limits import Limits
from holdfast.serve.messages import Counted, Failure, Health, Label, Prediction, Readiness, Status, Whose, checked
from holdfast.serve.page import page
from holdfast.serve.reading import object_of, tenant_of

ACTIONS = {
    "reset": "Return a tenant to the source.",
    "freeze": "Predict a tenant without adapting.",
    "resume": "Adapt to a tenant again.",
}
Anything = dict[str, Any]
REFUSALS = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 503)
BODIES = ("application/x-npy", "image/png", "image/jpeg", "audio/wav", "audio/flac")
NAME = {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}


class Engine(Protocol):
    """What serves requests: a service in this process, or several behind a front. `request` says how it was asked."""

    limits: Limits

    async def predict(self, tenant: str, request: Request, *, logits: bool) -> Response:
        """Predict the inputs in a body."""

    async def infer(self, model: str, tenant: str | None, request: Request) -> Response:
        """Predict the tensor in a request of the Open Inference Protocol."""

    async def model(self, model: str, request: Request) -> Response:
        """Describe a model to clients of that protocol, or refuse its name."""

    async def status(self, tenant: str | None, request: Request) -> Response:
        """Say what the service does."""

    async def history(self, tenant: str, request: Request, *, since: float) -> Response:
        """Return the last decisions."""

    async def export(self, tenant: str, request: Request) -> Response:
        """Return a state as a file."""

    async def act(self, action: str, tenant: str, request: Request) -> Response:
        """Reset, freeze or resume."""

    async def feedback(self, label: Label, request: Request) -> Response:
        """Take a label."""

    async def ready(self, request: Request) -> Response:
        """Say whether predictions are served."""

    async def metrics(self, request: Request) -> Response:
        """Return metrics for Prometheus."""


def _named(request: Request) -> str | None:
    """Return the tenant that the path, the query or the header names, if any."""
    named = [
        *request.query_params.getlist("tenant"),
        request.path_params.get("tenant"),
        request.headers.get("x-tenant"),
    ]
    return tenant_of(*named) if any(one is not None for one in named) else None


def application(engine: Engine, **options: Any) -> FastAPI:
    """Return the application of an engine, without the gate."""
    closed: dict[str, Any] = {"docs_url": None, "redoc_url": None, "redirect_slashes": False}
    app = FastAPI(title="holdfast", version=__version__, **closed, **options)
    _say_errors(app)

    def route(method: str, path: str, call: Any, summary: str, returns: Any = None, **documented: Any) -> None:
        refused = {503: Readiness} if returns is Readiness else {}
        app.add_api_route(
            path,
            call,
            methods=[method],
            response_class=Response if returns is None else JSONResponse,
            response_model=returns,
            responses={status: {"model": refused.get(status, Failure)} for status in REFUSALS},
            summary=summary,
            operation_id=f"{method.lower()} {path}",
            openapi_extra=documented,
        )

    def of_tenant(method: str, name: str, call: Any, summary: str, returns: Any = None, **documented: Any) -> None:
        for path in (f"/v1/{name}", f"/v1/tenants/{{tenant}}/{name}"):
            route(method, path, call, summary, returns, **_tenant(path), **documented)

    at = _Addresses(engine)
    of_tenant(
        "POST", "predict", at.predict, "Predict inputs of one tenant, and adapt to them.", Prediction, **_inputs()
    )
    of_tenant("GET", "status", at.status, "Return what the service does, for all tenants or one.", Status)
    of_tenant("GET", "history", at.history, "Return the last decisions of one tenant.", list[Decision])
    of_tenant("POST", "export", at.export, "Return the state of a tenant as a safetensors file.", **_body(Whose))
    for action, summary in ACTIONS.items():
        of_tenant("POST", action, at.acting(action), summary, Decision, **_body(Whose))
    route("POST", "/v1/feedback", at.feedback, "Send the true class of a prediction.", Counted, **_body(Label))
    route("GET", "/healthz", at.healthy, "Return 200 while the process runs.", Health)
    route("GET", "/readyz", at.ready, "Return 200 while predictions are served.", Readiness)
    route("GET", "/metrics", at.metrics, "Return metrics for Prometheus.")
    route("GET", "/v2", at.server, "Describe the server (Open Inference Protocol).", Anything)
    route("GET", "/v2/health/live", at.healthy, "Return 200 while the process runs.", Health)
    route("GET", "/v2/health/ready", at.ready, "Return 200 while predictions are served.", Readiness)
    for path in ("/v2/models/{model}", "/v2/models/{model}/versions/1"):
        route("GET", path, at.model, "Describe the model and its tensors.", Anything)
        route("GET", f"{path}/ready", at.model_ready, "Return 200 while the model predicts.", Readiness)
        documented = {**_tenant(path), **_tensors()}
        route("POST", f"{path}/infer", at.infer, "Predict a tensor, and adapt to it.", Anything, **documented)
    app.add_api_route("/", at.live, methods=["GET"], response_class=Response, include_in_schema=False)
    return app


class _Addresses:
    """Reads requests, and hands them to an engine; the signatures are what FastAPI documents."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def predict(self, request: Request, logits: bool = False) -> Response:
        return await self.engine.predict(tenant_of(_named(request)), request, logits=logits)

    async def infer(self, request: Request, model: str) -> Response:
        return await self.engine.infer(model, _named(request), request)

    async def model(self, request: Request, model: str) -> Response:
        return await self.engine.model(model, request)

    async def model_ready(self, request: Request, model: str) -> Response:
        known = await self.engine.model(model, Request({**request.scope, "path": f"/v2/models/{model}"}))
        return known if known.status_code != 200 else await self.engine.ready(request)

    async def server(self) -> Response:
        return json_reply(server_metadata())

    async def status(self, request: Request) -> Response:
        return await self.engine.status(_named(request), request)

    async def history(self, request: Request, since: float = 0.0) -> Response:
        return await self.engine.history(tenant_of(_named(request)), request, since=since)

    async def export(self, request: Request) -> Response:
        return await self.engine.export(await self._whose(request), request)

    def acting(self, action: str) -> Any:
        async def act(request: Request) -> Response:
            return await self.engine.act(action, await self._whose(request), request)

        return act

    async def feedback(self, request: Request) -> Response:
        return await self.engine.feedback(checked(Label, await object_of(request, self.engine.limits)), request)

    async def ready(self, request: Request) -> Response:
        return await self.engine.ready(request)

    async def metrics(self, request: Request) -> Response:
        return await self.engine.metrics(request)

    async def healthy(self) -> Response:
        return json_reply({"status": "ok"})

    async def live(self) -> Response:
        return Response(page(), media_type="text/html; charset=utf-8")

    async def _whose(self, request: Request) -> str:
        return tenant_of(_named(request), checked(Whose, await object_of(request, self.engine.limits)).tenant)


def _body(message: type[BaseModel]) -> Mapping[str, Any]:
    """Describe a body by its model: it is read with limits of size and time, which FastAPI does not have."""
    required = any(field.is_required() for field in message.model_fields.values())
    content = {"application/json": {"schema": message.model_json_schema(by_alias=False)}}
    return {"requestBody": {"required": required, "content": content}}


def _tenant(path: str) -> Mapping[str, Any]:
    """Describe how a request names its tenant: `_named` reads it, in less time than FastAPI."""
    text = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    said = "The stream that the request belongs to."
    within = "path" if "{tenant}" in path else "query"
    address = {"name": "tenant", "in": within, "required": within == "path", "schema": {**text, "title": "Tenant"}}
    schema = {**text, "description": said, **NAME, "title": "X-Tenant"}
    header = {"name": "x-tenant", "in": "header", "required": False, "schema": schema, "description": said}
    return {"parameters": [address, header]}


def _inputs() -> Mapping[str, Any]:
    """Describe the bodies of a prediction."""
    binary = {"type": "string", "format": "binary"}
    arrays = {"type": "object", "required": ["inputs"], "properties": {"inputs": {"type": "array", "items": {}}}}
    form = {"type": "object", "additionalProperties": binary}
    content = {"application/json": arrays, **dict.fromkeys(BODIES, binary), "multipart/form-data": form}
    return {
        "requestBody": {"required": True, "content": {kind: {"schema": schema} for kind, schema in content.items()}}
    }


def _tensors() -> Mapping[str, Any]:
    """Describe the bodies of an inference: JSON, and binary tensors after it."""
    schemas = {"application/json": {"type": "object", "required": ["inputs"]}}
    schemas["application/octet-stream"] = {"type": "string", "format": "binary"}
    return {"requestBody": {"required": True, "content": {kind: {"schema": one} for kind, one in schemas.items()}}}


def _say_errors(app: FastAPI) -> None:
    """Let the framework's own errors have the form of all others: {"error": one sentence}."""

    async def refused(_: Any, error: Any) -> Response:
        known = {404: "there is nothing at this address", 405: "this address takes another method: GET or POST"}
        reply = json_reply({"error": known.get(error.status_code, "the request is not understood")}, error.status_code)
        reply.headers.update(error.headers or {})
        return reply

    async def misread(_: Any, error: Any) -> Response:
        wrong = ", ".join(str(one["loc"][-1]) for one in error.errors())
        return json_reply({"error": f"these parameters have wrong values: {wrong}"}, 422)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, misread)
