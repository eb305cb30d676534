"""Arguments for the rows whose signatures do not give any that make sense; table.py says how to read them.

A row's own column `samples` comes first. A function of numbers that are not free has its domain here.
"""


def _windows(d, name="distinct"):
    """Samples of a pooling over d dims."""
    size, kernel = ", ".join(["5"] * d), repr((2,) * d)
    return (
        f"{name}(1, 2, {size}), {kernel}",
        f"{name}(2, {size}), {kernel}, stride={(1,) * d}, padding={(1,) * d}, ceil_mode=True",
        f"{name}(1, 1, {size}), 3, stride=2",
    )


def _convolutions(d):
    size, kernel = ", ".join(["4"] * d), ", ".join(["2"] * d)
    return (
        f"x(2, 2, {size}), x(3, 2, {kernel}), x(3)",
        f"x(1, 4, {size}), x(4, 2, {kernel}), None, stride=2, padding=1, dilation=2, groups=2",
        f"x(2, {size}), x(1, 2, {kernel})",
    )


def _named_convolutions(d):
    size, kernel = ", ".join(["4"] * d), ", ".join(["3"] * d)
    return (
        f"x(1, 2, {size}), x(1, 2, {kernel}), x(1), padding='same'",
        f"x(2, {size}), x(1, 2, {kernel}), padding='valid'",
    )


def _transposed(d):
    size, kernel = ", ".join(["2"] * d), ", ".join(["3"] * d)
    return (
        f"x(1, 2, {size}), x(2, 1, {kernel}), x(1)",
        f"x(2, {size}), x(2, 1, {kernel}), x(2), stride=2, padding=1, output_padding=1, groups=2",
    )


def _fused(lists, numbers):
    """Two parameters, their gradients and so on; `steps` are counts."""
    texts = ["fixed([[3.0]])" if name == "steps" else "pos(2, 3)" for name in lists]
    return (
        ", ".join(f"[{t}]" for t in texts).replace("[fixed([[3.0]])]", "[fixed(3.0)]")
        + ", "
        + numbers,
    )


_CLASSES = "x(3, 4), index(4, 3)"


def _once(entries):
    """{row: samples} of (rows, samples); a row that is named twice would lose the first samples."""
    samples = {}
    for names, texts in entries:
        for name in names.split():
            if name in samples:
                raise ValueError(f"samples.py names {name} twice")
            samples[name] = texts
    return samples


