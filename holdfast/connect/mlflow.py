"""MLflow: steps of an adapted model as a run, and an adapted model as an `mlflow.pyfunc` model."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast import __version__
from holdfast.connect.folder import read_folder, write_folder
from holdfast.machine.extras import extra
from holdfast.model.adapted import AdaptedModel
from holdfast.model.events import event_names
from holdfast.model.guarded import GuardedModel
from holdfast.records import Step
from holdfast.report.runs import flattened

STEPS = "steps"  # artefacts: files with one line for each step, named for the first


class MlflowLog:
    """Write the steps of an adapted model to a run of MLflow: estimates, gains, events and digests of the state.

    The recipe is logged as parameters; estimates, gains, losses, passes, gauges and counts of events as metrics by
    batch; bounds that labels guarantee too, for a guarded model. Reasons and the digest of the state after each step
    are in the artefacts `steps/*.jsonl`. Steps are sent `flush_every` at a time, and at the end of the `with` block.
    Needs the extra `mlflow`.

    Args:
        model: the adapted model whose steps are written.
        tracking_uri: of the MLflow server or folder; None: as MLflow is configured.
        experiment: name of the experiment, which is made if there is none.
        run_name: name of the run; None: MLflow chooses one.
        flush_every: steps that are sent together.
    """

    def __init__(
        self,
        model: AdaptedModel,
        *,
        tracking_uri: str | None = None,
        experiment: str = "holdfast",
        run_name: str | None = None,
        flush_every: int = 16,
    ) -> None:
        if flush_every < 1:
            raise ValueError(f"flush_every must be at least 1, got {flush_every}")
        self.model, self.flush_every = model, flush_every
        self._client = _mlflow().MlflowClient(tracking_uri)
        known = self._client.get_experiment_by_name(experiment)
        experiment_id = self._client.create_experiment(experiment) if known is None else known.experiment_id
        self.run_id: str = self._client.create_run(experiment_id, run_name=run_name).info.run_id
        self._steps = 0
        self._events: Counter[str] = Counter()
        self._metrics: list[Any] = []
        self._lines: list[str] = []
        for name, value in flattened(model.recipe, "/").items():
            self._client.log_param(self.run_id, name, value if isinstance(value, str) else json.dumps(value))
        for name, value in (("weights", model.weights), ("version", __version__), ("state", model.digest())):
            self._client.set_tag(self.run_id, f"holdfast.{name}", value)

    def step(self, step: Step) -> None:
        """Take a step that the model has just made."""
        events = event_names(step.events)
        self._events.update(events)
        counts = {f"events/{event}": float(self._events[event]) for event in self._events}
        self._add({**_measured(step), **counts})
        line = {
            "step": self._steps,
            "samples": len(step.logits),
            "events": events,
            "reason": step.recovered or step.skipped,
            "alarms": [estimate.alarm for estimate in step.estimates.values() if estimate.alarm],
            "state": self.model.digest(),
        }
        self._lines.append(json.dumps(line))
        self._steps += 1
        if self._steps % self.flush_every == 0:
            self.flush()

    def flush(self) -> None:
        """Send all that was taken."""
        if isinstance(self.model, GuardedModel):
            accuracy, gain = self.model.accuracy(), self.model.gain()
            bounds = {"accuracy_low": accuracy.low, "accuracy_high": accuracy.high, "gain_low": gain.low}
            self._add({f"guaranteed/{name}": bound for name, bound in bounds.items()})
        for start in range(0, len(self._metrics), 1000):  # MLflow takes no more at once
            self._client.log_batch(self.run_id, metrics=self._metrics[start : start + 1000])
        if self._lines:
            first = self._steps - len(self._lines)
            self._client.log_text(
                self.run_id, "".join(f"{line}\n" for line in self._lines), f"{STEPS}/{first:08d}.jsonl"
            )
        self._metrics, self._lines = [], []
        self._client.set_tag(self.run_id, "holdfast.state", self.model.digest())

    def __enter__(self) -> MlflowLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.flush()
        self._client.set_terminated(self.run_id, "FINISHED" if kind is None else "FAILED")

    def _add(self, values: Mapping[str, float]) -> None:
        metric = _mlflow().entities.Metric
        now = int(1000 * time.time())
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        self._metrics += [metric(name, value, now, self._steps) for name, value in finite.items()]


def _measured(step: Step) -> dict[str, float]:
    """Return the numbers of a step by name; what is unknown is not in it."""
    values: dict[str, float | None] = {"loss": step.loss, "forwards": step.forwards, "backwards": step.backwards}
    for name, estimate in step.estimates.items():
        bounds = {"accuracy": estimate.value, "low": estimate.low, "high": estimate.high, "gain": estimate.gain}
        values |= {f"{bound}/{name}": value for bound, value in bounds.items()}
    values |= {f"gauges/{name}": value for name, value in step.gauges.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


class Predictor:
    """What `mlflow.pyfunc.load_model` calls: arrays of inputs to arrays of logits.

    With `adapt=True` it goes on adapting; without, predictions change nothing.
    """

    def __init__(self, model: AdaptedModel, *, adapt: bool = False) -> None:
        self.model, self.adapt = model, adapt

    def predict(self, inputs: NDArray[Any] | Tensor, params: Mapping[str, Any] | None = None) -> NDArray[np.float32]:
        """Return the logits of a batch."""
        classifier = self.model.method.model
        batch = torch.as_tensor(np.asarray(inputs)).to(classifier.device)
        batch = batch.to(classifier.input_dtype) if batch.is_floating_point() else batch
        step = self.model.step(batch) if self.adapt else self.model.predict(batch)
        logits: NDArray[np.float32] = step.logits.float().cpu().numpy()
        return logits


def save_model(model: AdaptedModel, path: str | Path, *, network: str, adapt: bool = False, **options: Any) -> None:
    """Write an adapted model to a folder that `mlflow.pyfunc.load_model` reads.

    `network` is the name of the source network, as `holdfast.models.load` takes it; its weights are stored, so
    `imported:package.module:function` names an architecture of your own. Nothing is pickled. `adapt=True` lets the
    loaded model go on adapting; `load_model(…, model_config={"adapt": …})` overrides it. `options` are those of
    `mlflow.pyfunc.save_model`. Needs the extra `mlflow`.
    """
    with tempfile.TemporaryDirectory() as folder:
        _mlflow("mlflow.pyfunc").save_model(path=str(path), **_flavour(model, Path(folder), network, adapt), **options)


def log_model(model: AdaptedModel, name: str = "model", *, network: str, adapt: bool = False, **options: Any) -> Any:
    """Log an adapted model to the active run of MLflow, and return what `mlflow.pyfunc.log_model` returns.

    Args:
        model: to log.
        name: of the logged model.
        network: name of the source network, from which it is loaded again.
        adapt: whether the loaded model goes on adapting.
        **options: those of `mlflow.pyfunc.log_model`, such as `registered_model_name`.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _mlflow("mlflow.pyfunc").log_model(name=name, **_flavour(model, Path(folder), network, adapt), **options)


