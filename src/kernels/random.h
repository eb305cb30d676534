// Samplers: fill `out` from a Generator with the very numbers that PyTorch 2.13 draws on the CPU
// from the same seed and state, on a machine with AVX2 (where its rounding includes fused
// multiply-adds).
//
// Outputs may have any strides; elements are drawn in memory order (dims by descending stride), not
// in index order. Parameter ranges are the caller's to check, except those of tensor arguments.
// Each sampler holds the generator's mutex while it runs.
//
// Callers compose: normal with a tensor mean is normal(out, 0, std), then add_(mean); with a tensor
// std it is normal(out, 0, 1), then mul_(std), then add_(mean). A dropout mask is
// bernoulli(out, 1 - p) on a tensor like the input. randint is random_from_to.
#pragma once
#include "core/generator.h"
#include "core/view.h"

namespace rl::kernels {

// Floating and complex (each part).
void uniform(const View& out, double from, double to, Generator& generator);
void normal(const View& out, double mean, double std, Generator& generator);

// Any real dtype. `p` has out's shape; its probabilities are checked.
void bernoulli(const View& out, double p, Generator& generator);
void bernoulli_each(const View& out, const View& p, Generator& generator);
void geometric(const View& out, double p, Generator& generator);

// Floating.
void exponential(const View& out, double lambda, Generator& generator);
void cauchy(const View& out, double median, double sigma, Generator& generator);
void log_normal(const View& out, double mean, double std, Generator& generator);

// Whole numbers, in any real dtype: random_(from, to), which checks its bounds; random_(from,
// None), up to the largest whole number that the dtype is exact for; and random_(), that from 0.
void random_from_to(const View& out, int64_t from, int64_t to, Generator& generator);
void random_from(const View& out, int64_t from, Generator& generator);
void random_natural(const View& out, Generator& generator);

// Where kernels draw for themselves, not on the CPU: elements of out are those of the input with
// probability 1 - p, times 1 / (1 - p), and zero else; kept (bool) says which are kept.
void dropout(const View& input, double p, const View& out, const View& kept, Generator& generator);
void dropout_backward(const View& grad, const View& kept, double p, const View& out);

// A permutation of 0 .. n - 1 into 1-d out.
void randperm(const View& out, Generator& generator);

// probs: floating, (categories) or (rows, categories); out: int64, (samples) or (rows, samples).
void multinomial(const View& probs, bool replacement, const View& out, Generator& generator);

// Parameters have out's shape and dtype (floating).
void poisson(const View& rate, const View& out, Generator& generator);
void binomial(const View& count, const View& prob, const View& out, Generator& generator);
void standard_gamma(const View& alpha, const View& out, Generator& generator);
// Along the last dim.
void dirichlet(const View& alpha, const View& out, Generator& generator);

}  // namespace rl::kernels
