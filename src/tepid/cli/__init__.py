"""The command line: verbs, progress and tables; no mathematics."""
