"""Kernels of one's own, through the simulator's libnvrtc and libcuda: `python driver.py NAME`.

Each plants a fault; what it prints tells whether the result was right.
"""

import ctypes
import os
import pathlib
import sys

FOLDER = pathlib.Path(os.environ["RUSHLIGHT_CUDA_SIMULATOR_FOLDER"])
cuda = ctypes.CDLL(str(FOLDER / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
nvrtc = ctypes.CDLL(str(FOLDER / "libnvrtc.so.13"))
HEADER = b"#pragma once\n"


def check(status):
    if status:
        raise RuntimeError(f"status {status}")


def start():
    context = ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))


def compile_kernel(source, name):
    program, lowered = ctypes.c_void_p(), ctypes.c_char_p()
    headers, names = (ctypes.c_char_p * 1)(HEADER), (ctypes.c_char_p * 1)(b"all.cuh")
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k.cu", 1, headers, names))
    check(nvrtc.nvrtcAddNameExpression(program, name))
    check(nvrtc.nvrtcCompileProgram(program, 0, None))
    check(nvrtc.nvrtcGetLoweredName(program, name, ctypes.byref(lowered)))
    size = ctypes.c_size_t()
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, image))
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuModuleLoadData(ctypes.byref(module), image))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, lowered.value))
    return function


def allocate(size):
    address = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address


def launch(function, blocks, threads, *arguments):
    pointers = (ctypes.c_void_p * len(arguments))(
        *(ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in arguments)
    )
    sizes = (blocks, 1, 1, threads, 1, 1, 0)
    check(cuda.cuLaunchKernel(function, *map(ctypes.c_uint, sizes), None, pointers, None))


def read_floats(address, count):
    values = (ctypes.c_float * count)()
    check(cuda.cuMemcpyDtoHAsync_v2(values, address, ctypes.c_size_t(4 * count), None))
    return list(values)


# Each thread writes what its neighbour in another warp reads.
BARRIER = b"""
template <int with_barrier> __global__ void neighbours(float* out) {
  __shared__ float values[256];
  for (int round = 0; round < 3; ++round) {
    values[threadIdx.x] = 100.0f * round + threadIdx.x;
    __syncthreads();
    out[256 * round + threadIdx.x] = values[(threadIdx.x + 64) % 256];
    if (with_barrier) __syncthreads();
  }
}
"""


def barrier(with_barrier):
    start()
    function = compile_kernel(BARRIER, b"neighbours<%d>" % with_barrier)
    out = allocate(4 * 768)
    launch(function, 1, 256, out)
    right = [100.0 * r + (t + 64) % 256 for r in range(3) for t in range(256)]
    print("right" if read_floats(out, 768) == right else "wrong")


def skipped_barrier():
    start()
    source = b"""template <int n> __global__ void skips(float* out) {
      if (threadIdx.x < n) __syncthreads();
      out[threadIdx.x] = 1.0f;
    }"""
    function = compile_kernel(source, b"skips<40>")
    launch(function, 1, 64, allocate(256))
    print("status", cuda.cuCtxSynchronize())


def shuffle():
    start()
    source = b"""template <int n> __global__ void lanes(float* out) {
      if (threadIdx.x < n) out[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1.0f, 1);
    }"""
    function = compile_kernel(source, b"lanes<20>")
    launch(function, 1, 32, allocate(256))
    print("status", cuda.cuCtxSynchronize())


def bounds(past):
    start()
    source = b"""template <int unused> __global__ void writes(float* out, int n) {
      if (threadIdx.x < n) out[threadIdx.x] = 1.0f;
    }"""
    function = compile_kernel(source, b"writes<0>")
    launch(function, 1, 128, allocate(4 * 64), ctypes.c_int(64 + past))
    check(cuda.cuCtxSynchronize())
    print("right")


PROGRAMS = {
    "barrier": lambda: barrier(1),
    "missing_barrier": lambda: barrier(0),
    "skipped_barrier": skipped_barrier,
    "shuffle": shuffle,
    "bounds": lambda: bounds(0),
    "out_of_bounds": lambda: bounds(1),
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
