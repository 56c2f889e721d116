#include "partita/module/operand_watch.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "partita/base/error.h"
#include "partita/module/operand_key.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A watch over tensors of one storage each, whose memory is there for as long as an operation runs.
class Watched {
 public:
  explicit Watched(std::vector<std::string>& log, std::string name)
      : log_(log),
        name_(std::move(name)),
        watch_({.before =
                    [this](std::span<const int> used) {
                      note("uses", used);
                      for (const int u : used) show(u, true);
                      if (fails) fail("{} has none", name_);
                    },
                .after =
                    [this](std::span<const int> used, std::span<const int> written) {
                      if (!written.empty()) note("wrote", written);
                      for (const int u : used) show(u, false);
                    }},
               name_ + " is gone") {}
  torch::Tensor add(const torch::Tensor& values) {
    const int number = static_cast<int>(values_.size());
    values_.push_back(values.contiguous());
    storages_.push_back(watch_.add(number, static_cast<int64_t>(values.nbytes()), at::kCPU));
    depth_.push_back(0);
    torch::Tensor tensor = torch::empty({0});
    set_data(tensor, OperandWatch::view(storages_.back(), values, 0));
    return tensor;
  }
  bool fails = false;

 private:
  void note(const char* what, std::span<const int> numbers) {
    std::string line = name_ + " " + what;
    for (const int n : numbers) line += " " + std::to_string(n);
    if (log_.empty() || log_.back() != line) log_.push_back(line);
  }
  void show(int number, bool now) {
    const auto n = static_cast<size_t>(number);
    depth_[n] += now ? 1 : -1;
    OperandWatch::set_memory(storages_[n], depth_[n] > 0 ? values_[n].mutable_data_ptr() : nullptr);
  }
  std::vector<std::string>& log_;
  std::string name_;
  std::vector<torch::Tensor> values_;
  std::vector<c10::Storage> storages_;
  std::vector<int> depth_;
  OperandWatch watch_;
};

class OperandWatchTest : public testing::Test {
 protected:
  std::vector<std::string> logged() { return std::exchange(log_, {}); }
  std::vector<std::string> log_;
};

TEST_F(OperandWatchTest, ReportsWhatIsReadAndWritten) {
  Watched watched(log_, "w");
  const torch::Tensor a = watched.add(torch::arange(6.).view({2, 3})), b = watched.add(torch::ones({3}));
  EXPECT_EQ(a.sum().item<double>(), 15);
  EXPECT_THAT(logged(), ElementsAre("w uses 0"));
  EXPECT_EQ(torch::cat({b, a.flatten(), torch::ones({1})}).sum().item<double>(), 19);
  EXPECT_THAT(logged(), testing::Contains("w uses 0 1"));
  const torch::Tensor view = a.t().narrow(0, 1, 2);
  EXPECT_THAT(logged(), IsEmpty()) << "making a view reads nothing";
  EXPECT_EQ(view.sum().item<double>(), 12);
  EXPECT_THAT(logged(), ElementsAre("w uses 0"));
  view.fill_(7);
  EXPECT_THAT(logged(), ElementsAre("w uses 0", "w wrote 0"));
  EXPECT_EQ(a.sum().item<double>(), 4 * 7 + 3);
  torch::add_out(const_cast<torch::Tensor&>(b), torch::ones({3}), torch::ones({3}));
  EXPECT_THAT(logged(), testing::Contains("w wrote 1"));
  EXPECT_EQ(b.sum().item<double>(), 6);
}

TEST_F(OperandWatchTest, WhatAutogradSavesIsWatched) {
  Watched watched(log_, "w");
  torch::Tensor w = watched.add(torch::randn({4, 3}));
  const torch::Tensor plain = w.clone().requires_grad_(true), x = torch::randn({5, 3});
  w.requires_grad_(true);
  torch::linear(torch::tanh(torch::linear(x, w)), w.t()).sum().backward();
  torch::linear(torch::tanh(torch::linear(x, plain)), plain.t()).sum().backward();
  EXPECT_TRUE(w.grad().equal(plain.grad()));
}

TEST_F(OperandWatchTest, WatchesAreCalledInTheOrderInWhichTheyWereMade) {
  std::vector<std::unique_ptr<Watched>> all;
  std::vector<torch::Tensor> tensors;
  for (int i = 0; i < 9; ++i) {
    all.push_back(std::make_unique<Watched>(log_, std::to_string(i)));
    tensors.push_back(all.back()->add(torch::ones({1})));
  }
  std::reverse(tensors.begin(), tensors.end());
  (void)torch::stack(tensors);
  const std::vector<std::string> lines = logged();
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(lines[i], std::to_string(i) + " uses 0");
}

// Where one fails the others are told the end of the operation; later operations work.
TEST_F(OperandWatchTest, AFailureIsTheOperations) {
  Watched first(log_, "first"), second(log_, "second");
  const torch::Tensor a = first.add(torch::ones({2})), b = second.add(torch::ones({2}));
  second.fails = true;
  EXPECT_THAT(error_message([&] { (void)(a + b); }), HasSubstr("second has none"));
  second.fails = false;
  EXPECT_EQ((a + b).sum().item<double>(), 4);
  EXPECT_ANY_THROW((void)torch::matmul(a, torch::ones({3})));
  EXPECT_EQ((a + b).sum().item<double>(), 4);
}

TEST_F(OperandWatchTest, AfterItsEndOperationsFail) {
  torch::Tensor a, view;
  {
    Watched watched(log_, "w");
    a = watched.add(torch::ones({2}));
    view = a.narrow(0, 1, 1);
  }
  EXPECT_THAT(error_message([&] { (void)a.sum(); }), HasSubstr("w is gone"));
  EXPECT_THAT(error_message([&] { (void)view.sum(); }), HasSubstr("w is gone"));
  for (int i = 0; i < 100; ++i) {  // other storages may be at old addresses
    Watched other(log_, "other");
    EXPECT_EQ(other.add(torch::ones({2})).sum().item<double>(), 2);
  }
}

}  // namespace
}  // namespace partita::internal
