// Packs tiles into operands of tile_matmul.
#if defined(PARTITA_OPS_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_TILE_INL_H_
#undef PARTITA_OPS_CPU_TILE_INL_H_
#else
#define PARTITA_OPS_CPU_TILE_INL_H_
#endif

#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {

// out [columns, rows] = transpose of in [rows, columns]; leading dimensions count 32-bit words.
HWY_INLINE void transpose_words(const uint32_t* in, int64_t ld_in, int64_t rows, int64_t columns, uint32_t* out,
                                int64_t ld_out) {
  int64_t whole_rows = 0, whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  const auto low = [&](auto a, auto b) {
    return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const auto high = [&](auto a, auto b) {
    return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (int64_t r = 0; r < whole_rows; r += 4)
    for (int64_t c = 0; c < whole_columns; c += 4) {
      const uint32_t* from = in + r * ld_in + c;
      const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + ld_in);
      const auto r2 = hn::LoadU(d, from + 2 * ld_in), r3 = hn::LoadU(d, from + 3 * ld_in);
      const auto low01 = hn::InterleaveLower(d, r0, r1), high01 = hn::InterleaveUpper(d, r0, r1);
      const auto low23 = hn::InterleaveLower(d, r2, r3), high23 = hn::InterleaveUpper(d, r2, r3);
      uint32_t* to = out + c * ld_out + r;
      hn::StoreU(low(low01, low23), d, to);
      hn::StoreU(high(low01, low23), d, to + ld_out);
      hn::StoreU(low(high01, high23), d, to + 2 * ld_out);
      hn::StoreU(high(high01, high23), d, to + 3 * ld_out);
    }
#endif
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) out[c * ld_out + r] = in[r * ld_in + c];
}

// Packs the transpose of in [rows, columns] as a right operand of tile_matmul, [columns, rows] with leading dimension
// ld_out. bf16: its pairs of rows are the 32-bit words of in; columns and ld_in are even.
HWY_INLINE void pack_transposed(const float* in, int64_t ld_in, int64_t rows, int64_t columns, float* out,
                                int64_t ld_out) {
  transpose_words(reinterpret_cast<const uint32_t*>(in), ld_in, rows, columns, reinterpret_cast<uint32_t*>(out),
                  ld_out);
}
HWY_INLINE void pack_transposed(const at::BFloat16* in, int64_t ld_in, int64_t rows, int64_t columns, at::BFloat16* out,
                                int64_t ld_out) {
  transpose_words(reinterpret_cast<const uint32_t*>(in), ld_in / 2, rows, columns / 2, reinterpret_cast<uint32_t*>(out),
                  ld_out);
}

// Packs pairs of rows of in [rows, columns] as [(rows + 1) / 2][columns][2]; a missing last row is 0.
HWY_INLINE void pack_pairs(const at::BFloat16* in, int64_t ld_in, int64_t rows, int64_t columns, at::BFloat16* out) {
  const DU32 d;
  const DU16 half;
  const auto* from = reinterpret_cast<const uint16_t*>(in);
  auto* to = reinterpret_cast<uint32_t*>(out);
  for (int64_t r = 0; r < rows; r += 2, from += 2 * ld_in, to += columns) {
    const bool both = r + 1 < rows;
    int64_t c = 0;
    for (; c + lanes() <= columns; c += lanes()) {
      auto words = hn::PromoteTo(d, hn::LoadU(half, from + c));
      if (both) words = hn::Or(words, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, from + ld_in + c))));
      hn::StoreU(words, d, to + c);
    }
    for (; c < columns; ++c) to[c] = from[c] | (both ? static_cast<uint32_t>(from[ld_in + c]) << 16 : 0U);
  }
}

// Packs the transpose of in [rows, columns] as a left operand, [columns][ld_out]. bf16: the missing last row of a pair
// is 0; `pairs` has room for (rows + 1) * columns elements.
HWY_INLINE void transpose_left(const float* in, int64_t ld_in, int64_t rows, int64_t columns, float* out,
                               int64_t ld_out, float*) {
  pack_transposed(in, ld_in, rows, columns, out, ld_out);
}
HWY_INLINE void transpose_left(const at::BFloat16* in, int64_t ld_in, int64_t rows, int64_t columns, at::BFloat16* out,
                               int64_t ld_out, at::BFloat16* pairs) {
  pack_pairs(in, ld_in, rows, columns, pairs);
  transpose_words(reinterpret_cast<const uint32_t*>(pairs), columns, (rows + 1) / 2, columns,
                  reinterpret_cast<uint32_t*>(out), ld_out / 2);
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_TILE_INL_H_
