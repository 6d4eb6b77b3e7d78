"""What Prometheus reads at /metrics."""

from __future__ import annotations

from typing import Any

from holdfast.serve.decision import Decision

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
EVENTS = {
    "veto": ("vetoes", "Batches served without the adapted network."),
    "gate": ("gate_rejections", "Updates undone because they made the network worse."),
    "alarm": ("alarms", "Alarms: the adapted network stayed worse than the source."),
    "reset": ("resets", "Resets, by a recovery, an alarm or on request."),
    "skipped": ("skipped_batches", "Batches that were predicted and not adapted to."),
}


def needs_serve(error: ImportError) -> ImportError:
    """Return the error that says how to install what a service needs."""
    return ImportError(f'serving needs {error.name}: pip install "holdfast[serve]"')


class Metrics:
    """Counters, histograms and gauges of one service, in a registry of their own."""

    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError as error:
            raise needs_serve(error) from error
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"namespace": "holdfast", "registry": self.registry}
        of_tenant: dict[str, Any] = {**common, "labelnames": ["tenant"]}
        self.requests = Counter("requests", "Requests by path and status.", ["path", "status"], **common)
        self.samples = Counter("samples", "Samples predicted.", **of_tenant)
        self.latency = Histogram(
            "request_seconds", "From the arrival of a request to its prediction.", buckets=SECONDS, **of_tenant
        )
        self.prediction = Histogram(
            "prediction_seconds", "From the start of a batch to its prediction.", buckets=SECONDS, **of_tenant
        )
        self.finish = Histogram(
            "finish_seconds", "From the start of a batch to the end of its update.", buckets=SECONDS, **of_tenant
        )
        self.accuracy = Gauge("estimated_accuracy", "Estimated accuracy of what is served, 0 to 1.", **of_tenant)
        self.low = Gauge("estimated_accuracy_low", "Lower end of its interval.", **of_tenant)
        self.high = Gauge("estimated_accuracy_high", "Upper end of its interval.", **of_tenant)
        self.gain = Gauge("estimated_gain", "Estimated accuracy minus that of the source.", **of_tenant)
        self.events = {kind: Counter(name, text, **of_tenant) for kind, (name, text) in EVENTS.items()}
        self.queue = Gauge("queue_samples", "Samples that wait for their prediction.", **common)
        self.tenants = Gauge("tenants", "Tenants, in memory and on disk.", **common)
        self.stalled = Gauge("learning_stopped", "1 while nothing is adapted because the disk takes no data.", **common)

    def count(self, decision: Decision) -> None:
        """Count a decision."""
        tenant = decision.tenant
        for event in decision.events:
            self.events[event].labels(tenant).inc()
        if decision.kind == "reset":
            self.events["reset"].labels(tenant).inc()
        if decision.kind != "batch":
            return
        self.samples.labels(tenant).inc(decision.samples)
        self.prediction.labels(tenant).observe(decision.prediction_seconds or 0.0)
        self.finish.labels(tenant).observe(decision.finish_seconds or 0.0)
        for gauge, value in (
            (self.accuracy, decision.estimate),
            (self.low, decision.low),
            (self.high, decision.high),
            (self.gain, decision.gain),
        ):
            if value is not None:
                gauge.labels(tenant).set(value)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        from prometheus_client import generate_latest

        return bytes(generate_latest(self.registry))
