"""Random numbers: from the same seed the same as torch's on the CPU."""
from ops.schema import composite, draw, factory, kernel

_OPTIONS = ("generator: Generator = None, dtype: dtype = None, layout: layout = None, device: "
            "device = None, "
            "requires_grad: bool = False, pin_memory: bool = False")
_NONE = "random numbers have no gradient"

_GENERATOR = "generator_or_default(generator)"
for _name, _arguments, _guard, _numbers, _doc in (
        ("uniform", "from_: float = 0, to: float = 1", "check_uniform(input, from_, to)",
         "from_, to", "Overwrites input with numbers even over [from, to)."),
        ("normal", "mean: float = 0, std: float = 1", "check_normal(input, std)", "mean, std",
         "Overwrites input with normal numbers."),
        ("exponential", "lambd: float = 1", "check_exponential(input, lambd)", "lambd",
         "Overwrites input with exponential numbers of rate lambd."),
        ("cauchy", "median: float = 0, sigma: float = 1", "check_cauchy(input, sigma)",
         "median, sigma", "Overwrites input with Cauchy numbers."),
        ("log_normal", "mean: float = 1, std: float = 2", "check_log_normal(input, std)",
         "mean, std", "Overwrites input with exp of normal numbers."),
        ("geometric", "p: float", "check_geometric(p)", "p",
         "Overwrites input with counts of trials up to the first success."),
        ("bernoulli", "p: float = 0.5", "check_bernoulli(p)", "p",
         "Overwrites input with 1 with probability p, else 0.")):
    draw(f"{_name}_(input: Tensor, {_arguments}, *, generator: Generator = None)",
         names=(f"Tensor.{_name}_",), guard=_guard,
         launch=f"{_name}(input, {_numbers}, {_GENERATOR})", doc=_doc)
draw("random_(input: Tensor, *, generator: Generator = None)", names=("Tensor.random_",),
     launch=f"random_natural(input, {_GENERATOR})",
     doc="Overwrites input with whole numbers of its whole range.")
composite("random___to(input: Tensor, to: int, *, generator: Generator = None)",
          "random_(input, 0, to, generator)",
          names=("Tensor.random_",),
          doc="Overwrites input with whole numbers of [0, to).")
composite("random___from(input: Tensor, from_: int, to: int | None, *, "
          "generator: Generator = None)", names=("Tensor.random_",),
          doc="Overwrites input with whole numbers of [from, to).")
draw("bernoulli___tensor(input: Tensor, p: Tensor, *, generator: Generator = None)",
     names=("Tensor.bernoulli_",), guard='check_differentiable("bernoulli_", p)',
     launch=f"bernoulli_each(input, ops::expand(p, input.sizes()), {_GENERATOR})",
     doc="Overwrites input with 1 with probability p, else 0.")
kernel("bernoulli(input: Tensor, *, generator: Generator = None)", out="cast",
       guard='check_differentiable("bernoulli", input)', shape="dense(input)",
       launch=f"bernoulli_each(out, input, {_GENERATOR})",
       doc="1 with the probability input gives, else 0.",
       grad={"input": "zeros_like(grad)"})
kernel("bernoulli__p(input: Tensor, p: float, *, generator: Generator = None)",
       guard="check_bernoulli(p)", shape="dense(input)", launch=f"bernoulli(out, p, {_GENERATOR})",
       doc="1 with probability p, else 0.",
       grad={"input": "zeros_like(grad)"})
kernel("poisson(input: Tensor, generator: Generator = None)", names=("torch.poisson",),
       guard='check_differentiable("poisson", input)', shape="dense(input)",
       launch=f"poisson(input, out, {_GENERATOR})",
       doc="Poisson numbers of the given rates.",
       grad={"input": "zeros_like(grad)"})
kernel("binomial(count: Tensor, prob: Tensor, generator: Generator = None)",
       names=("torch.binomial",), guard="check_binomial(count, prob)",
       shape='broadcast_of("binomial", count, prob)',
       launch="binomial(ops::expand(count, out.sizes()), ops::expand(prob, out.sizes()), out, "
              f"{_GENERATOR})",
       doc="Successes in count trials of probability prob.",
       grad={"count": "zeros_like(grad)", "prob": "zeros_like(grad)"})
kernel("multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: "
       "Generator = None)", out=True,
       guard="check_weights_to_draw_by(input, num_samples, replacement)",
       shape="of_lines(input, input.dim() - 1, num_samples, DType::Int64)",
       launch=f"multinomial(input, replacement, out, {_GENERATOR})",
       doc="Offsets drawn with the weights of each row.", grad=_NONE)

for _name, _kernel, _doc in (
        ("rand", "uniform", "even over [0, 1)"),
        ("randn", "normal", "of the standard normal distribution")):
    factory(f"{_name}(size: list[int], *, {_OPTIONS})", names=(f"torch.{_name}",), out=True,
            guard=f'check_drawn("{_name}", dtype.value_or(default_dtype()))',
            shape=f'sized("{_name}", size, dtype)', launch=f"{_kernel}(out, 0, 1, {_GENERATOR})",
            doc=f"Random numbers {_doc}.")
    factory(f"{_name}_like(input: Tensor, *, {_OPTIONS}, memory_format: memory_format = None)",
            names=(f"torch.{_name}_like",),
            guard=f'check_drawn("{_name}_like", dtype.value_or(input.dtype()))',
            shape=f'sized_like("{_name}_like", input, dtype, memory_format)',
            launch=f"{_kernel}(out, 0, 1, {_GENERATOR})",
            doc=f"Random numbers {_doc}, in input's shape and dtype.")
