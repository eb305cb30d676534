"""The networks that the examples train and `bench/models.py` times, one to a file."""
