"""The scanned digits of scikit-learn in one file, which pages and tests in a browser read.

    python docs/live/digits.py FILE

FILE gets 1,797 images of 8 x 8 bytes, each a shade of 0 to 16, and then as many labels.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits


def main(path: str) -> None:
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    Path(path).write_bytes(images.tobytes() + labels.tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
