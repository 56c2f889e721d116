// What blocks save, share and pass to each other: sizes, and which memory is whose.
#include "partita/engine/activations.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "partita/device/scalar_type.h"
#include "partita/ops/fp8.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Only lists its buffers, whose first extents grow with the rows.
class ListBlock final : public Block {
 public:
  ListBlock(std::vector<BufferSpec> saved, std::vector<BufferSpec> scratch)
      : saved_(std::move(saved)), scratch_(std::move(scratch)) {}
  [[nodiscard]] std::vector<ParameterSpec> parameters() const override { return {}; }
  [[nodiscard]] std::vector<BufferSpec> saved(const Shape& shape) const override { return with(saved_, shape); }
  [[nodiscard]] std::vector<BufferSpec> scratch(const Shape& shape) const override { return with(scratch_, shape); }
  [[nodiscard]] BlockTraits traits() const override { return {}; }
  Residual forward(Weights, Residual, Context&, Saved&) const override { return {}; }
  void recompute(Weights, Context&, Saved&) const override {}
  ResidualGrad backward(Weights, ResidualGrad, Context&, Saved&, Grads&) const override { return {}; }

 private:
  static std::vector<BufferSpec> with(std::vector<BufferSpec> list, const Shape& shape) {
    for (BufferSpec& spec : list) spec.shape[0] *= shape.rows();
    return list;
  }
  std::vector<BufferSpec> saved_, scratch_;
};

using Blocks = std::vector<std::unique_ptr<Block>>;

int64_t aligned(const BufferSpec& spec) {
  int64_t count = 1;
  for (const int64_t extent : spec.shape) count *= extent;
  return (count * size_of(spec.dtype) + 63) / 64 * 64;
}

struct Range {
  const std::byte *begin, *end;
};
Range range_of(const at::Tensor& t) {
  const auto* begin = static_cast<const std::byte*>(t.const_data_ptr());
  return {begin, begin + t.nbytes()};
}
bool overlap(const at::Tensor& a, const at::Tensor& b) {
  const Range x = range_of(a), y = range_of(b);
  return a.numel() > 0 && b.numel() > 0 && x.begin < y.end && y.begin < x.end;
}
bool contains(const at::Tensor& outer, const at::Tensor& inner) {
  const Range o = range_of(outer), i = range_of(inner);
  return inner.numel() == 0 || (o.begin <= i.begin && i.end <= o.end);
}

void fill(const at::Tensor& t, int byte) {
  if (t.numel() > 0) std::memset(t.mutable_data_ptr(), byte, t.nbytes());
}
bool holds(const at::Tensor& t, int byte) {
  const Range r = range_of(t);
  return std::all_of(r.begin, r.end, [&](std::byte b) { return b == static_cast<std::byte>(byte); });
}

at::Tensor byte_tensor(int64_t count) { return at::empty({count}, at::TensorOptions(at::kByte)); }

// A model of random lists, with memory for what it keeps.
struct Model {
  explicit Model(std::mt19937& random) {
    static constexpr DType kDTypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::uint8};
    static constexpr std::optional<Recompute> kSavedUpTo[] = {Recompute::full, Recompute::mlp, Recompute::selective,
                                                              Recompute::none, std::nullopt};
    static constexpr BlockRecompute kModes[] = {std::nullopt, Recompute::full, Recompute::mlp, Recompute::selective,
                                                Recompute::none};
    const auto buffers = [&](unsigned most) {
      std::vector<BufferSpec> list;
      for (unsigned i = random() % (most + 1); i > 0; --i)
        list.push_back({"buffer",
                        {static_cast<int64_t>(random() % 3), static_cast<int64_t>(1 + random() % 9)},
                        kDTypes[random() % 4],
                        kSavedUpTo[random() % 5]});
      return list;
    };
    for (unsigned b = 1 + random() % 5; b > 0; --b) {
      blocks.push_back(std::make_unique<ListBlock>(buffers(6), buffers(4)));
      recompute.push_back(kModes[random() % 5]);
    }
    shape = {.samples = 1 + static_cast<int64_t>(random() % 3), .length = 1 + static_cast<int64_t>(random() % 11)};
    width = 1 + static_cast<int64_t>(random() % 20);
    dtype = kDTypes[random() % 3];
    slots = 1 + static_cast<int>(random() % 3);
    const std::vector<int64_t> bytes = Activations::kept_bytes(blocks, shape, recompute);
    for (int slot = 0; slot < slots; ++slot)
      for (const int64_t count : bytes) kept.push_back(count > 0 ? byte_tensor(count) : at::Tensor());
  }
  [[nodiscard]] Activations activations() const { return {blocks, shape, recompute, kept, width, dtype}; }
  [[nodiscard]] int count() const { return static_cast<int>(blocks.size()); }

  Blocks blocks;
  std::vector<BlockRecompute> recompute;
  Shape shape;
  int64_t width = 1;
  DType dtype = DType::fp32;
  int slots = 1;
  std::vector<at::Tensor> kept;  // [slot * blocks + block]
};

