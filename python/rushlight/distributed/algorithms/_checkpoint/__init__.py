"""Modules that compute their activations again, or keep them in other memory."""
