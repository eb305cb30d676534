"""A `TestCase` that compares tensors, and what tests say about the machine."""

import os
import sys
import unittest

import rushlight
from rushlight.testing import assert_close, make_tensor

IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_LINUX = sys.platform == "linux"
IS_CI = bool(os.environ.get("CI"))
TEST_CUDA = TEST_MPS = TEST_XPU = TEST_WITH_ROCM = False
TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = TEST_WITH_ASAN = TEST_WITH_TSAN = False
IS_JETSON = IS_SANDCASTLE = NO_MULTIPROCESSING_SPAWN = False
TEST_NUMPY = True
SEED = 1234


def set_rng_seed(seed=None):
    """Seed the generators of Python, NumPy and rushlight."""
    import random

    seed = SEED if seed is None else seed
    rushlight.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


class TestCase(unittest.TestCase):
    """A unittest.TestCase whose `assertEqual` compares tensors, and what holds them, with
    tolerances of their dtypes.
    """

    precision = rel_tol = 0.0

    def setUp(self):
        set_rng_seed()

    def assertEqual(  # noqa: N802 - as unittest
        self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True,
        exact_device=False, exact_layout=False, exact_stride=False, exact_is_coalesced=False,
    ):  # fmt: skip
        """Fail unless x and y are equal, or close where they are tensors of floats."""
        x, y = _alike(x, y), _alike(y, x)
        tensors = (rushlight.Tensor, int, float, complex)
        if not _all_are(x, tensors) or not _all_are(y, tensors):
            return super().assertEqual(x, y, msg)
        try:
            assert_close(
                x, y, atol=atol, rtol=rtol, equal_nan=equal_nan,
                check_dtype=exact_dtype, check_device=exact_device, check_layout=exact_layout,
                check_stride=exact_stride,
            )  # fmt: skip
        except AssertionError as error:
            text = str(error) if msg is None else f"{error}\n{msg(error) if callable(msg) else msg}"
            raise self.failureException(text) from None
        if exact_is_coalesced and isinstance(x, rushlight.Tensor) and x.is_sparse:
            super().assertEqual(x.is_coalesced(), y.is_coalesced(), msg)

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **options):  # noqa: N802
        """Fail if x and y are equal, as `assertEqual` finds."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **options)

    def assertEqualIgnoreType(self, *args, **kwargs):  # noqa: N802
        """As `assertEqual`, whatever the dtypes."""
        self.assertEqual(*args, exact_dtype=False, **kwargs)


def _alike(value, other):
    """An array, or a sequence beside a tensor, as a tensor, and the only element of one beside a
    number as a number, inside of lists too; else the value itself.
    """
    lists = (list, tuple)
    if type(value) in lists and type(other) in lists and len(value) == len(other):
        return type(value)(map(_alike, value, other))
    if type(value).__module__ == "numpy":
        value = rushlight.as_tensor(value)
    is_tensor = isinstance(value, rushlight.Tensor)
    if is_tensor and value.numel() == 1 and isinstance(other, (int, float, complex)):
        value = value.item()
    if isinstance(value, (list, tuple)) and isinstance(other, rushlight.Tensor):
        value = rushlight.as_tensor(value, dtype=other.dtype, device=other.device)
    return value


def _all_are(value, kinds):
    if isinstance(value, (list, tuple)):
        return bool(value) and all(_all_are(part, kinds) for part in value)
    if isinstance(value, dict):
        return bool(value) and all(_all_are(part, kinds) for part in value.values())
    return isinstance(value, kinds)


def run_tests(argv=None):
    """Run the tests of the main module."""
    unittest.main(argv=argv)


class subtest:
    """The arguments of one test of several, with a name and decorators."""

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


class parametrize:
    """Marks a method: `instantiate_parametrized_tests` makes one of it for each value.

    Args:
        arg_str: names of arguments, with commas.
        arg_values: a value, or a tuple of them, for each test.
        name_fn: the values -> the end of the test's name.
    """

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = list(arg_values), name_fn

    def __call__(self, function):
        function.__dict__.setdefault("_parametrizations", []).append(self)
        return function

    def cases(self):
        """(name, arguments, decorators) of each test."""
        for number, value in enumerate(self.values):
            decorators, name = [], None
            if isinstance(value, subtest):
                decorators, name, value = value.decorators, value.name, value.arg_values
            row = (value,) if len(self.names) == 1 else tuple(value)
            if name is None and self.name_fn is not None:
                name = self.name_fn(*row)
            if name is None:
                name = "_".join(
                    f"{key}_{_text(each, number)}" for key, each in zip(self.names, row)
                )
            yield name, dict(zip(self.names, row)), decorators


def _text(value, number):
    if isinstance(value, rushlight.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, (int, float, bool, str)) or value is None:
        return str(value).replace(".", "_")
    return getattr(value, "__name__", str(number))


def instantiate_parametrized_tests(generic_cls):
    """Give a class of tests a method for each case of those that `parametrize` has marked."""
    for name, function in list(vars(generic_cls).items()):
        found = getattr(function, "_parametrizations", None)
        if not found:
            continue
        delattr(generic_cls, name)
        cases = [(name, {}, [])]
        for marks in found:
            cases = [
                (f"{before}_{case}", {**arguments, **more}, [*decorators, *others])
                for before, arguments, decorators in cases
                for case, more, others in marks.cases()
            ]
        for case, arguments, decorators in cases:
            setattr(generic_cls, case, _with(function, arguments, decorators))
    return generic_cls


def _with(function, arguments, decorators):
    import functools

    @functools.wraps(function)
    def test(self, *args, **kwargs):
        return function(self, *args, **{**arguments, **kwargs})

    del test.__wrapped__, test._parametrizations  # pytest would ask for the arguments
    for decorator in decorators:
        test = decorator(test)
    return test


def _skip_without(module, name):
    import importlib.util

    found = importlib.util.find_spec(module) is not None
    return unittest.skipUnless(found, f"test requires {name}, but {name} not found")


skipIfNoSciPy = _skip_without("scipy", "SciPy")  # noqa: N816 - as torch
skipIfNoDill = _skip_without("dill", "dill")  # noqa: N816


def skipIfRocm(function):  # noqa: N802
    """The test itself: there is no such GPU."""
    return function


skipIfXpu = skipIfRocm  # noqa: N816


load_tests = None  # torch's tests import it; unittest calls none then


def slowTest(function):  # noqa: N802 - as torch
    """Mark a test that takes long: it is skipped unless PYTORCH_TEST_WITH_SLOW=1."""
    slow = os.environ.get("PYTORCH_TEST_WITH_SLOW") == "1"
    return unittest.skipUnless(slow, "test is slow; run with PYTORCH_TEST_WITH_SLOW")(function)


__all__ = [
    "IS_CI", "IS_LINUX", "IS_MACOS", "IS_WINDOWS", "SEED", "TEST_CUDA", "TestCase",
    "instantiate_parametrized_tests", "make_tensor", "parametrize", "run_tests", "set_rng_seed",
    "skipIfNoSciPy", "slowTest", "subtest",
]  # fmt: skip
