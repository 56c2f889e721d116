#include "partita/base/dtype.h"

#include <array>
#include <utility>

#include "partita/base/error.h"

namespace partita {
using namespace internal;
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array kEntries = {Entry{DType::fp32, "fp32", 4},   Entry{DType::bf16, "bf16", 2},
                                 Entry{DType::fp16, "fp16", 2},   Entry{DType::int32, "int32", 4},
                                 Entry{DType::int64, "int64", 8}, Entry{DType::uint8, "uint8", 1}};

const Entry& entry(DType dtype) {
  for (const Entry& e : kEntries)
    if (e.dtype == dtype) return e;
  fail("unknown dtype number {}", static_cast<int>(dtype));
}

}  // namespace

int64_t size_of(DType dtype) { return entry(dtype).bytes; }
std::string_view name_of(DType dtype) { return entry(dtype).name; }

DType parse_dtype(std::string_view name) {
  for (const Entry& e : kEntries)
    if (e.name == name) return e.dtype;
  fail("'{}' is not a dtype: expected fp32, bf16, fp16, int32, int64 or uint8", name);
}

}  // namespace partita
