"""What `scripts/chaos.py` disturbs, and what must hold afterwards."""
