#include "partita/engine/host_states.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/host_memory.h"
#include "partita/device/scalar_type.h"

namespace partita::internal {
namespace {

constexpr size_t kBuffers = 3, kStaging = 2;

}  // namespace

// Neighbors in the order of updates, which begins with vectors, have different working buffers.
StatesFile plan_states_file(const UnitPlan& plan, int tensors, int64_t item) {
  StatesFile file{.buffer = std::vector<int>(plan.units.size(), -1),
                  .offset = std::vector<int64_t>(plan.units.size(), 0),
                  .tensor = std::vector<int64_t>(plan.units.size(), 0)};
  std::vector<size_t> units;
  for (const bool vectors : {true, false})
    for (size_t u = 0; u < plan.units.size(); ++u)
      if (plan.units[u].states == StatesPlace::disk && (plan.units[u].pool == BufferPool::persistent) == vectors)
        units.push_back(u);
  file.buffer_bytes.resize(std::min(units.size(), kBuffers), 0);
  for (size_t i = 0; i < units.size(); ++i) {
    const size_t u = units[i];
    const size_t buffer = i % kBuffers;
    file.buffer[u] = static_cast<int>(buffer);
    file.offset[u] = file.bytes;
    file.tensor[u] = ScratchFile::whole_blocks(plan.units[u].layout.slice_count() * item);
    file.bytes += tensors * file.tensor[u];
    file.buffer_bytes[buffer] = std::max(file.buffer_bytes[buffer], tensors * file.tensor[u]);
  }
  return file;
}

HostStates::HostStates(const UnitPlan& plan, const Options& options, Copies& copies)
    : copies_(copies),
      poison_(options.poison),
      plan_(plan_states_file(plan, 1 + options.states, size_of(options.master))),
      units_(plan.units.size()) {
  const bool own_weight = options.master != options.weight;
  int64_t largest = 0;
  for (size_t u = 0; u < units_.size(); ++u) {
    if (!plan.units[u].on_host()) continue;
    UnitStates& unit = units_[u];
    const int64_t count = plan.units[u].layout.slice_count();
    const StatesPlace weights = plan.units[u].weights;
    unit.stays = weights != StatesPlace::device;
    if (own_weight && unit.stays)
      unit.weight = options.weights[u];
    else if (own_weight)
      largest = std::max(largest, count);
    if (in_file(static_cast<int>(u))) continue;
    // Only memory that the device reads is pinned.
    if (own_weight || weights == StatesPlace::disk)
      unit.master = host_zeros(count, options.master);
    else if ((unit.master_is_slice = weights == StatesPlace::host))
      unit.master = options.weights[u];
    else
      unit.master = pinned_zeros(count, options.master, options.device);
    for (int s = 0; s < options.states; ++s) unit.states.push_back(host_zeros(count, options.master));
    unit.working.push_back(unit.master);
    unit.working.insert(unit.working.end(), unit.states.begin(), unit.states.end());
  }
  place_in_file(plan, options);
  if (largest > 0)
    for (size_t s = 0; s < kStaging; ++s) staging_.push_back(pinned_zeros(largest, options.weight, options.device));
  sent_.resize(own_weight ? kStaging : units_.size());
  for (UnitStates& unit : units_)
    if (unit.master.defined() && !unit.weight.defined())
      unit.weight = own_weight ? staging_[0].narrow(0, 0, unit.master.numel()) : unit.working.front();
}

void HostStates::place_in_file(const UnitPlan& plan, const Options& options) {
  if (plan_.bytes == 0) return;
  const bool own_weight = options.master != options.weight;
  for (const int64_t bytes : plan_.buffer_bytes)
    buffers_.emplace_back().memory = own_weight ? host_zeros(bytes, DType::uint8) : pinned_bytes(bytes, options.device);
  file_ = std::make_unique<ScratchFile>(options.folder, plan_.bytes, /*checked=*/poison_);
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    if (!in_file(u)) continue;
    const auto index = static_cast<size_t>(u);
    UnitStates& unit = units_[index];
    const int64_t count = plan.units[index].layout.slice_count(), bytes = count * size_of(options.master);
    for (int t = 0; t <= options.states; ++t) {
      const int64_t begin = t * plan_.tensor[index];
      const at::Tensor kept = file_->view(plan_.offset[index] + begin, count, options.master);
      (t == 0 ? unit.master : unit.states.emplace_back()) = kept;
      unit.working.push_back(buffer_of(u).memory.narrow(0, begin, bytes).view(scalar_type(options.master)));
    }
  }
}

