"""What `scripts/chaos.py` breaks, and what must hold afterwards."""
