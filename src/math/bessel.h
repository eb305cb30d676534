// Modified Bessel functions of the first kind, by Chebyshev series in double: of exp(-x) I(x) on
// [0, 8] (for I1 divided by x) and of exp(-x) sqrt(x) I(x) in 1/x beyond.
#pragma once
#include "math/exponential.h"

namespace rl::math {
namespace bessel {
inline constexpr double i0_small[] = {
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,
    6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13,
    7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16,
    3.3307945188222384e-17, -4.4153416464793395e-18};
inline constexpr double i0_large[] = {
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11,
    -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.811680669352621e-15, 1.7725601330565245e-15,
    -3.425485619677142e-16, -2.827623980516646e-16, 3.461222867695658e-17, 4.465621420302078e-17,
    -4.8305044859640105e-18, -7.233180488043844e-18};
inline constexpr double i1_small[] = {
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05,
    3.4702513081376785e-06, -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08,
    9.381537386495773e-09, -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14,
    7.600684294735408e-15, -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,
    2.7779141127610464e-18};
inline constexpr double i1_large[] = {
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14,
    4.2724400167119517e-14, 1.0420276984128802e-14, -3.814403072437007e-15, -1.8803547755107805e-15,
    3.30820231092085e-16, 2.9626289976460157e-16, -3.209525921991637e-17, -4.6503053684947827e-17,
    4.414348323093937e-18, 7.517296311011398e-18};

template <int n> RL_INLINE double clenshaw(double t, const double (&coefficients)[n]) {
  double b1 = 0, b2 = 0;
  for (int i = n - 1; i > 0; --i) {
    double b0 = coefficients[i] + 2 * t * b1 - b2;
    b2 = b1;
    b1 = b0;
  }
  return coefficients[0] + t * b1 - b2;
}
}  // namespace bessel

// exp(-|x|) I0(x)
RL_INLINE double i0e(double x) {
  double a = magnitude(x);
  return a <= 8 ? bessel::clenshaw(a / 4 - 1, bessel::i0_small)
                : bessel::clenshaw(16 / a - 1, bessel::i0_large) / sqrt(a);
}
// exp(-|x|) I1(x)
RL_INLINE double i1e(double x) {
  double a = magnitude(x);
  return a <= 8 ? x * bessel::clenshaw(a / 4 - 1, bessel::i1_small)
                : copysign(bessel::clenshaw(16 / a - 1, bessel::i1_large) / sqrt(a), x);
}
RL_INLINE double i0(double x) { return i0e(x) * exp(magnitude(x)); }
RL_INLINE double i1(double x) { return i1e(x) * exp(magnitude(x)); }
RL_INLINE float i0e(float x) { return static_cast<float>(i0e(static_cast<double>(x))); }
RL_INLINE float i1e(float x) { return static_cast<float>(i1e(static_cast<double>(x))); }
RL_INLINE float i0(float x) { return static_cast<float>(i0(static_cast<double>(x))); }
RL_INLINE float i1(float x) { return static_cast<float>(i1(static_cast<double>(x))); }

#define RL_BESSEL(name, builtin)                                \
  RL_INLINE float name(float x) { return __builtin_##builtin##f(x); } \
  RL_INLINE double name(double x) { return __builtin_##builtin(x); }
RL_BESSEL(bessel_j0, j0)
RL_BESSEL(bessel_j1, j1)
RL_BESSEL(bessel_y0, y0)
RL_BESSEL(bessel_y1, y1)
#undef RL_BESSEL

}  // namespace rl::math
