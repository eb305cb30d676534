"""The parts of `utils.benchmark`, where torch keeps them."""
