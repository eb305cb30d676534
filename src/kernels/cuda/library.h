// NVIDIA's libraries, opened when they are first needed.
#pragma once
#include <string>
#include <vector>

#include "kernels/cuda/api.h"

namespace rl::cuda {

// Where the wheels of NVIDIA's libraries may lie, and the folder of the simulator or "". To be set
// before the first question.
void set_library_folders(std::vector<std::string> folders, std::string simulator);

// Why there is no device to use, in one sentence; "" if there is one. Opens the libraries.
const std::string& why_unavailable();

// Valid once why_unavailable() is "".
const Driver& driver();
const Compiler& compiler();

// Opened at the first call; null where the wheel nvidia-cublas is not installed.
const CublasLt* cublas_lt();
const Cudnn* cudnn();  // the wheel nvidia-cudnn-cu13
const Nccl* nccl();    // the wheel nvidia-nccl-cu13

// What RUSHLIGHT_CUDA_WITHOUT=cublasLt,cudnn,nccl,wgmma does without.
bool is_unwanted(const char* name);

bool is_simulated();

}  // namespace rl::cuda
