#include "partita/comm/communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace partita {

std::vector<std::string> gather_strings(Communicator& group, const std::string& mine) {
  CpuStream stream;
  const auto size = static_cast<int64_t>(group.size());
  at::Tensor lengths = at::empty({size}, at::kLong), length = at::empty({1}, at::kLong);
  *length.mutable_data_ptr<int64_t>() = static_cast<int64_t>(mine.size());
  group.all_gather(lengths, length, stream).wait();
  const int64_t* bytes = lengths.const_data_ptr<int64_t>();
  // Equal parts, padded to the longest string.
  const int64_t longest = *std::max_element(bytes, bytes + size);
  at::Tensor texts = at::empty({size, longest}, at::kByte), text = at::zeros({longest}, at::kByte);
  std::ranges::copy(mine, static_cast<char*>(text.mutable_data_ptr()));  // of an empty string, memory may be null
  group.all_gather(texts, text, stream).wait();
  const auto* characters = static_cast<const char*>(texts.const_data_ptr());
  std::vector<std::string> all;
  for (int64_t r = 0; r < size; ++r) all.emplace_back(characters + r * longest, static_cast<size_t>(bytes[r]));
  return all;
}

}  // namespace partita
