"""Random sizes, strides and numbers to measure operations with."""

from __future__ import annotations

import math

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from rushlight import Tensor

_ATTEMPTS = 1000  # at values that fit the constraints


def dtype_size(dtype: Any) -> int:
    """Bytes of an element."""
    return dtype.itemsize


class ParameterAlias:
    """In the distribution of a `FuzzedParameter`: take the value of another one.

    Args:
        alias_to: its name.
    """

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number, or one of several values, that a `Fuzzer` draws.

    Args:
        name: what tensors and constraints call it.
        minval, maxval: the limits, both included; needed for the distributions with a name.
        distribution: "loguniform", "uniform", or {value: its probability}.
        strict: draw it once for each set of parameters, and only the others anew where the set does
            not fulfil the constraints, so that these do not make some of its values rare.

    Raises:
        ValueError: the distribution is unknown, a limit is missing, or the probabilities are not
            those of a distribution.
    """

    def __init__(
        self,
        name: str,
        minval: int | float | None = None,
        maxval: int | float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name, self._minval, self._maxval = name, minval, maxval
        self.strict = strict
        if isinstance(distribution, dict):
            total = sum(distribution.values())
            if abs(total - 1) > 1e-5 or any(p < 0 for p in distribution.values()):
                raise ValueError(
                    f"FuzzedParameter {name}: the probabilities must not be negative, and sum to "
                    f"1, not {total}"
                )
        elif distribution not in ("loguniform", "uniform"):
            raise ValueError(
                f"FuzzedParameter {name}: expected the distribution 'loguniform', 'uniform' or a "
                f"dict, got {distribution!r}"
            )
        elif minval is None or maxval is None or minval > maxval:
            raise ValueError(
                f"FuzzedParameter {name}: expected minval <= maxval, got {minval} and {maxval}"
            )
        elif distribution == "loguniform" and minval <= 0:
            raise ValueError(f"FuzzedParameter {name}: minval of 'loguniform' must be positive")
        self._distribution: Any = distribution

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def sample(self, state: Any) -> Any:
        """Draw a value.

        Args:
            state: a numpy.random.RandomState.
        """
        if isinstance(self._distribution, dict):
            values = list(self._distribution)
            return values[state.choice(len(values), p=list(self._distribution.values()))]
        low, high = self._minval, self._maxval
        if self._distribution == "uniform":
            if isinstance(low, int) and isinstance(high, int):
                return int(state.randint(low, high + 1))
            return state.uniform(low=low, high=high)
        drawn = int(2 ** state.uniform(low=math.log2(low), high=math.log2(high)))
        return min(max(drawn, low), high)


class FuzzedTensor:
    """A tensor whose size and strides a `Fuzzer` draws.

    Args:
        name: its key in what the fuzzer yields.
        size: of each dim a number, or the name of a parameter.
        steps: of each dim a number, or the name of a parameter; the tensor takes every so-manieth
            element of one that is so much larger. By default 1.
        probability_contiguous: how often the dims lie in memory in their order.
        min_elements, max_elements: limits of the number of elements.
        max_allocation_bytes: limit of its memory.
        dim_parameter: the name of a parameter that says how many of the dims there are.
        roll_parameter: the name of a parameter that says by how many places sizes and steps are
            rotated.
        dtype: of the tensor.
        cuda: make it on the GPU.
        tensor_constructor: makes the elements; called with size, dtype and all parameters. By
            default floats are uniform in [0, 1) and integers in [1, 127).
    """

    def __init__(
        self,
        name: str,
        size: Sequence[str | int],
        steps: Sequence[str | int] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: Any = rushlight.float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Tensor] | None = None,
    ) -> None:
        self._name, self._size, self._steps = name, tuple(size), steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter, self._roll_parameter = dim_parameter, roll_parameter
        self._dtype, self._cuda = dtype, cuda
        self._tensor_constructor = tensor_constructor

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Any, dtype: Any, **kwargs: Any) -> Tensor:
        """Floats and complex numbers uniform in [0, 1), integers in [1, 127)."""
        if dtype.is_floating_point or dtype.is_complex:
            return rushlight.rand(size=size, dtype=dtype)
        return rushlight.randint(1, 127, size=size, dtype=dtype)

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Do the size and the memory that these parameters lead to keep within the limits?"""
        size, _, memory = self._measures(params)
        elements = math.prod(size)
        return (
            (self._min_elements is None or elements >= self._min_elements)
            and (self._max_elements is None or elements <= self._max_elements)
            and (
                self._max_allocation_bytes is None
                or math.prod(memory) * dtype_size(self._dtype) <= self._max_allocation_bytes
            )
        )

    def _measures(self, params):
        """Sizes, steps, and sizes of what is allocated."""
        dims = len(self._size)
        if self._dim_parameter is not None:
            dims = params[self._dim_parameter]
        size, steps = (
            [params[v] if isinstance(v, str) else v for v in list(values)[:dims]]
            for values in (self._size, self._steps or (1,) * len(self._size))
        )
        steps += [1] * (dims - len(steps))
        if self._roll_parameter is not None:
            places = params[self._roll_parameter] % max(dims, 1)
            size, steps = ([*v[dims - places :], *v[: dims - places]] for v in (size, steps))
        return tuple(size), tuple(steps), tuple(n * step for n, step in zip(size, steps))

    def _make_tensor(self, params, state):
        size, steps, memory = self._measures(params)
        make = self._tensor_constructor or self.default_tensor_constructor
        whole = make(size=memory, dtype=self._dtype, **params)
        if self._cuda:
            whole = whole.cuda()
        order = list(range(len(size)))
        if state.rand() > self._probability_contiguous and len(size) > 1:
            while order == sorted(order):
                order = [int(d) for d in state.permutation(len(size))]
            inverse = sorted(order, key=order.__getitem__)
            whole = whole.permute(order).contiguous().permute(inverse)
        tensor = whole[tuple(slice(None, None, step) for step in steps)] if size else whole
        return tensor, {
            "numel": tensor.numel(),
            "order": tuple(order),
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }


