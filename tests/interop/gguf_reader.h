// Reads a GGUF file by the format's specification alone, without code of ours: for tests of what we write.
//
//   const GgufContents file = read_gguf(path);
//   file.metadata["llama.block_count"] == 2; file.tensors.at("output_norm.weight").bytes
#pragma once
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "partita/base/file.h"

namespace partita::internal::test {

struct GgufContents {
  struct Tensor {
    std::vector<int64_t> dimensions;  // as in the file: the row length first
    uint32_t type = 0;                // 0: f32, 1: f16, 8: q8_0, 30: bf16
    std::string bytes;
  };
  nlohmann::ordered_json metadata;
  std::map<std::string, Tensor> tensors;
};

class GgufReader {
 public:
  explicit GgufReader(std::string text) : text_(std::move(text)) {}

  GgufContents read() {
    if (take(4) != "GGUF" || number<uint32_t>() != 3) throw std::runtime_error("not GGUF 3");
    const auto tensors = number<uint64_t>(), entries = number<uint64_t>();
    GgufContents contents;
    for (uint64_t i = 0; i < entries; ++i) {
      const std::string key = string();
      if (contents.metadata.contains(key)) throw std::runtime_error("twice: " + key);
      contents.metadata[key] = value(number<uint32_t>());
    }
    std::vector<std::pair<std::string, uint64_t>> offsets;
    for (uint64_t i = 0; i < tensors; ++i) {
      offsets.emplace_back(string(), 0);
      GgufContents::Tensor tensor;
      for (auto d = number<uint32_t>(); d > 0; --d)
        tensor.dimensions.push_back(static_cast<int64_t>(number<uint64_t>()));
      tensor.type = number<uint32_t>();
      offsets.back().second = number<uint64_t>();
      if (!contents.tensors.emplace(offsets.back().first, tensor).second) throw std::runtime_error("tensor twice");
    }
    const size_t data = (at_ + 31) / 32 * 32;
    size_t end = data;  // tensors follow one another, each padded to 32
    for (const auto& [name, offset] : offsets) {
      GgufContents::Tensor& tensor = contents.tensors.at(name);
      at_ = data + offset;
      if (offset % 32 != 0 || at_ != end) throw std::runtime_error("gap before " + name);
      tensor.bytes = take(bytes_of(tensor));
      end = (at_ + 31) / 32 * 32;
      for (; at_ < end; ++at_)
        if (text_.at(at_) != '\0') throw std::runtime_error("padding after " + name);
    }
    if (end != text_.size()) throw std::runtime_error("bytes after the last tensor");
    return contents;
  }

 private:
  static size_t bytes_of(const GgufContents::Tensor& tensor) {
    size_t elements = 1;
    for (const int64_t n : tensor.dimensions) elements *= static_cast<size_t>(n);
    switch (tensor.type) {
      case 0:
        return elements * 4;
      case 1:
      case 30:
        return elements * 2;
      case 8:
        return elements / 32 * 34;
      default:
        throw std::runtime_error("type of a tensor");
    }
  }
  std::string take(size_t bytes) {
    if (bytes > text_.size() - at_) throw std::runtime_error("truncated");
    at_ += bytes;
    return text_.substr(at_ - bytes, bytes);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string string() { return take(number<uint64_t>()); }
  nlohmann::ordered_json value(uint32_t type) {
    switch (type) {
      case 0:
        return number<uint8_t>();
      case 4:
        return number<uint32_t>();
      case 5:
        return number<int32_t>();
      case 6:
        return number<float>();
      case 7:
        return number<uint8_t>() != 0;
      case 8:
        return string();
      case 9: {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        const auto item = number<uint32_t>();
        for (auto count = number<uint64_t>(); count > 0; --count) list.push_back(value(item));
        return list;
      }
      default:
        throw std::runtime_error("type of metadata");
    }
  }

  std::string text_;
  size_t at_ = 0;
};

inline GgufContents read_gguf(const std::filesystem::path& path) { return GgufReader(read_file(path)).read(); }

}  // namespace partita::internal::test
