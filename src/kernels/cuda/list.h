// The kernels that there are, by the names of ops/kernels.py.
#pragma once

// clang-format off
#define RL_CUDA_KERNELS(X) \
  X(run_loop) X(copy) X(conj_copy) X(fill) \
  X(sum) X(nansum) X(mean) X(prod) X(all) X(any) X(count_nonzero) X(amax) X(amin) X(max_with_index) \
  X(min_with_index) X(norm) X(var) X(logsumexp) \
  X(softmax) X(log_softmax) X(softmax_backward) X(log_softmax_backward) X(cross_entropy) \
  X(cross_entropy_backward) X(nll_loss) X(nll_loss_backward) \
  X(gemm) X(matvec) X(dot) X(gemm_groups) \
  X(uniform) X(normal) X(bernoulli) X(bernoulli_each) X(geometric) X(exponential) X(cauchy) \
  X(log_normal) X(random_from_to) X(random_from) X(random_natural) X(arange) X(linspace) \
  X(fused_sgd) X(fused_adam) X(fused_adagrad) X(fused_adadelta) X(fused_adamax) X(fused_nadam) \
  X(fused_radam) X(fused_rmsprop) X(fused_rprop) X(fused_asgd) \
  X(unfold) X(fold) X(conv_forward) X(conv_backward_input) X(conv_backward_weight) \
  X(max_pool) X(max_pool_backward) X(max_unpool) X(avg_pool) X(avg_pool_backward) \
  X(adaptive_avg_pool) X(adaptive_avg_pool_backward) X(adaptive_max_pool) \
  X(gather) X(scatter) X(index_select) X(index_combine) X(take) X(put) X(index) X(index_put) \
  X(count_true) X(masked_select) X(masked_scatter) X(nonzero) X(flip) X(roll) X(tril) X(triu) \
  X(embedding) X(embedding_backward) \
  X(layer_norm) X(layer_norm_backward) X(rms_norm) X(rms_norm_backward) X(group_norm) \
  X(group_norm_backward) X(batch_norm_train) X(batch_norm_eval) X(batch_norm_backward) \
  X(cumsum) X(cumprod) X(logcumsumexp) X(cummax) X(cummin) \
  X(cumprod_backward) X(logcumsumexp_backward) X(sort) X(topk) X(kthvalue) X(median) \
  X(mode) X(unique) X(unique_consecutive) X(unique_rows) \
  X(searchsorted) X(histc) X(bincount_size) X(bincount) X(randperm) \
  X(multinomial) X(poisson) X(binomial) X(standard_gamma) X(dirichlet) \
  X(dropout) X(dropout_backward) \
  X(interpolate) X(interpolate_backward) X(grid_sample) X(grid_slopes) X(grid_scatter) \
  X(pad) X(pad_backward) X(pair_distances) X(pair_distance_gradient) X(own_distances) \
  X(own_distance_gradient) X(ctc_loss) X(ctc_loss_backward) \
  X(embedding_bag) X(embedding_bag_backward) X(embedding_bag_sample_weights_backward) \
  X(embedding_renorm) X(fft) X(fft_from_real) X(fft_to_real) \
  X(attention) X(attention_backward) X(attention_kept) \
  X(recurrent_forward) X(recurrent_backward) X(gemm_bytes) X(largest_magnitude) \
  X(batch_norm_apply) \
  X(cholesky) X(lu_factor) X(lu_solve) X(lu_permutation) X(ldl_factor) X(ldl_solve) \
  X(solve_triangular) X(inverse) X(lu_slogdet) X(lu_det) X(qr) X(geqrf) X(householder_product) \
  X(ormqr) X(eigh) X(eig) X(svd) X(lstsq)
// clang-format on
