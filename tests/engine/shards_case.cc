#include "tests/engine/shards_case.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "partita/device/scalar_type.h"

namespace partita::internal::test {

std::vector<BlockParameters> model(unsigned seed) {
  std::mt19937 random(seed);
  const auto extent = [&] { return static_cast<int64_t>(1 + random() % 47); };
  const auto matrix = [&](std::string name, bool trainable = true) {
    return ParameterSpec{.name = std::move(name), .shape = {extent(), extent()}, .decay = true, .trainable = trainable};
  };
  const auto vector = [&](std::string name, bool trainable = true) {
    return ParameterSpec{.name = std::move(name), .shape = {3 * extent()}, .trainable = trainable};
  };
  const ParameterSpec table = matrix("table"), bias = vector("bias");
  return {{BlockKind::embedding, {table}},
          {BlockKind::layer, {matrix("w0"), bias, matrix("more0")}},
          {BlockKind::layer, {matrix("w1", false), bias}},
          {BlockKind::layer, {matrix("w2"), matrix("unused"), vector("scale2")}},
          {BlockKind::layer, {matrix("w3"), vector("frozen", false)}},
          {BlockKind::head, {table, vector("norm")}}};
}

double contribution(const ParameterSpec& p, int64_t i, int rank, int step, int micro_batch, int block) {
  return static_cast<double>((i * 7 + key_of(p.name) + 3 * rank + 5 * micro_batch + 11 * block + 6 * step) % 17 - 8) /
         8;
}

double initial(const ParameterSpec& p, int64_t i) {
  return static_cast<double>((i * 5 + key_of(p.name)) % 31 - 15) / 32 + 1.0 / 64;
}

at::Tensor tensor_of(const std::vector<int64_t>& shape, const Values& values, at::ScalarType dtype) {
  const at::Tensor t = at::empty(shape, at::TensorOptions(at::kDouble));
  std::ranges::copy(values, t.mutable_data_ptr<double>());
  return t.to(dtype);
}

std::string name_of(const Case& c) {
  const char* kinds[] = {"adamw", "sgd", "lamb"};
  return fmt::format("{} momentum {}, ZeRO-{}, {} with states in {}, {} micro-batches, host {}",
                     kinds[static_cast<int>(c.optimizer.kind)], c.optimizer.momentum, c.stage,
                     partita::name_of(c.compute), partita::name_of(c.states), c.micro_batches, c.host);
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

bool equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.first == y.first && x.second.equal(y.second); });
}

std::map<std::string, Reference> references(const Shards& s) {
  std::map<std::string, Reference> all;
  for (const auto& [name, p] : s.parameters) {
    const auto count = static_cast<size_t>(p->count());
    Reference& reference = all[name] = {.decay = p->decay, .w = Values(count), .a = Values(count), .b = Values(count)};
    for (size_t i = 0; i < count; ++i) reference.w[i] = initial(*p, static_cast<int64_t>(i));
  }
  return all;
}

void expect_state(Shards& s, const std::map<std::string, Reference>& expected) {
  const std::map<std::string, at::Tensor> gathered = s.gathered();
  const size_t states = s.shards.optimizer_state_names().size();
  for (const OwnedBox& owned : s.shards.owned_boxes()) {
    const ParameterSpec& p = *owned.parameter;
    SCOPED_TRACE(p.name);
    if (testing::Test::HasFatalFailure()) return;
    const Reference& reference = expected.at(p.name);
    ASSERT_EQ(owned.values.size(), p.trainable ? 1 + states : 1);
    for (size_t v = 0; v < owned.values.size(); ++v) {
      const at::Tensor found = owned.values[v].to(at::kDouble);
      EXPECT_EQ(dtype_of(owned.values[v]), p.trainable ? s.c.states : s.c.compute);
      ASSERT_EQ(found.numel(), owned.box.count());
      const Values& wanted = v == 0 ? reference.w : v == 1 ? reference.a : reference.b;
      each_element(owned, [&](int64_t i, size_t whole) {
        ASSERT_NEAR(found.data_ptr<double>()[i], wanted[whole], 4e-6 * (1 + std::abs(wanted[whole])))
            << "value " << v << ", element " << whole;
      });
    }
    // What was published is the master, rounded once.
    const at::Tensor published = gathered.at(p.name).view({-1}).to(at::kDouble),
                     rounded = owned.values[0].to(scalar_type(s.c.compute)).to(at::kDouble);
    each_element(owned, [&](int64_t i, size_t whole) {
      ASSERT_EQ(published.data_ptr<double>()[whole], rounded.data_ptr<double>()[i]) << "element " << whole;
    });
  }
  const double unit = s.c.compute == DType::fp32 ? 4e-6 : s.c.compute == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  for (const auto& [name, reference] : expected) {
    const at::Tensor found = gathered.at(name).to(at::kDouble).contiguous();
    for (size_t i = 0; i < reference.w.size(); ++i)
      ASSERT_NEAR(found.data_ptr<double>()[i], reference.w[i], 1.01 * unit * std::abs(reference.w[i]) + 4e-6)
          << name << ", element " << i << " of the gathered weights";
  }
}

}  // namespace partita::internal::test
