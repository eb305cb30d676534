"""Examples of the rows, by the row's name: programs as a user writes them, and what they print.

The documentation of the functions shows them, and tests/test_docs.py runs them. To add one, write
its lines without what they print and run `make examples`.
"""

EXAMPLES = {
    "relu": """\
>>> torch.relu(torch.tensor([-1.0, 0.0, 2.0]))
tensor([0., 0., 2.])
""",
    "threshold": """\
>>> torch.threshold(torch.tensor([-1.0, 0.5, 2.0]), 1.0, -9.0)
tensor([-9., -9.,  2.])
""",
    "softplus": """\
>>> torch.nn.functional.softplus(torch.tensor([-2.0, 0.0, 2.0]))
tensor([0.1269, 0.6931, 2.1269])
""",
    "softshrink": """\
>>> torch.nn.functional.softshrink(torch.tensor([-1.0, 0.25, 2.0]))
tensor([-0.5000,  0.0000,  1.5000])
""",
    "hardshrink": """\
>>> torch.hardshrink(torch.tensor([-1.0, 0.25, 2.0]))
tensor([-1.,  0.,  2.])
""",
    "logsigmoid": """\
>>> torch.nn.functional.logsigmoid(torch.tensor([-1.0, 0.0, 1.0]))
tensor([-1.3133, -0.6931, -0.3133])
""",
    "selu": """\
>>> torch.selu(torch.tensor([-1.0, 0.0, 1.0]))
tensor([-1.1113,  0.0000,  1.0507])
""",
    "celu": """\
>>> torch.celu(torch.tensor([-1.0, 0.0, 1.0]))
tensor([-0.6321,  0.0000,  1.0000])
""",
    "prelu": """\
>>> torch.prelu(torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.25]))
tensor([-0.2500,  0.0000,  2.0000])
""",
    "functional_relu": """\
>>> torch.nn.functional.relu(torch.tensor([-1.0, 0.0, 2.0]))
tensor([0., 0., 2.])
""",
    "functional_leaky_relu": """\
>>> torch.nn.functional.leaky_relu(torch.tensor([-1.0, 0.0, 2.0]), 0.1)
tensor([-0.1000,  0.0000,  2.0000])
""",
    "functional_elu": """\
>>> torch.nn.functional.elu(torch.tensor([-1.0, 0.0, 2.0]))
tensor([-0.6321,  0.0000,  2.0000])
""",
    "functional_selu": """\
>>> torch.nn.functional.selu(torch.tensor([-1.0, 0.0, 2.0]))
tensor([-1.1113,  0.0000,  2.1014])
""",
    "glu": """\
>>> torch.nn.functional.glu(torch.tensor([1.0, 2.0, 0.0, 0.0]))
tensor([0.5000, 1.0000])
""",
    "functional_celu": """\
>>> torch.nn.functional.celu(torch.tensor([-1.0, 0.0, 2.0]))
tensor([-0.6321,  0.0000,  2.0000])
""",
    "functional_silu": """\
>>> torch.nn.functional.silu(torch.tensor([-1.0, 0.0, 2.0]))
tensor([-0.2689,  0.0000,  1.7616])
""",
    "functional_mish": """\
>>> torch.nn.functional.mish(torch.tensor([-1.0, 0.0, 2.0]))
tensor([-0.3034,  0.0000,  1.9440])
""",
    "functional_hardsigmoid": """\
>>> torch.nn.functional.hardsigmoid(torch.tensor([-4.0, 0.0, 1.5]))
tensor([0.0000, 0.5000, 0.7500])
""",
    "functional_hardswish": """\
>>> torch.nn.functional.hardswish(torch.tensor([-4.0, 0.0, 1.5]))
tensor([-0.0000, 0.0000, 1.1250])
""",
    "functional_threshold": """\
>>> torch.nn.functional.threshold(torch.tensor([-1.0, 0.5, 2.0]), 1.0, 0.0)
tensor([0., 0., 2.])
""",
    "relu6": """\
>>> torch.nn.functional.relu6(torch.tensor([-1.0, 3.0, 8.0]))
tensor([0., 3., 6.])
""",
    "gelu": """\
>>> torch.nn.functional.gelu(torch.tensor([-1.0, 0.0, 2.0]))
tensor([-0.1587,  0.0000,  1.9545])
""",
    "functional_hardtanh": """\
>>> torch.nn.functional.hardtanh(torch.tensor([-2.0, 0.5, 3.0]))
tensor([-1.0000,  0.5000,  1.0000])
""",
    "add": """\
>>> a = torch.tensor([1.0, 2.0, 3.0])
>>> torch.add(a, 10)
tensor([11., 12., 13.])
>>> torch.add(a, torch.tensor([[1.0], [2.0]]), alpha=10)
tensor([[11., 12., 13.],
        [21., 22., 23.]])
""",
    "sub": """\
>>> torch.sub(torch.tensor([5.0, 7.0]), torch.tensor([1.0, 2.0]))
tensor([4., 5.])
>>> torch.sub(torch.tensor([5.0, 7.0]), 1, alpha=2)
tensor([3., 5.])
""",
    "mul": """\
>>> torch.mul(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[1.0], [10.0]]))
tensor([[ 1.,  2.,  3.],
        [10., 20., 30.]])
""",
    "div": """\
>>> torch.div(torch.tensor([7, -7]), 2)
tensor([ 3.5000, -3.5000])
>>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
tensor([ 3, -4])
""",
    "neg": """\
>>> torch.neg(torch.tensor([1.0, -2.0]))
tensor([-1.,  2.])
""",
    "abs": """\
>>> torch.abs(torch.tensor([-1.5, 2.0]))
tensor([1.5000, 2.0000])
>>> torch.abs(torch.tensor([3 + 4j]))
tensor([5.])
""",
    "sgn": """\
>>> torch.sgn(torch.tensor([3 + 4j, 0j]))
tensor([0.6000+0.8000j, 0.0000+0.0000j])
""",
    "square": """\
>>> torch.square(torch.tensor([-2.0, 3.0]))
tensor([4., 9.])
""",
    "eq": """\
>>> torch.eq(torch.tensor([1, 2, 3]), torch.tensor([1, 5, 3]))
tensor([ True, False,  True])
""",
    "ne": """\
>>> torch.ne(torch.tensor([1, 2, 3]), torch.tensor([1, 5, 3]))
tensor([False,  True, False])
""",
    "lt": """\
>>> torch.lt(torch.tensor([1, 2, 3]), 2)
tensor([ True, False, False])
""",
    "le": """\
>>> torch.le(torch.tensor([1, 2, 3]), 2)
tensor([ True,  True, False])
""",
    "gt": """\
>>> torch.gt(torch.tensor([1, 2, 3]), 2)
tensor([False, False,  True])
""",
    "ge": """\
>>> torch.ge(torch.tensor([1, 2, 3]), 2)
tensor([False,  True,  True])
""",
    "bitwise_and": """\
>>> torch.bitwise_and(torch.tensor([6, 5]), 3)
tensor([2, 1])
""",
    "bitwise_or": """\
>>> torch.bitwise_or(torch.tensor([6, 5]), 3)
tensor([7, 7])
""",
    "bitwise_xor": """\
>>> torch.bitwise_xor(torch.tensor([6, 5]), 3)
tensor([5, 6])
""",
    "bitwise_left_shift": """\
>>> torch.bitwise_left_shift(torch.tensor([1, 2, 3]), 2)
tensor([ 4,  8, 12])
""",
    "bitwise_right_shift": """\
>>> torch.bitwise_right_shift(torch.tensor([8, 9, 10]), 1)
tensor([4, 4, 5])
""",
    "logical_and": """\
>>> torch.logical_and(torch.tensor([1, 0, 2]), torch.tensor([1, 1, 0]))
tensor([ True, False, False])
""",
    "logical_or": """\
>>> torch.logical_or(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]))
tensor([ True,  True, False])
""",
    "logical_xor": """\
>>> torch.logical_xor(torch.tensor([1, 0, 2]), torch.tensor([1, 1, 0]))
tensor([False,  True,  True])
""",
    "floor_divide": """\
>>> torch.floor_divide(torch.tensor([7, -7]), 2)
tensor([ 3, -4])
""",
    "rsub": """\
>>> torch.rsub(torch.tensor([1.0, 2.0]), 10)
tensor([9., 8.])
""",
    "remainder": """\
>>> torch.remainder(torch.tensor([7, -7]), 3)
tensor([1, 2])
""",
    "fmod": """\
>>> torch.fmod(torch.tensor([7, -7]), 3)
tensor([ 1, -1])
""",
    "pow": """\
>>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
tensor([1., 4., 9.])
>>> torch.pow(2, torch.tensor([1, 2, 3]))
tensor([2, 4, 8])
""",
    "atan2": """\
>>> torch.atan2(torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0]))
tensor([ 0.7854, -2.3562])
""",
    "maximum": """\
>>> torch.maximum(torch.tensor([1, 5]), torch.tensor([3, 2]))
tensor([3, 5])
""",
    "minimum": """\
>>> torch.minimum(torch.tensor([1, 5]), torch.tensor([3, 2]))
tensor([1, 2])
""",
    "fmax": """\
>>> torch.fmax(torch.tensor([1.0, torch.nan]), torch.tensor([3.0, 2.0]))
tensor([3., 2.])
""",
    "fmin": """\
>>> torch.fmin(torch.tensor([1.0, torch.nan]), torch.tensor([3.0, 2.0]))
tensor([1., 2.])
""",
    "clamp_min": """\
>>> torch.clamp_min(torch.tensor([-1.0, 0.5]), 0.0)
tensor([0.0000, 0.5000])
""",
    "clamp_max": """\
>>> torch.clamp_max(torch.tensor([0.5, 2.0]), 1.0)
tensor([0.5000, 1.0000])
""",
    "hypot": """\
>>> torch.hypot(torch.tensor([3.0]), torch.tensor([4.0]))
tensor([5.])
""",
    "copysign": """\
>>> torch.copysign(torch.tensor([1.0, 2.0]), torch.tensor([-1.0, 1.0]))
tensor([-1.,  2.])
""",
    "nextafter": """\
>>> torch.nextafter(torch.tensor([1.0]), torch.tensor([2.0])) > 1
tensor([True])
""",
    "heaviside": """\
>>> torch.heaviside(torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5]))
tensor([0.0000, 0.5000, 1.0000])
""",
    "gcd": """\
>>> torch.gcd(torch.tensor([12, 18]), torch.tensor([8, 27]))
tensor([4, 9])
""",
    "lcm": """\
>>> torch.lcm(torch.tensor([4, 6]), torch.tensor([6, 9]))
tensor([12, 18])
""",
    "logaddexp": """\
>>> torch.logaddexp(torch.tensor([-1000.0, 0.0]), torch.tensor([-1000.0, 0.0]))
tensor([-9.9931e+02,  6.9315e-01])
""",
    "logaddexp2": """\
>>> torch.logaddexp2(torch.tensor([0.0, 3.0]), torch.tensor([0.0, 3.0]))
tensor([1., 4.])
""",
    "ldexp": """\
>>> torch.ldexp(torch.tensor([1.0, 3.0]), torch.tensor([2, 3]))
tensor([ 4., 24.])
""",
    "float_power": """\
>>> torch.float_power(torch.tensor([2, 3]), 2)
tensor([4., 9.], dtype=torch.float64)
""",
    "clamp": """\
>>> torch.clamp(torch.tensor([-2.0, 0.5, 7.0]), min=0, max=1)
tensor([0.0000, 0.5000, 1.0000])
""",
    "where": """\
>>> condition = torch.tensor([True, False])
>>> input = torch.tensor([1, 2])
>>> other = torch.tensor([10, 20])
>>> torch.where(condition, input, other)
tensor([ 1, 20])
>>> torch.where(torch.tensor([0, 3, 5]) > 1)
(tensor([1, 2]),)
""",
    "lerp": """\
>>> torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([10.0, 20.0]), 0.25)
tensor([ 2.5000, 12.5000])
""",
    "addcmul": """\
>>> input = torch.tensor([1.0])
>>> tensor1 = torch.tensor([2.0, 3.0])
>>> tensor2 = torch.tensor([4.0, 5.0])
>>> torch.addcmul(input, tensor1, tensor2, value=0.5)
tensor([5.0000, 8.5000])
""",
    "addcdiv": """\
>>> input = torch.tensor([1.0])
>>> tensor1 = torch.tensor([2.0, 3.0])
>>> tensor2 = torch.tensor([4.0, 6.0])
>>> torch.addcdiv(input, tensor1, tensor2, value=10)
tensor([6., 6.])
""",
    "scaled_dot_product_attention": """\
>>> q = k = v = torch.eye(3).reshape(1, 3, 3)
>>> torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
tensor([[[1.0000, 0.0000, 0.0000],
         [0.3595, 0.6405, 0.0000],
         [0.2645, 0.2645, 0.4711]]])
""",
    "diff": """\
>>> torch.diff(torch.tensor([1, 4, 9, 16]))
tensor([3, 5, 7])
""",
    "trapezoid": """\
>>> torch.trapezoid(torch.tensor([1.0, 2.0, 3.0]))
tensor(4.)
>>> torch.trapezoid(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0, 3.0]))
tensor(6.5000)
""",
    "cumulative_trapezoid": """\
>>> torch.cumulative_trapezoid(torch.tensor([1.0, 2.0, 3.0]))
tensor([1.5000, 4.0000])
""",
    "cov": """\
>>> torch.cov(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
tensor([[ 1., -1.],
        [-1.,  1.]])
""",
    "corrcoef": """\
>>> torch.corrcoef(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
tensor([[ 1., -1.],
        [-1.,  1.]])
""",
    "cross": """\
>>> torch.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]), dim=0)
tensor([0., 0., 1.])
""",
    "dist": """\
>>> torch.dist(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]))
tensor(5.)
""",
    "renorm": """\
>>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1)
tensor([[0.6000, 0.8000],
        [0.3000, 0.4000]])
""",
    "trace": """\
>>> torch.trace(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
tensor(5.)
""",
    "kron": """\
>>> torch.kron(torch.eye(2), torch.tensor([[1.0, 2.0]]))
tensor([[1., 2., 0., 0.],
        [0., 0., 1., 2.]])
""",
    "vander": """\
>>> torch.vander(torch.tensor([1, 2, 3]))
tensor([[1, 1, 1],
        [4, 2, 1],
        [9, 3, 1]])
""",
    "combinations": """\
>>> torch.combinations(torch.tensor([1, 2, 3]))
tensor([[1, 2],
        [1, 3],
        [2, 3]])
""",
    "tril_indices": """\
>>> torch.tril_indices(2, 3)
tensor([[0, 1, 1],
        [0, 0, 1]])
""",
    "triu_indices": """\
>>> torch.triu_indices(2, 3)
tensor([[0, 0, 0, 1, 1],
        [0, 1, 2, 1, 2]])
""",
    "isclose": """\
>>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0 + 1e-9, 2.1]))
tensor([ True, False])
""",
    "allclose": """\
>>> torch.allclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0 + 1e-9, 2.0]))
True
""",
    "equal": """\
>>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
True
""",
    "is_same_size": """\
>>> torch.is_same_size(torch.zeros(2, 3), torch.ones(2, 3))
True
""",
    "convolution": """\
>>> x, w = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2)
>>> torch.convolution(x, w, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
tensor([[[[4., 4.],
          [4., 4.]]]])
""",
    "conv1d": """\
>>> input = torch.arange(5.0).reshape(1, 1, 5)
>>> weight = torch.tensor([[[1.0, 0.0, -1.0]]])
>>> torch.nn.functional.conv1d(input, weight)
tensor([[[-2., -2., -2.]]])
""",
    "conv_transpose1d": """\
>>> input = torch.tensor([[[1.0, 2.0]]])
>>> weight = torch.tensor([[[1.0, 1.0]]])
>>> torch.nn.functional.conv_transpose1d(input, weight, stride=2)
tensor([[[1., 1., 2., 2.]]])
""",
    "conv2d": """\
>>> images = torch.randn(8, 3, 32, 32)
>>> filters = torch.randn(16, 3, 5, 5)
>>> torch.nn.functional.conv2d(images, filters, padding=2).shape
torch.Size([8, 16, 32, 32])
>>> torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))
tensor([[[[4., 4.],
          [4., 4.]]]])
""",
    "conv_transpose2d": """\
>>> input = torch.ones(1, 1, 2, 2)
>>> weight = torch.ones(1, 1, 2, 2)
>>> torch.nn.functional.conv_transpose2d(input, weight)
tensor([[[[1., 2., 1.],
          [2., 4., 2.],
          [1., 2., 1.]]]])
""",
    "conv3d": """\
>>> input = torch.ones(1, 2, 4, 4, 4)
>>> weight = torch.ones(6, 2, 3, 3, 3)
>>> torch.nn.functional.conv3d(input, weight).shape
torch.Size([1, 6, 2, 2, 2])
""",
    "conv_transpose3d": """\
>>> input = torch.ones(1, 6, 2, 2, 2)
>>> weight = torch.ones(6, 2, 3, 3, 3)
>>> torch.nn.functional.conv_transpose3d(input, weight).shape
torch.Size([1, 2, 4, 4, 4])
""",
    "zeros": """\
>>> torch.zeros(2, 3)
tensor([[0., 0., 0.],
        [0., 0., 0.]])
>>> torch.zeros(2, dtype=torch.int64)
tensor([0, 0])
""",
    "zeros_like": """\
>>> torch.zeros_like(torch.tensor([[1, 2], [3, 4]]))
tensor([[0, 0],
        [0, 0]])
""",
    "new_zeros": """\
>>> torch.tensor([1, 2]).new_zeros(2, 2)
tensor([[0, 0],
        [0, 0]])
""",
    "ones": """\
>>> torch.ones(2, 3)
tensor([[1., 1., 1.],
        [1., 1., 1.]])
""",
    "ones_like": """\
>>> torch.ones_like(torch.tensor([[1.5, 2.5]]))
tensor([[1., 1.]])
""",
    "new_ones": """\
>>> torch.tensor([1, 2]).new_ones(3)
tensor([1, 1, 1])
""",
    "empty": """\
>>> torch.empty(2, 3).shape
torch.Size([2, 3])
""",
    "empty_like": """\
>>> torch.empty_like(torch.tensor([[1, 2]])).dtype
torch.int64
""",
    "new_empty": """\
>>> torch.tensor([1, 2]).new_empty(2, 3).shape
torch.Size([2, 3])
""",
    "full": """\
>>> torch.full((2, 2), 7.0)
tensor([[7., 7.],
        [7., 7.]])
""",
    "full_like": """\
>>> torch.full_like(torch.tensor([1.0, 2.0]), 7)
tensor([7., 7.])
""",
    "new_full": """\
>>> torch.tensor([1.0, 2.0]).new_full((2, 2), 3)
tensor([[3., 3.],
        [3., 3.]])
""",
    "arange": """\
>>> torch.arange(5)
tensor([0, 1, 2, 3, 4])
>>> torch.arange(1, 2, 0.25)
tensor([1.0000, 1.2500, 1.5000, 1.7500])
""",
    "clone": """\
>>> x = torch.tensor([1.0, 2.0])
>>> y = x.clone()
>>> y[0] = 9
>>> x
tensor([1., 2.])
""",
    "copy_": """\
>>> x = torch.zeros(2, 2)
>>> x.copy_(torch.tensor([1.0, 2.0]))
tensor([[1., 2.],
        [1., 2.]])
""",
    "resize_": """\
>>> torch.tensor([1, 2, 3, 4]).resize_(2, 2)
tensor([[1, 2],
        [3, 4]])
""",
    "fill": """\
>>> torch.fill(torch.zeros(3), 7)
tensor([7., 7., 7.])
""",
    "conj_physical": """\
>>> torch.conj_physical(torch.tensor([1 + 2j]))
tensor([1.-2.j])
""",
    "conj": """\
>>> torch.conj(torch.tensor([1 + 2j]))
tensor([1.-2.j])
""",
    "resolve_conj": """\
>>> torch.resolve_conj(torch.tensor([1 + 2j]).conj())
tensor([1.-2.j])
""",
    "resolve_neg": """\
>>> torch.resolve_neg(torch.tensor([1.0]))
tensor([1.])
""",
    "to": """\
>>> torch.tensor([1, 2]).to(torch.float32)
tensor([1., 2.])
>>> torch.tensor([1.0, 2.0]).to("cpu", torch.float64)
tensor([1., 2.], dtype=torch.float64)
""",
    "type_as": """\
>>> torch.tensor([1, 2]).type_as(torch.tensor([0.5]))
tensor([1., 2.])
""",
    "cpu": """\
>>> torch.tensor([1.0]).cpu().device
device(type='cpu')
""",
    "cast_bool": """\
>>> torch.tensor([0, 2]).bool()
tensor([False,  True])
""",
    "cast_byte": """\
>>> torch.tensor([0.5, 2.0]).byte()
tensor([0, 2], dtype=torch.uint8)
""",
    "cast_char": """\
>>> torch.tensor([0.5, 2.0]).char()
tensor([0, 2], dtype=torch.int8)
""",
    "cast_short": """\
>>> torch.tensor([0.5, 2.0]).short()
tensor([0, 2], dtype=torch.int16)
""",
    "cast_int": """\
>>> torch.tensor([0.5, 2.0]).int()
tensor([0, 2], dtype=torch.int32)
""",
    "cast_long": """\
>>> torch.tensor([0.5, 2.0]).long()
tensor([0, 2])
""",
    "cast_half": """\
>>> torch.tensor([0.5, 2.0]).half()
tensor([0.5000, 2.0000], dtype=torch.float16)
""",
    "cast_bfloat16": """\
>>> torch.tensor([0.5, 2.0]).bfloat16()
tensor([0.5000, 2.0000], dtype=torch.bfloat16)
""",
    "cast_float": """\
>>> torch.tensor([1, 2]).float()
tensor([1., 2.])
""",
    "cast_double": """\
>>> torch.tensor([1, 2]).double()
tensor([1., 2.], dtype=torch.float64)
""",
    "cast_cfloat": """\
>>> torch.tensor([1.0, 2.0]).cfloat()
tensor([1.+0.j, 2.+0.j])
""",
    "cast_cdouble": """\
>>> torch.tensor([1.0, 2.0]).cdouble()
tensor([1.+0.j, 2.+0.j], dtype=torch.complex128)
""",
    "eye": """\
>>> torch.eye(2, 3)
tensor([[1., 0., 0.],
        [0., 1., 0.]])
""",
    "linspace": """\
>>> torch.linspace(0, 1, 5)
tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
""",
    "logspace": """\
>>> torch.logspace(0, 3, 4)
tensor([   1.,   10.,  100., 1000.])
""",
    "empty_strided": """\
>>> torch.empty_strided((2, 3), (1, 2)).stride()
(1, 2)
""",
    "new_empty_strided": """\
>>> torch.tensor([1.0]).new_empty_strided((2, 3), (1, 2)).stride()
(1, 2)
""",
    "empty_permuted": """\
>>> torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
(12, 1, 3)
""",
    "one_hot": """\
>>> torch.nn.functional.one_hot(torch.tensor([0, 2, 1]))
tensor([[1, 0, 0],
        [0, 0, 1],
        [0, 1, 0]])
""",
    "complex": """\
>>> torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
tensor([1.+3.j, 2.+4.j])
""",
    "cdist": """\
>>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
tensor([[5., 1.]])
""",
    "pdist": """\
>>> torch.pdist(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
tensor([5.0000, 1.0000, 4.2426])
""",
    "embedding": """\
>>> torch.embedding(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0, 1]))
tensor([[3., 4.],
        [1., 2.],
        [3., 4.]])
""",
    "embedding_renorm_": """\
>>> input = torch.tensor([[3.0, 4.0], [3.0, 4.0]])
>>> indices = torch.tensor([0])
>>> torch.embedding_renorm_(input, indices, 1.0, 2.0)
tensor([[0.6000, 0.8000],
        [3.0000, 4.0000]])
""",
    "functional_embedding": """\
>>> torch.nn.functional.embedding(torch.tensor([[0, 2]]), torch.eye(3))
tensor([[[1., 0., 0.],
         [0., 0., 1.]]])
""",
    "index_add": """\
>>> index = torch.tensor([0, 2, 0])
>>> source = torch.tensor([1.0, 2.0, 3.0])
>>> torch.index_add(torch.zeros(3), 0, index, source)
tensor([4., 0., 2.])
""",
    "index_select": """\
>>> torch.index_select(torch.tensor([[1, 2, 3], [4, 5, 6]]), 1, torch.tensor([2, 0]))
tensor([[3, 1],
        [6, 4]])
""",
    "index_put": """\
>>> torch.index_put(torch.zeros(3), (torch.tensor([0, 2]),), torch.tensor([5.0, 6.0]))
tensor([5., 0., 6.])
""",
    "gather": """\
>>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
tensor([[1, 1],
        [4, 3]])
""",
    "scatter_add": """\
>>> index = torch.tensor([0, 2, 0])
>>> src = torch.tensor([1.0, 2.0, 3.0])
>>> torch.scatter_add(torch.zeros(3), 0, index, src)
tensor([4., 0., 2.])
""",
    "scatter": """\
>>> torch.scatter(torch.zeros(2, 3), 1, torch.tensor([[0], [2]]), 1.0)
tensor([[1., 0., 0.],
        [0., 0., 1.]])
""",
    "linalg_inv_ex": """\
>>> torch.linalg.inv_ex(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
torch.return_types.linalg_inv_ex(
inverse=tensor([[0.5000, 0.0000],
        [0.0000, 0.2500]]),
info=tensor(0, dtype=torch.int32))
""",
    "linalg_inv": """\
>>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
tensor([[0.5000, 0.0000],
        [0.0000, 0.2500]])
""",
    "inverse": """\
>>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
tensor([[0.5000, 0.0000],
        [0.0000, 0.2500]])
""",
    "linalg_cholesky_ex": """\
>>> torch.linalg.cholesky_ex(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
torch.return_types.linalg_cholesky_ex(
L=tensor([[2., 0.],
        [1., 2.]]),
info=tensor(0, dtype=torch.int32))
""",
    "linalg_cholesky": """\
>>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
tensor([[2., 0.],
        [1., 2.]])
""",
    "cholesky": """\
>>> torch.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
tensor([[2., 0.],
        [1., 2.]])
""",
    "cholesky_solve": """\
>>> L = torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
>>> torch.cholesky_solve(torch.tensor([[8.0], [12.0]]), L)
tensor([[1.],
        [2.]])
""",
    "cholesky_inverse": """\
>>> torch.cholesky_inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
tensor([[0.2500, 0.0000],
        [0.0000, 0.0625]])
""",
    "linalg_solve_triangular": """\
>>> A = torch.tensor([[2.0, 0.0], [1.0, 4.0]])
>>> B = torch.tensor([[2.0], [5.0]])
>>> torch.linalg.solve_triangular(A, B, upper=False)
tensor([[1.],
        [1.]])
""",
    "triangular_solve": """\
>>> input = torch.tensor([[2.0], [4.0]])
>>> A = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
>>> torch.triangular_solve(input, A).solution
tensor([[1.],
        [1.]])
""",
    "linalg_lu_factor_ex": """\
>>> torch.linalg.lu_factor_ex(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
torch.return_types.linalg_lu_factor_ex(
LU=tensor([[4.0000, 4.0000],
        [0.2500, 1.0000]]),
pivots=tensor([2, 2], dtype=torch.int32),
info=tensor(0, dtype=torch.int32))
""",
    "linalg_lu_factor": """\
>>> torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
torch.return_types.linalg_lu_factor(
LU=tensor([[4.0000, 4.0000],
        [0.2500, 1.0000]]),
pivots=tensor([2, 2], dtype=torch.int32))
""",
    "lu_unpack": """\
>>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
>>> P, L, U = torch.lu_unpack(LU, pivots)
>>> P @ L @ U
tensor([[1., 2.],
        [4., 4.]])
""",
    "linalg_lu": """\
>>> P, L, U = torch.linalg.lu(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
>>> U
tensor([[4., 4.],
        [0., 1.]])
""",
    "linalg_lu_solve": """\
>>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
>>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[3.0], [8.0]]))
tensor([[1.],
        [1.]])
""",
    "lu_solve": """\
>>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
>>> torch.lu_solve(torch.tensor([[3.0], [8.0]]), LU, pivots)
tensor([[1.],
        [1.]])
""",
    "linalg_ldl_factor_ex": """\
>>> torch.linalg.ldl_factor_ex(torch.tensor([[2.0, 0.0], [0.0, 4.0]])).LD
tensor([[2., 0.],
        [0., 4.]])
""",
    "linalg_ldl_factor": """\
>>> torch.linalg.ldl_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]])).LD
tensor([[2., 0.],
        [0., 4.]])
""",
    "linalg_ldl_solve": """\
>>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
>>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[2.0], [8.0]]))
tensor([[1.],
        [2.]])
""",
    "linalg_solve_ex": """\
>>> A = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
>>> B = torch.tensor([2.0, 8.0])
>>> torch.linalg.solve_ex(A, B).result
tensor([1., 2.])
""",
    "linalg_solve": """\
>>> A = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
>>> B = torch.tensor([2.0, 8.0])
>>> torch.linalg.solve(A, B)
tensor([1., 2.])
""",
    "linalg_det": """\
>>> torch.linalg.det(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
tensor(-2.0000)
""",
    "det": """\
>>> torch.det(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
tensor(-2.0000)
""",
    "linalg_slogdet": """\
>>> torch.linalg.slogdet(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
torch.return_types.linalg_slogdet(
sign=tensor(-1.),
logabsdet=tensor(0.6931))
""",
    "slogdet": """\
>>> torch.slogdet(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
torch.return_types.slogdet(
sign=tensor(-1.),
logabsdet=tensor(0.6931))
""",
    "logdet": """\
>>> torch.logdet(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
tensor(2.0794)
""",
    "linalg_qr": """\
>>> Q, R = torch.linalg.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
>>> Q @ R
tensor([[3., 1.],
        [4., 2.]])
""",
    "qr": """\
>>> Q, R = torch.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
>>> Q @ R
tensor([[3., 1.],
        [4., 2.]])
""",
    "geqrf": """\
>>> a, tau = torch.geqrf(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
>>> torch.linalg.householder_product(a, tau)
tensor([[-0.6000, -0.8000],
        [-0.8000,  0.6000]])
""",
    "linalg_householder_product": """\
>>> a, tau = torch.geqrf(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
>>> torch.linalg.householder_product(a, tau)
tensor([[-0.6000, -0.8000],
        [-0.8000,  0.6000]])
""",
    "ormqr": """\
>>> a, tau = torch.geqrf(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
>>> torch.ormqr(a, tau, torch.eye(2))
tensor([[-0.6000, -0.8000],
        [-0.8000,  0.6000]])
""",
    "linalg_eigh": """\
>>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
tensor([1., 2.])
""",
    "linalg_eigvalsh": """\
>>> torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
tensor([1., 3.])
""",
    "linalg_eig": """\
>>> torch.linalg.eig(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
tensor([0.+1.j, 0.-1.j])
""",
    "linalg_eigvals": """\
>>> torch.linalg.eigvals(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
tensor([0.+1.j, 0.-1.j])
""",
    "linalg_svd": """\
>>> A = torch.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
>>> U, S, Vh = torch.linalg.svd(A, full_matrices=False)
>>> S
tensor([3., 2.])
>>> (U * S) @ Vh
tensor([[3., 0.],
        [0., 2.],
        [0., 0.]])
""",
    "linalg_svdvals": """\
>>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, 2.0]]))
tensor([3., 2.])
""",
    "svd": """\
>>> U, S, V = torch.svd(torch.tensor([[3.0, 0.0], [0.0, 2.0]]))
>>> S
tensor([3., 2.])
""",
    "linalg_cross": """\
>>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
tensor([0., 0., 1.])
""",
    "linalg_multi_dot": """\
>>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)])
tensor([[12.],
        [12.]])
""",
    "matrix_power": """\
>>> torch.matrix_power(torch.tensor([[1, 1], [0, 1]]).float(), 3)
tensor([[1., 3.],
        [0., 1.]])
""",
    "linalg_matrix_power": """\
>>> torch.linalg.matrix_power(torch.tensor([[1, 1], [0, 1]]).float(), 3)
tensor([[1., 3.],
        [0., 1.]])
""",
    "matrix_exp": """\
>>> torch.matrix_exp(torch.zeros(2, 2))
tensor([[1., 0.],
        [0., 1.]])
""",
    "linalg_matrix_exp": """\
>>> torch.linalg.matrix_exp(torch.zeros(2, 2))
tensor([[1., 0.],
        [0., 1.]])
""",
    "pinverse": """\
>>> torch.pinverse(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
tensor([[0.5000, 0.0000],
        [0.0000, 0.0000]])
""",
    "softmax": """\
>>> torch.softmax(torch.tensor([1.0, 2.0, 3.0]), dim=0)
tensor([0.0900, 0.2447, 0.6652])
""",
    "log_softmax": """\
>>> torch.log_softmax(torch.tensor([1.0, 2.0, 3.0]), dim=0)
tensor([-2.4076, -1.4076, -0.4076])
""",
    "xlogy": """\
>>> torch.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 2.718281828]))
tensor([0., 2.])
""",
    "mse_loss": """\
>>> torch.nn.functional.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
tensor(2.)
""",
    "l1_loss": """\
>>> torch.nn.functional.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
tensor(1.)
""",
    "smooth_l1_loss": """\
>>> input = torch.tensor([1.0, 2.0])
>>> target = torch.tensor([1.5, 4.0])
>>> torch.nn.functional.smooth_l1_loss(input, target)
tensor(0.8125)
""",
    "huber_loss": """\
>>> torch.nn.functional.huber_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.5, 4.0]))
tensor(0.8125)
""",
    "binary_cross_entropy": """\
>>> input = torch.tensor([0.9, 0.2])
>>> target = torch.tensor([1.0, 0.0])
>>> torch.nn.functional.binary_cross_entropy(input, target)
tensor(0.1643)
""",
    "binary_cross_entropy_with_logits": """\
>>> input = torch.tensor([2.0, -1.0])
>>> target = torch.tensor([1.0, 0.0])
>>> torch.nn.functional.binary_cross_entropy_with_logits(input, target)
tensor(0.2201)
""",
    "kl_div": """\
>>> input = torch.tensor([0.5, 0.5]).log()
>>> target = torch.tensor([0.25, 0.75])
>>> torch.nn.functional.kl_div(input, target, reduction="sum")
tensor(0.1308)
""",
    "nll_loss": """\
>>> input = torch.log_softmax(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), 1)
>>> target = torch.tensor([0, 1])
>>> torch.nn.functional.nll_loss(input, target)
tensor(0.1809)
""",
    "cross_entropy": """\
>>> logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 0.0]])
>>> torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1]))
tensor(0.2513)
>>> target = torch.tensor([0, 1])
>>> torch.nn.functional.cross_entropy(logits, target, reduction="none", label_smoothing=0.1)
tensor([0.5076, 0.2949])
""",
    "argwhere": """\
>>> torch.argwhere(torch.tensor([[1, 0], [0, 2]]))
tensor([[0, 0],
        [1, 1]])
""",
    "where_method": """\
>>> torch.tensor([1.0, 2.0]).where(torch.tensor([True, False]), 0.0)
tensor([1., 0.])
""",
    "masked_fill": """\
>>> input = torch.tensor([1.0, 2.0, 3.0])
>>> mask = torch.tensor([False, True, False])
>>> torch.masked_fill(input, mask, 0.0)
tensor([1., 0., 3.])
""",
    "masked_select": """\
>>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
tensor([1, 3])
""",
    "masked_scatter": """\
>>> mask = torch.tensor([True, False, True])
>>> source = torch.tensor([5.0, 6.0])
>>> torch.masked_scatter(torch.zeros(3), mask, source)
tensor([5., 0., 6.])
""",
    "mm": """\
>>> torch.mm(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
tensor([[11.]])
""",
    "bmm": """\
>>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).flatten()
tensor([3., 3.])
""",
    "mv": """\
>>> torch.mv(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
tensor([3., 7.])
""",
    "dot": """\
>>> torch.dot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
tensor(11.)
""",
    "vdot": """\
>>> torch.vdot(torch.tensor([1 + 1j]), torch.tensor([1j]))
tensor(1.+1.j)
""",
    "inner": """\
>>> torch.inner(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
tensor(11.)
""",
    "outer": """\
>>> torch.outer(torch.tensor([1, 2]), torch.tensor([1, 10]))
tensor([[ 1, 10],
        [ 2, 20]])
""",
    "matmul": """\
>>> torch.matmul(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
tensor([3., 7.])
>>> torch.matmul(torch.ones(5, 2, 3), torch.ones(3, 4)).shape
torch.Size([5, 2, 4])
""",
    "addmm": """\
>>> torch.addmm(torch.ones(2, 2), torch.ones(2, 3), torch.ones(3, 2))
tensor([[4., 4.],
        [4., 4.]])
""",
    "baddbmm": """\
>>> input = torch.zeros(2, 1, 1)
>>> batch1 = torch.ones(2, 1, 3)
>>> batch2 = torch.ones(2, 3, 1)
>>> torch.baddbmm(input, batch1, batch2).flatten()
tensor([3., 3.])
""",
    "addmv": """\
>>> input = torch.tensor([1.0, 1.0])
>>> mat = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> vec = torch.tensor([1.0, 1.0])
>>> torch.addmv(input, mat, vec)
tensor([4., 8.])
""",
    "addr": """\
>>> torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
tensor([[ 1., 10.],
        [ 2., 20.]])
""",
    "addbmm": """\
>>> torch.addbmm(torch.zeros(1, 1), torch.ones(2, 1, 3), torch.ones(2, 3, 1))
tensor([[6.]])
""",
    "linear": """\
>>> input = torch.tensor([[1.0, 2.0]])
>>> weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
>>> bias = torch.tensor([0.0, 0.0, 10.0])
>>> torch.nn.functional.linear(input, weight, bias)
tensor([[ 1.,  2., 13.]])
""",
    "bilinear": """\
>>> input1 = torch.tensor([[1.0, 2.0]])
>>> input2 = torch.tensor([[3.0]])
>>> weight = torch.ones(1, 2, 1)
>>> torch.nn.functional.bilinear(input1, input2, weight)
tensor([[9.]])
""",
    "t": """\
>>> torch.t(torch.tensor([[1, 2, 3]]))
tensor([[1],
        [2],
        [3]])
""",
    "adjoint": """\
>>> torch.adjoint(torch.tensor([[1 + 1j, 2j]]))
tensor([[1.-1.j],
        [0.-2.j]])
""",
    "batch_norm": """\
>>> input = torch.tensor([[0.0, 10.0], [2.0, 30.0]])
>>> torch.nn.functional.batch_norm(input, None, None, training=True)
tensor([[-1.0000, -1.0000],
        [ 1.0000,  1.0000]])
""",
    "layer_norm": """\
>>> torch.nn.functional.layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), (3,))
tensor([[-1.2247,  0.0000,  1.2247]])
""",
    "rms_norm": """\
>>> torch.nn.functional.rms_norm(torch.tensor([[3.0, 4.0]]), (2,))
tensor([[0.8485, 1.1314]])
""",
    "group_norm": """\
>>> torch.nn.functional.group_norm(torch.tensor([[0.0, 2.0, 10.0, 30.0]]), 2)
tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
""",
    "sort": """\
>>> torch.sort(torch.tensor([3, 1, 2]))
torch.return_types.sort(
values=tensor([1, 2, 3]),
indices=tensor([1, 2, 0]))
""",
    "argsort": """\
>>> torch.argsort(torch.tensor([3, 1, 2]))
tensor([1, 2, 0])
""",
    "msort": """\
>>> torch.msort(torch.tensor([[3, 1], [2, 5]]))
tensor([[2, 1],
        [3, 5]])
""",
    "topk": """\
>>> torch.topk(torch.tensor([1, 5, 3]), 2)
torch.return_types.topk(
values=tensor([5, 3]),
indices=tensor([1, 2]))
""",
    "kthvalue": """\
>>> torch.kthvalue(torch.tensor([4, 1, 3]), 2)
torch.return_types.kthvalue(
values=tensor(3),
indices=tensor(2))
""",
    "mode": """\
>>> torch.mode(torch.tensor([1, 2, 2, 3]))
torch.return_types.mode(
values=tensor(2),
indices=tensor(2))
""",
    "median": """\
>>> torch.median(torch.tensor([1.0, 9.0, 5.0]))
tensor(5.)
>>> torch.median(torch.tensor([[1.0, 9.0, 5.0]]), dim=1)
torch.return_types.median(
values=tensor([5.]),
indices=tensor([2]))
""",
    "nanmedian": """\
>>> torch.nanmedian(torch.tensor([1.0, torch.nan, 5.0, 9.0]))
tensor(5.)
""",
    "quantile": """\
>>> torch.quantile(torch.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
tensor(1.5000)
""",
    "nanquantile": """\
>>> torch.nanquantile(torch.tensor([0.0, torch.nan, 2.0]), 0.5)
tensor(1.)
""",
    "searchsorted": """\
>>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([0, 3, 9]))
tensor([0, 1, 3])
""",
    "bucketize": """\
>>> torch.bucketize(torch.tensor([0, 3, 9]), torch.tensor([1, 3, 5]))
tensor([0, 1, 3])
""",
    "isin": """\
>>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 3]))
tensor([False,  True,  True])
""",
    "histc": """\
>>> torch.histc(torch.tensor([0.0, 1.0, 1.0, 4.0]), bins=4)
tensor([1., 2., 0., 1.])
""",
    "bincount": """\
>>> torch.bincount(torch.tensor([0, 1, 1, 3]))
tensor([1, 2, 0, 1])
""",
    "pad": """\
>>> torch.nn.functional.pad(torch.tensor([[1, 2]]), (1, 2))
tensor([[0, 1, 2, 0, 0]])
>>> torch.nn.functional.pad(torch.tensor([[[1.0, 2.0, 3.0]]]), (1, 1), mode="reflect")
tensor([[[2., 1., 2., 3., 2.]]])
""",
    "functional_unfold": """\
>>> torch.nn.functional.unfold(torch.arange(9.0).reshape(1, 1, 3, 3), 2)
tensor([[[0., 1., 3., 4.],
         [1., 2., 4., 5.],
         [3., 4., 6., 7.],
         [4., 5., 7., 8.]]])
""",
    "pixel_shuffle": """\
>>> torch.pixel_shuffle(torch.arange(8.0).reshape(4, 1, 2), 2)
tensor([[[0., 2., 1., 3.],
         [4., 6., 5., 7.]]])
""",
    "pixel_unshuffle": """\
>>> torch.pixel_unshuffle(torch.arange(8.0).reshape(1, 2, 4), 2).flatten(1)
tensor([[0., 2.],
        [1., 3.],
        [4., 6.],
        [5., 7.]])
""",
    "channel_shuffle": """\
>>> torch.channel_shuffle(torch.arange(6.0).reshape(1, 6, 1), 2).flatten()
tensor([0., 3., 1., 4., 2., 5.])
""",
    "fold": """\
>>> torch.nn.functional.fold(torch.ones(1, 4, 4), (3, 3), 2)
tensor([[[[1., 2., 1.],
          [2., 4., 2.],
          [1., 2., 1.]]]])
""",
    "max_pool1d_with_indices": """\
>>> torch.max_pool1d_with_indices(torch.tensor([[[1.0, 5.0, 2.0, 3.0]]]), 2)
(tensor([[[5., 3.]]]), tensor([[[1, 3]]]))
""",
    "max_pool1d": """\
>>> torch.max_pool1d(torch.tensor([[[1.0, 5.0, 2.0, 3.0]]]), 2)
tensor([[[5., 3.]]])
""",
    "avg_pool1d": """\
>>> torch.nn.functional.avg_pool1d(torch.tensor([[[1.0, 5.0, 2.0, 3.0]]]), 2)
tensor([[[3.0000, 2.5000]]])
""",
    "max_pool2d_with_indices": """\
>>> input = torch.arange(16.0).reshape(1, 1, 4, 4)
>>> torch.nn.functional.max_pool2d(input, 2, return_indices=True)[1]
tensor([[[[ 5,  7],
          [13, 15]]]])
""",
    "max_pool2d": """\
>>> torch.max_pool2d(torch.arange(16.0).reshape(1, 1, 4, 4), 2)
tensor([[[[ 5.,  7.],
          [13., 15.]]]])
""",
    "avg_pool2d": """\
>>> torch.nn.functional.avg_pool2d(torch.arange(16.0).reshape(1, 1, 4, 4), 2)
tensor([[[[ 2.5000,  4.5000],
          [10.5000, 12.5000]]]])
""",
    "max_pool3d_with_indices": """\
>>> input = torch.arange(8.0).reshape(1, 1, 2, 2, 2)
>>> torch.nn.functional.max_pool3d(input, 2, return_indices=True)[1]
tensor([[[[[7]]]]])
""",
    "max_pool3d": """\
>>> torch.max_pool3d(torch.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
tensor([[[[[7.]]]]])
""",
    "avg_pool3d": """\
>>> torch.nn.functional.avg_pool3d(torch.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
tensor([[[[[3.5000]]]]])
""",
    "uniform_": """\
>>> _ = torch.manual_seed(0)
>>> torch.empty(3).uniform_(-1, 1)
tensor([-0.0075,  0.5364, -0.8230])
""",
    "normal_": """\
>>> _ = torch.manual_seed(0)
>>> torch.empty(3).normal_(10, 0.5)
tensor([10.7705,  9.8533,  8.9106])
""",
    "exponential_": """\
>>> _ = torch.manual_seed(0)
>>> torch.empty(3).exponential_()
tensor([3.5083, 1.2304, 0.6150])
""",
    "cauchy_": """\
>>> _ = torch.manual_seed(0)
>>> torch.empty(3).cauchy_()
tensor([10.5977,  0.7648, -0.1283])
""",
    "log_normal_": """\
>>> _ = torch.manual_seed(0)
>>> torch.empty(3).log_normal_()
tensor([5.9263e+01, 1.5116e+00, 3.4819e-02])
""",
    "geometric_": """\
>>> _ = torch.manual_seed(0)
>>> torch.empty(3).geometric_(0.5)
tensor([1., 1., 2.])
""",
    "random_": """\
>>> _ = torch.manual_seed(0)
>>> torch.empty(3).random_(0, 10)
tensor([4., 9., 3.])
""",
    "bernoulli_": """\
>>> _ = torch.manual_seed(0)
>>> torch.empty(5).bernoulli_(0.5)
tensor([0., 0., 1., 0., 0.])
""",
    "bernoulli": """\
>>> _ = torch.manual_seed(0)
>>> torch.bernoulli(torch.tensor([0.0, 0.5, 1.0]))
tensor([0., 0., 1.])
""",
    "poisson": """\
>>> _ = torch.manual_seed(0)
>>> torch.poisson(torch.tensor([1.0, 10.0, 100.0]))
tensor([  2.,  15., 109.])
""",
    "binomial": """\
>>> _ = torch.manual_seed(0)
>>> torch.binomial(torch.tensor([10.0, 10.0]), torch.tensor([0.1, 0.9]))
tensor([2., 7.])
""",
    "multinomial": """\
>>> _ = torch.manual_seed(0)
>>> torch.multinomial(torch.tensor([0.0, 1.0, 9.0]), 5, replacement=True)
tensor([2, 2, 2, 2, 2])
""",
    "rand": """\
>>> _ = torch.manual_seed(0)
>>> torch.rand(2, 3)
tensor([[0.4963, 0.7682, 0.0885],
        [0.1320, 0.3074, 0.6341]])
""",
    "rand_like": """\
>>> _ = torch.manual_seed(0)
>>> torch.rand_like(torch.zeros(3))
tensor([0.4963, 0.7682, 0.0885])
""",
    "randn": """\
>>> _ = torch.manual_seed(0)
>>> torch.randn(2, 3)
tensor([[ 1.5410, -0.2934, -2.1788],
        [ 0.5684, -1.0845, -1.3986]])
""",
    "randn_like": """\
>>> _ = torch.manual_seed(0)
>>> torch.randn_like(torch.zeros(3))
tensor([ 1.5410, -0.2934, -2.1788])
""",
    "randint": """\
>>> _ = torch.manual_seed(0)
>>> torch.randint(10, (5,))
tensor([4, 9, 3, 0, 3])
>>> torch.randint(-2, 3, (5,))
tensor([2, 0, 1, 0, 1])
""",
    "randint_like": """\
>>> _ = torch.manual_seed(0)
>>> torch.randint_like(torch.zeros(3), 10)
tensor([4., 9., 3.])
""",
    "randperm": """\
>>> _ = torch.manual_seed(0)
>>> torch.randperm(5)
tensor([4, 0, 1, 3, 2])
""",
    "normal": """\
>>> _ = torch.manual_seed(0)
>>> torch.normal(torch.tensor([0.0, 100.0]), torch.tensor([1.0, 10.0]))
tensor([ 1.5410, 97.0657])
>>> torch.normal(0.0, 1.0, (3,))
tensor([-2.1788,  0.5684, -1.0845])
""",
    "dropout": """\
>>> _ = torch.manual_seed(0)
>>> torch.dropout(torch.ones(5), 0.5, train=True)
tensor([0., 0., 2., 0., 0.])
""",
    "functional_dropout": """\
>>> _ = torch.manual_seed(0)
>>> torch.nn.functional.dropout(torch.ones(5), 0.5)
tensor([0., 0., 2., 0., 0.])
""",
    "sum": """\
>>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> torch.sum(x)
tensor(10.)
>>> torch.sum(x, dim=0)
tensor([4., 6.])
>>> torch.sum(x, dim=1, keepdim=True)
tensor([[3.],
        [7.]])
""",
    "nansum": """\
>>> torch.nansum(torch.tensor([1.0, torch.nan, 2.0]))
tensor(3.)
""",
    "mean": """\
>>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
>>> torch.mean(x)
tensor(2.5000)
>>> torch.mean(x, dim=0)
tensor([2., 3.])
""",
    "nanmean": """\
>>> torch.nanmean(torch.tensor([1.0, torch.nan, 2.0]))
tensor(1.5000)
""",
    "prod": """\
>>> torch.prod(torch.tensor([2.0, 3.0, 4.0]))
tensor(24.)
""",
    "amax": """\
>>> torch.amax(torch.tensor([[1, 5], [3, 2]]), dim=1)
tensor([5, 3])
""",
    "amin": """\
>>> torch.amin(torch.tensor([[1, 5], [3, 2]]), dim=1)
tensor([1, 2])
""",
    "max": """\
>>> torch.max(torch.tensor([1, 5, 3]))
tensor(5)
>>> torch.max(torch.tensor([[1, 5], [3, 2]]), dim=1)
torch.return_types.max(
values=tensor([5, 3]),
indices=tensor([1, 0]))
>>> torch.max(torch.tensor([1, 5]), torch.tensor([3, 2]))
tensor([3, 5])
""",
    "argmax": """\
>>> torch.argmax(torch.tensor([[1, 5], [3, 2]]))
tensor(1)
>>> torch.argmax(torch.tensor([[1, 5], [3, 2]]), dim=1)
tensor([1, 0])
""",
    "min": """\
>>> torch.min(torch.tensor([1, 5, 3]))
tensor(1)
>>> torch.min(torch.tensor([[1, 5], [3, 2]]), dim=1)
torch.return_types.min(
values=tensor([1, 2]),
indices=tensor([0, 1]))
""",
    "argmin": """\
>>> torch.argmin(torch.tensor([[1, 5], [3, 2]]), dim=1)
tensor([0, 1])
""",
    "aminmax": """\
>>> torch.aminmax(torch.tensor([1, 5, 3]))
torch.return_types.aminmax(
min=tensor(1),
max=tensor(5))
""",
    "all": """\
>>> torch.all(torch.tensor([True, False]))
tensor(False)
>>> torch.all(torch.tensor([[1, 0], [2, 3]]), dim=1)
tensor([False,  True])
""",
    "any": """\
>>> torch.any(torch.tensor([True, False]))
tensor(True)
>>> torch.any(torch.tensor([[0, 0], [2, 3]]), dim=1)
tensor([False,  True])
""",
    "count_nonzero": """\
>>> torch.count_nonzero(torch.tensor([0, 1, 2, 0]))
tensor(2)
""",
    "var": """\
>>> torch.var(torch.tensor([1.0, 2.0, 3.0, 4.0]))
tensor(1.6667)
>>> torch.var(torch.tensor([1.0, 2.0, 3.0, 4.0]), correction=0)
tensor(1.2500)
""",
    "var_mean": """\
>>> torch.var_mean(torch.tensor([1.0, 2.0, 3.0, 4.0]))
(tensor(1.6667), tensor(2.5000))
""",
    "std": """\
>>> torch.std(torch.tensor([1.0, 2.0, 3.0, 4.0]))
tensor(1.2910)
""",
    "std_mean": """\
>>> torch.std_mean(torch.tensor([1.0, 2.0, 3.0, 4.0]))
(tensor(1.2910), tensor(2.5000))
""",
    "vector_norm": """\
>>> torch.linalg.vector_norm(torch.tensor([3.0, 4.0]))
tensor(5.)
>>> torch.linalg.vector_norm(torch.tensor([3.0, 4.0]), ord=1)
tensor(7.)
""",
    "logsumexp": """\
>>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), 0)
tensor(1000.6932)
""",
    "cumsum": """\
>>> torch.cumsum(torch.tensor([1, 2, 3]), 0)
tensor([1, 3, 6])
""",
    "cumprod": """\
>>> torch.cumprod(torch.tensor([1, 2, 3]), 0)
tensor([1, 2, 6])
""",
    "cummax": """\
>>> torch.cummax(torch.tensor([1, 3, 2]), 0)
torch.return_types.cummax(
values=tensor([1, 3, 3]),
indices=tensor([0, 1, 1]))
""",
    "cummin": """\
>>> torch.cummin(torch.tensor([3, 1, 2]), 0)
torch.return_types.cummin(
values=tensor([3, 1, 1]),
indices=tensor([0, 1, 1]))
""",
    "logcumsumexp": """\
>>> torch.logcumsumexp(torch.tensor([0.0, 0.0, 0.0]), 0)
tensor([0.0000, 0.6931, 1.0986])
""",
    "squeeze_": """\
>>> torch.zeros(1, 3).squeeze_().shape
torch.Size([3])
""",
    "unsqueeze_": """\
>>> torch.zeros(3).unsqueeze_(0).shape
torch.Size([1, 3])
""",
    "transpose_": """\
>>> torch.zeros(2, 3).transpose_(0, 1).shape
torch.Size([3, 2])
""",
    "t_": """\
>>> torch.tensor([[1, 2, 3]]).t_()
tensor([[1],
        [2],
        [3]])
""",
    "as_strided_": """\
>>> torch.arange(6).as_strided_((2, 2), (3, 1))
tensor([[0, 1],
        [3, 4]])
""",
    "resize_as_": """\
>>> torch.tensor([1, 2, 3, 4]).resize_as_(torch.zeros(2, 2))
tensor([[1, 2],
        [3, 4]])
""",
    "broadcast_to": """\
>>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
tensor([[1, 2],
        [1, 2]])
""",
    "zero_": """\
>>> torch.tensor([1.0, 2.0]).zero_()
tensor([0., 0.])
""",
    "fill_diagonal_": """\
>>> torch.zeros(2, 3).fill_diagonal_(5)
tensor([[5., 0., 0.],
        [0., 5., 0.]])
""",
    "result_type": """\
>>> torch.result_type(torch.tensor([1, 2]), 1.0)
torch.float32
""",
    "promote_types": """\
>>> torch.promote_types(torch.int32, torch.float32)
torch.float32
""",
    "can_cast": """\
>>> torch.can_cast(torch.float64, torch.int32)
False
""",
    "take": """\
>>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, 3]))
tensor([1, 4])
""",
    "put": """\
>>> torch.put(torch.zeros(3), torch.tensor([0, 2]), torch.tensor([5.0, 6.0]))
tensor([5., 0., 6.])
""",
    "take_along_dim": """\
>>> x = torch.tensor([[3, 1, 2]])
>>> torch.take_along_dim(x, torch.argsort(x), dim=1)
tensor([[1, 2, 3]])
""",
    "index_copy": """\
>>> index = torch.tensor([2, 0])
>>> source = torch.tensor([5.0, 6.0])
>>> torch.index_copy(torch.zeros(3), 0, index, source)
tensor([6., 0., 5.])
""",
    "index_fill": """\
>>> torch.index_fill(torch.zeros(3), 0, torch.tensor([0, 2]), 7)
tensor([7., 0., 7.])
""",
    "scatter_reduce": """\
>>> index = torch.tensor([0, 1, 0])
>>> src = torch.tensor([1.0, 2.0, 5.0])
>>> torch.scatter_reduce(torch.zeros(2), 0, index, src, reduce="amax")
tensor([5., 2.])
""",
    "index_reduce": """\
>>> index = torch.tensor([0, 1, 0])
>>> source = torch.tensor([2.0, 3.0, 5.0])
>>> torch.index_reduce(torch.ones(2), 0, index, source, reduce="prod")
tensor([10.,  3.])
""",
    "select_scatter": """\
>>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
tensor([[0., 0.],
        [1., 1.]])
""",
    "slice_scatter": """\
>>> torch.slice_scatter(torch.zeros(4), torch.ones(2), start=1, end=3)
tensor([0., 1., 1., 0.])
""",
    "diagonal_scatter": """\
>>> torch.diagonal_scatter(torch.zeros(2, 2), torch.tensor([1.0, 2.0]))
tensor([[1., 0.],
        [0., 2.]])
""",
    "as_strided_scatter": """\
>>> torch.as_strided_scatter(torch.zeros(4), torch.tensor([1.0, 2.0]), (2,), (2,))
tensor([1., 0., 2., 0.])
""",
    "as_strided": """\
>>> torch.as_strided(torch.arange(6), (2, 2), (1, 3))
tensor([[0, 3],
        [1, 4]])
""",
    "transpose": """\
>>> torch.transpose(torch.tensor([[1, 2, 3], [4, 5, 6]]), 0, 1)
tensor([[1, 4],
        [2, 5],
        [3, 6]])
""",
    "permute": """\
>>> torch.permute(torch.zeros(2, 3, 4), (2, 0, 1)).shape
torch.Size([4, 2, 3])
""",
    "expand": """\
>>> torch.tensor([[1], [2]]).expand(-1, 3)
tensor([[1, 1, 1],
        [2, 2, 2]])
""",
    "view": """\
>>> torch.arange(6).view(2, 3)
tensor([[0, 1, 2],
        [3, 4, 5]])
>>> torch.arange(6).view(3, -1)
tensor([[0, 1],
        [2, 3],
        [4, 5]])
""",
    "squeeze": """\
>>> torch.squeeze(torch.zeros(1, 3, 1)).shape
torch.Size([3])
""",
    "unsqueeze": """\
>>> torch.unsqueeze(torch.tensor([1, 2]), 1)
tensor([[1],
        [2]])
""",
    "select": """\
>>> torch.select(torch.tensor([[1, 2], [3, 4]]), 0, 1)
tensor([3, 4])
""",
    "diagonal": """\
>>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
tensor([1, 4])
""",
    "unfold": """\
>>> torch.arange(5).unfold(0, 3, 1)
tensor([[0, 1, 2],
        [1, 2, 3],
        [2, 3, 4]])
""",
    "unbind": """\
>>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
(tensor([1, 2]), tensor([3, 4]))
""",
    "split_with_sizes": """\
>>> torch.split_with_sizes(torch.arange(5), [2, 3])
(tensor([0, 1]), tensor([2, 3, 4]))
""",
    "detach": """\
>>> torch.ones(2, requires_grad=True).detach().requires_grad
False
""",
    "reshape": """\
>>> torch.reshape(torch.arange(6), (2, -1))
tensor([[0, 1, 2],
        [3, 4, 5]])
""",
    "contiguous": """\
>>> torch.zeros(2, 3).t().contiguous().stride()
(2, 1)
""",
    "expand_as": """\
>>> torch.tensor([[1], [2]]).expand_as(torch.zeros(2, 3))
tensor([[1, 1, 1],
        [2, 2, 2]])
""",
    "cat": """\
>>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
tensor([1, 2, 3])
>>> torch.cat([torch.zeros(2, 1), torch.ones(2, 2)], dim=1)
tensor([[0., 1., 1.],
        [0., 1., 1.]])
""",
    "stack": """\
>>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
tensor([[1, 2],
        [3, 4]])
""",
    "view_as_real": """\
>>> torch.view_as_real(torch.tensor([1 + 2j]))
tensor([[1., 2.]])
""",
    "view_as_complex": """\
>>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
tensor([1.+2.j])
""",
    "real": """\
>>> torch.real(torch.tensor([1 + 2j]))
tensor([1.])
""",
    "imag": """\
>>> torch.imag(torch.tensor([1 + 2j]))
tensor([2.])
""",
    "flip": """\
>>> torch.flip(torch.tensor([1, 2, 3]), (0,))
tensor([3, 2, 1])
""",
    "roll": """\
>>> torch.roll(torch.tensor([1, 2, 3, 4]), 1)
tensor([4, 1, 2, 3])
""",
    "tril": """\
>>> torch.tril(torch.ones(3, 3))
tensor([[1., 0., 0.],
        [1., 1., 0.],
        [1., 1., 1.]])
""",
    "triu": """\
>>> torch.triu(torch.ones(3, 3))
tensor([[1., 1., 1.],
        [0., 1., 1.],
        [0., 0., 1.]])
""",
    "flatten": """\
>>> torch.flatten(torch.tensor([[1, 2], [3, 4]]))
tensor([1, 2, 3, 4])
""",
    "ravel": """\
>>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
tensor([1, 2, 3, 4])
""",
    "view_as": """\
>>> torch.arange(4).view_as(torch.zeros(2, 2))
tensor([[0, 1],
        [2, 3]])
""",
    "reshape_as": """\
>>> torch.arange(4).reshape_as(torch.zeros(2, 2))
tensor([[0, 1],
        [2, 3]])
""",
    "unflatten": """\
>>> torch.unflatten(torch.arange(6), 0, (2, 3))
tensor([[0, 1, 2],
        [3, 4, 5]])
""",
    "chunk": """\
>>> torch.chunk(torch.arange(5), 2)
(tensor([0, 1, 2]), tensor([3, 4]))
""",
    "split": """\
>>> torch.arange(5).split(2)
(tensor([0, 1]), tensor([2, 3]), tensor([4]))
""",
    "tensor_split": """\
>>> torch.tensor_split(torch.arange(5), 3)
(tensor([0, 1]), tensor([2, 3]), tensor([4]))
""",
    "hsplit": """\
>>> torch.hsplit(torch.tensor([[1, 2], [3, 4]]), 2)
(tensor([[1],
        [3]]), tensor([[2],
        [4]]))
""",
    "vsplit": """\
>>> torch.vsplit(torch.tensor([[1, 2], [3, 4]]), 2)
(tensor([[1, 2]]), tensor([[3, 4]]))
""",
    "dsplit": """\
>>> [part.shape for part in torch.dsplit(torch.zeros(2, 2, 4), 2)]
[torch.Size([2, 2, 2]), torch.Size([2, 2, 2])]
""",
    "narrow": """\
>>> torch.narrow(torch.arange(5), 0, 1, 3)
tensor([1, 2, 3])
""",
    "movedim": """\
>>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
torch.Size([3, 4, 2])
""",
    "repeat": """\
>>> torch.tensor([1, 2]).repeat(2, 2)
tensor([[1, 2, 1, 2],
        [1, 2, 1, 2]])
""",
    "tile": """\
>>> torch.tile(torch.tensor([1, 2]), (2,))
tensor([1, 2, 1, 2])
""",
    "repeat_interleave": """\
>>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
tensor([1, 1, 2, 2])
""",
    "diag": """\
>>> torch.diag(torch.tensor([1, 2]))
tensor([[1, 0],
        [0, 2]])
>>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
tensor([1, 4])
""",
    "diag_embed": """\
>>> torch.diag_embed(torch.tensor([1, 2]))
tensor([[1, 0],
        [0, 2]])
""",
    "diagflat": """\
>>> torch.diagflat(torch.tensor([[1, 2]]))
tensor([[1, 0],
        [0, 2]])
""",
    "fliplr": """\
>>> torch.fliplr(torch.tensor([[1, 2], [3, 4]]))
tensor([[2, 1],
        [4, 3]])
""",
    "flipud": """\
>>> torch.flipud(torch.tensor([[1, 2], [3, 4]]))
tensor([[3, 4],
        [1, 2]])
""",
    "rot90": """\
>>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
tensor([[2, 4],
        [1, 3]])
""",
    "hstack": """\
>>> torch.hstack([torch.tensor([1, 2]), torch.tensor([3])])
tensor([1, 2, 3])
""",
    "vstack": """\
>>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
tensor([[1, 2],
        [3, 4]])
""",
    "dstack": """\
>>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
tensor([[[1, 3],
         [2, 4]]])
""",
    "column_stack": """\
>>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
tensor([[1, 3],
        [2, 4]])
""",
    "sum_to_size": """\
>>> torch.ones(2, 3).sum_to_size(1, 3)
tensor([[2., 2., 2.]])
""",
    "constant_pad_nd": """\
>>> torch.constant_pad_nd(torch.tensor([1, 2]), (1, 1), 9)
tensor([9, 1, 2, 9])
""",
    "as_strided_copy": """\
>>> torch.as_strided_copy(torch.arange(6), (2, 2), (1, 3))
tensor([[0, 3],
        [1, 4]])
""",
    "diagonal_copy": """\
>>> torch.diagonal_copy(torch.tensor([[1, 2], [3, 4]]))
tensor([1, 4])
""",
    "expand_copy": """\
>>> torch.expand_copy(torch.tensor([[1], [2]]), (2, 3))
tensor([[1, 1, 1],
        [2, 2, 2]])
""",
    "narrow_copy": """\
>>> torch.narrow_copy(torch.arange(5), 0, 1, 3)
tensor([1, 2, 3])
""",
    "permute_copy": """\
>>> torch.permute_copy(torch.zeros(2, 3), (1, 0)).shape
torch.Size([3, 2])
""",
    "select_copy": """\
>>> torch.select_copy(torch.tensor([[1, 2], [3, 4]]), 0, 1)
tensor([3, 4])
""",
    "squeeze_copy": """\
>>> torch.squeeze_copy(torch.zeros(1, 3)).shape
torch.Size([3])
""",
    "t_copy": """\
>>> torch.t_copy(torch.tensor([[1, 2]]))
tensor([[1],
        [2]])
""",
    "transpose_copy": """\
>>> torch.transpose_copy(torch.tensor([[1, 2]]), 0, 1)
tensor([[1],
        [2]])
""",
    "unfold_copy": """\
>>> torch.unfold_copy(torch.arange(5), 0, 3, 1)
tensor([[0, 1, 2],
        [1, 2, 3],
        [2, 3, 4]])
""",
    "unsqueeze_copy": """\
>>> torch.unsqueeze_copy(torch.tensor([1, 2]), 0)
tensor([[1, 2]])
""",
    "view_copy": """\
>>> torch.view_copy(torch.arange(4), (2, 2))
tensor([[0, 1],
        [2, 3]])
""",
    "alias_copy": """\
>>> torch.alias_copy(torch.tensor([1, 2]))
tensor([1, 2])
""",
    "unsafe_chunk": """\
>>> torch.unsafe_chunk(torch.arange(4), 2)
(tensor([0, 1]), tensor([2, 3]))
""",
    "unsafe_split": """\
>>> torch.unsafe_split(torch.arange(4), 2)
(tensor([0, 1]), tensor([2, 3]))
""",
    "entr": """\
>>> torch.special.entr(torch.tensor([0.0, 0.5, 1.0]))
tensor([0.0000, 0.3466, -0.0000])
""",
    "erfcx": """\
>>> torch.special.erfcx(torch.tensor([-0.5, 0.0, 0.5]))
tensor([1.9524, 1.0000, 0.6157])
""",
    "ndtr": """\
>>> torch.special.ndtr(torch.tensor([-0.5, 0.0, 0.5]))
tensor([0.3085, 0.5000, 0.6915])
""",
    "ndtri": """\
>>> torch.special.ndtri(torch.tensor([-0.5, 0.0, 0.5]))
tensor([nan, -inf, 0.])
""",
    "log_ndtr": """\
>>> torch.special.log_ndtr(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-1.1759, -0.6931, -0.3689])
""",
    "i0": """\
>>> torch.i0(torch.tensor([-0.5, 0.0, 0.5]))
tensor([1.0635, 1.0000, 1.0635])
""",
    "i0e": """\
>>> torch.special.i0e(torch.tensor([-0.5, 0.0, 0.5]))
tensor([0.6450, 1.0000, 0.6450])
""",
    "i1": """\
>>> torch.special.i1(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.2579,  0.0000,  0.2579])
""",
    "i1e": """\
>>> torch.special.i1e(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.1564,  0.0000,  0.1564])
""",
    "bessel_j0": """\
>>> torch.special.bessel_j0(torch.tensor([0.25, 0.5, 1.0]))
tensor([0.9844, 0.9385, 0.7652])
""",
    "bessel_j1": """\
>>> torch.special.bessel_j1(torch.tensor([0.25, 0.5, 1.0]))
tensor([0.1240, 0.2423, 0.4401])
""",
    "bessel_y0": """\
>>> torch.special.bessel_y0(torch.tensor([0.25, 0.5, 1.0]))
tensor([-0.9316, -0.4445,  0.0883])
""",
    "bessel_y1": """\
>>> torch.special.bessel_y1(torch.tensor([0.25, 0.5, 1.0]))
tensor([-2.7041, -1.4715, -0.7812])
""",
    "modified_bessel_k0": """\
>>> torch.special.modified_bessel_k0(torch.tensor([0.25, 0.5, 1.0]))
tensor([1.5415, 0.9244, 0.4210])
""",
    "modified_bessel_k1": """\
>>> torch.special.modified_bessel_k1(torch.tensor([0.25, 0.5, 1.0]))
tensor([3.7470, 1.6564, 0.6019])
""",
    "scaled_modified_bessel_k0": """\
>>> torch.special.scaled_modified_bessel_k0(torch.tensor([0.25, 0.5, 1.0]))
tensor([1.9793, 1.5241, 1.1445])
""",
    "scaled_modified_bessel_k1": """\
>>> torch.special.scaled_modified_bessel_k1(torch.tensor([0.25, 0.5, 1.0]))
tensor([4.8113, 2.7310, 1.6362])
""",
    "spherical_bessel_j0": """\
>>> torch.special.spherical_bessel_j0(torch.tensor([0.25, 0.5, 1.0]))
tensor([0.9896, 0.9589, 0.8415])
""",
    "airy_ai": """\
>>> torch.special.airy_ai(torch.tensor([0.25, 0.5, 1.0]))
tensor([0.2912, 0.2317, 0.1353])
""",
    "chebyshev_polynomial_t": """\
>>> torch.special.chebyshev_polynomial_t(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([-0.5000, -1.0000, -0.5000])
""",
    "chebyshev_polynomial_u": """\
>>> torch.special.chebyshev_polynomial_u(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([ 0., -1.,  0.])
""",
    "chebyshev_polynomial_v": """\
>>> torch.special.chebyshev_polynomial_v(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([ 1., -1., -1.])
""",
    "chebyshev_polynomial_w": """\
>>> torch.special.chebyshev_polynomial_w(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([-1., -1.,  1.])
""",
    "hermite_polynomial_h": """\
>>> torch.special.hermite_polynomial_h(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([-1., -2., -1.])
""",
    "hermite_polynomial_he": """\
>>> torch.special.hermite_polynomial_he(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([-0.7500, -1.0000, -0.7500])
""",
    "laguerre_polynomial_l": """\
>>> torch.special.laguerre_polynomial_l(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([2.1250, 1.0000, 0.1250])
""",
    "legendre_polynomial_p": """\
>>> torch.special.legendre_polynomial_p(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([-0.1250, -0.5000, -0.1250])
""",
    "shifted_chebyshev_polynomial_t": """\
>>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([ 7.,  1., -1.])
""",
    "shifted_chebyshev_polynomial_u": """\
>>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([15.,  3., -1.])
""",
    "shifted_chebyshev_polynomial_v": """\
>>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([19.,  5., -1.])
""",
    "shifted_chebyshev_polynomial_w": """\
>>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([-0.5, 0.0, 0.5]), 2)
tensor([11.,  1., -1.])
""",
    "igamma": """\
>>> torch.igamma(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
tensor([0.6321, 0.5940])
""",
    "igammac": """\
>>> torch.igammac(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
tensor([0.3679, 0.4060])
""",
    "zeta": """\
>>> torch.special.zeta(torch.tensor([2.0, 4.0]), 1)
tensor([1.6449, 1.0823])
""",
    "xlog1py": """\
>>> torch.special.xlog1py(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 1.0]))
tensor([0.0000, 1.3863])
""",
    "mvlgamma": """\
>>> torch.mvlgamma(torch.tensor([2.0, 3.0]), 2)
tensor([0.4516, 1.5502])
""",
    "exp": """\
>>> torch.exp(torch.tensor([-0.5, 0.0, 0.5]))
tensor([0.6065, 1.0000, 1.6487])
""",
    "exp2": """\
>>> torch.exp2(torch.tensor([-0.5, 0.0, 0.5]))
tensor([0.7071, 1.0000, 1.4142])
""",
    "expm1": """\
>>> torch.expm1(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.3935,  0.0000,  0.6487])
""",
    "log": """\
>>> torch.log(torch.tensor([1.0, 2.718281828, 10.0]))
tensor([0.0000, 1.0000, 2.3026])
""",
    "log2": """\
>>> torch.log2(torch.tensor([1.0, 2.0, 8.0]))
tensor([0., 1., 3.])
""",
    "log10": """\
>>> torch.log10(torch.tensor([1.0, 10.0, 1000.0]))
tensor([0., 1., 3.])
""",
    "log1p": """\
>>> torch.log1p(torch.tensor([0.0, 1.0]))
tensor([0.0000, 0.6931])
""",
    "sqrt": """\
>>> torch.sqrt(torch.tensor([1.0, 2.0, 9.0]))
tensor([1.0000, 1.4142, 3.0000])
""",
    "rsqrt": """\
>>> torch.rsqrt(torch.tensor([1.0, 4.0]))
tensor([1.0000, 0.5000])
""",
    "reciprocal": """\
>>> torch.reciprocal(torch.tensor([2.0, 4.0]))
tensor([0.5000, 0.2500])
""",
    "sin": """\
>>> torch.sin(torch.tensor([0.0, torch.pi / 2]))
tensor([0., 1.])
""",
    "cos": """\
>>> torch.cos(torch.tensor([0.0, torch.pi / 2, torch.pi]))
tensor([ 1.0000e+00, -4.3711e-08, -1.0000e+00])
""",
    "tan": """\
>>> torch.tan(torch.tensor([0.0, torch.pi / 4]))
tensor([0.0000, 1.0000])
""",
    "asin": """\
>>> torch.asin(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.5236,  0.0000,  0.5236])
""",
    "acos": """\
>>> torch.acos(torch.tensor([-0.5, 0.0, 0.5]))
tensor([2.0944, 1.5708, 1.0472])
""",
    "atan": """\
>>> torch.atan(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.4636,  0.0000,  0.4636])
""",
    "sinh": """\
>>> torch.sinh(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.5211,  0.0000,  0.5211])
""",
    "cosh": """\
>>> torch.cosh(torch.tensor([-0.5, 0.0, 0.5]))
tensor([1.1276, 1.0000, 1.1276])
""",
    "tanh": """\
>>> torch.tanh(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.4621,  0.0000,  0.4621])
""",
    "asinh": """\
>>> torch.asinh(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.4812,  0.0000,  0.4812])
""",
    "acosh": """\
>>> torch.acosh(torch.tensor([1.0, 2.0]))
tensor([0.0000, 1.3170])
""",
    "atanh": """\
>>> torch.atanh(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.5493,  0.0000,  0.5493])
""",
    "sigmoid": """\
>>> torch.sigmoid(torch.tensor([-0.5, 0.0, 0.5]))
tensor([0.3775, 0.5000, 0.6225])
""",
    "erf": """\
>>> torch.erf(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.5205,  0.0000,  0.5205])
""",
    "erfc": """\
>>> torch.erfc(torch.tensor([-0.5, 0.0, 0.5]))
tensor([1.5205, 1.0000, 0.4795])
""",
    "erfinv": """\
>>> torch.erfinv(torch.tensor([-0.5, 0.0, 0.5]))
tensor([-0.4769,  0.0000,  0.4769])
""",
    "lgamma": """\
>>> torch.lgamma(torch.tensor([0.5, 1.0, 4.0]))
tensor([0.5724, 0.0000, 1.7918])
""",
    "digamma": """\
>>> torch.digamma(torch.tensor([0.5, 1.0, 4.0]))
tensor([-1.9635, -0.5772,  1.2561])
""",
    "polygamma": """\
>>> torch.polygamma(1, torch.tensor([1.0, 2.0]))
tensor([1.6449, 0.6449])
""",
    "sinc": """\
>>> torch.sinc(torch.tensor([-0.5, 0.0, 0.5]))
tensor([0.6366, 1.0000, 0.6366])
""",
    "floor": """\
>>> torch.floor(torch.tensor([-1.5, 1.5]))
tensor([-2.,  1.])
""",
    "ceil": """\
>>> torch.ceil(torch.tensor([-1.5, 1.5]))
tensor([-1.,  2.])
""",
    "trunc": """\
>>> torch.trunc(torch.tensor([-1.5, 1.5]))
tensor([-1.,  1.])
""",
    "round": """\
>>> torch.round(torch.tensor([0.5, 1.5, 2.4]))
tensor([0., 2., 2.])
>>> torch.round(torch.tensor([1.2345]), decimals=2)
tensor([1.2300])
""",
    "frac": """\
>>> torch.frac(torch.tensor([-1.5, 1.25]))
tensor([-0.5000,  0.2500])
""",
    "sign": """\
>>> torch.sign(torch.tensor([-1.5, 0.0, 2.0]))
tensor([-1.,  0.,  1.])
""",
    "positive": """\
>>> torch.positive(torch.tensor([-1.0]))
tensor([-1.])
""",
    "isnan": """\
>>> torch.isnan(torch.tensor([1.0, torch.nan]))
tensor([False,  True])
""",
    "isinf": """\
>>> torch.isinf(torch.tensor([1.0, torch.inf]))
tensor([False,  True])
""",
    "isfinite": """\
>>> torch.isfinite(torch.tensor([1.0, torch.inf, torch.nan]))
tensor([ True, False, False])
""",
    "isposinf": """\
>>> torch.isposinf(torch.tensor([torch.inf, -torch.inf]))
tensor([ True, False])
""",
    "isneginf": """\
>>> torch.isneginf(torch.tensor([torch.inf, -torch.inf]))
tensor([False,  True])
""",
    "signbit": """\
>>> torch.signbit(torch.tensor([-0.0, 1.0]))
tensor([ True, False])
""",
    "logical_not": """\
>>> torch.logical_not(torch.tensor([0, 1, 2]))
tensor([ True, False, False])
""",
    "bitwise_not": """\
>>> torch.bitwise_not(torch.tensor([0, 5]))
tensor([-1, -6])
""",
    "deg2rad": """\
>>> torch.deg2rad(torch.tensor([0.0, 180.0]))
tensor([0.0000, 3.1416])
""",
    "rad2deg": """\
>>> torch.rad2deg(torch.tensor([0.0, torch.pi]))
tensor([  0., 180.])
""",
    "logit": """\
>>> torch.logit(torch.tensor([0.25, 0.5]))
tensor([-1.0986,  0.0000])
""",
    "angle": """\
>>> torch.angle(torch.tensor([1j, -1 + 0j]))
tensor([1.5708, 3.1416])
""",
    "nan_to_num": """\
>>> torch.nan_to_num(torch.tensor([torch.nan, 1.0]), nan=-1.0)
tensor([-1.,  1.])
""",
    "frexp": """\
>>> torch.frexp(torch.tensor([1.0, 6.0]))
torch.return_types.frexp(
mantissa=tensor([0.5000, 0.7500]),
exponent=tensor([1, 3], dtype=torch.int32))
""",
    "isreal": """\
>>> torch.isreal(torch.tensor([1 + 0j, 1j]))
tensor([ True, False])
""",
    "polar": """\
>>> torch.polar(torch.tensor([1.0, 2.0]), torch.tensor([0.0, torch.pi / 2]))
tensor([ 1.0000e+00+0.j, -8.7423e-08+2.j])
""",
}
