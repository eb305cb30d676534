// Moving elements: any dtype to any dtype, any strides to any strides.
#pragma once
#include "core/scalar.h"
#include "core/view.h"

namespace rl::kernels {

// to[i] = convert(from[i]). Both have the same sizes; strides are free (0 and negative too, though
// `to` must not write one place twice). The two must not overlap unless they are the same view.
void copy(const View& from, const View& to);
// to[i] = conj(from[i]); the same as copy where `from` is real.
void conj_copy(const View& from, const View& to);

// Every element of `to` becomes `value`, converted to its dtype.
void fill(const View& to, const Scalar& value);

}  // namespace rl::kernels
