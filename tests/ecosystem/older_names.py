"""A plugin for pytest: names of the release that torch's own tests are of, which torch 2.13 has
under others, so that both libraries can run them."""

import torch
import torch.export
import torch.jit.frontend
from torch.testing._internal.opinfo import core

torch.export.export_for_training = torch.export.export
torch.jit.frontend._IS_ASTUNPARSE_INSTALLED = True  # ast.unparse is part of Python

_callback = core.OpInfo._sample_callback_fn


def _two_of_each(self, use_subtests, device):
    """A sample with its context; the second context, of exceptions to the test, came later."""
    give = _callback(self, use_subtests, device)
    return (lambda sample, place: give(sample, place)[:2]) if use_subtests else give


core.OpInfo._sample_callback_fn = _two_of_each