// The definition of the modes: what is saved up to a mode is saved in it and in weaker ones.
bool is_kept(BlockRecompute mode, std::optional<Recompute> saved_up_to) {
  return mode.has_value() && saved_up_to.has_value() && static_cast<int>(*mode) <= static_cast<int>(*saved_up_to);
}

TEST(Activations, BytesAreTheSumsOfTheLists) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    const Model m(random);
    const std::vector<int64_t> bytes = Activations::kept_bytes(m.blocks, m.shape, m.recompute);
    ASSERT_EQ(bytes.size(), m.blocks.size());
    int64_t shared = 0, scratch = 0;
    for (size_t b = 0; b < bytes.size(); ++b) {
      int64_t kept = 0, rest = 0, temporary = 0;
      for (const BufferSpec& s : m.blocks[b]->saved(m.shape))
        (is_kept(m.recompute[b], s.saved_up_to) ? kept : rest) += aligned(s);
      for (const BufferSpec& s : m.blocks[b]->scratch(m.shape)) temporary += aligned(s);
      EXPECT_EQ(bytes[b], kept);
      shared = std::max(shared, rest);
      scratch = std::max(scratch, temporary);
    }
    const BufferSpec stream{"stream", {m.shape.rows(), m.width}, m.dtype};
    const Activations::TemporaryBytes temporary =
        Activations::temporary_bytes(m.blocks, m.shape, m.recompute, m.width, m.dtype);
    EXPECT_EQ(temporary.shared, shared);
    EXPECT_EQ(temporary.scratch, scratch);
    EXPECT_EQ(temporary.outputs, 3 * aligned(stream) + 64);
    EXPECT_EQ(temporary.total(), shared + scratch + 3 * aligned(stream) + 64);
    EXPECT_EQ(m.activations().temporary_bytes(), temporary.total());
  }
}

TEST(Activations, BuffersHaveTheShapesOfTheListsAndLieWhereTheyBelong) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const Model m(random);
    Activations a = m.activations();
    EXPECT_EQ(a.shape(), m.shape);
    for (int slot = 0; slot < m.slots; ++slot)
      for (int b = 0; b < m.count(); ++b) {
        const auto block = static_cast<size_t>(b);
        const std::vector<BufferSpec> specs = m.blocks[block]->saved(m.shape);
        const Saved& saved = a.saved(slot, b);
        ASSERT_EQ(saved.slots.size(), specs.size());
        ASSERT_EQ(saved.kept.size(), specs.size());
        for (size_t i = 0; i < specs.size(); ++i) {
          EXPECT_EQ(saved.kept[i], is_kept(m.recompute[block], specs[i].saved_up_to));
          EXPECT_EQ(saved.slots[i].sizes(), at::IntArrayRef(specs[i].shape));
          EXPECT_EQ(saved.slots[i].scalar_type(), scalar_type(specs[i].dtype));
          const at::Tensor& memory = m.kept[static_cast<size_t>(slot * m.count() + b)];
          if (saved.slots[i].numel() > 0 && memory.defined()) {
            EXPECT_EQ(contains(memory, saved.slots[i]), saved.kept[i]) << "slot " << slot << ", block " << b;
          }
          for (size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(saved.slots[i], saved.slots[j]));
        }
      }
    for (int b = 0; b < m.count(); ++b) {
      const std::vector<BufferSpec> specs = m.blocks[static_cast<size_t>(b)]->scratch(m.shape);
      ASSERT_EQ(a.scratch(b).size(), specs.size());
      for (size_t i = 0; i < specs.size(); ++i) {
        EXPECT_EQ(a.scratch(b)[i].sizes(), at::IntArrayRef(specs[i].shape));
        EXPECT_EQ(a.scratch(b)[i].scalar_type(), scalar_type(specs[i].dtype));
        for (size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(a.scratch(b)[i], a.scratch(b)[j]));
      }
    }
    for (const at::Tensor& t : {a.outputs().branch, a.outputs().d_sum, a.outputs().d_branch}) {
      EXPECT_THAT(t.sizes(), ElementsAre(m.shape.rows(), m.width));
      EXPECT_EQ(t.scalar_type(), scalar_type(m.dtype));
    }
    EXPECT_THAT(a.outputs().scale.sizes(), ElementsAre(kFp8Scale));
    EXPECT_EQ(a.outputs().scale.scalar_type(), at::kFloat);
  }
}

