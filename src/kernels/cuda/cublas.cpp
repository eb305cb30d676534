#include "kernels/cuda/cublas.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/launch.h"

namespace rl::cuda {
namespace {

std::atomic<bool> tf32{false};

// A matrix as cuBLASLt sees memory: `rows` lie side by side, columns are `step` apart; `turned`
// where that is the transpose of what is meant.
struct Layout {
  int64_t rows, columns, step, batch;
  bool turned;
};
// Of a matrix by its sizes and strides, as the columns that lie in memory; none if neither dim is
// dense.
std::optional<Layout> layout(int64_t rows, int64_t columns, int64_t row, int64_t column,
                             int64_t batch) {
  if ((row == 1 || rows == 1) && (column >= rows || columns == 1))
    return Layout{rows, columns, columns == 1 ? rows : column, batch, false};
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1))
    return Layout{columns, rows, rows == 1 ? columns : row, batch, true};
  return std::nullopt;
}

// out^T = b^T a^T.
Product transposed(const Product& p) {
  Product t = p;
  std::swap(t.a, t.b);
  std::swap(t.rows, t.columns);
  std::swap(t.a_batch, t.b_batch);
  t.a_row = p.b_column;
  t.a_column = p.b_row;
  t.b_row = p.a_column;
  t.b_column = p.a_row;
  std::swap(t.out_row, t.out_column);
  std::swap(t.added_row, t.added_column);
  return t;
}

struct Problem {
  int device, type, compute, epilogue;
  int64_t batches;
  Layout a, b, c, d;
  int alignment[4];  // of the pointers to a, b, c, d
};
struct ProblemHash {
  size_t operator()(const Problem& p) const {
    uint64_t h = 14695981039346656037ull;
    auto add = [&](int64_t v) { h = (h ^ static_cast<uint64_t>(v)) * 1099511628211ull; };
    for (int64_t v :
         {int64_t(p.device), int64_t(p.type), int64_t(p.compute), int64_t(p.epilogue), p.batches})
      add(v);
    for (const Layout* l : {&p.a, &p.b, &p.c, &p.d})
      for (int64_t v : {l->rows, l->columns, l->step, l->batch, int64_t(l->turned)}) add(v);
    for (int v : p.alignment) add(v);
    return h ^ h >> 32;
  }
};
bool operator==(const Layout& x, const Layout& y) {
  return x.rows == y.rows && x.columns == y.columns && x.step == y.step && x.batch == y.batch &&
         x.turned == y.turned;
}
bool operator==(const Problem& x, const Problem& y) {
  return x.device == y.device && x.type == y.type && x.compute == y.compute &&
         x.epilogue == y.epilogue && x.batches == y.batches && x.a == y.a && x.b == y.b &&
         x.c == y.c && x.d == y.d && std::equal(x.alignment, x.alignment + 4, y.alignment);
}

// What cuBLASLt was told about a problem, and what it recommends.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;
  bool possible = false;
};

std::mutex mutex;  // descriptors take the bias of a call: one at a time uses them
auto& plans = *new std::unordered_map<Problem, Plan, ProblemHash>;
cublasLtHandle_t handles[max_devices] = {};

void check_status(cublasStatus_t status, const char* call) {
  if (status)
    fail(ErrorKind::Runtime, call, ": cuBLASLt gave ", cublas_lt()->cublasLtGetStatusName(status));
}
#define RL_CUBLAS(call, ...) check_status(cublas_lt()->call(__VA_ARGS__), #call)

template <class T> void set(cublasLtMatmulDesc_t to, int attribute, const T& value) {
  RL_CUBLAS(cublasLtMatmulDescSetAttribute, to, attribute, &value, sizeof value);
}
template <class T> void set(cublasLtMatmulPreference_t to, int attribute, const T& value) {
  RL_CUBLAS(cublasLtMatmulPreferenceSetAttribute, to, attribute, &value, sizeof value);
}

cublasLtMatrixLayout_t make_layout(const Layout& l, const Problem& p) {
  cublasLtMatrixLayout_t made = nullptr;
  RL_CUBLAS(cublasLtMatrixLayoutCreate, &made, p.type, static_cast<uint64_t>(l.rows),
            static_cast<uint64_t>(l.columns), l.step);
  if (p.batches > 1) {
    int count = static_cast<int>(p.batches);
    RL_CUBLAS(cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
              sizeof count);
    RL_CUBLAS(cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
              &l.batch, sizeof l.batch);
  }
  return made;
}

void ask(Plan& plan, const Problem& p) {
  cublasLtMatmulPreference_t preference = nullptr;
  RL_CUBLAS(cublasLtMatmulPreferenceCreate, &preference);
  // As much as NVIDIA recommends.
  uint64_t most = properties(p.device).major >= 9 ? 32 << 20 : 4 << 20;
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most);
  for (int i = 0; i < 4; ++i)
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i,
        static_cast<uint32_t>(p.alignment[i]));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  cublasStatus_t status =
      cublas_lt()->cublasLtMatmulAlgoGetHeuristic(handles[p.device], plan.operation, plan.a, plan.b,
                                                  plan.c, plan.d, preference, 1, &result, &found);
  RL_CUBLAS(cublasLtMatmulPreferenceDestroy, preference);
  plan.possible = !status && found == 1 && !result.state;
  plan.algo = result.algo;
  plan.workspace = result.workspaceSize;
}

