// Bessel functions and their relatives, by Chebyshev series in double.
//
// First kind, modified: exp(-x) I(x) on [0, 8] (for I1 divided by x), exp(-x) sqrt(x) I(x) in 1/x
// beyond. Second kind, modified: on (0, 2] what its logarithm leaves, in x^2 (for K1 times x), and
// exp(x) sqrt(x) K(x) in 1/x beyond. Airy's Ai is exp(-z) / x^(1/4), z = 2/3 x^(3/2), times a
// series in 1/z from 2 on, and one series on [-10, -2].
#pragma once
#include "math/exponential.h"
#include "math/trigonometric.h"

namespace rl::math {
namespace bessel {
inline constexpr double i0_small[] = {
    0.33839763720473803,    -0.3046826723431984,     0.17162090152220877,    -0.09490109704804764,
    0.04930528423967071,    -0.02373741480589947,    0.010546460394594998,   -0.004324309995050576,
    0.0016394756169413357,  -0.0005763755745385824,  0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,
    6.046995022541919e-08,  -1.300025009986248e-08,  2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11,  -1.726826291441556e-11,  2.95505266312964e-12,   -4.856446783111929e-13,
    7.676185498604936e-14,  -1.1685332877993451e-14, 1.715391285555133e-15,  -2.431279846547955e-16,
    3.3307945188222384e-17, -4.4153416464793395e-18};
inline constexpr double i0_large[] = {
    0.4022452055070544,      0.0033691164782556943,   6.889758346916825e-05,
    2.8913705208347567e-06,  2.0489185894690638e-07,  2.266668990498178e-08,
    3.3962320257083865e-09,  4.94060238822497e-10,    1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13,   3.8527783827421426e-13,  1.54008621752141e-14,
    -4.150569347287222e-14,  -9.554846698828307e-15,  3.811680669352621e-15,
    1.7725601330565245e-15,  -3.425485619677142e-16,  -2.827623980516646e-16,
    3.461222867695658e-17,   4.465621420302078e-17,   -4.8305044859640105e-18,
    -7.233180488043844e-18};
inline constexpr double i1_small[] = {
    0.12629359322181682,     -0.17641651835783406,    0.1026436586898471,
    -0.05294598120809499,    0.024726449030626516,    -0.010564084894626197,
    0.004156422944312888,    -0.0015135724506312532,  0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05,   -1.3273163656039436e-05,
    3.4702513081376785e-06,  -8.568720264695455e-07,  2.0032947535521353e-07,
    -4.445059128796328e-08,  9.381537386495773e-09,   -1.8872497517228294e-09,
    3.625590281552117e-10,   -6.663489723502027e-11,  1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13,   -5.042185504727912e-14,
    7.600684294735408e-15,   -1.1055969477353862e-15, 1.5536319577362005e-16,
    -2.111421214358166e-17,  2.7779141127610464e-18};
inline constexpr double i1_large[] = {
    0.38928811750914005,     -0.009761097491361469,   -0.00011058893876262371,
    -3.882564808877691e-06,  -2.512236237870209e-07,  -2.6314688468895196e-08,
    -3.835380385964237e-09,  -5.589743462196584e-10,  -1.8974958123505413e-11,
    3.2526035830154884e-11,  1.4125807436613782e-11,  2.0356285441470896e-12,
    -7.198551776245908e-13,  -4.0835511110921974e-13, -2.1015418427726643e-14,
    4.2724400167119517e-14,  1.0420276984128802e-14,  -3.814403072437007e-15,
    -1.8803547755107805e-15, 3.30820231092085e-16,    2.9626289976460157e-16,
    -3.209525921991637e-17,  -4.6503053684947827e-17, 4.414348323093937e-18,
    7.517296311011398e-18};
inline constexpr double k0_small[] = {
    -0.2676636966169514,    0.3442898999246285,     0.0359799365153615,    0.001264615411446926,
    2.286212103119452e-05,  2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11,
    4.2598161427910826e-14, 1.3744654358807508e-16, 3.5708965285083736e-19};
inline constexpr double k1_small[] = {
    0.7626501136694739,     -0.3531559607765449,     -0.12261118082265715,
    -0.006975723859639864,  -0.0001730288957513052,  -2.4334061415659684e-06,
    -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
    -2.427449850519366e-15, -7.023863479386288e-18};
inline constexpr double k0_large[] = {
    1.2201515410329777,      -0.0314481013119645,    0.0015698838857300533,
    -0.00012849549581627802, 1.39498137188765e-05,   -1.8317555227191195e-06,
    2.766813639445015e-07,   -4.660489897687948e-08, 8.574034017414225e-09,
    -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
    1.8559491149549264e-11,  -4.514597883374519e-12, 1.1403405882073441e-12,
    -2.9800969231481784e-13, 8.032890775068375e-14,  -2.2275133267462965e-14,
    6.340076476276646e-15,   -1.848593377920907e-15, 5.5120559994043335e-16,
    -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17,
    5.3004337711773354e-18,  -1.7331712005821001e-18};
inline constexpr double k1_large[] = {
    1.3603130952422213,      0.10392373657681724,     -0.002857816859622779,
    0.00019521551847135162,  -1.936197974166083e-05,  2.406484947837217e-06,
    -3.5019606030878126e-07, 5.7410841254500495e-08,  -1.0345762465678097e-08,
    2.0150497551970347e-09,  -4.1903547593419254e-10, 9.218315187605315e-11,
    -2.129967838427791e-11,  5.139639673482343e-12,   -1.2891739609498229e-12,
    3.348419666052243e-13,   -8.976705182010146e-14,  2.4771544242195988e-14,
    -7.0198370892147685e-15, 2.038703166239861e-15,   -6.057047270643018e-16,
    1.8380935752430455e-16,  -5.689462849193648e-17,  1.7940510478863572e-17,
    -5.7567444820733025e-18, 1.8778651901623268e-18};
inline constexpr double ai_decaying[] = {
    0.2776956095117059,     -0.004172967562045923,  0.00020669586013998011, -1.7280997841068207e-05,
    1.928052166797157e-06,  -2.605774398776262e-07, 4.051516883512395e-08,  -7.022240440986223e-09,
    1.3286081997701028e-09, -2.703558037129289e-10, 5.852297782838998e-11,  -1.3363584416519756e-11,
    3.1978547149289153e-12, -7.976813559559603e-13, 2.0651347541109665e-13, -5.52899978215978e-14,
    1.526165619010181e-14,  -4.331979304955806e-15, 1.2616239319898747e-15, -3.7626070399357594e-16,
    1.1471616156264618e-16, -3.570144365109208e-17, 1.1326462271400218e-17, -3.658761589006902e-18,
    1.2021046148071358e-18, -4.0132972758830535e-19};
inline constexpr double ai_middle[] = {
    0.011951416944525393,   -0.07670378610974235,    0.06400376411828754,
    0.025149629911051432,   0.1352994196770946,      0.12983787965464516,
    0.027465633666970746,   0.027654652886693547,    -0.21026253144498783,
    0.017256894478785027,   0.13783856755912988,     -0.04820032004296656,
    -0.035536350729055165,  0.023330113623138502,    0.0024419769859217173,
    -0.005353843194992363,  0.0008526569095092498,   0.0006388497009348878,
    -0.0002628080698308437, -2.2980728393190578e-05, 3.494497080836842e-05,
    -4.82494548842064e-06,  -2.392709478248996e-06,  9.00927914728521e-07,
    2.4801863637320466e-08, -7.423668302304801e-08,  1.1871040205798972e-08,
    2.8999778184721816e-09, -1.2714784421426533e-09, 4.5235147263716954e-11,
    6.498184884611493e-11,  -1.3305063449652435e-11, -1.1664629186820219e-12,
    8.412988980379253e-13,  -7.8813079364393e-14,    -2.5352467162251877e-14,
    7.270156451671758e-15,  -5.903303384406516e-17,  -2.7758602113102895e-16,
    4.299390158312828e-17,  3.883126677342576e-18,   -2.0616587936484366e-18};

// By recursion, not in a loop: gcc then vectorises loops around it.
template <int i, int n>
RL_INLINE double clenshaw_step(double t, const double (&coefficients)[n], double b1, double b2) {
  if constexpr (i == 0) return mul_add(t, b1, coefficients[0]) - b2;
  else return clenshaw_step<i - 1>(t, coefficients, mul_add(2 * t, b1, coefficients[i]) - b2, b1);
}
template <int n> RL_INLINE double clenshaw(double t, const double (&coefficients)[n]) {
  return clenshaw_step<n - 1>(t, coefficients, 0.0, 0.0);
}
// Chebyshev's polynomials grow outside of [-1, 1], where only what is not chosen is asked for.
RL_INLINE double held(double t) {
  t = t < -1.0 ? -1.0 : t;
  return t > 1.0 ? 1.0 : t;
}
}  // namespace bessel

// exp(-|x|) I0(x)
RL_INLINE double i0e(double x) {
  double a = magnitude(x);
  double small = bessel::clenshaw(bessel::held(a / 4 - 1), bessel::i0_small);
  double large = bessel::clenshaw(bessel::held(16 / a - 1), bessel::i0_large) / sqrt(a);
  return a <= 8 ? small : large;
}
// exp(-|x|) I1(x)
RL_INLINE double i1e(double x) {
  double a = magnitude(x);
  double small = x * bessel::clenshaw(bessel::held(a / 4 - 1), bessel::i1_small);
  double large = bessel::clenshaw(bessel::held(16 / a - 1), bessel::i1_large) / sqrt(a);
  return a <= 8 ? small : copysign(large, x);
}
RL_INLINE double i0(double x) { return i0e(x) * exp(magnitude(x)); }
RL_INLINE double i1(double x) { return i1e(x) * exp(magnitude(x)); }
RL_INLINE float i0e(float x) { return static_cast<float>(i0e(static_cast<double>(x))); }
RL_INLINE float i1e(float x) { return static_cast<float>(i1e(static_cast<double>(x))); }
RL_INLINE float i0(float x) { return static_cast<float>(i0(static_cast<double>(x))); }
RL_INLINE float i1(float x) { return static_cast<float>(i1(static_cast<double>(x))); }

// exp(x) K0(x)
RL_INLINE double scaled_modified_bessel_k0(double x) {
  double large = bessel::clenshaw(bessel::held(4 / x - 1), bessel::k0_large) / sqrt(x);
  double b = x > 2 ? 2.0 : x, z = 0.5 * b * b - 1;
  double i = bessel::clenshaw(b / 4 - 1, bessel::i0_small) * exp_normal(b);
  double small = exp_normal(b) * mul_add(-log(0.5 * b), i, bessel::clenshaw(z, bessel::k0_small));
  double y = x > 2 ? large : small;
  y = x == 0 ? infinity<double> : y;
  return x < 0 ? quiet_nan<double> : y;
}
// exp(x) K1(x)
RL_INLINE double scaled_modified_bessel_k1(double x) {
  double large = bessel::clenshaw(bessel::held(4 / x - 1), bessel::k1_large) / sqrt(x);
  double b = x > 2 ? 2.0 : x, z = 0.5 * b * b - 1;
  double i = b * bessel::clenshaw(b / 4 - 1, bessel::i1_small) * exp_normal(b);
  double small =
      exp_normal(b) * mul_add(log(0.5 * b), i, bessel::clenshaw(z, bessel::k1_small) / b);
  double y = x > 2 ? large : small;
  y = x == 0 ? infinity<double> : y;
  return x < 0 ? quiet_nan<double> : y;
}
RL_INLINE double modified_bessel_k0(double x) { return exp(-x) * scaled_modified_bessel_k0(x); }
RL_INLINE double modified_bessel_k1(double x) { return exp(-x) * scaled_modified_bessel_k1(x); }

// sin(x) / x
RL_INLINE double spherical_bessel_j0(double x) { return x == 0 ? 1 : isinf(x) ? 0 : sin(x) / x; }

// Ai(x), the solution of y'' = x y that falls to 0 for large x.
RL_OUTLINED double airy_ai(double x) {
  constexpr double at_zero = 0.35502805388781723926, slope_at_zero = -0.25881940379280679840;
  constexpr double first_decaying = 1.8856180831641267317;  // 2/3 2^(3/2)
  if (isinf(x)) return 0;
  if (magnitude(x) < 2) {  // the Taylor series of the two solutions, whose terms step by x^3
    double cube = x * x * x, even = at_zero, odd = slope_at_zero * x, sum = even + odd;
    for (int k = 3; k <= 42; k += 3) {
      even *= cube / (k * (k - 1));
      odd *= cube / (k * (k + 1));
      sum += even + odd;
    }
    return sum;
  }
  double a = magnitude(x), root = sqrt(a), z = 2.0 / 3 * a * root;
  if (x > 0) {
    double series = bessel::clenshaw(2 * first_decaying / z - 1, bessel::ai_decaying);
    return exp(-z) * series / sqrt(root);
  }
  if (x >= -10) return bessel::clenshaw((x + 6) / 4, bessel::ai_middle);
  double w =
      1 / (z * z);  // the asymptotic series, its coefficients (6k - 1)!! / (216^k k! (2k - 1)!!)
  double in_phase = polynomial(w, 1.0, -0.037133487654320986, 0.05764919041266972,
                               -0.2915913992307505, 3.079453030173167, -55.62278536591708,
                               1533.1694320127956, -59892.51356587907, 3148257.4178668265);
  double shifted = polynomial(w, 0.06944444444444445, -0.03799305912780064, 0.11609906402551541,
                              -0.8776669695100169, 12.341573332345238, -278.46508077760257,
                              9207.206599726414, -419524.87511655106, 25198919.871602368);
  double phase = z - 0.78539816339744830962;
  return 0.56418958354775628695 * (cos(phase) * in_phase + sin(phase) * shifted / z) / sqrt(root);
}
#define RL_THROUGH_DOUBLE(name) \
  RL_INLINE float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }
RL_THROUGH_DOUBLE(scaled_modified_bessel_k0)
RL_THROUGH_DOUBLE(scaled_modified_bessel_k1)
RL_THROUGH_DOUBLE(modified_bessel_k0)
RL_THROUGH_DOUBLE(modified_bessel_k1)
RL_THROUGH_DOUBLE(spherical_bessel_j0)
RL_THROUGH_DOUBLE(airy_ai)
#undef RL_THROUGH_DOUBLE

}  // namespace rl::math
