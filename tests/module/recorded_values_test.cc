#include "partita/module/recorded_values.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace partita::internal {
namespace {

constexpr int64_t kBytes = 12 * 4;
const StorageView kAll{.dtype = torch::kFloat, .sizes = {3, 4}, .strides = {4, 1}};

c10::OperatorHandle operation(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

RecordedWrite fill(double value, const StorageView& where = kAll) {
  return {.operation = operation("aten::fill_", "Scalar"), .written = where, .operands = {value}, .overwrites = true};
}

torch::Tensor values_of(const RecordedValues& values) {
  const c10::Storage storage = temporary_storage(kBytes);
  replay(values, storage);
  return kAll.in(storage);
}

TEST(RecordedValues, AreWhatTheOperationsWrite) {
  RecordedValues values = append(nullptr, fill(2), kBytes);
  values = append(values, fill(5, {.dtype = torch::kFloat, .sizes = {3}, .strides = {4}, .offset = 1}), kBytes);
  EXPECT_EQ(cost(values), 2);
  torch::Tensor expected = torch::full({3, 4}, 2.);
  expected.select(1, 1).fill_(5);
  EXPECT_TRUE(values_of(values).equal(expected));
  values = append(values, fill(7), kBytes);
  EXPECT_EQ(cost(values), 1) << "nothing before it matters";
  EXPECT_TRUE(values_of(values).equal(torch::full({3, 4}, 7.)));
}

// An operand is what another storage had then; the same values are read again and again.
TEST(RecordedValues, MayBeOperands) {
  const RecordedValues three = append(nullptr, fill(3), kBytes);
  const StorageView columns{.dtype = torch::kFloat, .sizes = {3, 2}, .strides = {4, 1}, .offset = 2};
  RecordedWrite copy{.operation = operation("aten::copy_"),
                     .written = {.dtype = torch::kFloat, .sizes = {3, 2}, .strides = {4, 1}},
                     .operands = {c10::IValue(), false},
                     .unmade = {{.operand = 1, .values = three, .bytes = kBytes, .view = columns}}};
  const RecordedValues values = append(append(nullptr, fill(1), kBytes), copy, kBytes);
  EXPECT_EQ(cost(values), 3);
  torch::Tensor expected = torch::ones({3, 4});
  expected.narrow(1, 0, 2).fill_(3);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(values_of(values).equal(expected));
}

TEST(RecordedValues, LeaveTheirGenerator) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  const RecordedValues values = append(
      nullptr,
      {.operation = operation("aten::uniform_"), .written = kAll, .operands = {0., 1., generator}, .overwrites = true},
      kBytes);
  const torch::Tensor expected = torch::empty({3, 4}).uniform_(0, 1, at::detail::createCPUGenerator(5));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(values_of(values).equal(expected));
}

TEST(StorageView, CoversAStorage) {
  EXPECT_TRUE(kAll.covers(kBytes));
  EXPECT_FALSE(kAll.covers(kBytes + 4));
  EXPECT_FALSE((StorageView{.dtype = torch::kFloat, .sizes = {3, 4}, .strides = {1, 3}}).covers(kBytes))
      << "transposed";
  EXPECT_FALSE((StorageView{.dtype = torch::kFloat, .sizes = {12}, .strides = {0}}).covers(kBytes)) << "expanded";
  EXPECT_FALSE((StorageView{.dtype = torch::kFloat, .sizes = {11}, .strides = {1}, .offset = 1}).covers(kBytes));
  EXPECT_TRUE((StorageView{.dtype = torch::kFloat, .sizes = {1, 12}, .strides = {99, 1}}).covers(kBytes));
  EXPECT_TRUE((StorageView{.dtype = torch::kDouble, .sizes = {6}, .strides = {1}}).covers(kBytes));
}

}  // namespace
}  // namespace partita::internal
