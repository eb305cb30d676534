/* rushlight's C interface: tensors, operations by name, gradients, programs in files.
 *
 * Functions return 0, or -1 where rl_last_error() says what is wrong (in this thread, until its
 * next call). Handles that a function gives belong to the caller, who frees them. Several threads
 * may use different tensors at once.
 */
#ifndef RUSHLIGHT_C_API_H
#define RUSHLIGHT_C_API_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RL_C_API __attribute__((visibility("default")))
#define RL_C_ABI_VERSION 1

typedef struct rl_tensor rl_tensor;
typedef struct rl_model rl_model;

typedef enum {
  RL_BOOL_TYPE,
  RL_UINT8,
  RL_INT8,
  RL_INT16,
  RL_INT32,
  RL_INT64,
  RL_FLOAT16,
  RL_BFLOAT16,
  RL_FLOAT32,
  RL_FLOAT64,
  RL_COMPLEX64,
  RL_COMPLEX128
} rl_dtype;

typedef enum {
  RL_NONE,
  RL_TENSOR,
  RL_BOOL,
  RL_INT,
  RL_FLOAT,
  RL_STRING,
  RL_DTYPE,
  RL_INT_LIST,
  RL_FLOAT_LIST,
  RL_TENSOR_LIST
} rl_kind;

/* An argument of an operation. Lists have `count` elements. */
typedef struct {
  rl_kind kind;
  int64_t count;
  union {
    rl_tensor* tensor;
    int boolean;
    int64_t integer;
    double real;
    const char* string;
    rl_dtype dtype;
    const int64_t* integers;
    const double* reals;
    rl_tensor* const* tensors;
  } as;
} rl_value;

RL_C_API int rl_abi_version(void); /* RL_C_ABI_VERSION of the library */
RL_C_API const char* rl_version(void);
RL_C_API const char* rl_last_error(void);
RL_C_API int rl_manual_seed(uint64_t seed);
RL_C_API int rl_set_num_threads(int threads);

/* A tensor with a copy of the elements, which lie in C order; of zeros for data NULL. */
RL_C_API int rl_tensor_new(const void* data, rl_dtype dtype, const int64_t* sizes, int64_t ndim,
                           rl_tensor** result);
RL_C_API void rl_tensor_free(rl_tensor* t);
RL_C_API rl_dtype rl_tensor_dtype(const rl_tensor* t);
RL_C_API int64_t rl_tensor_ndim(const rl_tensor* t);
RL_C_API int64_t rl_tensor_numel(const rl_tensor* t);
RL_C_API int64_t rl_tensor_size(const rl_tensor* t,
                                int64_t dim); /* -1 where there is no such dim */
/* Copies the elements in C order; `bytes` must be what they take. */
RL_C_API int rl_tensor_read(const rl_tensor* t, void* data, int64_t bytes);
RL_C_API int rl_tensor_item(const rl_tensor* t, double* value); /* of one element */

RL_C_API int rl_tensor_set_requires_grad(rl_tensor* t, int requires_grad);
RL_C_API int rl_tensor_grad(const rl_tensor* t, rl_tensor** result); /* NULL where there is none */
RL_C_API int rl_tensor_zero_grad(rl_tensor* t);
RL_C_API int rl_backward(const rl_tensor* loss);
/* Whether calls record for gradients; returns what was before. */
RL_C_API int rl_set_grad_enabled(int enabled);

/* Calls an operation by name ("add", "conv2d", "clamp.tensor", "add_").
 * names: NULL, or for each argument NULL or the parameter that it is for; these come last.
 * results: room for `capacity` tensors; *count is how many there are. */
RL_C_API int rl_call(const char* operation, const rl_value* arguments, int64_t argument_count,
                     const char* const* names, rl_tensor** results, int64_t capacity,
                     int64_t* count);
/* The name of the i-th operation, or NULL behind the last one. */
RL_C_API const char* rl_operation_name(int64_t i);

/* Programs that rushlight.export.save wrote. */
RL_C_API int rl_model_load(const char* path, rl_model** result);
RL_C_API void rl_model_free(rl_model* model);
RL_C_API int64_t rl_model_input_count(const rl_model* model);
RL_C_API int64_t rl_model_output_count(const rl_model* model);
RL_C_API int rl_model_run(const rl_model* model, rl_tensor* const* inputs, int64_t input_count,
                          rl_tensor** results, int64_t capacity, int64_t* count);

#ifdef __cplusplus
}
#endif
#endif
