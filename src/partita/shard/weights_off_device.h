// This rank's slices of weights that are not on the device: in pinned host memory, or in a file that is read ahead.
//
//   WeightsOffDevice weights(plan, folder, device, copies);
//   weights.slice(u)                                   // written by the optimizer
//   weights.read_ahead(u);                             // under compute
//   Event there = weights.fetch(u, part, free);        // into memory on the device, once that is free
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <filesystem>
#include <memory>
#include <vector>

#include "partita/device/copies.h"
#include "partita/device/scratch_file.h"
#include "partita/shard/units.h"

namespace partita::internal {

// Where the slices of units on disk are: at multiples of a block, read into one of two buffers in turn. Pure.
struct WeightsFile {
  std::vector<int> buffer;      // [unit]; -1: not in the file
  std::vector<int64_t> offset;  // [unit]: bytes
  std::vector<int64_t> size;    // [unit]: bytes that are read
  int64_t bytes = 0;
  std::array<int64_t, 2> buffer_bytes = {0, 0};
};
[[nodiscard]] WeightsFile plan_weights_file(const UnitPlan&);
// Host memory of a rank's slices, and of those buffers. Pure.
[[nodiscard]] int64_t weights_host_bytes(const UnitPlan&);

class WeightsOffDevice {
 public:
  // `copies` must outlive this object. Errors: those of ScratchFile, and of pinned memory.
  WeightsOffDevice(const UnitPlan&, const std::filesystem::path& folder, at::Device, Copies& copies);

  // [slice_count] in host memory, or a view of the file; undefined: on the device.
  [[nodiscard]] at::Tensor slice(int unit) const { return slices_[static_cast<size_t>(unit)]; }
  // Begins to read a unit on disk, if it is not there or being read; its slice is complete. Others: nothing.
  void read_ahead(int unit);
  // Copies the slice, which is complete, to memory on the device once that is `free`.
  [[nodiscard]] Event fetch(int unit, const at::Tensor& memory, const Event& free);
  // The slice is about to be written: what was read of it is no longer taken.
  void forget(int unit);

  [[nodiscard]] int64_t host_bytes() const;
  [[nodiscard]] int64_t disk_bytes() const { return file_ ? file_->bytes() : 0; }

 private:
  struct Buffer {
    at::Tensor memory;  // bytes
    int unit = -1;      // being read or there
    Event read;
    Event fetched;  // the last copy from here to the device
  };

  Copies& copies_;
  WeightsFile plan_;
  std::vector<at::Tensor> slices_;  // [unit]
  std::array<Buffer, 2> buffers_;
  std::unique_ptr<ScratchFile> file_;  // null: all are in memory. Last: its transfers end before what they use
};

}  // namespace partita::internal
