"""New tensors, copies and conversions."""
from ops.schema import composite, kernel

_OPTIONS = ("dtype: dtype = None, layout: layout = None, device: device = None, requires_grad: bool = False, "
            "pin_memory: bool = False")

for _name, _doc in (("zeros", "filled with zeros"), ("ones", "filled with ones"), ("empty", "with elements not set")):
    composite(f"{_name}(size: list[int], *, {_OPTIONS}, memory_format: memory_format = None)", names=(f"torch.{_name}",),
              doc=f"A tensor {_doc}.", out=True)
    composite(f"{_name}_like(input: Tensor, *, {_OPTIONS}, memory_format: memory_format = None)",
              names=(f"torch.{_name}_like",), doc=f"A tensor of input's shape and dtype, {_doc}.")
    composite(f"new_{_name}(input: Tensor, size: list[int], *, {_OPTIONS})", names=(f"Tensor.new_{_name}",),
              doc=f"A tensor of input's dtype, {_doc}.")
composite(f"full(size: list[int], fill_value: Scalar, *, {_OPTIONS})", names=("torch.full",), out=True,
          doc="A tensor filled with a number, whose dtype it takes.")
composite(f"full_like(input: Tensor, fill_value: Scalar, *, {_OPTIONS}, memory_format: memory_format = None)",
          names=("torch.full_like",), doc="A tensor of input's shape and dtype, filled with a number.")
composite(f"new_full(input: Tensor, size: list[int], fill_value: Scalar, *, {_OPTIONS})", names=("Tensor.new_full",),
          doc="A tensor of input's dtype, filled with a number.")
composite(f"arange(end: Scalar, *, {_OPTIONS})", names=("torch.arange",), out=True, doc="0, 1, ... below end.")
composite(f"arange__start(start: Scalar, end: Scalar, step: Scalar = 1, *, {_OPTIONS})", names=("torch.arange",), out=True,
          doc="start, start + step, ... below end.")
kernel("clone(input: Tensor, *, memory_format: memory_format = None)", doc="A copy.", grad={"input": "grad"})
kernel("to_dtype(input: Tensor, dtype: dtype)", names=(), doc="A copy of another dtype.",
       grad={"input": "grad"})
composite("copy_(input: Tensor, src: Tensor | Number, non_blocking: bool = False)", names=("Tensor.copy_",),
          doc="Overwrites input with src, broadcast and converted.")
composite("resize_(input: Tensor, size: list[int], *, memory_format: memory_format = None)", names=("Tensor.resize_",),
          doc="Changes the shape in place; the storage grows where it must.")
kernel("fill(input: Tensor, value: Scalar)", inplace=True, doc="input with every element replaced by value.",
       grad={"input": "zeros_like(grad)"})
kernel("conj_physical(input: Tensor)", doc="Complex conjugate, a copy.", grad={"input": "conj(grad)"})
composite("conj(input: Tensor)",
          doc="Complex conjugate; real tensors are returned as they are.")
