"""The listings of two papers and of the documentation of torch 0.3 run: see tests/listings.py."""

import warnings

import pytest
from listings import PROGRAMS

import rushlight

SAID = {  # words of the warnings that tell of an older interface
    "saved_variables_in_backward": "saved_variables",
    "the_calls_of_backward_in_2017": "retain_variables",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rushlight.manual_seed(0)
        assert len(PROGRAMS[name](rushlight)) > 0
    if name in SAID:
        assert any(SAID[name] in str(warning.message) for warning in caught)