class Fuzzer:
    """Draws parameters, and tensors of sizes that depend on them.

    Needs the NumPy library, whose RandomState it draws from.

    Args:
        parameters: `FuzzedParameter`s, or lists of them.
        tensors: `FuzzedTensor`s, or lists of them.
        constraints: functions of a dict of all parameters; what does not fulfil them is drawn anew.
        seed: of the random numbers.

    Raises:
        ValueError: two parameters or tensors have one name.

    Example:
        >>> from rushlight.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer
        >>> n = FuzzedParameter("n", minval=2, maxval=8, distribution="uniform")
        >>> fuzzer = Fuzzer([n], [FuzzedTensor("x", size=("n", 3))], seed=0)
        >>> [tensors["x"].shape[1] for tensors, properties, params in fuzzer.take(2)]
        [3, 3]
    """

    def __init__(
        self,
        parameters: Sequence[FuzzedParameter | Sequence[FuzzedParameter]],
        tensors: Sequence[FuzzedTensor | Sequence[FuzzedTensor]],
        constraints: Sequence[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        import numpy

        self._parameters, self._tensors = _flat(parameters), _flat(tensors)
        self._constraints = tuple(constraints or ())
        names = [one.name for one in (*self._parameters, *self._tensors)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"Fuzzer: several parameters or tensors are called {repeated}")
        self._seed = numpy.random.randint(0, 2**31 - 1) if seed is None else seed
        self._generated = self._rejected = 0

    def take(self, n: int) -> Iterator[tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]]:
        """Yield n times the tensors by name, what can be said of each, and the parameters.

        Raises:
            ValueError: no parameters are found that fulfil the constraints.
        """
        import numpy

        state = numpy.random.RandomState(self._seed)
        rushlight.manual_seed(int(state.randint(low=0, high=2**63, dtype=numpy.int64)))
        for _ in range(n):
            params = self._draw(state)
            made = {one.name: one._make_tensor(params, state) for one in self._tensors}
            tensors = {name: tensor for name, (tensor, _) in made.items()}
            yield tensors, {name: known for name, (_, known) in made.items()}, params

    @property
    def rejection_rate(self) -> float:
        """The share of all drawn parameters that did not fulfil the constraints."""
        return self._rejected / self._generated if self._generated else 0.0

    def _draw(self, state):
        strict = {}
        for _ in range(_ATTEMPTS):
            self._generated += 1
            params = {}
            for one in self._parameters:
                value = strict[one.name] if one.name in strict else one.sample(state)
                params[one.name] = value
                if one.strict:
                    strict[one.name] = value
            for name, value in params.items():
                followed = [name]
                while isinstance(value, ParameterAlias):
                    if value.alias_to in followed or value.alias_to not in params:
                        raise ValueError(f"Fuzzer: {name} is {value!r}, which has no value")
                    followed.append(value.alias_to)
                    value = params[value.alias_to]
                params[name] = value
            if all(one.satisfies_constraints(params) for one in self._tensors) and all(
                constraint(params) for constraint in self._constraints
            ):
                return params
            self._rejected += 1
        raise ValueError(
            f"Fuzzer: none of {_ATTEMPTS} sets of parameters fulfilled the constraints"
        )


def _flat(values):
    found = []
    for value in values:
        found += value if isinstance(value, (list, tuple)) else [value]
    return found
