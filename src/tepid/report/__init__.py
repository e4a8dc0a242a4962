"""A report: one HTML file that says what was found and lets a person move the temperature."""

from tepid.report.writing import write

__all__ = ["write"]
