"""Random numbers: from the same seed the same as torch's on the CPU."""
from ops.schema import composite, kernel

_OPTIONS = ("generator: Generator = None, dtype: dtype = None, layout: layout = None, device: "
            "device = None, "
            "requires_grad: bool = False, pin_memory: bool = False")
_NONE = "random numbers have no gradient"

for _name, _arguments, _doc in (
        ("uniform_", "from_: float = 0, to: float = 1",
         "Overwrites input with numbers even over [from, to)."),
        ("normal_", "mean: float = 0, std: float = 1", "Overwrites input with normal numbers."),
        ("exponential_", "lambd: float = 1",
         "Overwrites input with exponential numbers of rate lambd."),
        ("cauchy_", "median: float = 0, sigma: float = 1", "Overwrites input with Cauchy numbers."),
        ("log_normal_", "mean: float = 1, std: float = 2",
         "Overwrites input with exp of normal numbers."),
        ("geometric_", "p: float",
         "Overwrites input with counts of trials up to the first success."),
        ("random_", "", "Overwrites input with whole numbers of its whole range."),
        ("bernoulli_", "p: float = 0.5", "Overwrites input with 1 with probability p, else 0.")):
    composite(f"{_name}(input: Tensor, {_arguments}{', ' * bool(_arguments)}*, generator: "
              f"Generator = None)",
              names=(f"Tensor.{_name}",), doc=_doc)
composite("random___to(input: Tensor, to: int, *, generator: Generator = None)",
          names=("Tensor.random_",),
          doc="Overwrites input with whole numbers of [0, to).")
composite("random___from(input: Tensor, from_: int, to: int | None, *, "
          "generator: Generator = None)", names=("Tensor.random_",),
          doc="Overwrites input with whole numbers of [from, to).")
composite("bernoulli___tensor(input: Tensor, p: Tensor, *, generator: Generator = None)",
          names=("Tensor.bernoulli_",),
          doc="Overwrites input with 1 with probability p, else 0.")
_GENERATOR = "generator_or_default(generator)"
kernel("bernoulli(input: Tensor, *, generator: Generator = None)", out="cast",
       guard='check_differentiable("bernoulli", input)', shape="dense(input)",
       launch=f"bernoulli_each(out, input, {_GENERATOR})",
       doc="1 with the probability input gives, else 0.",
       grad={"input": "zeros_like(grad)"})
kernel("bernoulli__p(input: Tensor, p: float, *, generator: Generator = None)",
       doc="1 with probability p, else 0.",
       grad={"input": "zeros_like(grad)"})
kernel("poisson(input: Tensor, generator: Generator = None)", names=("torch.poisson",),
       guard='check_differentiable("poisson", input)', shape="dense(input)",
       launch=f"poisson(input, out, {_GENERATOR})",
       doc="Poisson numbers of the given rates.",
       grad={"input": "zeros_like(grad)"})
kernel("binomial(count: Tensor, prob: Tensor, generator: Generator = None)",
       names=("torch.binomial",),
       doc="Successes in count trials of probability prob.",
       grad={"count": "zeros_like(grad)", "prob": "zeros_like(grad)"})
kernel("multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: "
       "Generator = None)", out=True,
       guard="check_weights_to_draw_by(input, num_samples, replacement)",
       shape="of_lines(input, input.dim() - 1, num_samples, DType::Int64)",
       launch=f"multinomial(input, replacement, out, {_GENERATOR})",
       doc="Offsets drawn with the weights of each row.", grad=_NONE)

for _name, _doc in (("rand", "even over [0, 1)"), ("randn", "of the standard normal distribution")):
    composite(f"{_name}(size: list[int], *, {_OPTIONS})", names=(f"torch.{_name}",), out=True,
              doc=f"Random numbers {_doc}.")
    composite(f"{_name}_like(input: Tensor, *, {_OPTIONS}, memory_format: memory_format = None)",
              names=(f"torch.{_name}_like",),
              doc=f"Random numbers {_doc}, in input's shape and dtype.")
composite(f"randint(high: int, size: list[int], *, {_OPTIONS})", names=("torch.randint",), out=True,
          doc="Random whole numbers of [0, high).")
composite(f"randint__low(low: int, high: int, size: list[int], *, {_OPTIONS})",
          names=("torch.randint",), out=True,
          doc="Random whole numbers of [low, high).")
composite(f"randint_like(input: Tensor, high: int, *, {_OPTIONS}, memory_format: memory_format = "
          f"None)",
          names=("torch.randint_like",),
          doc="Random whole numbers of [0, high), in input's shape and dtype.")
composite(f"randint_like__low(input: Tensor, low: int, high: int, *, {_OPTIONS}, memory_format: "
          f"memory_format = None)",
          names=("torch.randint_like",),
          doc="Random whole numbers of [low, high), in input's shape and dtype.")
composite(f"randperm(n: int, *, {_OPTIONS})", names=("torch.randperm",), out=True,
          doc="A random permutation of 0 ... n - 1.")
kernel("normal(mean: Tensor, std: Tensor, *, generator: Generator = None)", names=("torch.normal",),
       out="cast",
          doc="Normal numbers, a mean and a deviation for each.",
          grad={"mean": "zeros_like(grad)", "std": "zeros_like(grad)"})
kernel("normal__std(mean: Tensor, std: float = 1, *, generator: Generator = None)",
       names=("torch.normal",), out="cast",
          doc="Normal numbers, a mean for each.",
          grad={"mean": "zeros_like(grad)"})
kernel("normal__mean(mean: float, std: Tensor, *, generator: Generator = None)",
       names=("torch.normal",), out="cast",
          doc="Normal numbers, a deviation for each.",
          grad={"std": "zeros_like(grad)"})
composite(f"normal__size(mean: float, std: float, size: list[int], *, {_OPTIONS})",
          names=("torch.normal",), out=True,
          doc="Normal numbers.")
kernel("standard_gamma(input: Tensor, generator: Generator = None)",
       names=("torch._standard_gamma",), guard='check_differentiable("_standard_gamma", input)',
       shape="dense(input)", launch=f"standard_gamma(input, out, {_GENERATOR})",
       doc="Gamma numbers of the given shapes and rate 1.",
       grad="differentiate through torch.distributions")
composite("dropout(input: Tensor, p: float = 0.5, train: bool = True)", names=("torch.dropout",),
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
