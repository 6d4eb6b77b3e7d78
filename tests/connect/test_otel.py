"""A service sends spans and metrics to OpenTelemetry; the exporters keep them in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.connect import Telemetry
from holdfast.serve.limits import RefusedError
from holdfast.serve.metrics import EVENTS
from holdfast.serve.service import Answer, Service
from holdfast.serve.tenants import Tenants


class Collected:
    """A started service and what it has sent."""

    def __init__(self, network: nn.Module) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        telemetry = Telemetry(tracers=self.tracers, meters=MeterProvider([self.reader], shutdown_on_exit=False))
        self.service = Service(Tenants(network, "tent"), batch=8, wait=0.0, telemetry=telemetry)
        self.service.start()

    def predict(self, tenant: str, inputs: Tensor) -> Answer:
        answers: list[object] = []
        answered = threading.Event()
        self.service.submit(tenant, inputs, lambda result: (answers.append(result), answered.set()))
        assert answered.wait(60)
        if isinstance(answers[0], Exception):
            raise answers[0]
        assert isinstance(answers[0], Answer)
        return answers[0]

    def spans(self, name: str) -> list[Any]:
        return [span for span in self.exporter.get_finished_spans() if span.name == f"holdfast.{name}"]

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: list(metric.data.data_points) for metric in metrics}


@pytest.fixture
def collected(network: nn.Module) -> Iterator[Collected]:
    collected = Collected(network)
    yield collected
    collected.service.stop()


def test_a_request_is_part_of_the_callers_trace_and_its_batch_links_to_it(
    collected: Collected, batches: Tensor
) -> None:
    with collected.tracers.get_tracer("caller").start_as_current_span("caller") as caller:
        answer = collected.predict("north", batches[0])
    collected.service.worker.stop()
    (request,), (batch,) = collected.spans("request"), collected.spans("batch")
    assert request.parent.span_id == caller.get_span_context().span_id
    assert request.attributes["holdfast.batch"] == answer.batch == 0
    assert [link.context.span_id for link in batch.links] == [request.context.span_id]
    assert batch.parent is None
    (predict,), (update,) = collected.spans("predict"), collected.spans("update")
    assert {predict.parent.span_id, update.parent.span_id} == {batch.context.span_id}
    assert batch.start_time == predict.start_time <= predict.end_time == update.start_time <= update.end_time
    (decision,) = (one for one in collected.service.history("north") if one["kind"] == "batch")
    assert batch.attributes["holdfast.state.after"] == decision["after"]
    assert batch.attributes["holdfast.tenant"] == "north"


def test_metrics_are_those_of_prometheus(collected: Collected, batches: Tensor) -> None:
    for batch in batches:
        collected.predict("north", batch)
    collected.predict("south", torch.full((8, 3, 32, 32), 255.0))
    collected.service.worker.stop()
    collected.service.act("reset", "north")
    points = collected.points()
    samples = {point.attributes["holdfast.tenant"]: point.value for point in points["holdfast.samples"]}
    assert samples == {"north": 32, "south": 8}
    counted = {
        (point.attributes["holdfast.tenant"], point.attributes["holdfast.event"]): point.value
        for point in points["holdfast.events"]
    }
    registry = collected.service.metrics.registry
    events = {
        (tenant, event): registry.get_sample_value(f"holdfast_{name}_total", {"tenant": tenant})
        for event, (name, _) in EVENTS.items()
        for tenant in ("north", "south")
    }
    assert counted == {key: value for key, value in events.items() if value}
    assert counted["south", "skipped"] == counted["north", "reset"] == 1
    gain = {point.attributes["holdfast.tenant"]: point.value for point in points["holdfast.estimated_gain"]}
    assert gain["north"] == registry.get_sample_value("holdfast_estimated_gain", {"tenant": "north"})


def test_a_refused_request_has_an_error(collected: Collected) -> None:
    answer = collected.service.telemetry.request("north", 1, lambda _: None)  # type: ignore[union-attr]
    answer(RefusedError(422, "no such input"))
    (request,) = collected.spans("request")
    assert request.status.status_code is trace.StatusCode.ERROR
    assert request.status.description == "no such input"


def test_a_collector_gets_traces_and_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[str] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    # The providers of the process can be set once only: leave those of the tests' process as they are.
    monkeypatch.setattr("opentelemetry.trace.set_tracer_provider", lambda _: None)
    monkeypatch.setattr("opentelemetry.metrics.set_meter_provider", lambda _: None)
    telemetry = Telemetry.to_collector()
    telemetry.request("north", 1, lambda _: None)(RefusedError(422, "no such input"))
    telemetry.close()
    server.shutdown()
    thread.join()
    server.server_close()
    assert "/v1/traces" in posted