composite(f"randint(high: int, size: list[int], *, {_OPTIONS})",
          "randint(0, high, size, generator, dtype, layout, device, requires_grad, pin_memory)",
          names=("torch.randint",), out=True,
          doc="Random whole numbers of [0, high).")
factory(f"randint__low(low: int, high: int, size: list[int], *, {_OPTIONS})",
          names=("torch.randint",), out=True,
        guard='check_range(low, high)',
        shape='sized("randint", size, dtype.value_or(DType::Int64))',
        launch=f"random_from_to(out, low, high, {_GENERATOR})",
        doc="Random whole numbers of [low, high).")
composite(f"randint_like(input: Tensor, high: int, *, {_OPTIONS}, memory_format: memory_format = "
          f"None)",
          "randint_like(input, 0, high, generator, dtype, layout, device, requires_grad, "
          "pin_memory, memory_format)",
          names=("torch.randint_like",),
          doc="Random whole numbers of [0, high), in input's shape and dtype.")
factory(f"randint_like__low(input: Tensor, low: int, high: int, *, {_OPTIONS}, memory_format: "
          f"memory_format = None)",
          names=("torch.randint_like",),
        guard='check_range(low, high)',
        shape='sized_like("randint_like", input, dtype, memory_format)',
        launch=f"random_from_to(out, low, high, {_GENERATOR})",
        doc="Random whole numbers of [low, high), in input's shape and dtype.")
factory(f"randperm(n: int, *, {_OPTIONS})", names=("torch.randperm",), out=True,
        guard="check_permutation(n, dtype.value_or(DType::Int64))",
        shape='sized("randperm", Dims{n}, dtype.value_or(DType::Int64))',
        launch=f"randperm(out, {_GENERATOR})",
        doc="A random permutation of 0 ... n - 1.")
kernel("normal(mean: Tensor, std: Tensor, *, generator: Generator = None)", names=("torch.normal",),
       out="cast",
          doc="Normal numbers, a mean and a deviation for each.", node="NormalBackward3",
          grad={"mean": "zeros_like(grad)", "std": "zeros_like(grad)"})
kernel("normal__std(mean: Tensor, std: float = 1, *, generator: Generator = None)",
       names=("torch.normal",), out="cast",
          doc="Normal numbers, a mean for each.", node="NormalBackward1",
          grad={"mean": "zeros_like(grad)"})
kernel("normal__mean(mean: float, std: Tensor, *, generator: Generator = None)",
       names=("torch.normal",), out="cast",
          doc="Normal numbers, a deviation for each.", node="NormalBackward2",
          grad={"std": "zeros_like(grad)"})
factory(f"normal__size(mean: float, std: float, size: list[int], *, {_OPTIONS})",
          names=("torch.normal",), out=True,
        guard='check_deviation(std)',
        shape='sized("normal", size, dtype)',
        launch=f"normal(out, mean, std, {_GENERATOR})",
        doc="Normal numbers.")
kernel("standard_gamma(input: Tensor, generator: Generator = None)",
       names=("torch._standard_gamma",), guard='check_differentiable("_standard_gamma", input)',
       shape="dense(input)", launch=f"standard_gamma(input, out, {_GENERATOR})",
       doc="Gamma numbers of the given shapes and rate 1.",
       grad="differentiate through torch.distributions")
# On GPUs dropout draws, notes and scales in one pass.
kernel("dropout_kernel(input: Tensor, p: float) -> tuple[output, kept]", names=(),
       node="NativeDropoutBackward0",
       shape="each(like(input), like(input, DType::Bool))",
       launch="dropout(physical(input), p, output, kept, generator_or_default(nullptr))",
       doc="What dropout leaves of the input, and which elements these are.",
       grad={"input": "dropout_kernel_gradient(grad, kept, p)"})
kernel("dropout_kernel_gradient(grad_output: Tensor, kept: Tensor, p: float)", names=(),
       node="NativeDropoutBackwardBackward0", shape="like(kept, grad_output.dtype())",
       launch="dropout_backward(physical(grad_output), kept, p, out)",
       doc="The gradient of its input.",
       grad={"grad_output": "dropout_kernel_gradient(grad, kept, p)"})
composite("dropout(input: Tensor, p: float = 0.5, train: bool = True)", """
    check_value(p >= 0 and p <= 1, "dropout probability has to be between 0 and 1, but got ", p)
    if not train or p == 0 or numel(input) == 0:
        return input
    if p == 1:
        return input * zeros_like(input)
    if draws_in_kernel(input) and is_floating(input):
        return dropout_kernel(input, p)[0]
    mask = bernoulli_(empty_like(input), 1 - p, None)
    return input * div_(mask, 1 - p)
          """, names=("torch.dropout",),
          inplace=True,
          doc="Zeros elements with probability p and scales the others by 1 / (1 - p), if train.",
          batch="random")
composite("functional_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool "
          "= False)",
          "dropout_(input, p, training) if inplace else dropout(input, p, training)",
          names=("nn.functional.dropout",),
          doc="Zeros elements with probability p and scales the others by 1 / (1 - p), if "
              "training.",
          batch="random")