// Each kind of memory is written in turn; only what shares it changes.
TEST(Activations, KeptBuffersSurviveWhateverIsShared) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Model m(random);
    Activations a = m.activations();
    const auto each_saved = [&](bool kept, auto visit) {
      int number = 0;
      for (int slot = 0; slot < m.slots; ++slot)
        for (int b = 0; b < m.count(); ++b)
          for (size_t i = 0; i < a.saved(slot, b).slots.size(); ++i, ++number)
            if (a.saved(slot, b).kept[i] == kept) visit(a.saved(slot, b).slots[i], 1 + number % 200);
    };
    const std::vector<at::Tensor> outputs = {a.outputs().branch, a.outputs().d_sum, a.outputs().d_branch,
                                             a.outputs().scale};
    each_saved(true, [](const at::Tensor& t, int number) { fill(t, number); });
    for (size_t i = 0; i < outputs.size(); ++i) fill(outputs[i], 201 + static_cast<int>(i));
    each_saved(false, [](const at::Tensor& t, int) { fill(t, 0xFF); });
    for (int b = 0; b < m.count(); ++b) {
      for (const at::Tensor& t : a.scratch(b)) fill(t, 0xFE);
      // What is shared for a while is not the scratch of the same block.
      for (const at::Tensor& t : a.saved(0, b).slots)
        for (const at::Tensor& other : a.scratch(b)) EXPECT_FALSE(overlap(t, other));
    }
    each_saved(true, [](const at::Tensor& t, int number) { EXPECT_TRUE(holds(t, number)); });
    for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(holds(outputs[i], 201 + static_cast<int>(i))) << i;
    each_saved(false, [](const at::Tensor& t, int) { EXPECT_TRUE(holds(t, 0xFF)); });
  }
}

std::vector<BufferSpec> list(int64_t kept, int64_t rest) {
  return {{"kept", {kept}, DType::uint8, Recompute::full}, {"rest", {rest}, DType::uint8, Recompute::none}};
}

// Blocks and slots share what they do not save and their scratch: one memory, of the size of the largest.
TEST(Activations, WhatIsNotKeptLiesInOneMemory) {
  Blocks blocks;
  blocks.push_back(std::make_unique<ListBlock>(list(3, 100), list(10, 0)));
  blocks.push_back(std::make_unique<ListBlock>(list(5, 700), list(200, 1)));
  const std::vector<BlockRecompute> recompute = {Recompute::full, Recompute::full};
  const std::vector<at::Tensor> kept = {byte_tensor(64), byte_tensor(64), byte_tensor(64), byte_tensor(64)};
  Activations a(blocks, {}, recompute, kept, 1, DType::fp32);
  EXPECT_EQ(a.temporary_bytes(), 704 + 256 + 64 + 4 * 64);
  for (int slot = 0; slot < 2; ++slot)
    for (int b = 0; b < 2; ++b) {
      EXPECT_EQ(a.saved(slot, b)[1].const_data_ptr(), a.saved(0, 0)[1].const_data_ptr());
      EXPECT_EQ(a.saved(slot, b)[0].const_data_ptr(), kept[static_cast<size_t>(2 * slot + b)].const_data_ptr());
    }
  EXPECT_EQ(a.scratch(0)[0].const_data_ptr(), a.scratch(1)[0].const_data_ptr());
}

TEST(Activations, ViewsOutliveTheObject) {
  Blocks blocks;
  blocks.push_back(std::make_unique<ListBlock>(list(3, 100), list(10, 0)));
  at::Tensor kept, rest, branch;
  {
    const std::vector<BlockRecompute> recompute = {Recompute::full};
    Activations a(blocks, {}, recompute, std::vector<at::Tensor>{byte_tensor(64)}, 7, DType::bf16);
    kept = a.saved(0, 0)[0], rest = a.saved(0, 0)[1], branch = a.outputs().branch;
  }
  fill(kept, 1), fill(rest, 2), fill(branch, 3);
  EXPECT_TRUE(holds(kept, 1) && holds(rest, 2) && holds(branch, 3));
}

TEST(Activations, TooLittleMemoryIsAnError) {
  Blocks blocks;
  blocks.push_back(std::make_unique<ListBlock>(list(100, 1), list(1, 1)));
  const std::vector<BlockRecompute> recompute = {Recompute::full};
  const auto error = [&](at::Tensor memory) {
    return error_message(
        [&] { Activations(blocks, {}, recompute, std::vector<at::Tensor>{std::move(memory)}, 1, DType::fp32); });
  };
  EXPECT_THAT(error(byte_tensor(127)), HasSubstr("127 bytes for 128"));
  EXPECT_EQ(error(byte_tensor(128)), "no error");
  EXPECT_EQ(error(byte_tensor(1000)), "no error") << "a slot of a larger block";
}

}  // namespace
}  // namespace partita::internal
