#include "partita/device/cuda/device_trace.h"

#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "partita/base/cuda_error.h"
#include "partita/base/trace.h"

namespace partita::internal::cuda {
namespace {

void check(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) [[likely]]
    return;
  const char* text = nullptr;
  (void)cuptiGetResultString(result, &text);
  fail("CUPTI: {}: {}", call, text != nullptr ? text : "unknown error");
}

#define PARTITA_CUPTI(call) check(call, #call)

constexpr std::array kKinds{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                            CUPTI_ACTIVITY_KIND_MEMSET};
constexpr size_t kBufferBytes = size_t{4} << 20, kBufferAlignment = 8;

// CUPTI delivers records on its own thread.
struct Records {
  std::mutex mutex;
  std::vector<DeviceSpan> spans;
};

Records& records() {
  static auto* all = new Records;  // never destroyed: CUPTI may deliver records late
  return *all;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? text.get() : name;
}

const char* copy_name(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "copy device to another";
    default:
      return "copy on the device";
  }
}

template <class Activity>
DeviceSpan span_of(const Activity& a, std::string name, DeviceWork work, uint64_t bytes) {
  return {.name = std::move(name),
          .work = work,
          .stream = static_cast<int>(a.streamId),
          .begin = static_cast<int64_t>(a.start),
          .end = static_cast<int64_t>(a.end),
          .bytes = static_cast<int64_t>(bytes)};
}

void add(const CUpti_Activity* record) {
  const std::lock_guard lock(records().mutex);
  std::vector<DeviceSpan>& spans = records().spans;
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& a = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    spans.push_back(span_of(a, demangled(a.name), DeviceWork::kernel, 0));
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& a = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
    spans.push_back(span_of(a, copy_name(a.copyKind), DeviceWork::copy, a.bytes));
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& a = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    spans.push_back(span_of(a, "fill", DeviceWork::fill, a.bytes));
  }
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t filled) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS) add(record);
  std::free(buffer);
}

// Offset from CUPTI's clock to trace::now(), from the pair of readings that are closest together.
int64_t clock_offset() {
  int64_t offset = 0, least = INT64_MAX;
  for (int i = 0; i < 5; ++i) {
    uint64_t theirs = 0;
    const int64_t before = trace::now();
    PARTITA_CUPTI(cuptiGetTimestamp(&theirs));
    const int64_t after = trace::now();
    if (after - before >= least) continue;
    least = after - before;
    offset = before + least / 2 - static_cast<int64_t>(theirs);
  }
  return offset;
}

}  // namespace

void start_trace() {
  PARTITA_CUDA_CHECK(cudaDeviceSynchronize());
  {
    const std::lock_guard lock(records().mutex);
    records().spans.clear();
  }
  PARTITA_CUPTI(cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
  for (const CUpti_ActivityKind kind : kKinds) PARTITA_CUPTI(cuptiActivityEnable(kind));
}

std::vector<DeviceSpan> stop_trace() {
  PARTITA_CUDA_CHECK(cudaDeviceSynchronize());
  PARTITA_CUPTI(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  for (const CUpti_ActivityKind kind : kKinds) PARTITA_CUPTI(cuptiActivityDisable(kind));
  const int64_t offset = clock_offset();
  const std::lock_guard lock(records().mutex);
  std::vector<DeviceSpan> spans = std::exchange(records().spans, {});
  std::erase_if(spans, [](const DeviceSpan& s) { return s.end <= s.begin; });  // not timed
  for (DeviceSpan& s : spans) s.begin += offset, s.end += offset;
  std::ranges::sort(spans, {}, &DeviceSpan::begin);
  return spans;
}

}  // namespace partita::internal::cuda
