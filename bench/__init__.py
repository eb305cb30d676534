"""Time and memory of rushlight beside torch and NumPy: `python -m bench` (make bench)."""
