"""The words of MT19937 and what samplers make of them, beside NumPy's engine of the same seed."""

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels

# Around a state's 624 words, and the chunks that samplers draw.
SIZES = [1, 15, 311, 312, 313, 512, 623, 624, 625, 1023, 1024, 1025, 5000]


def words_of(seed, n):
    engine = np.random.RandomState(seed)  # seeds as the generator does, unlike np.random.MT19937
    return engine.randint(0, 2**32, n, dtype=np.uint32)


def fractions_of_24_bits(seed, n):
    return (words_of(seed, n) & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)


def fractions_of_53_bits(seed, n):
    high, low = words_of(seed, 2 * n).reshape(n, 2).T.astype(np.uint64)
    return ((high << np.uint64(32) | low) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53


@pytest.mark.parametrize("n", SIZES)
def test_uniform_floats_are_24_bits_of_a_word(n):
    rl.manual_seed(7)
    assert (rl.rand(n).numpy() == fractions_of_24_bits(7, n)).all()


@pytest.mark.parametrize("n", SIZES)
def test_uniform_doubles_are_53_bits_of_two_words(n):
    rl.manual_seed(8)
    assert (rl.rand(n, dtype=rl.float64).numpy() == fractions_of_53_bits(8, n)).all()


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("n", SIZES)
def test_bernoulli_is_a_fraction_below_p(n, p):
    expected = fractions_of_53_bits(9, n) < p
    for dtype in (rl.float32, rl.float64, rl.bfloat16, rl.float16, rl.bool, rl.uint8, rl.int64):
        for out in (rl.empty(n, dtype=dtype), rl.empty(n, 2, dtype=dtype)[:, 0]):
            rl.manual_seed(9)
            assert (out.bernoulli_(p).double().numpy() == expected).all(), dtype


def test_chunks_and_single_draws_share_one_sequence():
    rl.manual_seed(10)
    drawn = [rl.rand(n).numpy() for n in (3, 620, 1, 1, 700, 5)]
    assert (np.concatenate(drawn) == fractions_of_24_bits(10, 1330)).all()
