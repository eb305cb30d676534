// All of src/math. Generated kernels include this one and say `using namespace rl::math`.
#pragma once
#include "math/arithmetic.h"
#include "math/complex.h"
#include "math/exponential.h"
#include "math/hyperbolic.h"
#include "math/incomplete_gamma.h"
#include "math/polynomials.h"
#include "math/special.h"
#include "math/trigonometric.h"