// Whoever asks may write through the views.
const HostStates::UnitStates& HostStates::kept(int unit) const {
  const auto u = static_cast<size_t>(unit);
  if (in_file(unit)) file_->uncheck(plan_.offset[u], static_cast<int64_t>(units_[u].working.size()) * plan_.tensor[u]);
  return units_[u];
}

Event HostStates::transfer(int unit, bool writes) {
  const auto u = static_cast<size_t>(unit);
  void* memory = buffer_of(unit).memory.mutable_data_ptr();
  const int64_t bytes = static_cast<int64_t>(units_[u].working.size()) * plan_.tensor[u];
  return writes ? file_->write(memory, plan_.offset[u], bytes) : file_->read(memory, plan_.offset[u], bytes);
}

void HostStates::begin_read(int unit) {
  WorkingBuffer& buffer = buffer_of(unit);
  if (buffer.unit == unit) return;
  std::exchange(buffer.written, {}).wait();
  buffer.sent.wait();
  if (poison_) buffer.memory.fill_(255);  // all bits: NaN in every floating type
  buffer.unit = unit;
  buffer.read = transfer(unit, /*writes=*/false);
}

// What is in a buffer is not taken for its unit again, after an error neither: values may be changed in the file.
void HostStates::with_loaded(int unit, const std::function<void()>& work) {
  WorkingBuffer& buffer = buffer_of(unit);
  int next = -1;
  {
    const std::lock_guard lock(mutex_);
    PARTITA_CHECK(!queued_.empty() && queued_.front() == unit, "unit {} on disk is not next", unit);
    queued_.pop_front();
    if (!queued_.empty()) next = queued_.front();
  }
  try {
    begin_read(unit);
    if (next >= 0 && &buffer_of(next) != &buffer) begin_read(next);
    buffer.read.wait();
    work();
  } catch (...) {
    buffer.unit = -1;
    throw;
  }
  buffer.unit = -1;
}

void HostStates::queue(int unit) {
  const std::lock_guard lock(mutex_);
  if (in_file(unit)) queued_.push_back(unit);
}

Event HostStates::visit(int unit, std::function<void()> work) {
  queue(unit);
  return worker_.submit([this, unit, work = std::move(work)] {
    if (in_file(unit))
      with_loaded(unit, work);
    else
      work();
    return Event();
  });
}

Event HostStates::send(int unit, at::Tensor slice, const Event& after, std::function<void()> work, bool changes_states,
                       Worker::Turn turn) {
  const bool filed = in_file(unit);
  queue(unit);
  const auto task = [this, unit, slice, after, filed, changes_states, work = std::move(work)] {
    UnitStates& states = units_[static_cast<size_t>(unit)];
    const bool staged = !staging_.empty() && !states.stays;
    const size_t lane = staged ? turn_++ % kStaging : static_cast<size_t>(unit);
    const auto change = [&] {
      if (!states.stays) sent_[lane].wait();  // the previous copy out of this memory is complete
      if (staged) states.weight = staging_[lane].narrow(0, 0, states.working.front().numel());
      work();
      if (states.stays && !states.weight.is_same(slice)) slice.copy_(states.weight);
      if (filed && changes_states) buffer_of(unit).written = transfer(unit, /*writes=*/true);
    };
    if (filed)
      with_loaded(unit, change);
    else
      change();
    if (states.stays) return Event();
    Event& sent = sent_[lane];
    sent = copies_.up(slice, states.weight, after);
    if (filed && !staged) buffer_of(unit).sent = sent;
    return sent;
  };
  Event sent_to_device = worker_.submit(task, std::move(turn));
  given_.push_back(sent_to_device);
  return sent_to_device;
}

void HostStates::finish() {
  std::vector<Event> given = std::exchange(given_, {});
  std::exception_ptr first;
  const auto wait = [&first](const Event& event) {
    try {
      event.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  for (const Event& event : given) wait(event);
  for (WorkingBuffer& buffer : buffers_) wait(std::exchange(buffer.written, {}));
  if (first) std::rethrow_exception(first);
}

int64_t HostStates::bytes() const {
  int64_t total = 0;
  const auto add = [&total](const at::Tensor& tensor) { total += static_cast<int64_t>(tensor.nbytes()); };
  for (const at::Tensor& staging : staging_) add(staging);
  for (const WorkingBuffer& buffer : buffers_) add(buffer.memory);
  for (size_t u = 0; u < units_.size(); ++u) {
    if (!units_[u].master.defined() || in_file(static_cast<int>(u))) continue;
    if (!units_[u].master_is_slice) add(units_[u].master);
    for (const at::Tensor& state : units_[u].states) add(state);
  }
  return total;
}

}  // namespace partita::internal
