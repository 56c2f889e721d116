// Dropout masks in kernels, with the bits of base/random.h and thus of the CPU.
//
//   const MaskArguments arguments = make_mask(dropout, rows);                  // on the host
//   const Mask mask(arguments, row);                                           // in a kernel
//   mask.apply<kAligned>(x, mask.begin(C) + column);                           // applies dropout to eight neighbors
#pragma once
#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/ops/cuda/check.h"
#include "partita/ops/dropout.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal::cuda {

struct MaskArguments {
  const StepScalars* now = nullptr;
  const int64_t* samples = nullptr;
  uint32_t site = 0, threshold = 0;  // threshold 0: nothing is dropped
  float scale = 1;
  uint32_t length = 1;     // rows per sample
  uint32_t first_row = 0;  // of the micro-batch: the operand's row 0
  // Rows of a sample of consecutive positions: all, or half of them with context parallelism. What is added to the
  // index in the sample of a row of the first and of the second half to get its position.
  uint32_t run = 1, shift[2] = {0, 0};
};

// For activations [rows, C].
[[nodiscard]] inline MaskArguments make_mask(const Dropout& dropout, int64_t rows) {
  if (dropout.p == 0 || rows == 0) return {};
  PARTITA_CHECK(dropout.p > 0 && dropout.p < 1, "dropout probability {} is not in [0, 1)", dropout.p);
  PARTITA_CHECK(dropout.now != nullptr && dropout.samples.defined(),
                "dropout needs the step and the ids of the samples");
  check_tensor(dropout.samples, "samples", {dropout.samples.numel()}, at::kLong);
  const int64_t length = check_mask_rows(dropout, rows);
  const ContextSplit& context = dropout.context;
  return {.now = dropout.now,
          .samples = dropout.samples.const_data_ptr<int64_t>(),
          .site = dropout.site,
          .threshold = dropout_threshold(dropout.p),
          .scale = dropout_scale(dropout.p),
          .length = static_cast<uint32_t>(length),
          .first_row = static_cast<uint32_t>(dropout.first_row),
          .run = static_cast<uint32_t>(context.run(length)),
          .shift = {static_cast<uint32_t>(context.shift(0, length)), static_cast<uint32_t>(context.shift(1, length))}};
}

// The 16 bits of an element whose position in the block is unknown at compile time. Avoids indexing, which would move
// the block to local memory.
__device__ __forceinline__ uint32_t select16(const PhiloxBlock& block, int64_t element) {
  const auto lane = static_cast<uint32_t>(element & 7);
  const uint32_t low = lane < 2 ? block[0] : block[1], high = lane < 6 ? block[2] : block[3];
  return ((lane < 4 ? low : high) >> (16 * (lane & 1))) & 0xFFFF;
}

// The 16-bit numbers of eight neighbors starting at `first`; draw(block index) generates a block. kAligned: first is a
// multiple of 8.
template <bool kAligned, class Draw>
__device__ __forceinline__ void numbers_of(int64_t first, const Draw& draw, uint32_t (&number)[8]) {
  if constexpr (kAligned) {
    const PhiloxBlock block = draw(first >> 3);
#pragma unroll
    for (int i = 0; i < 8; ++i) number[i] = random16(block, i);
  } else {
    PhiloxBlock block = draw(first >> 3);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i > 0 && ((first + i) & 7) == 0) block = draw((first + i) >> 3);
      number[i] = select16(block, first + i);
    }
  }
}

// The mask of the sample that a row of the operand belongs to.
class Mask {
 public:
  __device__ __forceinline__ Mask(const MaskArguments& a, uint32_t row)
      : threshold_(a.threshold), site_(a.site), scale_(a.scale) {
    if (threshold_ == 0) return;
    key_ = dropout_key(a.now->seed, a.now->step);
    row += a.first_row;
    sample_ = a.samples[row / a.length];
    const uint32_t place = row % a.length;
    position_ = place + a.shift[place < a.run ? 0 : 1];
  }
  [[nodiscard]] __device__ __forceinline__ bool drops() const { return threshold_ > 0; }
  // Index within the whole sample of the row's first element.
  [[nodiscard]] __device__ __forceinline__ int64_t begin(int64_t C) const { return position_ * C; }

  template <bool kAligned>
  __device__ __forceinline__ void apply(float (&x)[8], int64_t first) const {
    uint32_t number[8];
    numbers_of<kAligned>(
        first, [&](int64_t block) { return dropout_block(key_, sample_, site_, block); }, number);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] *= number[i] >= threshold_ ? scale_ : 0.0F;
  }

 private:
  uint32_t threshold_, site_;
  float scale_;
  PhiloxKey key_{};
  int64_t sample_ = 0, position_ = 0;
};

}  // namespace partita::internal::cuda
