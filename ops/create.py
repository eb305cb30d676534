"""New tensors, copies and conversions."""
from ops.schema import FIXED_DIMS, composite, kernel

_OPTIONS = ("dtype: dtype = None, layout: layout = None, device: device = None, requires_grad: "
            "bool = False, "
            "pin_memory: bool = False")

for _name, _doc in (("zeros", "filled with zeros"), ("ones", "filled with ones"),
                    ("empty", "with elements not set")):
    composite(f"{_name}(size: list[int], *, {_OPTIONS}, memory_format: memory_format = None)",
              names=(f"torch.{_name}",),
              doc=f"A tensor {_doc}.", out=True)
    composite(f"{_name}_like(input: Tensor, *, {_OPTIONS}, memory_format: memory_format = None)",
              names=(f"torch.{_name}_like",), doc=f"A tensor of input's shape and dtype, {_doc}.",
              batch="leading")
    composite(f"new_{_name}(input: Tensor, size: list[int], *, {_OPTIONS})",
              names=(f"Tensor.new_{_name}",),
              doc=f"A tensor of input's dtype, {_doc}.", batch="new")
composite(f"full(size: list[int], fill_value: Scalar, *, {_OPTIONS})", names=("torch.full",),
          out=True,
          doc="A tensor filled with a number, whose dtype it takes.")
composite(f"full_like(input: Tensor, fill_value: Scalar, *, {_OPTIONS}, memory_format: "
          f"memory_format = None)",
          names=("torch.full_like",),
          doc="A tensor of input's shape and dtype, filled with a number.",
          batch="leading")
composite(f"new_full(input: Tensor, size: list[int], fill_value: Scalar, *, {_OPTIONS})",
          names=("Tensor.new_full",),
          doc="A tensor of input's dtype, filled with a number.", batch="new")
composite(f"arange(end: Scalar, *, {_OPTIONS})", names=("torch.arange",), out=True,
          doc="0, 1, ... below end.")
composite(f"arange__start(start: Scalar, end: Scalar, step: Scalar = 1, *, {_OPTIONS})",
          names=("torch.arange",), out=True,
          doc="start, start + step, ... below end.")
kernel("clone(input: Tensor, *, memory_format: memory_format = None)", doc="A copy.",
       grad={"input": "grad"},
       batch="leading")
kernel("to_dtype(input: Tensor, dtype: dtype)", names=(), node="ToCopyBackward0",
       doc="A copy of another dtype.",
       grad={"input": "grad"})
composite("copy_(input: Tensor, src: Tensor | Number, non_blocking: bool = False)",
          names=("Tensor.copy_",),
          doc="Overwrites input with src, broadcast and converted.", batch="elementwise")
composite("resize_(input: Tensor, size: list[int], *, memory_format: memory_format = None)",
          names=("Tensor.resize_",),
          doc="Changes the shape in place; the storage grows where it must.", batch=FIXED_DIMS)
kernel("fill__tensor(input: Tensor, value: Tensor)", inplace=True, node="FillBackward1",
       doc="input with every element replaced by a 0-d value.",
       grad={"input": "zeros_like(grad)", "value": "sum(grad)"}, batch="fill")
kernel("fill(input: Tensor, value: Scalar)", inplace=True,
       doc="input with every element replaced by value.",
       grad={"input": "zeros_like(grad)"}, batch="fill")
kernel("conj_physical(input: Tensor)", inplace=True, out=True, doc="Complex conjugate, a copy.",
       shape="like(input)", launch="conj_copy(input, out)",
       grad={"input": "conj(grad)"},
       batch="elementwise")
composite("conj(input: Tensor)",
          doc="Complex conjugate; real tensors are returned as they are.", batch="elementwise")

for _lazy in ("conj", "neg"):
    composite(f"resolve_{_lazy}(input: Tensor)", "input", names=(f"torch.resolve_{_lazy}",),
              doc=f"The tensor itself: here {_lazy} is never left for later.")

_CONVERT = "non_blocking: bool = False, copy: bool = False, *, memory_format: memory_format = None"
composite(f"to(input: Tensor, dtype: dtype, {_CONVERT})", names=("Tensor.to",),
          doc="Converts dtype or device; itself if nothing changes.",
          batch="leading")
composite(f"to__device(input: Tensor, device: device = None, dtype: dtype = None, {_CONVERT})",
          names=("Tensor.to",),
          doc="Converts dtype or device; itself if nothing changes.", batch="leading")
composite(f"to__other(input: Tensor, other: Tensor, {_CONVERT})", names=("Tensor.to",),
          doc="Converts to other's dtype and device.",
          batch="leading")
composite("type_as(input: Tensor, other: Tensor)", "to(input, other)", names=("Tensor.type_as",),
          doc="Converts to other's dtype.")
composite("cpu(input: Tensor, *, memory_format: memory_format = None)", names=("Tensor.cpu",),
          doc="The tensor on the CPU.",
          batch="leading")
composite("cuda(input: Tensor, device: device = None, non_blocking: bool = False, *, "
          "memory_format: memory_format = None)",
          names=("Tensor.cuda",), doc="The tensor on a GPU.", batch=FIXED_DIMS)
for _method in ("bool", "byte", "char", "short", "int", "long", "half", "bfloat16", "float",
                "double", "cfloat", "cdouble"):
    composite(f"cast_{_method}(input: Tensor, *, memory_format: memory_format = None)",
              names=(f"Tensor.{_method}",),
              doc=f"Converts to {_method}.", batch="leading",
              linear=_method in ("half", "bfloat16", "float", "double"))
composite(f"eye(n: int, m: int | None = None, *, {_OPTIONS})", names=("torch.eye",), out=True,
          doc="Ones on the diagonal, zeros elsewhere.")
composite(f"linspace(start: Scalar, end: Scalar, steps: int, *, {_OPTIONS})",
          names=("torch.linspace",), out=True,
          doc="steps numbers evenly from start to end.")
composite(f"logspace(start: Scalar, end: Scalar, steps: int, base: float = 10.0, *, {_OPTIONS})",
          names=("torch.logspace",), out=True,
          doc="base to the power of steps numbers evenly from start to end.")
composite(f"empty_strided(size: list[int], stride: list[int], *, {_OPTIONS})",
          names=("torch.empty_strided",),
          doc="A tensor of the given sizes and strides, elements not set.")
composite(f"new_empty_strided(input: Tensor, size: list[int], stride: list[int], *, {_OPTIONS})",
          names=("Tensor.new_empty_strided",),
          doc="A tensor of input's dtype with the given sizes and strides, elements not set.",
          samples=("x(2, 3), (2, 2), (1, 2)",),
          batch=FIXED_DIMS)
composite(f"empty_permuted(size: list[int], physical_layout: list[int], *, {_OPTIONS})",
          names=("torch.empty_permuted",),
          doc="A tensor with elements not set, its dims in memory in the order physical_layout.",
          samples=("(2, 3, 4), (0, 2, 1)",))
composite("one_hot(input: Tensor, num_classes: int = -1)", names=("nn.functional.one_hot",),
          doc="A last dim of zeros with a one at each class number.", batch=FIXED_DIMS)
kernel("complex(real: Tensor, imag: Tensor)", names=("torch.complex",), out=True,
       doc="Complex numbers of real and imaginary parts.",
       grad={"real": "real(grad)", "imag": "imag(grad)"}, batch="elementwise")
