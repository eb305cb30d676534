"""Write scikit-learn's 8x8 digits as files of NumPy, for lenet.cpp: python digits.py FOLDER"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
digits = load_digits()
np.save(folder / "images.npy", (digits.images[:, None] / 16).astype(np.float32))
np.save(folder / "labels.npy", digits.target.astype(np.int64))
