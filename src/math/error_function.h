// Error functions and the normal distribution.
//
// The polynomials are of our own, as in exponential.h. All is branch-free, and rests on one
// function, exp(t^2) erfc(t) for t >= 0: it falls slowly, like 1 / (1 + 2t), so that its argument
// may be rounded, and what falls fast is an exponential of a square known to more bits than fit
// into one number.
#pragma once
#include "math/exponential.h"

namespace rl::math {

inline constexpr double sqrt_half = 0.70710678118654752440;

// A function of double for float too.
#define RL_THROUGH_DOUBLE(name) \
  RL_INLINE float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }

// exp(t^2) erfc(t) (1 + 2t) in u = (t - c) / (t + c) for t from 0 to infinity
template <class T> inline constexpr T scaled_erfc_centre = sizeof(T) == 4 ? T(3) : T(4);
RL_INLINE float scaled_erfc_polynomial(float u) {
  return polynomial(u, 1.253008008e+00f, -1.356210560e-01f, -4.756218567e-02f, 1.296438575e-01f,
                    -1.192750335e-01f, 6.831814349e-02f, -2.376431413e-02f, 2.495275578e-03f,
                    1.875985530e-03f, -7.223977591e-04f, -9.292969480e-05f, 7.576722419e-05f);
}
RL_INLINE double scaled_erfc_polynomial(double u) {
  return polynomial(u, 1.2329951186255526, -0.1396211168405625, 0.015379652102619629,
                    0.06809705425468948, -0.10103906603630167, 0.09373283499846594,
                    -0.0663303658121672, 0.037167515535536724, -0.01619773405998116,
                    0.00503196999578569, -0.0007577732603840589, -0.00019925679105700718,
                    0.0001506214865968113, -2.4398895499951935e-05, -1.1221279233456698e-05,
                    5.709100323465341e-06, 2.91961499055453e-07, -8.247654474650811e-07,
                    7.74818473838066e-08, 1.0994671288604718e-07, -2.0568272363584575e-08,
                    -1.4615467190826214e-08, 3.1723928514941836e-09, 1.756334435060262e-09,
                    -2.664120461605877e-10, -1.320582312237924e-10);
}
// exp(t^2) erfc(t) for 0 <= t <= 2^30
template <class T> RL_INLINE T scaled_erfc(T t) {
  constexpr T c = scaled_erfc_centre<T>;
  T slope = mul_add(T(2), t, T(1)), inverse = T(1) / (slope * (t + c));
  T u = (t - c) * slope * inverse;
  return scaled_erfc_polynomial(u) * (t + c) * inverse;
}

// ---- the error function ----

// erf(x) for |x| <= 0.92 (float) or 1 (double)
RL_INLINE float erf_of_small(float x) {
  float share =
      polynomial(x * x, 1.283791661e-01f, -3.761263490e-01f, 1.128369421e-01f, -2.685927041e-02f,
                 5.200634245e-03f, -8.137439145e-04f, 8.345230890e-05f);
  return mul_add(x, share, x);
}
RL_INLINE double erf_of_small(double x) {
  double share = polynomial(x * x, 0.12837916709551256, -0.3761263890318352, 0.11283791670944185,
                            -0.02686617064311144, 0.005223977606118296, -0.0008548325929306829,
                            0.00012055293576686918, -1.4924712298094114e-05, 1.6447131524503547e-06,
                            -1.6206313408057644e-07, 1.37109789045861e-08, -7.779465729549996e-10);
  return mul_add(x, share, x);
}
// log2(erfc(t)) from there to 4 (float) or 6 (double)
RL_INLINE float log2_erfc(float t) {
  return polynomial(t, 2.520150156e-04f, -1.629545569e+00f, -9.137264490e-01f, -1.562151313e-01f,
                    3.623966128e-02f, -6.017566659e-03f, 6.267959252e-04f, -3.043362085e-05f);
}
RL_INLINE double log2_erfc(double t) {
  return polynomial(t, -7.255511979920349e-07, -1.6278997022470594, -0.9184826091991007,
                    -0.1481697312203677, 0.02739701421611654, 0.0005924431066514811,
                    -0.002764156916795339, 0.001111832556545285, -0.00019485593510547191,
                    -2.9228490485990763e-05, 3.292176593430689e-05, -1.2502747094618896e-05,
                    3.0808025968029537e-06, -5.385005842873312e-07, 6.696561688702909e-08,
                    -5.675139765728456e-09, 2.94979638603551e-10, -7.109267467872938e-12);
}
template <class T> RL_INLINE T erf_of(T x) {
  constexpr T end = sizeof(T) == 4 ? T(4) : T(6);
  T a = magnitude(x), b = a > end ? end : a;
  T large = copysign(less_exp2_normal(T(1), log2_erfc(b)), x);
  return a < (sizeof(T) == 4 ? T(0.92) : T(1)) ? erf_of_small(x) : large;
}
RL_INLINE float erf(float x) { return erf_of(x); }
RL_INLINE double erf(double x) { return erf_of(x); }