def _flavour(model: AdaptedModel, folder: Path, network: str, adapt: bool) -> dict[str, Any]:
    """Write the files of a model, and return the arguments by which MLflow stores them."""
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    write_folder(model, folder / "holdfast", network=network, weights=True)
    classifier = model.method.model
    dtype = torch.float32 if classifier.input_dtype.is_floating_point else classifier.input_dtype
    inputs = torch.empty(0, dtype=dtype).numpy().dtype
    logits = TensorSpec(np.dtype("float32"), (-1, classifier.num_classes))
    return {
        "loader_module": __name__,
        "data_path": str(folder / "holdfast"),
        "model_config": {"adapt": adapt},
        "pip_requirements": [f"holdfast=={__version__}", f"torch=={torch.__version__.partition('+')[0]}"],
        "signature": ModelSignature(Schema([TensorSpec(inputs, (-1, *classifier.input_spec.shape))]), Schema([logits])),
    }


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> Predictor:
    """Return the model that MLflow stored: the name by which it looks for this function."""
    model = read_folder(path, trust_remote_code=True)
    assert isinstance(model, AdaptedModel)
    return Predictor(model, adapt=bool((model_config or {}).get("adapt", False)))


def _mlflow(module: str = "mlflow") -> Any:
    return extra("mlflow", module, f"{module} needs" if "." in module else "logging to MLflow needs")
