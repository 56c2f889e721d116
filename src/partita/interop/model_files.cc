#include "partita/interop/model_files.h"

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/tokenizer/formats/tokenizer_files.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kLargestSmallFile = uintmax_t{1} << 20;

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void require_regular(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) fail("cannot read {}: it is not a regular file", path.string());
}

std::string read_small_file(const fs::path& path) {
  require_regular(path);
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) fail("cannot read {}: {}", path.string(), error.message());
  if (size > kLargestSmallFile)
    fail("{} has {} bytes, at most {} expected: it is damaged, copy it again", path.string(), size, kLargestSmallFile);
  return read_file(path);
}

fs::path find_tokenizer_in(std::span<const fs::path> folders) {
  for (const fs::path& folder : folders)
    if (const auto found = find_tokenizer(folder)) return *found;
  return {};
}

std::string float64_warning(const fs::path& path, const std::vector<std::string>& names) {
  return fmt::format("{}: {} tensors are float64 ({}, ...) and are rounded to float32", path.string(), names.size(),
                     names.front());
}

}  // namespace partita::internal
