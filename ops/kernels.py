"""The kernels that a backend provides, by the header of src/kernels that describes them.

Each is one slot of the generated KernelTable: a backend fills it, or calls of the kernel on its
device raise an error that names both. Kernels see views and numbers, never tensors.
"""

# What the CPU needs no kernel for: it draws numbers before it uses them, not within.
NOT_ON_CPU = {"attention_kept", "dropout", "dropout_backward"}

KERNELS = {
    "attention": "attention attention_backward attention_kept",
    "batch_norm": "batch_norm_train batch_norm_eval batch_norm_apply batch_norm_backward",
    "conv": "conv_forward conv_backward_input conv_backward_weight",
    "copy": "copy conj_copy fill",
    "cross_entropy": "cross_entropy cross_entropy_backward",
    "ctc_loss": "ctc_loss ctc_loss_backward",
    "distance": "pair_distances pair_distance_gradient own_distances own_distance_gradient",
    "elementwise": "run_loop find_strip",
    "embedding": "embedding embedding_backward embedding_renorm embedding_bag "
    "embedding_bag_backward embedding_bag_sample_weights_backward",
    "fft": "fft fft_from_real fft_to_real",
    "gemm": "gemm gemm_bytes gemm_groups matvec dot",
    "index": "gather scatter index_select index_combine take put index index_put count_true "
    "masked_select masked_scatter nonzero flip roll tril triu",
    "interpolate": "interpolate interpolate_backward grid_sample grid_slopes grid_scatter",
    "linalg": "cholesky lu_factor lu_solve lu_permutation ldl_factor ldl_solve solve_triangular "
    "inverse lu_slogdet lu_det qr geqrf householder_product ormqr eigh eig svd lstsq",
    "magnitude": "largest_magnitude",
    "nll_loss": "nll_loss nll_loss_backward",
    "norm": "layer_norm layer_norm_backward rms_norm rms_norm_backward group_norm "
    "group_norm_backward",
    "optim": "fused_sgd fused_adam fused_adagrad fused_adadelta fused_adamax fused_nadam "
    "fused_radam fused_rmsprop fused_rprop fused_asgd",
    "padding": "pad pad_backward",
    "pooling": "max_pool max_pool_backward max_unpool avg_pool avg_pool_backward "
    "adaptive_avg_pool adaptive_avg_pool_backward adaptive_max_pool",
    "random": "uniform normal bernoulli bernoulli_each geometric exponential cauchy log_normal "
    "random_from_to random_from random_natural randperm multinomial poisson binomial "
    "standard_gamma dirichlet dropout dropout_backward",
    "range": "arange linspace",
    "recurrent": "recurrent_forward recurrent_backward",
    "reduce": "sum nansum mean prod all any count_nonzero amax amin max_with_index min_with_index "
    "norm var logsumexp",
    "scan": "cumsum cumprod logcumsumexp cummax cummin cumprod_backward logcumsumexp_backward",
    "softmax": "softmax log_softmax softmax_backward log_softmax_backward",
    "sort": "sort topk kthvalue median mode unique unique_consecutive unique_rows searchsorted "
    "histc bincount_size bincount",
    "unfold": "unfold fold",
}
