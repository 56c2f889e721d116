#include "partita/pipeline/v_schedules.h"

#include <algorithm>
#include <array>
#include <deque>

namespace partita::internal {
namespace {

// Builds a list in which each kind of pass takes the micro-batches of a chunk in order. Counts micro-batches that do
// not exist, but lists nothing for them.
class VList {
 public:
  explicit VList(int micro_batches) : micro_batches_(micro_batches) {}

  void forward(int chunk) { add(ActionKind::forward, chunk, forwards_[index(chunk)]++); }
  void backward(int chunk) { add(ActionKind::backward, chunk, gradients_[index(chunk)]++); }
  void input_gradient(int chunk) {
    open_.push_back({.chunk = chunk, .micro_batch = gradients_[index(chunk)]});
    add(ActionKind::input_gradient, chunk, gradients_[index(chunk)]++);
  }
  // Oldest open weight gradient of the chunk, or of both; none open: nothing.
  void weight_gradient(int chunk) {
    close(std::find_if(open_.begin(), open_.end(), [&](const PipelineAction& a) { return a.chunk == chunk; }));
  }
  void weight_gradient() { close(open_.begin()); }
  // A forward and a whole backward at the same time.
  void pair(int forward_chunk, int backward_chunk) {
    const size_t before = list_.size();
    forward(forward_chunk);
    backward(backward_chunk);
    if (list_.size() == before + 2) list_[before].with_next = true;
  }

  [[nodiscard]] int forwards(int chunk) const { return forwards_[index(chunk)]; }
  [[nodiscard]] bool open() const { return !open_.empty(); }
  [[nodiscard]] ActionList take() { return std::move(list_); }

 private:
  static size_t index(int chunk) { return static_cast<size_t>(chunk); }
  void add(ActionKind kind, int chunk, int micro_batch) {
    if (micro_batch < micro_batches_) list_.push_back({kind, chunk, micro_batch});
  }
  void close(std::deque<PipelineAction>::iterator at) {
    if (at == open_.end()) return;
    add(ActionKind::weight_gradient, at->chunk, at->micro_batch);
    open_.erase(at);
  }

  int micro_batches_;
  ActionList list_;
  std::array<int, 2> forwards_{}, gradients_{};  // [chunk]
  std::deque<PipelineAction> open_;              // input gradient done, weight gradient not
};

}  // namespace

ActionList zbv_actions(int ranks, int micro_batches, int rank) {
  const int count = std::max(micro_batches, 2 * ranks - 1);
  const int later = ranks - rank;  // this rank and those after it
  VList list(micro_batches);
  // Warm-up: until the first micro-batch has been down and up again.
  for (int i = 0; i < 2 * later - 1; ++i) list.forward(0);
  for (int i = 0; i < rank; ++i) {
    list.forward(1);
    list.forward(0);
  }
  for (int i = 0; i < later; ++i) {
    list.forward(1);
    list.input_gradient(1);
    list.weight_gradient(1);
  }
  // Both chunks in turn.
  for (int i = 0; i < count - ranks; ++i) {
    if (list.forwards(0) < count) list.forward(0);
    list.input_gradient(0);
    list.weight_gradient(0);
    list.forward(1);
    list.input_gradient(1);
    list.weight_gradient(1);
  }
  // No forwards remain: weight gradients fill the time in which ranks would wait for gradients.
  for (int i = 0; i < rank; ++i) {
    list.input_gradient(0);
    list.input_gradient(1);
  }
  for (int i = 0; i < later; ++i) {
    list.input_gradient(0);
    list.weight_gradient(0);
  }
  for (int i = 0; i < rank; ++i) list.weight_gradient(1);
  while (list.open()) list.weight_gradient();
  return list.take();
}

ActionList dual_pipe_v_actions(int ranks, int micro_batches, int rank) {
  const int count = std::max(micro_batches, 2 * ranks);
  const int later = ranks - 1 - rank;  // ranks after this one
  VList list(micro_batches);
  for (int i = 0; i < 2 * later; ++i) list.forward(0);
  for (int i = 0; i < rank + 1; ++i) {
    list.forward(0);
    list.forward(1);
  }
  for (int i = 0; i < later; ++i) {
    list.input_gradient(1);
    list.weight_gradient();
    list.forward(1);
  }
  for (int i = 0; i < count - 2 * ranks + rank + 1; ++i) {
    if (i == 0 && later == 0) {  // the turn of the V: the backward starts the way up, and is not slowed by a forward
      list.forward(0);
      list.backward(1);
    } else {
      list.pair(0, 1);
    }
    list.pair(1, 0);
  }
  for (int i = 0; i < later; ++i) {
    list.backward(1);
    list.pair(1, 0);
  }
  // The last backwards of chunks 1 and 0 in turn, the second half of them split: their weight gradients are computed
  // where the rank would wait.
  for (int i = 0; i < 2 * (rank + 1); ++i) {
    const int chunk = 1 - i % 2;
    if (i <= rank)
      list.backward(chunk);
    else
      list.input_gradient(chunk);
  }
  for (int i = 0; i < later; ++i) {
    list.weight_gradient();
    list.input_gradient(0);
  }
  while (list.open()) list.weight_gradient();
  return list.take();
}

}  // namespace partita::internal
