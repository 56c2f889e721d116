#include "partita/shard/weights_off_device.h"

#include <algorithm>
#include <utility>

#include "partita/device/host_memory.h"
#include "partita/device/scalar_type.h"

namespace partita::internal {

WeightsFile plan_weights_file(const UnitPlan& plan) {
  WeightsFile file{.buffer = std::vector<int>(plan.units.size(), -1),
                   .offset = std::vector<int64_t>(plan.units.size(), 0),
                   .size = std::vector<int64_t>(plan.units.size(), 0)};
  size_t turn = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    if (unit.weights != StatesPlace::disk) continue;
    const size_t buffer = turn++ % file.buffer_bytes.size();
    file.buffer[u] = static_cast<int>(buffer);
    file.offset[u] = file.bytes;
    file.size[u] = ScratchFile::whole_blocks(unit.layout.slice_count() * size_of(unit.weight));
    file.bytes += file.size[u];
    file.buffer_bytes[buffer] = std::max(file.buffer_bytes[buffer], file.size[u]);
  }
  return file;
}

int64_t weights_host_bytes(const UnitPlan& plan) {
  const WeightsFile file = plan_weights_file(plan);
  int64_t total = file.buffer_bytes[0] + file.buffer_bytes[1];
  for (const Unit& unit : plan.units)
    if (unit.weights == StatesPlace::host) total += unit.layout.slice_count() * size_of(unit.weight);
  return total;
}

WeightsOffDevice::WeightsOffDevice(const UnitPlan& plan, const std::filesystem::path& folder, at::Device device,
                                   Copies& copies)
    : copies_(copies), plan_(plan_weights_file(plan)), slices_(plan.units.size()) {
  if (plan_.bytes > 0) file_ = std::make_unique<ScratchFile>(folder, plan_.bytes);
  for (size_t b = 0; b < buffers_.size(); ++b) buffers_[b].memory = pinned_bytes(plan_.buffer_bytes[b], device);
  for (size_t u = 0; u < slices_.size(); ++u) {
    const Unit& unit = plan.units[u];
    if (unit.weights == StatesPlace::host)
      slices_[u] = pinned_zeros(unit.layout.slice_count(), unit.weight, device);
    else if (unit.weights == StatesPlace::disk)
      slices_[u] = file_->view(plan_.offset[u], unit.layout.slice_count(), unit.weight);
  }
}

void WeightsOffDevice::read_ahead(int unit) {
  const auto u = static_cast<size_t>(unit);
  if (plan_.buffer[u] < 0) return;
  Buffer& buffer = buffers_[static_cast<size_t>(plan_.buffer[u])];
  if (buffer.unit == unit) return;
  buffer.read.wait();
  buffer.fetched.wait();
  buffer.unit = unit;
  buffer.read = file_->read(buffer.memory.mutable_data_ptr(), plan_.offset[u], plan_.size[u]);
}

Event WeightsOffDevice::fetch(int unit, const at::Tensor& memory, const Event& free) {
  const auto u = static_cast<size_t>(unit);
  if (plan_.buffer[u] < 0) return copies_.up(memory, slices_[u], free);
  read_ahead(unit);
  Buffer& buffer = buffers_[static_cast<size_t>(plan_.buffer[u])];
  buffer.read.wait();
  const at::Tensor there = buffer.memory.narrow(0, 0, static_cast<int64_t>(memory.nbytes())).view(memory.scalar_type());
  return buffer.fetched = copies_.up(memory, there, free);
}

void WeightsOffDevice::forget(int unit) {
  const int buffer = plan_.buffer[static_cast<size_t>(unit)];
  if (buffer >= 0 && buffers_[static_cast<size_t>(buffer)].unit == unit)
    buffers_[static_cast<size_t>(buffer)].unit = -1;
}

int64_t WeightsOffDevice::host_bytes() const {
  int64_t total = 0;
  for (const Buffer& buffer : buffers_) total += static_cast<int64_t>(buffer.memory.nbytes());
  for (size_t u = 0; u < slices_.size(); ++u)
    if (slices_[u].defined() && plan_.buffer[u] < 0) total += static_cast<int64_t>(slices_[u].nbytes());
  return total;
}

}  // namespace partita::internal
