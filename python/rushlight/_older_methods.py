"""Methods of `Tensor`, and functions, that older programs use or that belong to kinds of tensors
and devices that are not here: these refuse, and say what to use.
"""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor
from rushlight._integers import integers
from rushlight._numpy_names import takes_numpy_names
from rushlight._tensor import _as_number, _refuse_gradient, give

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.library._schema import FunctionSchema


def _loaded(self, other, assign=False):
    return other.detach() if assign else self.copy_(other).detach()


class _Methods:
    """What `install` gives to `Tensor`."""

    def map2_(self, x, y, callable):
        """Replace each element by `callable(element, x's, y's)`, a Python call each."""
        for name, part in (("x", x), ("y", y)):
            if not isinstance(part, Tensor):
                raise TypeError(f"map2_(): argument '{name}' must be Tensor, not {part!r}")
        _refuse_gradient("map2_", self, x, y)
        parts = (self, x.expand_as(self), y.expand_as(self))
        values = [_as_number(callable(*row)) for row in zip(*(p.flatten().tolist() for p in parts))]
        with rushlight.no_grad():
            return self.copy_(rushlight.tensor(values, dtype=self.dtype).view(self.shape))

    def resize(self, *sizes):
        """Return a view of another shape with as many elements: the older name of `view`."""
        _warn("non-inplace resize is deprecated")
        return self.reshape(*sizes)

    def resize_as(self, tensor):
        """Return a view of the shape of `tensor`: see `resize`."""
        _warn("non-inplace resize_as is deprecated")
        return self.reshape(tensor.shape)

    def storage_type(self):
        """Return the class of this tensor's storage, as FloatStorage."""
        from rushlight.storage import _STORAGE_OF

        return _STORAGE_OF[self.dtype]

    def dim_order(self, *, ambiguity_check=False):
        """Return the dims from the one with the largest stride to that with the smallest.

        Args:
            ambiguity_check: True raises RuntimeError where another order is as right: with dims of
                size 1, or of equal strides. So does a list of memory formats, unless the tensor
                has exactly one of them.
        """
        is_list = isinstance(ambiguity_check, (list, tuple))
        if not is_list and not isinstance(ambiguity_check, bool):
            raise TypeError(
                "The ambiguity_check argument must be a bool or a list of memory formats."
            )
        # A dim of size 1 stands where its stride puts it, before dims of that stride.
        strides = self.stride()
        order = tuple(sorted(range(self.dim()), key=lambda d: -strides[d]))
        if is_list and not all(isinstance(f, rushlight.memory_format) for f in ambiguity_check):
            raise TypeError(
                "The ambiguity_check argument must be a bool or a list of memory formats."
            )
        is_unique = 1 not in self.shape and len(set(strides)) == self.dim()
        if is_list:  # one of them may say which order is meant
            is_unique = is_unique or (
                sum(self.is_contiguous(memory_format=f) for f in ambiguity_check) == 1
            )
        if ambiguity_check and not is_unique:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the "
                "given memory formats."
            )
        return order

    def nonzero_static(self, *, size, fill_value=-1):
        """Return the places of the first elements that are not zero; see `nonzero_static`."""
        return rushlight.nonzero_static(self, size=size, fill_value=fill_value)

    @takes_numpy_names
    def unsafe_split_with_sizes(self, split_sizes, dim=0):
        """Return the parts as `split_with_sizes`."""
        return self.split_with_sizes(split_sizes, dim)

    @takes_numpy_names
    def slice_inverse(self, src, dim=0, start=None, end=None, step=1):
        """Return the tensor of which this is a slice; see `slice_inverse`."""
        return rushlight.slice_inverse(self, src, dim, start, end, step)

    def is_distributed(self):
        """Return False: no tensor is spread over several processes."""
        return False

    def dequantize(self):
        """Return this tensor in float32; see `dequantize`."""
        return _quantized_function("dequantize")(self)

    def module_load(self, other, assign=False):
        """Return what takes the place of this parameter or buffer when a module loads `other`.

        Args:
            assign: `other` does, in place of its elements.
        """
        if _C._has_torch_function((self, other)):
            method, options = Tensor.module_load, {"assign": assign}
            return _C._handle_torch_function(method, (self, other), (self, other), options)
        return _loaded(self, other, assign)

    module_load.__wrapped__ = _loaded  # what classes with __torch_dispatch__ run

    def index(self, positions, dims):
        """Refused: write `tensor[positions]`."""
        raise NotImplementedError(
            f"Tensor.index: of {len(positions)} positions at dims {dims}; index by brackets"
        )

    def chalf(self, memory_format=None):
        """Return the elements as complex32: complex numbers of two float16."""
        options = {} if memory_format is None else {"memory_format": memory_format}
        return self.to(rushlight.complex32, **options)

    def to_mkldnn(self, dtype=None):
        """Refused: operations choose layouts by themselves."""
        raise NotImplementedError(
            f"to_mkldnn: layouts are chosen by operations themselves (dtype={dtype})"
        )

    def to_padded_tensor(self, padding, output_size=None):
        """Raise NotImplementedError: this is for nested tensors, and there are none."""
        raise NotImplementedError(
            f"to_padded_tensor: the tensor is not nested (padding={padding}, size={output_size})"
        )

    @takes_numpy_names
    def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
        """Return a number of uint64 for the elements, or for those along dims, that says if they
        are the same: the exclusive or of their bits, as float64 or int64.

        Args:
            dim: a dim, or several; all where none is given.
            keepdim: keep the dims that are reduced, with size 1.
            mode: 0, the only one there is.
        """
        if mode != 0:
            raise RuntimeError(f"hash_tensor: mode must be 0, got {mode}")
        dims = integers(dim)
        if not dims and self.numel() == 0:
            raise IndexError("hash_tensor: a tensor without elements needs a dim")
        is_float = self.is_floating_point()
        plain = self.detach().resolve_neg()
        bits = plain.double().view(rushlight.int64) if is_float else plain.long()
        places = sorted({d % max(self.dim(), 1) for d in dims}) or range(self.dim())
        for place in reversed(places) if self.dim() else ():
            bits = _exclusive_or(bits, place)
            bits = bits if keepdim else bits.squeeze(place)
        return bits.view(rushlight.uint64)

    @staticmethod
    def _make_wrapper_subclass(
        cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None,
        layout=None, device=None, pin_memory=False, requires_grad=False,
        dispatch_sizes_strides_policy=None, dispatch_device=False, dispatch_layout=False,
        *, storage_size=None,
    ):  # fmt: skip
        """Make a tensor of a class with `__torch_dispatch__`, without elements of its own.

        Args:
            cls: its class.
            size, strides, storage_offset, dtype, device: what it says of itself.
            requires_grad: is it a leaf that needs a gradient?

        Raises:
            RuntimeError: the class has no `__torch_dispatch__`.
        """
        from rushlight._dispatch import dispatches, make_wrapper
        from rushlight._ignored import warn_of

        if not dispatches(cls):
            raise RuntimeError(
                f"Tensor._make_wrapper_subclass: {cls.__name__} has no __torch_dispatch__, which "
                "operations on tensors without elements need"
            )
        if layout not in (None, rushlight.strided):
            raise NotImplementedError(f"_make_wrapper_subclass: layout={layout}")
        warn_of(
            "_make_wrapper_subclass", "a wrapper answers for sizes and strides by itself",
            memory_format=memory_format, pin_memory=pin_memory, storage_size=storage_size,
            dispatch_sizes_strides_policy=dispatch_sizes_strides_policy,
            dispatch_device=dispatch_device, dispatch_layout=dispatch_layout,
        )  # fmt: skip
        return make_wrapper(
            cls, size, strides, storage_offset or 0, dtype, device, bool(requires_grad)
        )


