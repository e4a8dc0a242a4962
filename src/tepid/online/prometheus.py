"""What Prometheus reads of a monitor; needs the extra `online`."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tepid.errors import InputError
from tepid.online.monitor import Monitor

_GAUGES = {
    "temperature": ("tepid_temperature", "Temperature that is served; divides the logits."),
    "estimated_temperature": (
        "tepid_estimated_temperature",
        "Temperature of the recent rows by UTS, estimated without labels; not served.",
    ),
    "implied_accuracy": (
        "tepid_implied_accuracy_ratio",
        "Mean confidence of the recent rows at the temperature that is served, 0 to 1.",
    ),
    "mean_confidence": (
        "tepid_mean_confidence_ratio",
        "Mean confidence of the recent rows before calibration, at T = 1, 0 to 1.",
    ),
    "lower": ("tepid_implied_accuracy_lower_ratio", "Implied accuracy below which it alerts."),
    "upper": ("tepid_implied_accuracy_upper_ratio", "Implied accuracy above which it alerts."),
    "drift": (
        "tepid_drift_score",
        "Implied accuracy against the reference; below -1 or above 1 is an alert.",
    ),
    "alert": ("tepid_alert", "1 if the last closed chunk lies outside its limits, else 0."),
    "rows_open": ("tepid_open_rows", "Rows in the chunk that is not yet closed."),
}
_COUNTERS = {
    "rows_total": ("tepid_rows", "Rows served."),
    "chunks_total": ("tepid_chunks", "Chunks closed and judged."),
    "alerts_total": ("tepid_alerts", "Chunks that lay outside their limits."),
}


def registered(monitor: Monitor, registry: Any = None, *, model: str = "") -> Any:
    """A registry of prometheus_client that reads the monitor whenever it is scraped.

    A new one unless one is given. `model` is a label on every metric, for processes that serve
    several; a metric whose value is not known yet, before the first chunk has closed, is left out.
    """
    client = _client()
    registry = client.CollectorRegistry() if registry is None else registry
    registry.register(_Collector(monitor, {"model": model} if model else {}))
    return registry


def exposition(monitor: Monitor, *, model: str = "") -> bytes:
    """The text that Prometheus scrapes, for the metrics endpoint of any framework."""
    return bytes(_client().generate_latest(registered(monitor, model=model)))


def serve(monitor: Monitor, port: int, address: str = "127.0.0.1", *, model: str = "") -> Any:
    """Serve the text at `http://address:port/metrics` from a thread; returns (server, thread)."""
    registry = registered(monitor, model=model)
    return _client().start_http_server(port, address, registry)


def _client() -> Any:
    try:
        importlib.import_module("prometheus_client.core")
        return importlib.import_module("prometheus_client")
    except ImportError:
        must = "be installed for metrics (pip install 'tepid[online]')"
        raise InputError(f"prometheus-client must {must}, got no such package") from None


@dataclass(frozen=True)
class _Collector:
    monitor: Monitor
    labels: dict[str, str]

    def collect(self) -> Iterator[Any]:
        core = _client().core
        reading = self.monitor.reading()
        for key, (name, says) in _GAUGES.items():
            if reading[key] is not None:
                yield self._filled(core.GaugeMetricFamily, name, says, reading[key])
        for key, (name, says) in _COUNTERS.items():
            yield self._filled(core.CounterMetricFamily, name, says, reading[key])

    def _filled(self, family: Any, name: str, says: str, value: float) -> Any:
        metric = family(name, says, labels=list(self.labels))
        metric.add_metric(list(self.labels.values()), float(value))
        return metric
