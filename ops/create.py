"""New tensors, copies and conversions."""
from ops.schema import FIXED_DIMS, composite, factory, kernel

_OPTIONS = ("dtype: dtype = None, layout: layout = None, device: device = None, requires_grad: "
            "bool = False, "
            "pin_memory: bool = False")

_AS_INPUT = "dtype.value_or(input.dtype())"
for _name, _doc, _fill in (("zeros", "filled with zeros", "fill(out, 0)"),
                           ("ones", "filled with ones", "fill(out, 1)"),
                           ("empty", "with elements not set", None)):
    factory(f"{_name}(size: list[int], *, {_OPTIONS}, memory_format: memory_format = None)",
            names=(f"torch.{_name}",), out=True,
            shape=f'sized("{_name}", size, dtype, memory_format)', launch=_fill,
            doc=f"A tensor {_doc}.")
    factory(f"{_name}_like(input: Tensor, *, {_OPTIONS}, memory_format: memory_format = None)",
            names=(f"torch.{_name}_like",),
            shape=f'sized_like("{_name}_like", input, dtype, memory_format)', launch=_fill,
            doc=f"A tensor of input's shape and dtype, {_doc}.", batch="leading")
    factory(f"new_{_name}(input: Tensor, size: list[int], *, {_OPTIONS})",
            names=(f"Tensor.new_{_name}",),
            shape=f'sized("new_{_name}", size, {_AS_INPUT})', launch=_fill,
            doc=f"A tensor of input's dtype, {_doc}.", batch="new")
factory(f"full(size: list[int], fill_value: Scalar, *, {_OPTIONS})", names=("torch.full",),
        out=True, guard='check_fits("full", fill_value, dtype.value_or(tensor_dtype(fill_value)))',
        shape='sized("full", size, dtype.value_or(tensor_dtype(fill_value)))',
        launch="fill(out, fill_value)",
        doc="A tensor filled with a number, whose dtype it takes.")
factory(f"full_like(input: Tensor, fill_value: Scalar, *, {_OPTIONS}, memory_format: "
        f"memory_format = None)", names=("torch.full_like",),
        guard=f'check_fits("full", fill_value, {_AS_INPUT})',
        shape='sized_like("full_like", input, dtype, memory_format)',
        launch="fill(out, fill_value)",
        doc="A tensor of input's shape and dtype, filled with a number.", batch="leading")
factory(f"new_full(input: Tensor, size: list[int], fill_value: Scalar, *, {_OPTIONS})",
        names=("Tensor.new_full",), guard=f'check_fits("full", fill_value, {_AS_INPUT})',
        shape=f'sized("new_full", size, {_AS_INPUT})', launch="fill(out, fill_value)",
        doc="A tensor of input's dtype, filled with a number.", batch="new")
composite(f"arange(end: Scalar, *, {_OPTIONS})",
          "arange(0, end, 1, dtype, layout, device, requires_grad, pin_memory)",
          names=("torch.arange",), out="fill",
          doc="0, 1, ... below end.")
composite(f"arange__start(start: Scalar, end: Scalar, step: Scalar = 1, *, {_OPTIONS})",
          names=("torch.arange",), out="fill",
          doc="start, start + step, ... below end.")
kernel("clone(input: Tensor, *, memory_format: memory_format = None)", doc="A copy.",
       grad={"input": "grad"},
       batch="leading")
kernel("to_dtype(input: Tensor, dtype: dtype)", names=(), node="ToCopyBackward0",
       doc="A copy of another dtype.",
       grad={"input": "grad"}, batch="spread_leading")
composite("copy_(input: Tensor, other: Tensor | Number, non_blocking: bool = False)",
          names=("Tensor.copy_",),
          doc="Overwrites input with other, broadcast and converted.", batch="elementwise")
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
          """
    if not is_complex(input):
        return input
    return conj_view(input) if can_be_lazy(input) else conj_physical(input)
          """,
          doc="Complex conjugate, a view that shares its memory; real tensors are returned as they "
              "are.", batch="elementwise")
