// Box-Muller in explicit steps, shared by all arithmetics that generate normal numbers: CPU vectors (ops/cpu/normal.cc)
// and device threads (ops/cuda/normal.cu). Included inside the namespace that defines PARTITA_NORMAL_INLINE.
//
//   const Normals<M> n = box_muller<M>(word0, word1);    // n.first, n.second: two standard normals in double precision
//
// M is the arithmetic: types Real (double) and Bits (uint64), and functions on them. All steps are correctly rounded
// IEEE 754 operations in this order, and no product feeds a plain sum, so that a compiler cannot fuse anything not
// written as fma: the bits are the same everywhere, independent of the math library. Polynomials: minimax coefficients
// of fdlibm (Sun Microsystems, 1993), errors below 2^-58.
// No pragma once: included once per instruction set.

template <class M>
struct Normals {
  typename M::Real first, second;
};

// log((word + 1/2) / 2^32) for word < 2^32: always finite and nonzero, within 3 ulp.
template <class M>
PARTITA_NORMAL_INLINE typename M::Real log_of_uniform(typename M::Bits word) {
  using Real = typename M::Real;
  using Bits = typename M::Bits;
  const Real u = M::mul(M::add(M::real(word), M::set(0.5)), M::set(0x1p-32));
  // u = m 2^k with sqrt(1/2) <= m < sqrt(2); log m = log(1 + f) = log((1 + s) / (1 - s)).
  const Bits shifted = M::plus(M::bits(u), M::word(0x3FF0000000000000 - 0x3FE6A09E00000000));
  const Real k = M::sub(M::real(M::template right<52>(shifted)), M::set(1023));
  const Real m = M::from_bits(M::plus(M::both(shifted, M::word(0x000FFFFFFFFFFFFF)), M::word(0x3FE6A09E00000000)));
  const Real f = M::sub(m, M::set(1));
  const Real s = M::div(f, M::add(f, M::set(2)));
  const Real z = M::mul(s, s);
  Real p = M::set(1.479819860511658591e-01);
  p = M::fma(p, z, M::set(1.531383769920937332e-01));
  p = M::fma(p, z, M::set(1.818357216161805012e-01));
  p = M::fma(p, z, M::set(2.222219843214978396e-01));
  p = M::fma(p, z, M::set(2.857142874366239149e-01));
  p = M::fma(p, z, M::set(3.999999999940941908e-01));
  p = M::fma(p, z, M::set(6.666666666666735130e-01));
  const Real log_m = M::mul(s, M::fma(p, z, M::set(2)));
  return M::fma(k, M::set(0x1.62E42FEFA39EFp-1), M::fma(k, M::set(0x1.ABC9E3B39803Fp-56), log_m));
}

// Sine and cosine of x in [-pi/4, pi/4].
template <class M>
PARTITA_NORMAL_INLINE typename M::Real short_sine(typename M::Real x, typename M::Real z) {
  typename M::Real p = M::set(1.58969099521155010221e-10);
  p = M::fma(p, z, M::set(-2.50507602534068634195e-08));
  p = M::fma(p, z, M::set(2.75573137070700676789e-06));
  p = M::fma(p, z, M::set(-1.98412698298579493134e-04));
  p = M::fma(p, z, M::set(8.33333333332248946124e-03));
  p = M::fma(p, z, M::set(-1.66666666666666324348e-01));
  return M::fma(M::mul(x, z), p, x);
}
template <class M>
PARTITA_NORMAL_INLINE typename M::Real short_cosine(typename M::Real z) {
  typename M::Real p = M::set(-1.13596475577881948265e-11);
  p = M::fma(p, z, M::set(2.08757232129817482790e-09));
  p = M::fma(p, z, M::set(-2.75573143513906633035e-07));
  p = M::fma(p, z, M::set(2.48015872894767294178e-05));
  p = M::fma(p, z, M::set(-1.38888888888741095749e-03));
  p = M::fma(p, z, M::set(4.16666666666666019037e-02));
  return M::fma(M::fma(p, z, M::set(-0.5)), z, M::set(1));
}

// Two words below 2^32 give the radius sqrt(-2 log u) and the angle 2 pi word / 2^32.
template <class M>
PARTITA_NORMAL_INLINE Normals<M> box_muller(typename M::Bits radius_word, typename M::Bits angle_word) {
  using Real = typename M::Real;
  using Bits = typename M::Bits;
  const Real radius = M::sqrt(M::mul(log_of_uniform<M>(radius_word), M::set(-2)));
  // Splits the angle exactly, in integers, into a multiple of pi / 2 and a remainder of at most pi / 4.
  const Bits turned = M::plus(angle_word, M::word(uint64_t{1} << 29));
  const Bits quarter = M::template right<30>(turned);  // 0 to 4: bit 2, a full turn, is ignored
  const Real rest = M::sub(M::real(M::both(turned, M::word((uint64_t{1} << 30) - 1))), M::set(0x1p29));
  const Real x = M::mul(rest, M::set(0x1.921FB54442D18p-30));  // 2 pi / 2^32
  const Real z = M::mul(x, x);
  const Real sine = short_sine<M>(x, z), cosine = short_cosine<M>(z);
  // In quadrants 0 1 2 3, cos is c -s -c s and sin is s c -s -c.
  const Bits two = M::word(2);
  const Bits cosine_sign = M::template left<62>(M::both(M::plus(quarter, M::word(1)), two));
  const Bits sine_sign = M::template left<62>(M::both(quarter, two));
  const Real to_cosine = M::odd(quarter, sine, cosine), to_sine = M::odd(quarter, cosine, sine);
  return {M::mul(radius, M::flip(to_cosine, cosine_sign)), M::mul(radius, M::flip(to_sine, sine_sign))};
}
