// Table lookup and its gradient. weight is (rows, width); index is int64 or int32 of any shape.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// out: index's sizes + (width). IndexError for an index outside [0, rows).
void embedding(const View& weight, const View& index, const View& out);
// grad: index's sizes + (width); it is added to grad_weight, whose rows meet their
// gradients in row-major order of the index. Index padding_idx (-1: none) is skipped;
// scale_by_frequency divides each gradient by how often its index occurs.
void embedding_backward(const View& grad, const View& index, int64_t padding_idx,
                        bool scale_by_frequency, const View& grad_weight);
// Rows of weight with p-norm over max_norm are scaled down to it, if `index` names them.
void embedding_renorm(const View& weight, const View& index, double max_norm, double p);

enum class Bag { Sum, Mean, Max };

// Bag b covers index[offsets[b] : offsets[b + 1]], the last one up to index.numel; index and
// offsets are 1-D. out: (bags, width). sample_weights: 1-D, for Sum only, may be null. Indices
// equal to padding_idx (-1: none) count for nothing. An empty bag gives 0. max_indices (int64,
// out's sizes; null unless Max) gets the weight row each maximum came from, -1 for an empty bag.
void embedding_bag(const View& weight, const View& index, const View& offsets, Bag mode,
                   const View* sample_weights, int64_t padding_idx, const View& out,
                   const View* max_indices);
// grad: (bags, width). grad_weight is set to zero here first.
void embedding_bag_backward(const View& grad, const View& index, const View& offsets, Bag mode,
                            const View* sample_weights, int64_t padding_idx,
                            bool scale_by_frequency, const View* max_indices,
                            const View& grad_weight);
// The gradient of the sample weights: out[i] = dot(grad[bag of i], weight[index[i]]).
void embedding_bag_sample_weights_backward(const View& grad, const View& weight, const View& index,
                                           const View& offsets, int64_t padding_idx,
                                           const View& out);

}  // namespace rl::kernels
