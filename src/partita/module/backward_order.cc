#include "partita/module/backward_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {

BackwardOrder::BackwardOrder(const std::vector<int>& parameters, std::vector<int> buffers)
    : buffers_(std::move(buffers)), place_(parameters.size()), missing_(parameters.size(), 0) {
  for (const int count : parameters) there_.emplace_back(count, false);
  std::vector<int> reverse(parameters.size());
  std::iota(reverse.rbegin(), reverse.rend(), 0);
  set_sequence(std::move(reverse));
}

void BackwardOrder::set_sequence(std::vector<int> units) {
  sequence_ = std::move(units);
  for (size_t i = 0; i < sequence_.size(); ++i) place_[static_cast<size_t>(sequence_[i])] = i;
  next_ = sequence_.size();
}

std::vector<int> BackwardOrder::seen() const {
  std::vector<int> all = seen_;
  for (const int unit : sequence_)
    if (std::ranges::find(seen_, unit) == seen_.end()) all.push_back(unit);
  return all;
}

void BackwardOrder::begin(std::vector<bool> units) {
  in_pass_ = std::move(units);
  for (size_t u = 0; u < there_.size(); ++u) {
    there_[u].assign(there_[u].size(), false);
    missing_[u] = static_cast<int>(there_[u].size());
  }
  seen_.clear();
  next_ = 0;
  skip();
}

void BackwardOrder::arrived(int unit, int parameter) {
  const auto u = static_cast<size_t>(unit);
  if (!in_pass_[u]) fail("a gradient in a backward pass that was announced to give none to this parameter");
  if (place_[u] < next_) fail("a second gradient in one backward pass, after the first was reduced");
  if (there_[u][static_cast<size_t>(parameter)]) return;
  there_[u][static_cast<size_t>(parameter)] = true;
  if (--missing_[u] == 0) seen_.push_back(unit);
}

bool BackwardOrder::writable(int unit) const {
  const size_t place = place_[static_cast<size_t>(unit)];
  for (size_t i = next_; i < place; ++i)
    if (const auto other = static_cast<size_t>(sequence_[i]);
        in_pass_[other] && buffers_[other] == buffers_[static_cast<size_t>(unit)])
      return false;
  return true;
}

}  // namespace partita::internal
