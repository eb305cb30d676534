"""Quasi-random sequences."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.types import _dtype


class SobolEngine:
    """Draws the points of a Sobol sequence in the unit cube, which fill it more evenly than random
    ones.

    Constructing Sobol sequences with better two-dimensional projections (Joe and Kuo, 2008), from
    whose direction numbers, which SciPy has, each point follows.

    Args:
        dimension: the number of coordinates, at most 21201.
        scramble: shift and mix the digits at random, as Owen (1998) does.
        seed: of that; None: the default generator's next numbers.

    Example:
        >>> SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    seed: int | None
    scramble: bool
    dimension: int

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                "Supported range of dimensionality for SobolEngine is "
                f"[1, {self.MAXDIM}], got {dimension}"
            )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = _direction_numbers(dimension)
        self.shift = rushlight.zeros(dimension, dtype=rushlight.int64)
        self.num_generated: int = 0
        if scramble:
            self._scramble()

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = rushlight.Generator().manual_seed(self.seed)
        bits, powers = self.MAXBIT, 2 ** rushlight.arange(self.MAXBIT)

        def draw(*shape):
            return rushlight.randint(2, shape, generator=generator)

        self.shift: Tensor = draw(self.dimension, bits) @ powers
        mixers = draw(self.dimension, bits, bits).tril()
        mixers.diagonal(0, -2, -1).fill_(1)
        falling = powers.flip(0)  # the first row and column of a mixer are the first digit's
        digits = (self.sobolstate[..., None] // falling) % 2  # dimension, number, digit
        self.sobolstate: Tensor = (digits @ mixers.transpose(1, 2) % 2) @ falling

    def _points(self, start, count):
        """The points of these places in the sequence, as integers."""
        places = rushlight.arange(start, start + count)
        gray = places ^ (places >> 1)
        points = self.shift.expand(count, -1).clone()
        for k in range(max(start + count, 1).bit_length()):
            points ^= ((gray >> k) & 1)[:, None] * self.sobolstate[:, k]
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:
        """The next `n` points, one in each row."""
        if self.num_generated + n > 2**self.MAXBIT:
            raise ValueError(f"SobolEngine: the sequence has no more than 2**{self.MAXBIT} points")
        points = self._points(self.num_generated, n)
        self.num_generated += n
        dtype = rushlight.get_default_dtype() if dtype is None else dtype
        result = points.to(dtype) * 2.0**-self.MAXBIT
        if out is None:
            return result
        return out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:
        """The next 2**m points; what has been drawn before must be a multiple of them."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points hold for 2**k points from the first "
                f"on; after {self.num_generated}, 2**{m} more make {total}."
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> Self:
        """Begin again with the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Leave `n` points out."""
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(parts)})"


def _direction_numbers(dimension):
    try:
        from scipy.stats import qmc
    except ImportError as error:
        raise ImportError("SobolEngine: the direction numbers are those that SciPy has") from error
    table = qmc.Sobol(dimension, scramble=False, bits=SobolEngine.MAXBIT)._sv
    return rushlight.from_numpy(table.astype("int64"))


__all__ = ["SobolEngine"]
