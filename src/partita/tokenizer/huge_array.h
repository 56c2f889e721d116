// A zero-initialized array in huge pages where available. For big tables with random access, which would otherwise
// stall on page table walks as much as on memory. Untouched pages use no memory.
//
//   HugeArray<Entry> table(size_t{1} << 18);
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace partita::internal {

template <class T>
class HugeArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit HugeArray(size_t size) : size_(size) {
    // Huge pages are aligned to their size; map enough to align the start.
    mapped_bytes_ = size * sizeof(T) + (size * sizeof(T) >= kHugePage ? kHugePage : 0);
    mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    void* begin = mapped_;
    if (size * sizeof(T) >= kHugePage) {
      const auto address = reinterpret_cast<uintptr_t>(mapped_);
      begin = reinterpret_cast<void*>((address + kHugePage - 1) / kHugePage * kHugePage);
      ::madvise(begin, size * sizeof(T), MADV_HUGEPAGE);  // before first use; small pages work too
    }
    data_ = static_cast<T*>(begin);
  }
  ~HugeArray() {
    if (data_ != nullptr) ::munmap(mapped_, mapped_bytes_);
  }
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;
  HugeArray(HugeArray&& other) noexcept { swap(other); }
  HugeArray& operator=(HugeArray&& other) noexcept {
    swap(other);
    return *this;
  }

  [[nodiscard]] size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  [[nodiscard]] const T* begin() const { return data_; }
  [[nodiscard]] const T* end() const { return data_ + size_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  void swap(HugeArray& other) {
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace partita::internal
