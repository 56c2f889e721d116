#include "partita/comm/device.h"

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#ifdef PARTITA_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include "partita/base/cuda_error.h"
#endif

namespace partita {
using namespace internal;
namespace {

#ifdef PARTITA_CUDA
constexpr bool kBuilt = true;

int visible_gpus() { return c10::cuda::device_count(); }

// Machine-independent id of the only visible GPU; empty if there is none, or several.
std::string only_gpu() {
  if (visible_gpus() != 1) return {};
  cudaDeviceProp properties{};
  PARTITA_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  std::string name;
  for (const char byte : properties.uuid.bytes) name += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return name;
}

// Driver version from the kernel module, or else the newest CUDA version that the driver supports.
std::string driver_version() {
  std::string version;
  if (std::ifstream file("/sys/module/nvidia/version"); file && std::getline(file, version) && !version.empty())
    return version;
  int number = 0;
  PARTITA_CUDA_CHECK(cudaDriverGetVersion(&number));
  return fmt::format("for CUDA {}.{}", number / 1000, number % 1000 / 10);
}
#else
constexpr bool kBuilt = false;

int visible_gpus() { return 0; }
std::string only_gpu() { return {}; }
#endif

// The strings of all ranks.
std::vector<std::string> gather(World& world, const char* name, const std::string& mine) {
  if (world.size() == 1) return {mine};
  return gather_strings(*world.everyone(name), mine);
}

void check_all_alike(c10::Device device, World& world) {
  const std::vector<std::string> taken = gather(world, "devices", device.is_cpu() ? "the CPU" : "a GPU");
  for (size_t rank = 1; rank < taken.size(); ++rank)
    if (taken[rank] != taken[0])
      fail("rank 0 would compute on {}, rank {} on {}: start no more ranks than GPUs on any machine, or use device cpu",
           taken[0], rank, taken[rank]);
}

}  // namespace

DeviceRequest parse_device(std::string_view text) {
  if (const auto request = find_enum<DeviceRequest>(text)) return *request;
  fail("device '{}': auto, cpu or cuda expected", text);
}

c10::Device choose_device(DeviceRequest wish, const DeviceFacts& facts) {
  const c10::Device cpu(c10::kCPU);
  if (wish == DeviceRequest::cpu) return cpu;
  if (facts.built && facts.gpus == 1 && facts.own) return c10::Device(c10::kCUDA, 0);
  if (wish == DeviceRequest::automatic && (!facts.built || facts.gpus < facts.local_size)) return cpu;
  if (!facts.built)
    fail(
        "device cuda: this build has no code for GPUs: build with PARTITA_CUDA=1 where nvcc is found, or use device "
        "cpu");
  if (facts.gpus == 0)
    fail("device cuda: no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES, or use device cpu");
  if (facts.local_size > facts.gpus)
    fail("{} ranks on this machine, which shows {} GPU{} to each: start at most {} here, or use device cpu",
         facts.local_size, facts.gpus, facts.gpus == 1 ? "" : "s", facts.gpus);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(facts.local_rank));
}

bool is_own_gpu(std::span<const std::string> only_gpus, int rank) {
  const std::string& mine = only_gpus[static_cast<size_t>(rank)];
  return !mine.empty() && std::ranges::count(only_gpus, mine) == 1;
}

c10::Device select_device(DeviceRequest wish, World& world) {
  if (wish == DeviceRequest::cpu) return c10::kCPU;
  const DeviceFacts facts{.built = kBuilt,
                          .gpus = visible_gpus(),
                          .local_rank = world.launch().local_rank,
                          .local_size = world.launch().local_size,
                          .own = is_own_gpu(gather(world, "GPUs", only_gpu()), world.rank())};
  const c10::Device device = choose_device(wish, facts);
  check_all_alike(device, world);
  if (device.is_cpu() && facts.built && facts.gpus > 0 && world.rank() == 0)
    log::warn("computing on the CPU: {} ranks on this machine, which shows {} GPU{}: start at most {} here to use them",
              facts.local_size, facts.gpus, facts.gpus == 1 ? "" : "s", facts.gpus);
#ifdef PARTITA_CUDA
  if (device.is_cuda()) c10::cuda::set_device(device.index());
#endif
  return device;
}

std::string describe_device(c10::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda()) {
    cudaDeviceProp properties{};
    PARTITA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index()));
    return fmt::format("{}, {}, driver {}", properties.name,
                       human_bytes(static_cast<int64_t>(properties.totalGlobalMem)), driver_version());
  }
#endif
  PARTITA_CHECK(device.is_cpu(), "no code for device {}", device.str());
  return "CPU";
}

std::string describe_devices(std::span<const std::string> devices) {
  std::vector<std::pair<std::string, int>> counted;
  for (const std::string& device : devices) {
    const auto known = std::ranges::find(counted, device, &std::pair<std::string, int>::first);
    if (known == counted.end())
      counted.emplace_back(device, 1);
    else
      ++known->second;
  }
  std::string text;
  for (const auto& [device, count] : counted) {
    if (!text.empty()) text += "; ";
    text += count > 1 ? fmt::format("{} x {}", count, device) : device;
  }
  return text;
}

}  // namespace partita
