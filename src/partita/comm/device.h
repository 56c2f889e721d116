// Selects and describes the device of a rank.
//
//   const c10::Device device = select_device(DeviceRequest::automatic, world);
//   log::info("{}", describe_device(device));    // "NVIDIA H100 80GB HBM3, 79.6 GiB, driver 580.159.04"
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "partita/base/enum_names.h"
#include "partita/comm/world.h"

namespace partita {

// automatic: GPUs if this build supports them and there is one per rank, otherwise the CPU.
enum class DeviceRequest : uint8_t { automatic, cpu, cuda };
template <>
struct EnumNames<DeviceRequest> {
  static constexpr std::array kNames = {"auto", "cpu", "cuda"};
};

// Error: not auto, cpu or cuda.
[[nodiscard]] DeviceRequest parse_device(std::string_view);

struct DeviceFacts {
  bool built = false;                  // this build supports GPUs
  int gpus = 0;                        // visible to this process
  int local_rank = 0, local_size = 1;  // within this machine
  // Its only visible GPU is visible to no other rank: the launcher assigned GPUs (srun --gpus-per-task=1).
  bool own = false;
};

// Pure. Assigns each rank of a machine the GPU of its local rank, or its own. Errors, for `cuda` only: a build without
// CUDA support; no GPU; more ranks than GPUs, reported on every rank of that machine.
[[nodiscard]] c10::Device choose_device(DeviceRequest, const DeviceFacts&);

// Selects this process's device and makes it current. Collective. Errors: see choose_device; only some ranks have GPUs.
[[nodiscard]] c10::Device select_device(DeviceRequest, World&);

// Pure. Whether this rank's GPU is `own`. only_gpus: the single GPU visible to each rank; empty: none, or several.
[[nodiscard]] bool is_own_gpu(std::span<const std::string> only_gpus, int rank);

// Name, memory and driver of a GPU; "CPU".
[[nodiscard]] std::string describe_device(c10::Device);
// Summary of the devices of all ranks, with counts: "2 x NVIDIA ...". Pure.
[[nodiscard]] std::string describe_devices(std::span<const std::string>);

}  // namespace partita