template <class T> RL_INLINE T erfc_from(T x, T tail) {  // given erfc(|x|)
  T large = x < T(0) ? T(2) - tail : tail;
  return magnitude(x) < T(0.5) ? T(1) - erf_of_small(x) : large;
}
// x times the share of the normal distribution below x.
RL_INLINE double gelu(double x) { return 0.5 * x * (1.0 + erf(x * sqrt_half)); }
// By log2 of the tail, to 2^-26 beside 1: the negative side keeps digits that 1 + erf has lost.
// Below -10, where it is less than 1e-22, it is -0.
RL_INLINE float gelu(float x) {
  float a = magnitude(x), b = a > 10.0f ? 0.0f : a;
  float tail = exp2_of_number(polynomial(b, -9.999999344e-01f, -1.151107841e+00f, -4.591903733e-01f,
                                         -5.253686385e-02f, 7.096251846e-03f, -1.315286579e-04f,
                                         -2.105643554e-04f, 5.451658928e-05f, -6.879340868e-06f,
                                         4.517369050e-07f, -1.222022127e-08f));
  return mul_add(-b, tail, x > 0.0f ? x : copysign(0.0f, x));
}

// From 10.1 (float) or 27.3 (double) on it is 0.
template <class T> RL_INLINE T erfc_of(T x) {
  constexpr T end = sizeof(T) == 4 ? T(10.5) : T(27.5);
  T a = magnitude(x), b = a > end ? end : a;
  return erfc_from(x, exp_of_square(b, T(1)) * scaled_erfc(b));
}
RL_INLINE float erfc(float x) { return erfc_of(x); }
RL_INLINE double erfc(double x) { return erfc_of(x); }
template <class T> RL_INLINE T fast_erfc(T x) {
  T a = magnitude(x);
  return erfc_from(x, exp_of_square_normal(a, T(1)) * scaled_erfc(a));
}
template <class T> RL_INLINE typename Format<T>::Int erfc_needs_slow_path(T x) {
  return magnitude(x) <= (sizeof(T) == 4 ? T(9) : T(26)) ? 0 : 1;
}

// exp(x^2) erfc(x)
RL_INLINE double erfcx(double x) {
  constexpr double far = 0x1p30;  // from here on 1 / (sqrt(pi) x)
  double a = magnitude(x), b = a > far ? far : a;
  double of_positive = scaled_erfc(b) * (b / a);
  of_positive = a > far ? of_positive : scaled_erfc(b);
  double of_negative = mul_add(2.0, exp(x * x), -of_positive);
  return x < 0 ? of_negative : of_positive;
}
RL_THROUGH_DOUBLE(erfcx)

// ---- the normal distribution ----

template <class T> RL_INLINE T normal_cdf(T x) {
  constexpr T end = sizeof(T) == 4 ? T(14.5) : T(39);  // from here on its lower tail is 0
  T a = magnitude(x), b = a > end ? end : a;
  T tail = T(0.5) * exp_of_square(b, T(0.5)) * scaled_erfc(b * T(sqrt_half));
  T large = x > T(0) ? T(1) - tail : tail;
  return a < T(0.7) ? mul_add(T(0.5), erf_of_small(x * T(sqrt_half)), T(0.5)) : large;
}
RL_INLINE float ndtr(float x) { return normal_cdf(x); }
RL_INLINE double ndtr(double x) { return normal_cdf(x); }
RL_INLINE double log_ndtr(double x) {
  double a = magnitude(x), b = a > 39 ? 39 : a;
  double half_scaled = 0.5 * erfcx(a * sqrt_half);
  double of_positive = log1p(-half_scaled * exp_of_square(b, 0.5));
  double of_negative = mul_add(-0.5 * x, x, log(half_scaled));
  return x > 0 ? of_positive : of_negative;
}
RL_THROUGH_DOUBLE(log_ndtr)

// The normal quantile of p = 1/2 + centre, given the smaller tail min(p, 1 - p): Wichura's
// algorithm AS 241 (PPND16), relative error about 1e-16.
RL_INLINE double normal_quantile(double centre, double tail) {
  double q = magnitude(centre) <= 0.425 ? centre : 0.0, c = mul_add(-q, q, 0.180625);
  double middle =
      q *
      polynomial(c, 3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                 1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                 3.3430575583588128105e4, 2.5090809287301226727e3) /
      polynomial(c, 1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
                 2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
                 5.2264952788528545610e3);
  double distance = sqrt(-log(tail)), r = distance - 1.6, s = distance - 5;
  double up =
      polynomial(r, 1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                 3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                 2.27238449892691845833e-2, 7.74545014278341407640e-4);
  double down =
      polynomial(r, 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0,
                 6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2,
                 5.47593808499534494600e-4, 1.05075007164441684324e-9);
  double far_up =
      polynomial(s, 6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                 2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                 2.71155556874348757815e-5, 2.01033439929228813265e-7);
  double far_down =
      polynomial(s, 1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
                 1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
                 1.42151175831644588870e-7, 2.04426310338993978564e-15);
  up = distance <= 5 ? up : far_up;
  down = distance <= 5 ? down : far_down;
  double outer = tail == 0 ? infinity<double> : up / down;
  outer = copysign(outer, centre);
  outer = tail < 0 ? quiet_nan<double> : outer;
  return magnitude(centre) <= 0.425 ? middle : outer;
}
RL_INLINE double ndtri(double p) { return normal_quantile(p - 0.5, fmin(p, 1 - p)); }
RL_THROUGH_DOUBLE(ndtri)