def _exclusive_or(bits, dim):
    """The exclusive or of int64 elements along a dim, which is kept with size 1."""
    if bits.size(dim) == 0:
        raise IndexError(f"hash_tensor: dim {dim} has no elements")
    while (size := bits.size(dim)) > 1:
        half = size // 2
        rest = bits.narrow(dim, 2 * half, size % 2)
        bits = bits.narrow(dim, 0, half) ^ bits.narrow(dim, half, half)
        bits = rushlight.cat([bits, rest], dim) if size % 2 else bits
    return bits


@takes_numpy_names
def hash_tensor(input, dim=(), *, keepdim=False, mode=0):
    """`Tensor.hash_tensor` as a function."""
    if _C._has_torch_function_unary(input):
        options = {"keepdim": keepdim, "mode": mode}
        return _C._handle_torch_function(hash_tensor, (input,), (input, dim), options)
    return _hash_of(input, dim, keepdim=keepdim, mode=mode)


def _hash_of(input, dim=(), **options):
    return input.hash_tensor(dim, **options)


hash_tensor.__wrapped__ = _hash_of  # what transforms and classes with __torch_dispatch__ run


def _warn(text):
    from rushlight._ignored import warn_program

    warn_program(text)


_GONE = {
    "eig": "torch.linalg.eig, whose results are complex",
    "lstsq": "torch.linalg.lstsq, whose arguments are in the other order",
    "solve": "torch.linalg.solve, whose arguments are in the other order",
    "symeig": "torch.linalg.eigh, or torch.linalg.eigvalsh for the eigenvalues alone",
}


