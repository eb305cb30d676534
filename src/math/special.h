// The special functions, of which those with a file of their own are listed here.
#pragma once
#include "math/bessel.h"
#include "math/error_function.h"
#include "math/gamma_function.h"
#include "math/ordinary_bessel.h"

namespace rl::math {

// -x log(x), with 0 at 0 and -inf below.
template <class T> RL_INLINE T entr(T x) {
  return x > T(0) ? -x * log(x) : x == T(0) ? T(0) : isnan(x) ? x : -infinity<T>;
}

}  // namespace rl::math
