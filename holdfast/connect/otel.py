"""OpenTelemetry: traces and metrics of a service, beside Prometheus."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast import __version__
from holdfast.machine.extras import extra
from holdfast.model.events import EVENTS

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import SpanContext, TracerProvider

    from holdfast.serve.decision import Decision

NANOSECONDS = 1_000_000_000
LINKED = 1024  # batches whose requests are remembered until the batch has ended
Answering = Callable[[object], None]


class Telemetry:
    """Send what a service does to OpenTelemetry: a span for each request and batch, and the metrics of Prometheus.

    The span `holdfast.request` belongs to the trace of the caller and ends with the prediction. The span
    `holdfast.batch` has the parts `holdfast.predict` and `holdfast.update`, links to its requests, and says in its
    attributes what was decided. Without providers those of the process are used, as `opentelemetry-instrument` sets
    them. Needs the extra `otel`.

    Args:
        tracers: that make spans; None: those of the process.
        meters: that make metrics; None: those of the process.

    >>> from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> telemetry = Telemetry(meters=MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))
    """

    def __init__(self, *, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        metrics, trace = (extra("otel", f"opentelemetry.{part}", "telemetry needs") for part in ("metrics", "trace"))
        self._trace = trace
        self._tracer = (tracers or trace.get_tracer_provider()).get_tracer("holdfast", __version__)
        self._providers: list[Any] = [tracers, meters]
        meter = (meters or metrics.get_meter_provider()).get_meter("holdfast", __version__)
        self._samples = meter.create_counter("holdfast.samples", "{sample}", "Samples predicted.")
        self._events = meter.create_counter("holdfast.events", "{event}", f"Events: {', '.join(EVENTS)}.")
        self._seconds = meter.create_histogram(
            "holdfast.duration", "s", "From the start of a batch to the end of a part."
        )
        self._gauges = {
            name: meter.create_gauge(f"holdfast.{name}", "1", text)
            for name, text in {
                "estimated_accuracy": "Estimated accuracy of what is served, 0 to 1.",
                "estimated_accuracy_low": "Lower end of its interval.",
                "estimated_accuracy_high": "Upper end of its interval.",
                "estimated_gain": "Estimated accuracy minus that of the source.",
            }.items()
        }
        self._lock = threading.Lock()
        self._asked: OrderedDict[tuple[str, int], list[SpanContext]] = OrderedDict()

    @classmethod
    def to_collector(cls) -> Telemetry:
        """Return telemetry that goes by OTLP over HTTP to `OTEL_EXPORTER_OTLP_ENDPOINT`, by default port 4318 here.

        It becomes that of the process, so that web frameworks and clients join the same traces; where the process has
        telemetry already, as under `opentelemetry-instrument`, that is used.
        """
        try:
            from opentelemetry import metrics, trace
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise ImportError(f'a collector needs {error.name}: pip install "holdfast[otel]"') from error
        if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return cls()
        resource = Resource.create({"service.name": "holdfast", "service.version": __version__})  # OTEL_… override it
        tracers = TracerProvider(resource=resource)
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource)
        trace.set_tracer_provider(tracers)
        metrics.set_meter_provider(meters)
        return cls(tracers=tracers, meters=meters)

    def request(self, tenant: str, samples: int, answer: Answering) -> Answering:
        """Begin the span of a request inside the current span, and return an `answer` that ends it."""
        attributes: dict[str, str | int] = {"holdfast.tenant": tenant, "holdfast.samples": samples}
        span = self._tracer.start_span("holdfast.request", attributes=attributes)

        def answering(result: object) -> None:
            if isinstance(result, BaseException):
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(result)))
            else:
                batch = int(getattr(result, "batch", 0))
                span.set_attribute("holdfast.batch", batch)
                with self._lock:
                    self._asked.setdefault((tenant, batch), []).append(span.get_span_context())
                    while len(self._asked) > LINKED:
                        self._asked.popitem(last=False)
            span.end()
            answer(result)

        return answering

    def record(self, decision: Decision) -> None:
        """Count a decision and, if it is of a batch, send its span."""
        tenant = {"holdfast.tenant": decision.tenant}
        for event in decision.events:
            self._events.add(1, {**tenant, "holdfast.event": event})
        if decision.kind == "reset":
            self._events.add(1, {**tenant, "holdfast.event": "reset"})
        if decision.kind != "batch":
            return
        predicted, finished = decision.prediction_seconds or 0.0, decision.finish_seconds or 0.0
        self._samples.add(decision.samples, tenant)
        self._seconds.record(predicted, {**tenant, "holdfast.part": "predict"})
        self._seconds.record(finished, {**tenant, "holdfast.part": "whole"})
        values = (decision.estimate, decision.low, decision.high, decision.gain)
        for gauge, value in zip(self._gauges.values(), values, strict=True):
            if value is not None:
                gauge.set(value, tenant)
        self._span(decision, predicted, finished)

    def close(self) -> None:
        """Send what is left, for providers that were passed or made here."""
        for provider in self._providers:
            if provider is not None:
                provider.shutdown()

    def _span(self, decision: Decision, predicted: float, finished: float) -> None:
        """Send the span of a batch that has ended."""
        with self._lock:
            asked = self._asked.pop((decision.tenant, decision.batch), [])
        end = int(decision.time * NANOSECONDS)
        start = end - int(finished * NANOSECONDS)
        between = start + int(predicted * NANOSECONDS)
        known: dict[str, str | float | None] = {
            "tenant": decision.tenant,
            "batch": decision.batch,
            "samples": decision.samples,
            "served": decision.chosen,
            "committed": decision.committed,
            "reason": decision.reason,
            "state.before": decision.before,
            "state.after": decision.after,
            "estimate": decision.estimate,
            "gain": decision.gain,
        }
        span = self._tracer.start_span(
            "holdfast.batch",
            self._trace.set_span_in_context(self._trace.INVALID_SPAN),  # a trace of its own: it serves several requests
            links=[self._trace.Link(context) for context in asked],
            start_time=start,
            attributes={f"holdfast.{name}": value for name, value in known.items() if value is not None},
        )
        inside = self._trace.set_span_in_context(span)
        for name, first, last in (("predict", start, between), ("update", between, end)):
            self._tracer.start_span(f"holdfast.{name}", inside, start_time=first).end(last)
        for event in decision.events:
            span.add_event(event, {"reason": decision.reason}, end)
        span.end(end)
