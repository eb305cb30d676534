"""`import torch` in Python programs that a program run by `python -m rushlight` starts: this folder
is on their path.
"""

import sys

import rushlight

del sys.modules["torch"]
rushlight.as_torch()
