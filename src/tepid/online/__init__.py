"""Calibration while serving: a monitor of unlabelled logits, its history, and its exporters."""

from tepid.online import prometheus
from tepid.online.log import read_log
from tepid.online.monitor import Monitor
from tepid.online.reference import Reference
from tepid.online.rules import Outputs, Rules

__all__ = ["Monitor", "Outputs", "Reference", "Rules", "prometheus", "read_log"]