Plan make_plan(const Problem& p) {
  if (!handles[p.device]) RL_CUBLAS(cublasLtCreate, &handles[p.device]);
  Plan plan;
  int scale = p.type == CUDA_R_16F || p.type == CUDA_R_16BF ? int(CUDA_R_32F) : p.type;
  RL_CUBLAS(cublasLtMatmulDescCreate, &plan.operation, p.compute, scale);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, p.a.turned ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, p.b.turned ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  plan.a = make_layout(p.a, p);
  plan.b = make_layout(p.b, p);
  plan.c = make_layout(p.c, p);
  plan.d = make_layout(p.d, p);
  ask(plan, p);
  return plan;
}

int type_of(DType t) {
  switch (t) {
    case DType::Float16: return CUDA_R_16F;
    case DType::BFloat16: return CUDA_R_16BF;
    case DType::Float32: return CUDA_R_32F;
    case DType::Float64: return CUDA_R_64F;
    case DType::Complex64: return CUDA_C_32F;
    case DType::Complex128: return CUDA_C_64F;
    default: return -1;
  }
}
int compute_of(DType t) {
  if (t == DType::Float64 || t == DType::Complex128) return CUBLAS_COMPUTE_64F;
  return t == DType::Float32 && allow_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}
int alignment_of(const void* p) {
  auto address = reinterpret_cast<uintptr_t>(p);
  return static_cast<int>(std::min<uintptr_t>(address & (~address + 1), 256));
}

// The columns of cuBLASLt are our rows: its first operand is our b^T, its second a^T, and a vector
// that we add to each row is its bias.
std::optional<Problem> problem_of(int device, const Product& p, int64_t batches, DType dtype,
                                  bool relu, bool& bias) {
  float beta = 0;  // epilogues are of the types that compute in float
  if (compute_dtype(dtype) == DType::Float32) std::memcpy(&beta, p.beta, sizeof beta);
  bool one = beta == 1.0f;
  bias = p.has_added && one && p.added_row == 0 && p.added_column == 1 && p.columns > 1 &&
         (batches == 1 || p.added_batch == 0);
  auto a = layout(p.columns, p.depth, p.b_column, p.b_row, p.b_batch);
  auto b = layout(p.depth, p.rows, p.a_column, p.a_row, p.a_batch);
  auto d = layout(p.columns, p.rows, p.out_column, p.out_row, p.out_batch);
  auto c = p.has_added && !bias
               ? layout(p.columns, p.rows, p.added_column, p.added_row, p.added_batch)
               : d;
  if (!a || !b || !c || !d || c->turned || d->turned) return std::nullopt;
  int epilogue = bias   ? relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                 : relu ? CUBLASLT_EPILOGUE_RELU
                        : CUBLASLT_EPILOGUE_DEFAULT;
  const void* added = p.has_added && !bias ? p.added : p.out;
  return Problem{device,
                 type_of(dtype),
                 compute_of(dtype),
                 epilogue,
                 batches,
                 *a,
                 *b,
                 *c,
                 *d,
                 {alignment_of(p.b), alignment_of(p.a), alignment_of(added), alignment_of(p.out)}};
}

}  // namespace

bool allow_tf32() { return tf32.load(std::memory_order_relaxed); }
void set_allow_tf32(bool allow) { tf32 = allow; }

bool cublas_product(int device, const Product& given, int64_t batches, DType dtype, bool relu) {
  if (type_of(dtype) < 0 || !given.depth || batches > 0x7fffffff || !cublas_lt()) return false;
  if (relu && (dtype == DType::Float64 || is_complex(dtype))) return false;
  Product p = given.out_column != 1 && given.out_row == 1 ? transposed(given) : given;
  bool bias = false;
  std::optional<Problem> problem = problem_of(device, p, batches, dtype, relu, bias);
  if (!problem) return false;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = plans.find(*problem);
  if (found == plans.end()) found = plans.emplace(*problem, make_plan(*problem)).first;
  const Plan& plan = found->second;
  if (!plan.possible) return false;
  if (bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.added);
  alignas(16) unsigned char zero[16] = {};
  bool adds = p.has_added && !bias;
  std::optional<Scratch> workspace;
  if (plan.workspace) workspace.emplace(plan.workspace, device);
  note_launch("cublasLtMatmul");
  launch_count.fetch_add(1, std::memory_order_relaxed);
  CUstream stream = current_stream(device);
  timeline::Piece piece("cublasLtMatmul", device, stream);
  RL_CUBLAS(cublasLtMatmul, handles[device], plan.operation, p.alpha, p.b, plan.a, p.a, plan.b,
            adds ? p.beta : zero, adds ? p.added : p.out, plan.c, p.out, plan.d, &plan.algo,
            workspace ? workspace->get() : nullptr, plan.workspace, stream);
  if (__builtin_expect(blocking_launches(), 0)) synchronize_stream(device, stream);
  return true;
}

}  // namespace rl::cuda