SAMPLES = _once(
    [
        ("log log2 log10 sqrt rsqrt reciprocal lgamma digamma log1p", ("pos(2, 3)",)),
        ("asin acos atanh erfinv", ("unit(2, 3)",)),
        ("acosh", ("above_one(2, 3)",)),
        ("entr", ("pos(2, 3)",)),
        (
            "zeta",
            (
                "above_one(2, 3), pos(2, 3)",
                "above_one(2, 3), pos(3)",
                "2, pos(2, 3)",
                "above_one(2, 3), 2",
            ),
        ),
        ("xlog1py", ("x(2, 3), pos(2, 3)", "x(2, 3), pos(3)", "x(2, 3), number", "2, pos(2, 3)")),
        ("mvlgamma", ("above_one(2, 3), 1", "above_one(2, 3), 3")),
        ("pow_scalar", ("pos(2, 3), 2.5", "x(2, 3), 2", "x(2, 3), 0", "pos(2, 3), -1")),
        ("pow", ("pos(2, 3), unit(2, 3)", "pos(2, 3), x(3)", "2, x(2, 3)")),
        ("polygamma", ("1, pos(2, 3)", "2, pos(2, 3)")),
        ("xlogy", ("x(2, 3), pos(2, 3)", "x(2, 3), pos(3)", "x(2, 3), number")),
        ("clamp", ("x(2, 3), -0.3, 0.4", "x(2, 3), min=0", "x(2, 3), max=0")),
        ("clamp_tensor", ("x(2, 3), unit(3), pos(2, 3)", "x(2, 3), min=unit(3)")),
        (
            "where",
            ("mask(2, 3), x(2, 3), x(2, 3)", "mask(2, 3), x(3), x(2, 1)", "mask(2, 3), x(2, 3), 1"),
        ),
        ("div", ("x(2, 3), pos(2, 3)", "x(2, 3), pos(3)", "x(2, 3), 2")),
        ("remainder", ("x(2, 3), pos(2, 3)", "x(2, 3), pos(3)", "x(2, 3), 2", "3, pos(2, 3)")),
        ("fmod", ("x(2, 3), pos(2, 3)", "x(2, 3), pos(3)", "x(2, 3), 2")),
        ("floor_divide", ("x(2, 3), pos(2, 3)", "x(2, 3), 2")),
        ("addcdiv", ("x(2, 3), x(2, 3), pos(2, 3)", "x(2, 3), x(3), pos(2, 1), value=2")),
        ("bitwise_left_shift", ("x(2, 3), pos(2, 3)", "x(2, 3), 2")),
        ("bitwise_right_shift", ("x(2, 3), pos(2, 3)", "x(2, 3), 2")),
        ("round_decimals", ("x(2, 3), decimals=1", "x(2, 3), decimals=0")),
        ("bernoulli", ("prob(2, 3)",)),
        ("prod", ("x(2, 3)", "fixed([[1.0, 0.0], [2.0, 3.0]])")),
        (
            "amax amin",
            ("distinct(2, 3)", "distinct(2, 3), 1", "distinct(2, 3), (0, 1), keepdim=True"),
        ),
        ("max min", ("distinct(2, 3)",)),
        ("max_dim min_dim", ("distinct(2, 3), 0", "distinct(2, 3), -1, keepdim=True")),
        ("cummax cummin", ("distinct(2, 3), 0", "distinct(2, 3), -1")),
        ("argmax argmin", ("distinct(2, 3)", "distinct(2, 3), 1, keepdim=True")),
        ("aminmax", ("distinct(2, 3)", "distinct(2, 3), dim=1, keepdim=True")),
        (
            "vector_norm",
            (
                "x(2, 3)",
                "x(2, 3), 1, dim=1",
                "x(2, 3), 3, dim=(0, 1), keepdim=True",
                "distinct(2, 3), inf, 0",
            ),
        ),
        # ---- shapes
        ("as_strided", ("x(2, 3), (2, 2), (3, 1)", "x(6), (2, 3), (1, 1), 1")),
        ("permute", ("x(2, 3, 2), (2, 0, 1)", "x(2, 3), (-1, 0)")),
        ("expand", ("x(2, 1), (2, 3)", "x(3), (2, -1)")),
        ("view", ("x(2, 3), (3, 2)", "x(2, 3), (-1,)")),
        ("reshape", ("x(2, 3), (3, 2)", "x(2, 3), (-1, 1)")),
        ("squeeze", ("x(1, 2, 1)",)),
        ("squeeze_dim", ("x(1, 2, 1), 0", "x(1, 2, 1), (0, 2)")),
        ("unfold", ("x(5), 0, 2, 1", "x(2, 5), -1, 2, 3")),
        ("split_with_sizes", ("x(5, 2), (2, 3)", "x(2, 3), (1, 2), dim=-1")),
        ("split_sizes", ("x(5, 2), (2, 3)", "x(2, 3), (1, 2), dim=-1")),
        ("view_as_real", ("cx(2, 3)",)),
        ("view_as_complex", ("real(3, 2)",)),
        ("conj", ("x(2, 3)", "cx(2, 3)")),
        ("imag", ("cx(2, 3)",)),
        ("roll", ("x(2, 3), 1", "x(2, 3), (1, -1), (0, 1)")),
        ("view_dtype", ("real(2, 4), dtype('float64')", "index(9, 3), dtype('int32')")),
        ("unflatten", ("x(2, 6), 1, (2, 3)", "x(6, 2), 0, (-1, 2)")),
        ("dsplit", ("x(1, 2, 4), 2",)),
        ("dsplit_indices", ("x(1, 2, 4), (1, 3)",)),
        ("movedim", ("x(2, 3, 2), 0, 1", "x(2, 3, 2), (0, 1), (2, 0)")),
        ("tile", ("x(2, 3), (2,)", "x(3), (2, 2)")),
        (
            "repeat_interleave_tensor",
            ("x(2, 3), fixed([1, 2], 'int64'), 0", "x(3), fixed([1, 0, 2], 'int64')"),
        ),
        ("constant_pad_nd", ("x(2, 3), (1, 1)", "x(2, 3), (1, -1, 0, 2), 0.5")),
        ("rot90", ("x(2, 3)", "x(2, 3), 2, (1, 0)")),
        ("sum_to_size", ("x(2, 3), (1, 3)", "x(2, 3), (3,)")),
        ("narrow", ("x(4, 3), 0, 1, 2",)),
        ("complex", ("real(2, 3), real(2, 3)",)),
        ("to", ("x(2, 3), dtype('float32')", "x(2, 3), dtype('float64'), copy=True")),
        ("cuda", "it needs a GPU"),
        ("to_other", ("x(2, 3), fixed([1], 'float32')",)),
        ("one_hot", ("index(3, 4)", "index(3, 2, 2), 5")),
        ("randint_low", ("1, 7, (2, 3)",)),
        ("randint_like_low", ("x(2, 3), 1, 7",)),
        ("random_from", ("x(2, 3), 1, 9",)),
        ("random_to", ("x(2, 3), 9",)),
        ("randperm", ("9",)),
        ("bernoulli_tensor", ("x(2, 3), prob(2, 3)",)),
        ("poisson", ("pos(2, 3)",)),
        ("standard_gamma", ("pos(2, 3)",)),
        ("binomial", ("fixed([[3.0, 5.0], [0.0, 9.0]]), prob(2, 2)",)),
        ("multinomial", ("prob(2, 3), 2", "prob(3), 5, replacement=True")),
        ("normal", ("x(2, 3), pos(2, 3)",)),
        ("normal_mean", ("0.5, pos(2, 3)",)),
        ("dropout", ("x(2, 3), 0.4, True", "x(2, 3), 0.4, False")),
        # ---- places
        (
            "index_add",
            ("x(3, 2), 0, index(3, 4), x(4, 2)", "x(3, 2), 1, index(2, 3), x(3, 3), alpha=2"),
        ),
        ("index_select", ("x(3, 2), 0, index(3, 4)", "x(3, 2), -1, index(2, 3)")),
        (
            "index_put",
            (
                "x(3, 2), (fixed([0, 2], 'int64'),), x(2, 2)",
                "x(3, 2), (index(3, 4),), x(4, 2), accumulate=True",
            ),
        ),
        ("gather", ("x(3, 2), 0, index(3, 4, 2)", "x(3, 2), 1, index(2, 3, 3)")),
        ("scatter_add", ("x(3, 2), 0, index(3, 4, 2), x(4, 2)",)),
        ("scatter", ("x(3, 2), 0, fixed([[0, 2]], 'int64'), x(1, 2)",)),
        ("scatter_value", ("x(3, 2), 0, index(3, 1, 2), 0.5",)),
        # ---- order
        ("sort argsort", ("distinct(2, 3)", "distinct(3, 2), dim=0, descending=True")),
        ("msort", ("distinct(3, 2)",)),
        ("topk", ("distinct(2, 4), 2", "distinct(4, 2), 3, 0, False")),
        ("kthvalue", ("distinct(2, 4), 2", "distinct(3, 2), 1, 0, True")),
        ("mode", ("fixed([[1.0, 2.0, 2.0], [3.0, 3.0, 1.0]])",)),
        ("median nanmedian", ("distinct(3, 3)",)),
        ("median_dim nanmedian_dim", ("distinct(2, 3), 1", "distinct(3, 2), 0, keepdim=True")),
        (
            "quantile nanquantile",
            (
                "distinct(2, 5), prob(2)",
                "distinct(2, 5), prob(3), 1, True",
                "distinct(4), prob(1), interpolation='lower'",
            ),
        ),
        (
            "quantile_number nanquantile_number",
            (
                "distinct(2, 5), 0.3",
                "distinct(2, 5), 0.5, dim=1, keepdim=True, interpolation='midpoint'",
            ),
        ),
        (
            "unique unique_consecutive",
            ("fixed([[2.0, 1.0], [1.0, 2.0]])", "fixed([[2.0, 1.0], [2.0, 1.0]]), 0"),
        ),
        (
            "searchsorted",
            (
                "fixed([0.1, 0.5, 0.9]), prob(2, 3)",
                "fixed([0.1, 0.5, 0.9]), prob(4), right=True, out_int32=True",
            ),
        ),
        ("bucketize", ("prob(2, 3), fixed([0.1, 0.5, 0.9])",)),
        (
            "isin",
            (
                "fixed([1.0, 2.0, 3.0]), fixed([2.0, 5.0])",
                "fixed([1.0, 2.0]), fixed([2.0]), invert=True",
            ),
        ),
        ("histc", ("x(9), 4, -1, 1", "distinct(9), 3")),
        (
            "repeat_interleave_counts",
            (
                "fixed([1, 0, 2], 'int64')",
                "fixed([], 'int64')",
                "fixed([2, 1], 'int64'), output_size=3",
            ),
        ),
        ("bincount", ("fixed([1, 3, 1], 'int64')", "fixed([0, 2], 'int64'), minlength=5")),
        # ---- conditions and places
        ("where_condition", ("mask(2, 3)",)),
        ("where_method", ("x(2, 3), mask(2, 3), x(3)",)),
        ("masked_fill_tensor", ("x(2, 3), mask(2, 3), x()",)),
        ("masked_fill_value", ("x(2, 3), mask(3), 0.5",)),
        ("masked_select", ("x(2, 3), mask(2, 3)", "x(2, 3), mask(3)")),
        ("masked_scatter", ("x(2, 3), mask(2, 3), x(6)",)),
        ("take", ("x(2, 3), index(2, 4)",)),
        (
            "put",
            (
                "x(2, 3), fixed([0, 4], 'int64'), x(2)",
                "x(2, 3), index(2, 4), x(4), accumulate=True",
            ),
        ),
        ("take_along_dim", ("x(3, 2), index(3, 4, 2), 0", "x(3, 2), index(6, 4), dim=None")),
        ("index_copy", ("x(3, 2), 0, fixed([2, 0], 'int64'), x(2, 2)",)),
        ("index_fill_tensor", ("x(3, 2), 0, index(3, 2), x()",)),
        (
            "scatter_reduce",
            tuple(
                f"distinct(3, 2), 0, index(3, 4, 2), distinct(4, 2), '{how}'{more}"
                for how, more in (
                    ("sum", ""),
                    ("prod", ""),
                    ("mean", ", include_self=False"),
                    ("amax", ""),
                    ("amin", ", include_self=False"),
                )
            ),
        ),
        (
            "index_reduce",
            tuple(
                f"distinct(3, 2), 0, index(3, 4), distinct(4, 2), '{how}'"
                for how in ("prod", "mean", "amax", "amin")
            ),
        ),
        ("select_scatter", ("x(2, 3), x(3), 0, 1",)),
        ("slice_scatter", ("x(4, 2), x(2, 2), 0, 1, 3",)),
        ("diagonal_scatter", ("x(3, 3), x(3)", "x(3, 3), x(2), 1")),
        ("as_strided_scatter", ("x(2, 3), x(2, 2), (2, 2), (3, 1)",)),
        # ---- elements
        ("hypot", ("pos(2, 3), pos(3)",)),
        ("copysign", ("pos(2, 3), x(2, 3)", "x(2, 3), 1.5")),
        ("float_power", ("pos(2, 3), x(2, 3)", "pos(2, 3), 2")),
        ("ldexp", ("x(2, 3), fixed([1, 2, -1], 'int64')",)),
        ("frexp", ("pos(2, 3)",)),
        ("polar", ("pos(2, 3), x(2, 3)",)),
        ("nan_to_num", ("x(2, 3)", "fixed([inf, 1.0]), posinf=2.0")),
        # ---- calculus
        ("trapezoid_points", ("x(2, 4), distinct(4)", "x(2, 4), distinct(2, 4), dim=0")),
        ("cumulative_trapezoid_points", ("x(2, 4), distinct(4)",)),
        (
            "cov",
            (
                "x(2, 5)",
                "x(2, 3), correction=0",
                "x(2, 3), fweights=fixed([1, 2, 1], 'int64'), aweights=prob(3)",
            ),
        ),
        ("corrcoef", ("x(2, 5)",)),
        ("cross", ("x(2, 3), x(2, 3)", "x(3, 2), x(3, 1), dim=0")),
        ("renorm", ("x(3, 2), 2, 0, 0.5",)),
        ("trace", ("x(3, 2)",)),
        ("vander", ("x(3)", "x(3), 2, True")),
        ("combinations", ("x(4)", "x(3), 2, True")),
        ("tril_indices", ("3, 4", "3, 3, 1")),
        ("triu_indices", ("3, 4", "3, 3, -1")),
        # ---- shapes in place
        ("squeeze__dim", ("x(1, 2, 1), 0",)),
        ("as_strided_", ("x(2, 3), (3,), (1,)",)),
        ("broadcast_to", ("x(2, 1), (2, 3)",)),
        ("fill_diagonal_", ("x(3, 3), 0.5",)),
        ("fill_tensor", ("x(2, 3), x()",)),
        ("promote_types", ("dtype('int32'), dtype('float32')",)),
        ("can_cast", ("dtype('int32'), dtype('float32')",)),
        # ---- tables, images, attention
        ("embedding", ("x(4, 3), index(4, 2, 2)", "x(4, 3), index(4, 5), 1, True")),
        (
            "functional_embedding",
            ("index(4, 2, 2), x(4, 3)", "index(4, 5), x(4, 3), 1, scale_grad_by_freq=True"),
        ),
        (
            "embedding_bag_kernel",
            tuple(
                f"x(4, 3), index(4, 5), fixed([0, 2, 2], 'int64'), {rest}"
                for rest in (
                    "'sum', None, -1, False",
                    "'mean', None, 1, True",
                    "'max', None, 2, False",
                    "'sum', pos(5), 0, False",
                )
            ),
        ),
        (
            "embedding_bag_weights_gradient",
            tuple(
                f"x(3, {width}), x(4, {width}), index(4, 5), fixed([0, 2, 2], 'int64'), {padding}"
                for width, padding in ((3, -1), (1, 0), (37, 2))
            ),
        ),
        (
            "embedding_gradient",
            ("x(2, 3, 4), index(5, 2, 3), (5, 4), -1, False", "x(3, 2), index(4, 3), (4, 2), 1, False"),
        ),
        (
            "nll_loss_gradient_kernel",
            (
                "x(3), index(4, 3), None, -100, 'none', fixed(3.0), (3, 4)",
                "x(), index(4, 3), None, -100, 'mean', fixed(3.0), (3, 4)",
            ),
        ),
        ("ctc_loss_kernel", ("x(5, 2, 4), fixed([[1, 1], [3, 2]], 'int64'), (5, 4), (2, 1), 0",)),
        (
            "interpolate_kernel",
            tuple(
                f"x(1, 2, {rest}"
                for rest in (
                    "3), (5,), 'nearest', False, False, ()",
                    "3), (5,), 'linear', True, False, ()",
                    "3, 4), (2, 5), 'bilinear', False, True, ()",
                    "3, 4), (5, 3), 'bicubic', False, False, (1.7, 0.8)",
                    "2, 3, 2), (3, 2, 2), 'trilinear', False, False, ()",
                )
            ),
        ),
        (
            "grid_sample_kernel",
            tuple(
                f"x(2, 2, {rest}"
                for rest in (
                    "3, 4), unit(2, 2, 3, 2), (0, 0), 'bilinear', 'zeros', False",
                    "3, 4), x(2, 2, 3, 2), (0, 0), 'bilinear', 'reflection', True",
                    "3, 4), x(2, 2, 3, 2), (0, 0), 'bicubic', 'border', False",
                    "3, 4), x(2, 2, 3, 2), (0, 0), 'nearest', 'zeros', False",
                    "4, 3), unit(2, 2, 3, 2), (1, 0), 'bicubic', 'zeros', True",
                    "2, 3, 2), unit(2, 2, 1, 2, 3), (0, 0, 0), 'bilinear', 'border', False",
                )
            ),
        ),
        ("fft_c2c", ("cx(2, 3), (1,), False, 0.5", "cx(2, 3), (0, 1), True, 1.0")),
        (
            "fft_r2c",
            (
                "x(2, 6), 1, 6, False, 0.5, False",
                "x(3, 2), 0, 3, True, 1.0, True",
                "x(2, 8, 2), 1, 8, True, 1.0, True",
            ),
        ),
        (
            "fft_c2r",
            (
                "cx(2, 4), 1, 6, False, 0.5, False",
                "cx(2, 2), 0, 3, True, 1.0, True",
                "cx(2, 5, 2), 1, 8, True, 1.0, True",
            ),
        ),
        ("embedding_renorm_", ("x(4, 3), index(4, 2), 0.5, 2.0",)),
        ("prelu", ("x(2, 3), pos(3)", "x(2, 3), pos(1)")),
        (
            "pad",
            (
                "x(1, 2, 3), (1, 2)",
                "x(1, 2, 3), (1, 2), 'reflect'",
                "x(1, 2, 3), (2, 0), 'replicate'",
                "x(1, 2, 3), (1, 1), 'circular'",
            ),
        ),
        ("functional_unfold", ("x(1, 2, 3, 4), 2", "x(2, 4, 4), (2, 1), padding=1, stride=2")),
        ("fold", ("x(1, 4, 4), 3, 2", "x(8, 2), (2, 3), (2, 2)")),
        (
            "scaled_dot_product_attention",
            (
                "x(2, 3, 4), x(2, 5, 4), x(2, 5, 3)",
                "x(1, 2, 3, 4), x(1, 2, 3, 4), x(1, 2, 3, 4), is_causal=True",
                "x(2, 3, 4), x(2, 5, 4), x(2, 5, 4), mask(3, 5), scale=0.3",
            ),
        ),
        # ---- products
        ("mm", ("x(2, 3), x(3, 2)",)),
        ("bmm", ("x(2, 2, 3), x(2, 3, 2)",)),
        ("mv", ("x(2, 3), x(3)",)),
        ("dot", ("x(3), x(3)",)),
        ("vdot", ("x(3), x(3)",)),
        ("outer", ("x(2), x(3)",)),
        (
            "matmul",
            (
                "x(2, 3), x(3, 2)",
                "x(3), x(3)",
                "x(2, 2, 3), x(3)",
                "x(3), x(2, 3, 2)",
                "x(2, 1, 2, 3), x(2, 3, 1)",
            ),
        ),
        (
            "int_mm",
            (
                "fixed([[1, -128, 3], [0, 5, 127]], 'int8'), fixed([[-1], [-128], [4]], 'int8')",
                "fixed([[200, 3]], 'uint8'), fixed([[-100, 2], [1, 0]], 'int8')",
            ),
        ),
        (
            "group_mm",
            (
                "fixed([[k / 8 for k in range(64)]] * 2, 'float32'), fixed([[k % 19 - 9 for k in range(64)]] * 3, 'int8'), "
                "fixed([[0.5, 2.0]] * 3, 'float32')",
                "fixed([[k / 8 for k in range(32)]], 'float32'), fixed([[k * 17 % 256 for k in range(16)]], 'uint8'), "
                "fixed([[0.25]], 'float32')",
            ),
        ),
        ("addmm", ("x(2, 2), x(2, 3), x(3, 2)", "x(2), x(2, 3), x(3, 2), beta=0.5, alpha=2")),
        (
            "addmm_activation",
            (
                "x(2, 2), x(2, 3), x(3, 2)",
                "x(2), x(2, 3), x(3, 2), beta=0.5, alpha=2, use_gelu=True",
            ),
        ),
        ("addmv", ("x(2), x(2, 3), x(3)", "x(1), x(2, 3), x(3), beta=0.5, alpha=2")),
        ("addr", ("x(2, 3), x(2), x(3)", "x(3), x(2), x(3), beta=0.5, alpha=2")),
        (
            "baddbmm",
            (
                "x(2, 2, 2), x(2, 2, 3), x(2, 3, 2)",
                "x(2), x(2, 2, 3), x(2, 3, 2), beta=0.5, alpha=2",
            ),
        ),
        (
            "addbmm",
            ("x(2, 2), x(2, 2, 3), x(2, 3, 2)", "x(2), x(2, 2, 3), x(2, 3, 2), beta=0.5, alpha=2"),
        ),
        ("linear", ("x(2, 3), x(4, 3), x(4)", "x(2, 2, 3), x(4, 3)", "x(3), x(3)")),
        (
            "linear_activation",
            (
                "x(2, 3), x(4, 3), x(4), 'relu'",
                "x(2, 2, 3), x(4, 3), None, 'gelu'",
                "x(3), x(3), None, 'relu'",
                "x(2, 3), x(4, 3), x(4), 'gelu_tanh'",
            ),
        ),
        ("bilinear", ("x(2, 3), x(2, 2), x(4, 3, 2), x(4)",)),
        # ---- matrices
        (
            "linalg_inv_ex linalg_inv inverse linalg_det det linalg_slogdet slogdet",
            ("x(3, 3)", "x(2, 2, 2)"),
        ),
        ("logdet", ("spd(3, 3)",)),
        ("linalg_cholesky_ex linalg_cholesky cholesky", ("spd(3, 3)", "spd(2, 2, 2), upper=True")),
        ("cholesky_solve", ("x(3, 1), spd(3, 3)", "x(2, 2), spd(2, 2), upper=True")),
        ("cholesky_inverse", ("spd(3, 3)", "spd(2, 2), upper=True")),
        (
            "linalg_solve_triangular",
            (
                "spd(3, 3), x(3, 2), upper=True",
                "spd(2, 2), x(3, 2), upper=False, left=False, unitriangular=True",
            ),
        ),
        (
            "triangular_solve",
            ("x(3, 2), spd(3, 3)", "x(2, 2), spd(2, 2), upper=False, transpose=True"),
        ),
        ("linalg_lu_factor_ex linalg_lu_factor linalg_lu", ("spd(3, 3)",)),
        ("lu_unpack", ("spd(3, 3), fixed([2, 2, 3], 'int32')",)),
        (
            "linalg_lu_solve",
            (
                "spd(3, 3), fixed([2, 2, 3], 'int32'), x(3, 2)",
                "spd(2, 2), fixed([2, 2], 'int32'), x(3, 2), left=False, adjoint=True",
                "fixed([[2.0, 1.0], [0.5, 1.5]]), fixed([2, 2], 'int32'), x(2, 3)",
            ),
        ),
        ("lu_solve", ("x(3, 2), spd(3, 3), fixed([2, 2, 3], 'int32')",)),
        ("linalg_solve_ex linalg_solve", ("x(3, 3), x(3, 2)", "x(2, 2), x(3, 2), left=False")),
        ("linalg_multi_dot", ("[x(2, 3), x(3, 2)]", "[x(3), x(3, 2), x(2, 4), x(4)]")),
        ("linalg_qr", ("x(3, 2)",)),
        ("qr", ("x(3, 2)",)),
        ("geqrf", ("x(3, 2)",)),
        ("linalg_householder_product", ("x(3, 2), x(2)",)),
        ("ormqr", ("x(3, 2), x(2), x(3, 2)", "x(3, 2), x(2), x(2, 3), left=False, transpose=True")),
        ("linalg_eigh linalg_eigvalsh", ("spd(3, 3)",)),
        ("linalg_eig linalg_eigvals", ("x(3, 3)",)),
        ("linalg_svd", ("x(3, 2), full_matrices=False",)),
        ("svd", ("x(3, 2)",)),
        ("linalg_svdvals", ("x(3, 2)",)),
        ("linalg_pinv", ("x(3, 2), None, None, False",)),
        ("linalg_lstsq_kernel", ("x(3, 2), x(3, 2), 1e-10, 'gelsd'",)),
        # ---- order
        ("logit", ("prob(2, 3)", "prob(2, 3), eps=1e-3")),
        ("index_fill", ("x(3, 2), 0, index(3, 2), number",)),
        ("scatter__reduce", ("x(3, 2), 0, index(3, 4, 2), x(4, 2), reduce='add'",)),
        ("matrix_power linalg_matrix_power", ("x(3, 3), 2", "x(2, 2, 2), -1")),
        ("matrix_exp linalg_matrix_exp", ("x(3, 3)",)),
        ("scatter_value_reduce", ("x(3, 2), 0, index(3, 1, 2), 0.5, reduce='add'",)),
        ("narrow_tensor", ("x(4, 3), 0, fixed(1, 'int64'), 2",)),
        (
            "div_rounding",
            (
                "x(2, 3), pos(2, 3), rounding_mode='floor'",
                "x(2, 3), 2, rounding_mode='trunc'",
                "x(2, 3), pos(3), rounding_mode=None",
            ),
        ),
        # ---- layers
        (
            "convolution",
            (
                "x(1, 2, 4), x(3, 2, 2), x(3), (1,), (1,), (1,), False, (0,), 1",
                "x(1, 2, 3), x(2, 1, 2), None, (2,), (0,), (1,), True, (1,), 2",
            ),
        ),
        *((f"conv{d}d", _convolutions(d)) for d in (1, 2, 3)),
        *((f"conv{d}d_named", _named_convolutions(d)) for d in (1, 2, 3)),
        *((f"conv_transpose{d}d", _transposed(d)) for d in (1, 2, 3)),
        *((f"max_pool{d}d_with_indices", _windows(d)[:2]) for d in (1, 2, 3)),
        *((f"max_pool{d}d", _windows(d)) for d in (1, 2, 3)),
        *((f"avg_pool{d}d", _windows(d, "x")) for d in (1, 2, 3)),
        ("max_unpool_kernel", ("x(1, 2, 2), fixed([[[0, 3], [1, 2]]], 'int64'), (1, 2, 4), 1",)),
        ("adaptive_avg_pool_kernel", ("x(1, 2, 5), (3,)", "x(1, 3, 5), (2, 2)")),
        ("adaptive_max_pool_kernel", ("distinct(1, 2, 5), (3,)", "distinct(1, 3, 5), (2, 2)")),
        *(
            (
                name,
                (
                    "x(3, 2), fixed([0.1, 0.2]), fixed([1.5, 0.7]), x(2), x(2)",
                    "x(3, 2, 2), fixed([0.1, 0.2]), fixed([1.5, 0.7]), x(2), x(2), training=True",
                    "x(3, 2), None, None, training=True",
                ),
            )
            for name in ("batch_norm", "batch_norm_of_any_eps")
        ),
        ("layer_norm", ("x(2, 3), (3,), x(3), x(3)", "x(2, 2, 3), (2, 3)")),
        ("rms_norm", ("x(2, 3), (3,), x(3)", "x(2, 2, 3), (2, 3)")),
        ("group_norm", ("x(2, 4, 2), 2, x(4), x(4)", "x(2, 4), 1")),
        # ---- losses
        (
            "binary_cross_entropy",
            (
                "prob(2, 3), prob(2, 3)",
                "prob(2, 3), prob(2, 3), prob(3), reduction='sum'",
                "prob(2, 3), prob(2, 3), reduction='none'",
            ),
        ),
        (
            "binary_cross_entropy_with_logits",
            (
                "x(2, 3), prob(2, 3)",
                "x(2, 3), prob(2, 3), prob(3), reduction='sum', pos_weight=pos(3)",
            ),
        ),
        (
            "kl_div",
            (
                "x(2, 3), prob(2, 3), reduction='batchmean'",
                "x(2, 3), x(2, 3), reduction='sum', log_target=True",
            ),
        ),
        (
            "nll_loss",
            (
                _CLASSES,
                _CLASSES + ", fixed([0.5, 1, 2, 0.1]), reduction='sum'",
                _CLASSES + ", reduction='none'",
                "x(2, 3, 2), index(3, 2, 2), ignore_index=1",
            ),
        ),
        (
            "cross_entropy",
            (
                _CLASSES,
                _CLASSES + ", fixed([0.5, 1, 2, 0.1]), label_smoothing=0.2",
                "x(3, 4), prob(3, 4), reduction='sum'",
            ),
        ),
        (
            "mse_loss l1_loss smooth_l1_loss huber_loss",
            (
                "x(2, 3), x(2, 3)",
                "x(2, 3), x(2, 3), reduction='sum'",
                "x(2, 3), x(2, 3), reduction='none'",
            ),
        ),
        # ---- optimizers: one step
        (
            "_fused_sgd_",
            _fused(
                ["p", "g", "m"],
                "weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.1, nesterov=False, "
                "maximize=False, is_first_step=False",
            ),
        ),
        *(
            (
                f"_fused_{name}_",
                _fused(
                    ["p", "g", "m", "v", "x", "steps"],
                    "lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, "
                    "eps=1e-8, amsgrad=True, maximize=False",
                ),
            )
            for name in ("adam", "adamw")
        ),
        (
            "_fused_adagrad_",
            _fused(
                ["p", "g", "s", "steps"],
                "lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-8, maximize=False",
            ),
        ),
        (
            "_fused_adadelta_",
            _fused(
                ["p", "g", "s", "a"], "lr=0.1, rho=0.9, eps=1e-8, weight_decay=0.1, maximize=False"
            ),
        ),
        (
            "_fused_adamax_",
            _fused(
                ["p", "g", "m", "v", "steps"],
                "lr=0.1, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1, maximize=False",
            ),
        ),
        (
            "_fused_nadam_",
            _fused(
                ["p", "g", "m", "v", "steps", "steps"],
                "lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, "
                "momentum_decay=0.01, eps=1e-8, decoupled_weight_decay=True, maximize=False",
            ),
        ),
        (
            "_fused_radam_",
            _fused(
                ["p", "g", "m", "v", "steps"],
                "lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, "
                "decoupled_weight_decay=True, maximize=False",
            ),
        ),
        (
            "_fused_rmsprop_",
            _fused(
                ["p", "g", "s", "a", "m"],
                "lr=0.1, alpha=0.9, eps=1e-8, weight_decay=0.1, momentum=0.9, "
                "centered=False, maximize=False",
            ),
        ),
        (
            "_fused_rprop_",
            _fused(
                ["p", "g", "s", "z"],
                "eta_minus=0.5, eta_plus=1.2, step_size_min=1e-6, step_size_max=50.0, "
                "maximize=False",
            ),
        ),
        (
            "_fused_asgd_",
            _fused(
                ["p", "g", "a", "steps", "steps"], "lambd=0.1, weight_decay=0.1, maximize=False"
            ),
        ),
    ]
)
