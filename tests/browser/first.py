"""The least that must run in a browser: the import, and a sum of two tensors."""

import time

began = time.perf_counter()
import rushlight as torch  # noqa: E402 - timed

imported = time.perf_counter()
a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])
print(f"import {imported - began:.2f} s; {a} + {b} = {a + b}")
assert (a + b).tolist() == [11.0, 22.0, 33.0]
