"""Functions of tensors under the name by which torch's own layers call them: `torch._VF.lstm` is
`torch.lstm`.
"""

import rushlight


def __getattr__(name):
    return getattr(rushlight, name)
