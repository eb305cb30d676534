// The Bessel functions J and Y of orders 0 and 1, in double; those of float by shorter polynomials.
//
// The polynomials are of our own, as in exponential.h. Up to 5 they are in x^2, for Y beside a
// logarithm; from there on J and Y are the real and the imaginary part of
// sqrt(2 / (pi x)) (p + i q) exp(i (x - pi/4 - order pi/2)) with p and x q polynomials in (5 /
// x)^2. Arguments beyond 2^20 go to the C library.
#pragma once
#include <cmath>

#include "math/exponential.h"
#include "math/trigonometric.h"

namespace rl::math {
namespace bessel {

inline constexpr double last_small = 5;

// In t = 0.08 x^2 - 1.
// J0(x) / (x^2 - r^2), r its first zero
template <class T> RL_INLINE double small_j0(double t) {
  if constexpr (sizeof(T) == 4)
    return polynomial(t, -0.05728080422, 0.07436630461, -0.03277786211, 0.007375894497,
                      -0.001013405355, 9.414404215e-5, -6.319294882e-6, 3.220808401e-7,
                      -1.282248072e-8);
  else
    return polynomial(t, -0.05728080421634534, 0.07436630462755323, -0.03277786210789048,
                      0.0073758943041960226, -0.001013405346985002, 9.414473580694953e-05,
                      -6.3193186183226215e-06, 3.211562353433063e-07, -1.2795360168830179e-08,
                      4.105688303721103e-10, -1.0840781056083564e-11, 2.399602248240359e-13,
                      -4.50857521753263e-15);
}
// J1(x) / (x (x^2 - r^2)), likewise
template <class T> RL_INLINE double small_j1(double t) {
  if constexpr (sizeof(T) == 4)
    return polynomial(t, -0.01587595431, 0.01309077752, -0.004240226155, 0.0007552540521,
                      -8.592875586e-5, 6.814652183e-6, -4.004280206e-7, 1.803743286e-8);
  else
    return polynomial(t, -0.01587595431164548, 0.013090777521810029, -0.004240225993395723,
                      0.0007552540432951287, -8.592956232067133e-05, 6.814683895176615e-06,
                      -3.991381172349741e-07, 1.799515992541992e-08, -6.443125533665431e-10,
                      1.8773810470060388e-11, -4.5448929803664786e-13, 9.268689637917528e-15);
}
// Y0(x) - 2/pi log(x) J0(x)
template <class T> RL_INLINE double small_y0(double t) {
  if constexpr (sizeof(T) == 4)
    return polynomial(t, 0.4837248578, -0.4326558223, -0.4705763646, 0.3885163995, -0.1115168294,
                      0.01763534571, -0.001802788373, 0.0001299455603, -7.009831718e-6,
                      2.921524869e-7);
  else
    return polynomial(t, 0.4837248578102995, -0.4326558222855125, -0.47057636552972876,
                      0.38851639956570944, -0.11151682184328655, 0.01763534538933876,
                      -0.0018028096665503853, 0.0001299462909208217, -6.985504374077061e-06,
                      2.9142206889637085e-07, -9.7209552080454e-09, 2.6539975248625817e-10,
                      -6.04993694723965e-12, 1.166603953074689e-13);
}
// (Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x
template <class T> RL_INLINE double small_y1(double t) {
  if constexpr (sizeof(T) == 4)
    return polynomial(t, 0.1397493903, 0.09108650838, -0.1631202035, 0.06634695355, -0.0134334341,
                      0.001668803147, -0.0001414173503, 8.733066792e-6, -4.125291223e-7,
                      1.532040728e-8);
  else
    return polynomial(t, 0.13974939033568806, 0.09108650838448444, -0.16312020358118715,
                      0.06634695354779108, -0.013433433740818165, 0.0016688031328635942,
                      -0.00014141835794484212, 8.733098304848775e-06, -4.1137780795312436e-07,
                      1.528890182573714e-08, -4.6013010745475043e-10, 1.1448943838049981e-11,
                      -2.397782341669183e-13, 4.277907601247645e-15);
}

// p and x q, in t = 50 / x^2 - 1.
template <class T> RL_INLINE double in_phase_0(double t) {
  if constexpr (sizeof(T) == 4)
    return polynomial(t, 0.9986347663, -0.001327493516, 3.491020498e-5, -2.45692749e-6,
                      3.15906047e-7, -5.665548632e-8);
  else
    return polynomial(t, 0.9986347659091991, -0.0013274931272004003, 3.4917305812543486e-05,
                      -2.459963321484891e-06, 2.9759005474711905e-07, -5.08643230838394e-08,
                      1.1058787126508455e-08, -2.8705436149232575e-09, 8.537333898998171e-10,
                      -2.8517945797296937e-10, 1.0446084050144922e-10, -3.5386629228967755e-11,
                      1.2588002430248666e-11, -1.3637307914439561e-11, 8.357591428468487e-12,
                      3.415311542572873e-12, -2.8395786688743394e-12, -2.2353911549120433e-12,
                      1.4342144484717644e-12);
}
template <class T> RL_INLINE double shifted_0(double t) {
  if constexpr (sizeof(T) == 4)
    return polynomial(t, -0.1236149653, 0.001314215842, -6.335651925e-5, 6.224576627e-6,
                      -1.019463179e-6, 2.162085242e-7);
  else
    return polynomial(t, -0.12361496352611864, 0.0013142139729101605, -6.33871544273933e-05,
                      6.2391131760670245e-06, -9.409874566961783e-07, 1.8870283952552904e-07,
                      -4.639877418605767e-08, 1.3297944779036057e-08, -4.289354315206942e-09,
                      1.5208164406105881e-09, -6.042938290845458e-10, 2.5848780978301746e-10,
                      -6.85705858303619e-11, 1.5124462364734902e-11, -6.84157949075099e-11,
                      4.8879386069322606e-11, 2.6853631098267252e-11, -2.1805674415620987e-11,
                      -1.2508076456976454e-11, 8.561141204555576e-12);
}
template <class T> RL_INLINE double in_phase_1(double t) {
  if constexpr (sizeof(T) == 4)
    return polynomial(t, 1.002290646, 0.002241463644, -4.577486291e-5, 2.975262383e-6,
                      -3.671748186e-7, 6.432824765e-8);
  else
    return polynomial(t, 1.0022906462560661, 0.002241463213917191, -4.5782806531265707e-05,
                      2.9786211051441743e-06, -3.4667186514153773e-07, 5.7916678422140156e-08,
                      -1.2403215219140042e-08, 3.1849577586739448e-09, -9.395751413733448e-10,
                      3.117737074105936e-10, -1.1357643207946473e-10, 3.845189318443387e-11,
                      -1.3682028558855868e-11, 1.4551592853265442e-11, -8.87874317362722e-12,
                      -3.5906738400843476e-12, 2.9881368885935017e-12, 2.368522528186766e-12,
                      -1.51681185261178e-12);
}
template <class T> RL_INLINE double shifted_1(double t) {
  if constexpr (sizeof(T) == 4)
    return polynomial(t, 0.3730474351, -0.001864851677, 7.894693583e-5, -7.353943383e-6,
                      1.167053209e-6, -2.429343783e-7);
  else
    return polynomial(t, 0.3730474331740802, -0.001864849621841221, 7.89809417818545e-05,
                      -7.369927954545263e-06, 1.079885314279598e-06, -2.1266726345215035e-07,
                      5.164244589339483e-08, -1.4665671158924864e-08, 4.697491706930299e-09,
                      -1.6563207992528962e-09, 6.54502079879669e-10, -2.7862990677601007e-10,
                      7.462088298658088e-11, -1.6919085465643777e-11, 7.247534834561296e-11,
                      -5.161592743085397e-11, -2.8238891623756327e-11, 2.2920253872926438e-11,
                      1.3206143080854262e-11, -9.024649722544138e-12);
}

struct Wave {
  double j, y;
};
// J and Y of an order for x > 5.
template <class T, int order> RL_INLINE Wave wave(double x) {
  double inverse = 1.0 / x, t = 50.0 * inverse * inverse - 1.0;
  double p = order == 0 ? in_phase_0<T>(t) : in_phase_1<T>(t);
  double q = (order == 0 ? shifted_0<T>(t) : shifted_1<T>(t)) * inverse;
  Angle<double> angle = fast_angle(x);
  double s = sine_of(angle), c = cosine(angle);
  double size = sqrt(inverse * (1.0 / pi)), sum = (s + c) * size, difference = (s - c) * size;
  // Cosine and sine of x - pi/4, or of a quarter turn less.
  double cosine = order == 0 ? sum : difference, sine = order == 0 ? difference : -sum;
  return {mul_add(p, cosine, -(q * sine)), mul_add(p, sine, q * cosine)};
}

// J of |x| <= 5: with its first zero in two parts, exact there.
template <class T> RL_INLINE double small_j0_of(double x, double t) {
  constexpr double high = 0x1.33d1528p+1, low = 4.910125982916851e-08;
  return ((x - high) - low) * (x + (high + low)) * small_j0<T>(t);
}
template <class T> RL_INLINE double small_j1_of(double x, double t) {
  constexpr double high = 0x1.ea75570p+1, low = 4.2358696397645683e-08;
  return x * (((x - high) - low) * (x + (high + low)) * small_j1<T>(t));
}

template <class T> RL_INLINE double j0(double x) {
  double a = magnitude(x), b = a > last_small ? last_small : a;
  double small = small_j0_of<T>(b, 0.08 * b * b - 1.0);
  return a > last_small ? wave<T, 0>(a).j : small;
}
template <class T> RL_INLINE double j1(double x) {
  double a = magnitude(x), b = a > last_small ? last_small : a;
  double small = small_j1_of<T>(b, 0.08 * b * b - 1.0);
  double y = a > last_small ? wave<T, 1>(a).j : small;
  return signbit(x) ? -y : y;
}
// NaN below 0 and -inf at 0.
RL_INLINE double second_kind(double x, double y) {
  y = x == 0.0 ? -infinity<double> : y;
  return x < 0.0 ? quiet_nan<double> : y;
}
template <class T> RL_INLINE double y0(double x) {
  double b = x > last_small ? last_small : x, t = 0.08 * b * b - 1.0;
  double small = mul_add(2 / pi * log(b), small_j0_of<T>(b, t), small_y0<T>(t));
  return second_kind(x, x > last_small ? wave<T, 0>(x).y : small);
}
template <class T> RL_INLINE double y1(double x) {
  double b = x > last_small ? last_small : x, t = 0.08 * b * b - 1.0;
  double singular = 2 / pi * mul_add(log(b), small_j1_of<T>(b, t), -1.0 / b);
  double small = mul_add(b, small_y1<T>(t), singular);
  return second_kind(x, x > last_small ? wave<T, 1>(x).y : small);
}
}  // namespace bessel

template <class T> RL_INLINE typename Format<T>::Int bessel_j0_needs_slow_path(T x) {
  return magnitude(x) <= T(0x1p20) ? 0 : 1;
}
template <class T> RL_INLINE auto bessel_j1_needs_slow_path(T x) {
  return bessel_j0_needs_slow_path(x);
}
template <class T> RL_INLINE auto bessel_y0_needs_slow_path(T x) {
  return bessel_j0_needs_slow_path(x);
}
template <class T> RL_INLINE auto bessel_y1_needs_slow_path(T x) {
  return bessel_j0_needs_slow_path(x);
}
#define RL_BESSEL(name)                                                               \
  template <class T> RL_INLINE T fast_bessel_##name(T x) {                            \
    return static_cast<T>(bessel::name<T>(x));                                        \
  }                                                                                   \
  RL_INLINE float bessel_##name(float x) {                                            \
    return bessel_##name##_needs_slow_path(x) ? ::name##f(x) : fast_bessel_##name(x); \
  }                                                                                   \
  RL_INLINE double bessel_##name(double x) {                                          \
    return bessel_##name##_needs_slow_path(x) ? ::name(x) : fast_bessel_##name(x);    \
  }
RL_BESSEL(j0)
RL_BESSEL(j1)
RL_BESSEL(y0)
RL_BESSEL(y1)
#undef RL_BESSEL

}  // namespace rl::math
