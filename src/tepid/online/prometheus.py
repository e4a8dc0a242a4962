"""What Prometheus reads of a monitor; needs the extra `online`."""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tepid.errors import InputError
from tepid.online.monitor import Monitor

Monitors: TypeAlias = Monitor | Mapping[str, Monitor]

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


def registered(monitors: Monitors, registry: Any = None) -> Any:
    """A registry of prometheus_client that reads the monitors whenever it is scraped.

    Several come as a mapping, whose names become the label `model`. It is a new registry unless one
    is given. A value that is not known yet, before the first chunk has closed, is left out.
    """
    client = _client()
    registry = client.CollectorRegistry() if registry is None else registry
    registry.register(_Collector(monitors))
    return registry


def exposition(monitors: Monitors) -> bytes:
    """The text that Prometheus scrapes, for the metrics endpoint of any framework."""
    return bytes(_client().generate_latest(registered(monitors)))


def serve(monitors: Monitors, port: int, address: str = "127.0.0.1") -> Any:
    """Serve the text at `http://address:port/metrics` from a thread; returns (server, thread)."""
    return _client().start_http_server(port, address, registered(monitors))


def _client() -> Any:
    try:
        importlib.import_module("prometheus_client.core")
        return importlib.import_module("prometheus_client")
    except ImportError:
        must = "be installed for metrics (pip install 'tepid[online]')"
        raise InputError(f"prometheus-client must {must}, got no such package") from None


@dataclass(frozen=True, eq=False)
class _Collector:
    monitors: Monitors

    def collect(self) -> Iterator[Any]:
        core = _client().core
        readings = self._readings()
        for key, (name, says) in _GAUGES.items():
            metric = core.GaugeMetricFamily(name, says, labels=self._labels())
            yield _filled(metric, readings, key)
        for key, (name, says) in _COUNTERS.items():
            metric = core.CounterMetricFamily(name, says, labels=self._labels())
            yield _filled(metric, readings, key)

    def _labels(self) -> list[str]:
        return [] if isinstance(self.monitors, Monitor) else ["model"]

    def _readings(self) -> list[tuple[list[str], dict[str, Any]]]:
        if isinstance(self.monitors, Monitor):
            return [([], self.monitors.reading())]
        return [([model], monitor.reading()) for model, monitor in self.monitors.items()]


def _filled(metric: Any, readings: list[tuple[list[str], dict[str, Any]]], key: str) -> Any:
    for labels, reading in readings:
        if reading[key] is not None:
            metric.add_metric(labels, float(reading[key]))
    return metric