def _gone(name, instead):
    def function(input, *args, **kwargs):
        raise RuntimeError(
            "This function was deprecated since version 1.9 and is now removed. "
            f"`torch.{name}` is not there any more: use {instead}."
        )

    function.__name__ = name
    function.__doc__ = f"Refused, as by torch: use {instead}."
    return function


def reinforce(self, reward):
    """Refused, as by torch: use `torch.distributions`."""
    raise RuntimeError(
        f"reinforce({reward!r}) was removed. Use torch.distributions instead: backward through "
        "-m.log_prob(action) * reward of a distribution m."
    )


def _quantized_function(name):
    from rushlight._quantized import _tensor

    return getattr(_tensor, {"qscheme": "qscheme_of"}.get(name, name))


def _for_quantized(name):
    def function(self):
        return _quantized_function(name)(self)

    function.__name__ = name
    function.__doc__ = f"See `{name}`: for quantized tensors."
    return function


def _for_sparse(name):
    def function(input, *args, **kwargs):
        raise NotImplementedError(f"{name}: of sparse tensors alone; see resize_")

    function.__name__ = name
    function.__doc__ = "Refused: the tensor is not sparse."
    return function


def _no_device(name):
    def function(self, *args, **kwargs):
        raise RuntimeError(f"{name}: rushlight has no support for {name} devices")

    function.__name__ = name
    function.__doc__ = f"Refused: rushlight has no support for {name} devices."
    return function


_QUANTIZED = (
    "int_repr", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points",
    "q_scale", "q_zero_point", "qscheme",
)  # fmt: skip
_SPARSE = ("resize_as_sparse_", "sparse_resize_", "sparse_resize_and_clear_")
FUNCTIONS = {
    **{name: _gone(name, instead) for name, instead in _GONE.items()},
}
globals().update(FUNCTIONS)
_METHODS = {
    **FUNCTIONS,
    **{name: _for_quantized(name) for name in _QUANTIZED},
    **{name: _for_sparse(name) for name in _SPARSE},
    **{name: _no_device(name) for name in ("ipu", "mtia", "xpu")},
    "reinforce": reinforce,
}


def _never(name):
    def fget(self):
        return False

    fget.__name__ = name
    return property(fget, doc="Is it on such a device? Never: there is no support for them.")


def _refused_function(name, reason):
    def function(*args, **kwargs):
        raise NotImplementedError(f"{name}: {reason}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Refused: {reason}."
    return function


_NO_SCRIPT = "there is no TorchScript compiler"
for _name, _reason in {
    "choose_qparams_optimized": "there is no search for quantization parameters; use observers",
    "empty_quantized": "use quantize_per_tensor",
    **dict.fromkeys(
        ("import_ir_module", "import_ir_module_from_buffer", "merge_type_from_type_comment",
         "parse_ir", "parse_type_comment", "unify_type_list"),
        _NO_SCRIPT,
    ),
    "_grouped_mm": "products of groups of matrices are for GPUs; use a loop of matmul",
}.items():  # fmt: skip
    globals()[_name] = _refused_function(_name, _reason)


def parse_schema(schema: str) -> FunctionSchema:
    """Return the signature that a text like "ns::name(Tensor x) -> Tensor" describes."""
    from rushlight.library import _schema

    return _schema.parse_schema(schema)


class AcceleratorError(RuntimeError):
    """An error of an accelerator's run-time."""


class FatalError(RuntimeError):
    """An error after which the process should end."""


has_lapack = has_spectral = True
has_mkl = has_openmp = has_cuda = has_mps = False


def install():
    """Give `Tensor` the methods of this module."""
    give([*vars(_Methods).items(), *_METHODS.items()])
    for name in ("is_ipu", "is_maia", "is_mtia", "is_vulkan", "is_xla"):
        setattr(Tensor, name, _never(name))
