// Which device a rank computes on, and what it is.
//
//   const c10::Device device = select_device(DeviceRequest::automatic, world);
//   log::info("{}", describe_device(device));    // "NVIDIA H100 80GB HBM3, 79.6 GiB, driver 580.159.04"
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "partita/comm/world.h"

namespace partita {

// automatic: GPUs where this build has code for them and there is one for each rank, the CPU elsewhere.
enum class DeviceRequest : uint8_t { automatic, cpu, cuda };

// Error: neither auto, cpu nor cuda.
[[nodiscard]] DeviceRequest parse_device(std::string_view);

struct DeviceFacts {
  bool built = false;                  // this build has code for GPUs
  int gpus = 0;                        // that this process sees
  int local_rank = 0, local_size = 1;  // of the ranks on this machine
  // It is one GPU that no other rank sees: whoever started the ranks has handed them out (srun --gpus-per-task=1).
  bool own = false;
};

// Pure. A GPU each for the ranks of a machine, by their numbers there, or their own. Errors, of cuda alone: a build
// without code for it; no GPU; more ranks than GPUs, on every rank of that machine.
[[nodiscard]] c10::Device choose_device(DeviceRequest, const DeviceFacts&);

// That of this process, made current. All ranks call it together. Errors: as choose_device; only some have GPUs.
[[nodiscard]] c10::Device select_device(DeviceRequest, World&);

// Pure. Whether this GPU is `own`, by the only GPU that each rank sees; empty: a rank sees none, or several.
[[nodiscard]] bool is_own_gpu(std::span<const std::string> only_gpus, int rank);

// Name, memory and driver of a GPU; "CPU".
[[nodiscard]] std::string describe_device(c10::Device);
// Those of all ranks, equal ones counted: "2 x NVIDIA ...". Pure.
[[nodiscard]] std::string describe_devices(std::span<const std::string>);

}  // namespace partita
