"""Runs whose workers are started again when one fails: see rushlight.distributed.run."""
