"""What Prometheus reads of a monitor; needs the extra `online`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tepid.errors import require
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
    "accepted_share": (
        "tepid_accepted_share_ratio",
        "Share of recent rows whose confidence is at least the deployed threshold, 0 to 1.",
    ),
    "accepted_lower": ("tepid_accepted_share_lower_ratio", "Share below which it alerts."),
    "accepted_upper": ("tepid_accepted_share_upper_ratio", "Share above which it alerts."),
    "accepted_drift": (
        "tepid_accepted_drift_score",
        "Accepted share against the reference; below -1 or above 1 is an alert.",
    ),
    "expected_precision": (
        "tepid_expected_precision_ratio",
        "Mean confidence of the recent rows that were accepted, 0 to 1.",
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


def _client(module: str = "prometheus_client") -> Any:
    return require(module, "online", "Exporting metrics")


@dataclass(frozen=True, eq=False)
class _Collector:
    monitors: Monitors

    def collect(self) -> Iterator[Any]:
        one = isinstance(self.monitors, Monitor)
        named = {"": self.monitors} if isinstance(self.monitors, Monitor) else self.monitors
        readings = {model: monitor.reading() for model, monitor in named.items()}
        core = _client("prometheus_client.core")
        families = (core.GaugeMetricFamily, _GAUGES), (core.CounterMetricFamily, _COUNTERS)
        for family, keys in families:
            for key, (name, says) in keys.items():
                metric = family(name, says, labels=[] if one else ["model"])
                for model, reading in readings.items():
                    if reading[key] is not None:
                        metric.add_metric([] if one else [model], float(reading[key]))
                yield metric
