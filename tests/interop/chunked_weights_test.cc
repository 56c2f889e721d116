#include "partita/interop/chunked_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/interop/golden_folders.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// Elements that tensors refer to.
class Values {
 public:
  explicit Values(std::vector<float> values) : values_(std::move(values)) {}

  // All of them, as one chunk.
  [[nodiscard]] ChunkedTensor tensor(std::vector<int64_t> shape, std::vector<int64_t> strides) const {
    const MappedTensor elements{ElementType::f32, shape, std::move(strides), std::as_bytes(std::span(values_)),
                                nullptr};
    const std::vector<int64_t> offsets(shape.size(), 0);
    return {shape, ElementType::f32, "F32", {{offsets, shape, [elements] { return elements; }}}};
  }

 private:
  std::vector<float> values_;
};

// A tied table of 3 tokens [3, 2], which may be padded.
ChunkedNaming tied() {
  ChunkedNaming naming;
  naming.parameters = {{"table", {3, 2}, {{.name = "table", .shape = {3, 2}, .rows = 3, .padded = true}}}};
  naming.is_ignorable = [](std::string_view) { return false; };
  naming.copy = "head";
  naming.original = "table";
  return naming;
}
std::string error_of(ChunkedTensors tensors) {
  return error_message([&] {
    const ChunkedWeights weights("folder", std::move(tensors), tied());
    const ParameterSpec p{.name = "table", .shape = {3, 2}};
    weights.check(std::span(&p, 1));
  });
}

TEST(ChunkedWeights, TiedHeadsAreComparedWithoutPadding) {
  const Values table({1, 2, 3, 4, 5, 6, 7, 8}), same({1, 2, 3, 4, 5, 6, 0, 9}), shorter({1, 2, 3, 4, 5, 6});
  const Values other({1, 2, 3, 4, 5, 7, 7, 8});
  const ChunkedTensor padded = table.tensor({4, 2}, {2, 1});
  EXPECT_EQ(error_of({{"table", padded}, {"head", same.tensor({4, 2}, {2, 1})}}), "no error");
  EXPECT_EQ(error_of({{"table", padded}, {"head", shorter.tensor({3, 2}, {2, 1})}}), "no error");
  EXPECT_EQ(error_of({{"head", padded}}), "no error");
  EXPECT_THAT(error_of({{"table", padded}, {"head", other.tensor({4, 2}, {2, 1})}}),
              HasSubstr("head differs from table, but the model ties them"));
  EXPECT_THAT(error_of({{"table", padded}, {"head", table.tensor({2, 4}, {4, 1})}}), HasSubstr("head differs"));
}

TEST(ChunkedWeights, PaddingIsBounded) {
  const Values none({});
  const auto error = [&](int64_t rows) {
    ChunkedTensor tensor = none.tensor({rows, 2}, {2, 1});
    return error_of({{"table", std::move(tensor)}});
  };
  EXPECT_EQ(error(3 + (1 << 20)), "no error");
  EXPECT_THAT(error(4 + (1 << 20)), HasSubstr("of another shape: table [1048580, 2] instead of [3, 2]"));
  EXPECT_THAT(error(kHuge), HasSubstr("of another shape"));
}

TEST(ChunkedTensor, RefusesMoreElementsThanCanBeCounted) {
  const Values none({});
  for (const std::vector<int64_t>& shape :
       {std::vector{kHuge, kHuge}, {2, kHuge}, {int64_t{1} << 32, 1 << 15, 1 << 16}})
    EXPECT_THAT(error_message([&] { check_chunks("w", none.tensor(shape, std::vector<int64_t>(shape.size(), 0))); }),
                HasSubstr("'w' has an impossible shape"));
}

// The stride of a dimension of one row is never taken, and may be anything.
TEST(ChunkedWeights, StridesOfSingleRows) {
  const Values values({1, 2, 3});
  ChunkedNaming naming;
  naming.parameters = {{"p", {1, 3}, {{.name = "w", .shape = {1, 3}, .rows = 1, .step = 2}}},
                       {"q", {3, 1}, {{.name = "v", .shape = {3, 1}, .rows = 3}}}};
  naming.is_ignorable = [](std::string_view) { return false; };
  const ChunkedWeights weights("folder",
                               {{"w", values.tensor({1, 3}, {kHuge, 1})}, {"v", values.tensor({3, 1}, {1, kHuge})}},
                               std::move(naming));
  for (const ParameterSpec& p :
       {ParameterSpec{.name = "p", .shape = {1, 3}}, ParameterSpec{.name = "q", .shape = {3, 1}}})
    EXPECT_EQ(read_all(weights, p), (std::vector<float>{1, 2, 3})) << p.name;
}

}  // namespace
}  // namespace partita::internal
