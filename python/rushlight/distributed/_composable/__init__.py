"""The path of `fully_shard` in older versions."""
