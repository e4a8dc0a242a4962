"""One HTML file with the result of a calibration and a slider for the temperature."""

from tepid.report.writer import write

__all__ = ["write"]
