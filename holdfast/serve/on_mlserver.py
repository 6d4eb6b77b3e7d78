"""Run a service in MLServer: tenants, guard and audit log of `holdfast serve` behind MLServer's own addresses."""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.serve.build import build_service
from holdfast.serve.inference_protocol import model_metadata, output_tensors
from holdfast.serve.limits import Limits, RefusedError
from holdfast.serve.reading import tenant_of
from holdfast.serve.service import Service


def __getattr__(name: str) -> Any:
    """Return `AdaptingRuntime` when it is imported by name, as `model-settings.json` does."""
    if name != "AdaptingRuntime":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return adapting_runtime()


@cache
def adapting_runtime() -> type[Any]:
    """Return the class `AdaptingRuntime`; it needs MLServer.

    `parameters.extra` of `model-settings.json` has the options of `holdfast serve` by name: `model`, and as wanted
    `method`, `guarded`, `options`, `holdout`, `card`, `budget` and `state`, the folder of states and audit log. A
    request names its tenant as the parameter `tenant`. One process serves a state folder: `parallel_workers` is at
    most 1.
    """
    try:
        from mlserver import MLModel, types
        from mlserver.codecs import NumpyCodec, StringCodec
        from mlserver.errors import MLServerError
    except ImportError as error:
        raise ImportError('the runtime needs MLServer: pip install "holdfast[serve,mlserver]"') from error

    class AdaptingRuntime(MLModel):  # type: ignore[misc]
        """Predicts with a model that adapts to each tenant."""

        service: Service

        async def load(self) -> bool:
            """Build the network, read the states, and begin to serve."""
            extra = dict((self.settings.parameters and self.settings.parameters.extra) or {})
            self.service = _built(extra)
            self.service.start()
            atexit.register(self._stop)  # the server ends without unloading its models
            network = self.service.tenants.model.method.model
            known = model_metadata(self.name, network.input_dtype, network.input_spec.shape, network.num_classes)
            self.inputs = [types.MetadataTensor(**one) for one in known["inputs"]]
            self.outputs = [types.MetadataTensor(**one) for one in known["outputs"]]
            return True

        async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
            """Predict the one input of a request, and adapt to it."""
            if len(payload.inputs) != 1:
                raise MLServerError(f"send one input, got {len(payload.inputs)}", 422)
            tenant = tenant_of(getattr(payload.parameters, "tenant", None))
            decoding = self.service.decoding
            try:
                self.service.admit(tenant)
                inputs = await decoding.run(decoding.decoder.tensor, self.decode(payload.inputs[0], NumpyCodec))
                newest = self.service.newest(tenant)
                answer = await self.service.predicted(tenant, inputs)
            except RefusedError as error:
                raise MLServerError(str(error), error.status) from error
            wanted = {one.name for one in payload.outputs or []}
            tensors = output_tensors(answer, newest).items()
            return types.InferenceResponse(
                id=payload.id,
                model_name=self.name,
                model_version=self.version,
                parameters=types.Parameters(tenant=tenant, batch=answer.batch, predicts=answer.predicts),
                outputs=[encoded(name, values) for name, values in tensors if not wanted or name in wanted],
            )

        async def unload(self) -> bool:
            """Serve what waits, and bring every state and the log to the disk."""
            atexit.unregister(self._stop)
            self._stop()
            return True

        def _stop(self) -> None:
            self.service.stop()

    def encoded(name: str, values: Any) -> Any:
        if values.dtype.kind == "O":
            return StringCodec.encode_output(name, values.tolist())
        return NumpyCodec.encode_output(name, values)

    return AdaptingRuntime


def _built(options: dict[str, Any]) -> Service:
    """Return the service of a model's settings."""
    if "model" not in options:
        raise ValueError('name the network: "parameters": {"extra": {"model": "…"}} in model-settings.json')
    state = options.pop("state", None)
    return build_service(options, folder=None if state is None else Path(state), limits=Limits())
