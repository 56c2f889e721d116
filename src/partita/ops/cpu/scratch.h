// Kernel workspace, kept between calls, one buffer per thread and purpose: fresh large buffers would cost a page fault
// per 4 KiB.
//
//   float* rows = scratch<float, struct NormRow>(count);     // valid until the thread's next call with the same tag
#pragma once
#include <hwy/aligned_allocator.h>

#include <cstdint>

namespace partita::internal {

template <class T, class Purpose>
[[nodiscard]] T* scratch(int64_t count) {
  thread_local int64_t capacity = 0;
  thread_local hwy::AlignedFreeUniquePtr<T[]> memory;
  if (capacity < count) {
    memory.reset();  // free the old buffer before allocating
    memory = hwy::AllocateAligned<T>(static_cast<size_t>(count));
    capacity = memory ? count : 0;
    if (memory == nullptr) throw std::bad_alloc();
  }
  return memory.get();
}

}  // namespace partita::internal