composite("conj_now(input: Tensor)", "conj_physical(input) if is_complex(input) else input",
          names=(), batch="elementwise",
          doc="The conjugate as formulas of gradients have it: no view.")

for _lazy, _view, _test in (("conj", "conjugate", "is_conjugated"),
                            ("neg", "negative", "is_negated")):
    composite(f"resolve_{_lazy}(input: Tensor)", f"clone(input) if {_test}(input) else input",
              names=(f"torch.resolve_{_lazy}", f"Tensor.resolve_{_lazy}"), batch="elementwise",
              doc=f"A copy of a {_view} view, without that; any other tensor is returned as it is.")

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
composite("cpu(input: Tensor, *, memory_format: memory_format = None)",
          "to(input, cpu, dtype(input), False, False, memory_format)", names=("Tensor.cpu",),
          doc="The tensor on the CPU.",
          batch="leading")
composite("cuda(input: Tensor, device: device = None, non_blocking: bool = False, *, "
          "memory_format: memory_format = None)",
          "to(input, value_or(device, cuda), dtype(input), non_blocking, False, memory_format)",
          names=("Tensor.cuda",), doc="The tensor on a GPU.", batch=FIXED_DIMS)
for _method, _dtype in (
        ("bool", "bool"), ("byte", "uint8"), ("char", "int8"), ("short", "int16"), ("int", "int32"),
        ("long", "int64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("float", "float32"),
        ("double", "float64"), ("cfloat", "complex64"), ("cdouble", "complex128")):
    composite(f"cast_{_method}(input: Tensor, *, memory_format: memory_format = None)",
              f"input if dtype(input) == {_dtype} and memory_format is None else "
              f"to(input, {_dtype}, False, False, memory_format)",
              names=(f"Tensor.{_method}",),
              doc=f"Converts to {_method}.", batch="leading",
              linear=_method in ("half", "bfloat16", "float", "double"))
composite(f"eye(n: int, m: int | None = None, *, {_OPTIONS})", names=("torch.eye",), out=True,
          doc="Ones on the diagonal, zeros elsewhere.")
composite(f"linspace(start: Scalar, end: Scalar, steps: int, *, {_OPTIONS})",
          names=("torch.linspace",), out="fill", tensor_numbers=True,
          doc="steps numbers evenly from start to end.")
composite(f"logspace(start: Scalar, end: Scalar, steps: int, base: float = 10.0, *, {_OPTIONS})",
          names=("torch.logspace",), out="fill", tensor_numbers=True,
          doc="base to the power of steps numbers evenly from start to end.")
factory(f"empty_strided(size: list[int], stride: list[int], *, {_OPTIONS})",
        names=("torch.empty_strided",),
        shape='strided_sizes("empty_strided", size, stride, dtype.value_or(default_dtype()))',
        doc="A tensor of the given sizes and strides, elements not set.")
factory(f"new_empty_strided(input: Tensor, size: list[int], stride: list[int], *, {_OPTIONS})",
        names=("Tensor.new_empty_strided",),
        shape=f'strided_sizes("new_empty_strided", size, stride, {_AS_INPUT})',
        doc="A tensor of input's dtype with the given sizes and strides, elements not set.",
        samples=("x(2, 3), (2, 2), (1, 2)",),
        batch=FIXED_DIMS)
factory(f"empty_permuted(size: list[int], physical_layout: list[int], *, {_OPTIONS})",
        names=("torch.empty_permuted",),
        shape="permuted_sizes(size, physical_layout, dtype.value_or(default_dtype()))",
        doc="A tensor with elements not set, its dims in memory in the order physical_layout.",
        samples=("(2, 3, 4), (0, 2, 1)",))
composite("one_hot(input: Tensor, num_classes: int = -1)", names=("nn.functional.one_hot",),
          doc="A last dim of zeros with a one at each class number.", batch="one_hot")
kernel("complex(real: Tensor, imag: Tensor)", names=("torch.complex",), out=True,
       doc="Complex numbers of real and imaginary parts.",
       grad={"real": "real(grad)", "imag": "imag(grad)"}, batch="elementwise")
