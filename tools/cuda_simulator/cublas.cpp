// libcublasLt.so.13 of the simulator: products as work of the simulated streams.
//
// Stricter than NVIDIA's: sizes of attributes, shapes of all matrices, alignments and the algorithm
// must be what the heuristic was asked for. Workspace is filled with NaN when a product runs, and
// TF32 rounds operands to eleven bits, so that it shows.
#include <complex>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "core/number.h"
#include "kernels/cuda/api.h"
#include "tf32.h"

namespace rl::cuda {
struct cublasLtContext {
  uint64_t problems = 0;
};
struct cublasLtMatmulDescOpaque_t {
  int compute, scale, turned[2] = {CUBLAS_OP_N, CUBLAS_OP_N}, epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  int type;
  int64_t rows, columns, step, batch = 0;
  int batches = 1;
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};
};
}  // namespace rl::cuda

extern "C" int cuLaunchHostFunc(rl::cuda::CUstream, void (*)(void*), void*);

namespace {
using namespace rl::cuda;
using Matrix = cublasLtMatrixLayoutOpaque_t;
enum : int { Success = 0, InvalidValue = 7, NotSupported = 15 };
constexpr size_t workspace_bytes = 4096;

struct Problem {
  cublasLtMatmulDescOpaque_t operation;
  Matrix a, b, c, d;
  uint32_t alignments[4];
};

template <class T> T widen(T v) { return v; }
float widen(rl::half v) { return v; }
float widen(rl::bfloat16 v) { return v; }

template <class C> C rounded(C v, int) { return v; }
float rounded(float v, int compute) {
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? to_tf32(v) : v;
}
template <class C> C positive(C v) { return v; }
float positive(float v) { return v < 0 ? 0 : v; }

struct Task {
  Problem problem;
  const void *a, *b, *c;
  void *d, *workspace;
  alignas(16) unsigned char alpha[16], beta[16];

