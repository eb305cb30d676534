"""Checks of quantization by plain operations, by the name under which libraries import them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def _per_token_quant_qparam_dim_check(input: Tensor, scales: Tensor, zero_points: Tensor) -> None:
    """Check that there is one scale and one zero point for each row of the last dim.

    Raises:
        AssertionError: there are not.
    """
    tokens = input.shape[:-1].numel()
    for name, found in (("scales", scales), ("zero_points", zero_points)):
        if found.numel() != tokens:
            raise AssertionError(f"num_tokens: {tokens}, but {name} have shape {found.shape}")
