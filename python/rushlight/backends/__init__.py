"""The libraries underneath, and the switches of theirs that programs set.

The switches can be read and assigned as in PyTorch. Those of CUDA libraries have nothing to act on
in a build without CUDA.
"""

from rushlight.backends import cpu, cuda, cudnn, mha, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]