  template <class T, class C> void run() const {
    std::memset(workspace, 0xff, workspace_bytes);
    const Problem& p = problem;
    C scale, keep;
    std::memcpy(&scale, alpha, sizeof(C));
    std::memcpy(&keep, beta, sizeof(C));
    bool turned_a = p.operation.turned[0] == CUBLAS_OP_T,
         turned_b = p.operation.turned[1] == CUBLAS_OP_T;
    int64_t depth = turned_a ? p.a.rows : p.a.columns;
    for (int64_t n = 0; n < p.d.batches; ++n)
      for (int64_t j = 0; j < p.d.columns; ++j)
        for (int64_t i = 0; i < p.d.rows; ++i) {
          const T* x = static_cast<const T*>(a) + n * p.a.batch;
          const T* y = static_cast<const T*>(b) + n * p.b.batch;
          C sum = C(0);
          for (int64_t k = 0; k < depth; ++k)
            sum += rounded(C(widen(x[turned_a ? k + i * p.a.step : i + k * p.a.step])),
                           p.operation.compute) *
                   rounded(C(widen(y[turned_b ? j + k * p.b.step : k + j * p.b.step])),
                           p.operation.compute);
          sum *= scale;
          if (keep != C(0))
            sum += keep * C(widen(static_cast<const T*>(c)[n * p.c.batch + i + j * p.c.step]));
          if (p.operation.epilogue & 4) sum += C(widen(static_cast<const T*>(p.operation.bias)[i]));
          if (p.operation.epilogue & 2) sum = positive(sum);
          static_cast<T*>(d)[n * p.d.batch + i + j * p.d.step] = T(sum);
        }
  }
  void run_typed() const {
    switch (problem.d.type) {
      case CUDA_R_32F: return run<float, float>();
      case CUDA_R_64F: return run<double, double>();
      case CUDA_R_16F: return run<rl::half, float>();
      case CUDA_R_16BF: return run<rl::bfloat16, float>();
      case CUDA_C_32F: return run<std::complex<float>, std::complex<float>>();
      default: return run<std::complex<double>, std::complex<double>>();
    }
  }
};
// Tasks stay: a graph that captured one runs it again at each replay.
void run_task(void* data) { static_cast<Task*>(data)->run_typed(); }

bool fits(const Problem& p) {
  auto rows = [&](const Matrix& m, int side) {
    return p.operation.turned[side] ? m.columns : m.rows;
  };
  auto columns = [&](const Matrix& m, int side) {
    return p.operation.turned[side] ? m.rows : m.columns;
  };
  bool same = rows(p.a, 0) == p.d.rows && columns(p.b, 1) == p.d.columns &&
              columns(p.a, 0) == rows(p.b, 1) && p.c.rows == p.d.rows && p.c.columns == p.d.columns;
  for (const Matrix* m : {&p.a, &p.b, &p.c, &p.d})
    same = same && m->step >= m->rows && m->type == p.d.type && m->batches == p.d.batches;
  bool halves = p.d.type == CUDA_R_16F || p.d.type == CUDA_R_16BF;
  bool doubles = p.d.type == CUDA_R_64F || p.d.type == CUDA_C_64F;
  int scale = halves ? int(CUDA_R_32F) : p.d.type;
  bool computes =
      doubles ? p.operation.compute == CUBLAS_COMPUTE_64F
              : p.operation.compute == CUBLAS_COMPUTE_32F ||
                    (p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.d.type == CUDA_R_32F);
  return same && computes && p.operation.scale == scale;
}
bool same_shape(const Matrix& x, const Matrix& y) { return !std::memcmp(&x, &y, sizeof x); }
bool aligned(const void* p, uint32_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

std::map<uint64_t, Problem> known;

template <class T> int take(T& to, const void* from, size_t size) {
  if (size != sizeof(T) || !from) return InvalidValue;
  std::memcpy(&to, from, size);
  return Success;
}
}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API int cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return Success;
}
API const char* cublasLtGetStatusName(int status) {
  return status == InvalidValue ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
API int cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, int compute, int scale) {
  *made = new cublasLtMatmulDescOpaque_t{compute, scale};
  return Success;
}
API int cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of, int attribute, const void* value,
                                       size_t size) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(of->turned[0], value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(of->turned[1], value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(of->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(of->bias, value, size);
    default: return InvalidValue;
  }
}
API int cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, int type, uint64_t rows,
                                   uint64_t columns, int64_t step) {
  if (!rows || !columns) return InvalidValue;
  auto* layout = new Matrix;
  std::memset(static_cast<void*>(layout), 0, sizeof *layout);
  layout->type = type;
  layout->rows = static_cast<int64_t>(rows);
  layout->columns = static_cast<int64_t>(columns);
  layout->step = step;
  layout->batches = 1;
  *made = layout;
  return Success;
}
API int cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of, int attribute,
                                         const void* value, size_t size) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return take(of->batches, value, size);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return take(of->batch, value, size);
  return InvalidValue;
}
API int cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceOpaque_t;
  return Success;
}
API int cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return Success;
}
API int cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of, int attribute,
                                             const void* value, size_t size) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return take(of->workspace, value, size);
  int side = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  return side >= 0 && side < 4 ? take(of->alignments[side], value, size) : int(InvalidValue);
}
API int cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       cublasLtMatmulPreference_t preference, int wanted,
                                       cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  Problem p{*operation, *a, *b, *c, *d, {}};
  if (wanted < 1 || !fits(p)) return InvalidValue;
  std::memcpy(p.alignments, preference->alignments, sizeof p.alignments);
  if (preference->workspace < workspace_bytes) return NotSupported;
  uint64_t number = ++handle->problems;
  known[number] = p;
  results[0] = {};
  results[0].algo.data[0] = number;
  results[0].workspaceSize = workspace_bytes;
  *found = 1;
  return Success;
}
API int cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                       const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                       cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                       cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                       const cublasLtMatmulAlgo_t* algo, void* workspace, size_t size,
                       CUstream stream) {
  auto it = known.find(algo->data[0]);
  if (it == known.end()) return InvalidValue;
  const Problem& p = it->second;
  bool same = same_shape(p.a, *a_layout) && same_shape(p.b, *b_layout) &&
              same_shape(p.c, *c_layout) && same_shape(p.d, *d_layout) &&
              p.operation.epilogue == operation->epilogue;
  if (!same || size < workspace_bytes || !workspace) return InvalidValue;
  const void* pointers[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (!aligned(pointers[i], p.alignments[i])) return InvalidValue;
  if ((operation->epilogue & CUBLASLT_EPILOGUE_BIAS) && !operation->bias) return InvalidValue;
  auto* task = new Task{p, a, b, c, d, workspace, {}, {}};
  task->problem.operation.bias = operation->bias;
  bool complex = p.d.type == CUDA_C_32F || p.d.type == CUDA_C_64F;
  bool doubles = p.d.type == CUDA_R_64F || p.d.type == CUDA_C_64F;
  size_t bytes = (complex ? 2 : 1) * (doubles ? 8 : 4);
  std::memcpy(task->alpha, alpha, bytes);
  std::memcpy(task->beta, beta, bytes);
  return cuLaunchHostFunc(stream, run_task, task) ? int(NotSupported) : int(Success);
}
