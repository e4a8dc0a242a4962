"""Calibration in production: a monitor of unlabeled logits, its history and its exporters."""

from tepid.online import prometheus
from tepid.online.monitor import Monitor, Outputs, read_log
from tepid.online.reference import Reference, Rules

__all__ = ["Monitor", "Outputs", "Reference", "Rules", "prometheus", "read_log"]
