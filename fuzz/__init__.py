"""A seeded mutation fuzzer for everything that tepid reads; `python -m fuzz --help`."""