// erfinv(x) / x in w = -log(1 - x^2), near for w below 5 (float) and 6.25 (double), then in its
// root.
RL_INLINE float erfinv_ratio(float w) {
  return polynomial(w - 2.5f, 1.501409411e+00f, 2.466402948e-01f, -4.177339375e-03f,
                    -1.252744696e-03f, 2.182826429e-04f, -4.961897048e-06f, -3.434616929e-06f,
                    4.658894568e-07f, 1.803819139e-08f, -8.772661708e-09f, 3.354736766e-10f);
}
RL_INLINE double erfinv_ratio(double w) {
  return polynomial(w - 3.125, 1.6536545626831027, 0.24015818242558834, -0.006033670871426996,
                    -0.0007407025341545543, 0.0001867342080205283, -1.3882523394197347e-05,
                    -1.3654691772622128e-06, 4.234788171206017e-07, -2.9070389897047268e-08,
                    -4.112660643007279e-09, 1.0512225675953422e-09, -5.414294619373738e-11,
                    -1.2978504374792547e-11, 2.630503435938278e-12, -8.079287587598445e-14,
                    -4.0015894290068746e-14, 6.533336011048877e-15, -3.987840885234743e-17,
                    -1.234481467525289e-16, 1.5545230698107734e-17, 6.956274281690206e-19,
                    -3.4876622512872292e-19, 1.6540666923002442e-20, 3.2193949395991147e-21,
                    -3.001828454190807e-22);
}
RL_INLINE float far_erfinv_ratio(float w) {
  return polynomial(sqrt(w) - 3.0f, 2.832976818e+00f, 1.001675248e+00f, 9.445267729e-03f,
                    -7.642839570e-03f, 5.688041449e-03f, -3.566572443e-03f, 1.473915181e-03f,
                    -1.212318530e-04f, -2.756814938e-04f, 1.614133653e-04f, -3.055209527e-05f);
}
RL_INLINE double far_erfinv_ratio(double w) {
  double root = sqrt(w);
  double middle = polynomial(
      root - 3.25, 3.0838856104922208, 1.0052589676941655, 0.005370914553555088,
      -0.003751208508223808, 0.0024914420979535003, -0.0016882755354779837, 0.0009532893416619757,
      -0.0003550378133690711, 2.403151187512432e-05, 6.828711417353158e-05, -4.7320673884803476e-05,
      1.2465042841861608e-05, 2.932550341362034e-06, -3.985746047612923e-06, 1.4816696596050622e-06,
      -2.7551805091216473e-08, -2.4560889508896985e-07, 1.3152840234518407e-07,
      -2.0820350461114327e-08, -1.5283555738023738e-08, 7.646212643786527e-09);
  double far = polynomial(root - 5.0, 4.849906401408584, 1.0103004648645457,
                          -0.00013871931837085703, -0.00021503011983872817, 7.599527785325647e-05,
                          -1.968177058155516e-05, 4.526054965195623e-06, -9.93029945557344e-07,
                          2.290406387055261e-07, -6.755485418775278e-08, 2.9052713963632264e-08,
                          -1.525675977652796e-08, 7.765537732566564e-09, -3.4702848294133246e-09,
                          1.3694471297140024e-09, -4.37775915997103e-10, 4.198095940545428e-11,
                          4.284066711444427e-11, -1.44509159665152e-11);
  return root < 4.0 ? middle : far;
}
template <class T> RL_INLINE T fast_erfinv(T x) {
  return x * erfinv_ratio(-fast_log((T(1) - x) * (T(1) + x)));
}
template <class T> RL_INLINE typename Format<T>::Int erfinv_needs_slow_path(T x) {
  return magnitude(x) <= (sizeof(T) == 4 ? T(0.9966) : T(0.999)) ? 0 : 1;
}
template <class T> RL_INLINE T erfinv_of(T x) {
  T w = -log((T(1) - x) * (T(1) + x)), far = x * far_erfinv_ratio(w);
  T y = magnitude(x) <= (sizeof(T) == 4 ? T(0.9966) : T(0.999)) ? x * erfinv_ratio(w) : far;
  T outside = magnitude(x) == T(1) ? copysign(infinity<T>, x) : quiet_nan<T>;
  return magnitude(x) < T(1) ? y : outside;
}
RL_INLINE float erfinv(float x) { return erfinv_of(x); }
RL_INLINE double erfinv(double x) { return erfinv_of(x); }

#undef RL_THROUGH_DOUBLE
}  // namespace rl::math
