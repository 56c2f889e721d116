// Master weights and optimizer states that the host keeps, in its memory or in a file, and updates. New weights are
// copied to the device unit by unit, while the next unit is updated.
//
//   HostStates host(plan, {.master = DType::fp32, .weight = DType::bf16, .states = 2, .device = device}, copies);
//   ShardView{.master = host.working_master(u), .weight = host.weight(u), .states = host.working_states(u), ...}
//   for each trained unit u, in the order in which forward reads them:
//     updated[u] = host.update(u, slice, compute.record(), [=] { optimizer.step(view, norms, &now); });
//   for each trained unit u, in that order:
//     weights.publish(u, updated[u]);             // readers of the slice wait; a gather of the unit, immediately
//   ...
//   host.finish();                                     // before master weights and states are read elsewhere
//   host.master(u), host.states(u)
//
// What is in a file is updated in one of three working buffers: while a unit is updated, the next one is read, and the
// one before is written.
#pragma once
#include <ATen/core/Tensor.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "partita/device/copies.h"
#include "partita/device/scratch_file.h"
#include "partita/device/worker.h"
#include "partita/shard/units.h"

namespace partita::internal {

// Where the states of units on disk are: each unit's tensors follow each other in the file, at multiples of a block,
// and working buffers have the same form. Pure.
struct StatesFile {
  std::vector<int> buffer;      // [unit]: working buffer; -1: not in the file
  std::vector<int64_t> offset;  // [unit]: bytes
  std::vector<int64_t> tensor;  // [unit]: bytes from one tensor to the next
  int64_t bytes = 0;
  std::vector<int64_t> buffer_bytes;  // [working buffer]: of the largest of its units
};
// tensors: of a unit, master weights and states, of `item` bytes an element.
[[nodiscard]] StatesFile plan_states_file(const UnitPlan&, int tensors, int64_t item);

class HostStates {
 public:
  struct Options {
    DType master = DType::fp32, weight = DType::fp32;  // equal: no separate master weights
    int states = 0;                                    // optimizer state tensors, in the dtype of master
    at::Device device = at::kCPU;
    std::filesystem::path folder;  // for the file of units on disk
    // [unit], or empty: where weights that are off the device are; undefined: they are on the device.
    std::vector<at::Tensor> weights;
    bool poison = false;  // fill a working buffer with NaN when it changes owner, and check what is read
  };
  // For this rank's slices of units on the host. `copies` must outlive this object. Errors: those of ScratchFile.
  HostStates(const UnitPlan&, const Options&, Copies& copies);

  // Where they are kept: in memory, or a view of the file. After finish().
  [[nodiscard]] at::Tensor master(int unit) const { return kept(unit).master; }
  [[nodiscard]] const std::vector<at::Tensor>& states(int unit) const { return kept(unit).states; }
  // Where `work` finds and changes them.
  [[nodiscard]] at::Tensor working_master(int unit) const { return units_[static_cast<size_t>(unit)].working.front(); }
  [[nodiscard]] std::vector<at::Tensor> working_states(int unit) const {
    const std::vector<at::Tensor>& all = units_[static_cast<size_t>(unit)].working;
    return {all.begin() + 1, all.end()};
  }
  // While `work` of the unit runs: where it writes the weights in the compute dtype.
  [[nodiscard]] at::Tensor weight(int unit) const { return units_[static_cast<size_t>(unit)].weight; }

  // Queues `work`, which writes weight(unit), on a background thread; the result is then copied to `slice`, on the
  // device once `after` has happened. Returns the event of that copy. `work` must own what it reads. Units on disk are
  // given with priorities that do not fall, and are ready. Where weights are off the device, `work` or a copy writes
  // `slice` at once: all copies of it to the device that were asked for have been waited for.
  [[nodiscard]] Event update(int unit, at::Tensor slice, const Event& after, std::function<void()> work,
                             Worker::Turn turn = {}) {
    return send(unit, std::move(slice), after, std::move(work), /*changes_states=*/true, std::move(turn));
  }
  // The same for `work` that reads master weights and states, and changes nothing else. In FIFO order, after finish().
  [[nodiscard]] Event upload(int unit, at::Tensor slice, const Event& after, std::function<void()> work) {
    return send(unit, std::move(slice), after, std::move(work), /*changes_states=*/false, {});
  }
  // Queues `work`, which reads the unit's master weights and states and changes nothing.
  [[nodiscard]] Event visit(int unit, std::function<void()> work);
  // Waits for all queued work and rethrows its errors.
  void finish();

  [[nodiscard]] int64_t bytes() const;  // in memory
  [[nodiscard]] int64_t disk_bytes() const { return file_ ? file_->bytes() : 0; }

 private:
  struct UnitStates {
    at::Tensor master, weight;
    std::vector<at::Tensor> states;
    std::vector<at::Tensor> working;  // master and states
    bool stays = false;               // its weights are off the device
    bool master_is_slice = false;     // its master weights are those
  };
  struct WorkingBuffer {  // used by the worker only
    at::Tensor memory;    // bytes
    int unit = -1;        // being read or there
    Event read, written;
    Event sent;  // without separate master weights: its weights are on the device
  };

  void place_in_file(const UnitPlan&, const Options&);
  [[nodiscard]] bool in_file(int unit) const { return plan_.buffer[static_cast<size_t>(unit)] >= 0; }
  [[nodiscard]] const UnitStates& kept(int unit) const;
  [[nodiscard]] Event send(int unit, at::Tensor slice, const Event& after, std::function<void()> work,
                           bool changes_states, Worker::Turn turn);
  void queue(int unit);
  // The worker's: runs work with the unit in its working buffer, while the next one that is queued is read.
  void with_loaded(int unit, const std::function<void()>& work);
  void begin_read(int unit);
  [[nodiscard]] WorkingBuffer& buffer_of(int unit) {
    return buffers_[static_cast<size_t>(plan_.buffer[static_cast<size_t>(unit)])];
  }
  // Reads the unit into its working buffer, or writes it from there.
  [[nodiscard]] Event transfer(int unit, bool writes);

  Copies& copies_;
  bool poison_;
  StatesFile plan_;
  std::vector<UnitStates> units_;
  std::vector<at::Tensor> staging_;  // two, used in turn; none without separate master weights
  size_t turn_ = 0;                  // of staging_; this and sent_ are used by the worker only
  std::vector<Event> sent_;          // [staging], or [unit] without staging
  std::vector<Event> given_;         // since finish
  std::vector<WorkingBuffer> buffers_;
  std::unique_ptr<ScratchFile> file_;  // null: all units are in memory. After what its transfers use
  std::mutex mutex_;
  std::deque<int> queued_;  // units of the file that work waits for
  Worker worker_;           // last: stops before the members it uses are destroyed
};

}  // namespace partita::internal
