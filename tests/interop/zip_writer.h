// Zip archives and pickles built byte by byte for the tests of their readers: valid ones, and malicious ones.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal::test {

template <class T>
std::string little(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

struct ZipOptions {
  bool wide = false;          // with the 64-bit record and locator, as torch writes
  bool wide_entries = false;  // numbers of entries in the 64-bit extension
  uint16_t method = 0, flags = 0;
  std::string comment;
};

struct ZipMember {
  std::string name, bytes;
  uint32_t crc = 0;  // as the directory says; 0: none
};

// An archive of stored files, each padded to a multiple of 64 as torch does.
inline std::string zip_of(const std::vector<ZipMember>& members, const ZipOptions& options = {}) {
  std::string file, directory;
  for (const auto& [name, bytes, crc] : members) {
    const auto begin = static_cast<uint64_t>(file.size());
    const std::string padding(63 - (begin + 30 + name.size() + 4 - 1) % 64, 'Z');
    const std::string sizes = little(uint32_t(bytes.size())) + little(uint32_t(bytes.size()));
    const std::string common = little(options.flags) + little(options.method) + little(uint32_t{0}) + little(crc);
    file += "PK\3\4" + little(uint16_t{20}) + common + sizes + little(uint16_t(name.size())) +
            little(uint16_t(padding.size() + 4)) + name + "FB" + little(uint16_t(padding.size())) + padding + bytes;
    std::string extra, directory_sizes = sizes, place = little(uint32_t(begin));
    if (options.wide_entries) {
      directory_sizes = place = std::string(8, '\xff');
      place.resize(4);
      extra = "XX" + little(uint16_t{3}) + "abc" + little(uint16_t{1}) + little(uint16_t{24}) +
              little(uint64_t(bytes.size())) + little(uint64_t(bytes.size())) + little(begin);
    }
    directory += "PK\1\2" + little(uint16_t{20}) + little(uint16_t{20}) + common + directory_sizes +
                 little(uint16_t(name.size())) + little(uint16_t(extra.size())) + little(uint16_t{0}) +
                 std::string(8, '\0') + place + name + extra;
  }
  const auto count = members.size(), at = file.size();
  file += directory;
  if (options.wide)
    file += "PK\6\6" + little(uint64_t{44}) + std::string(12, '\0') + little(uint64_t(count)) +
            little(uint64_t(count)) + little(uint64_t(directory.size())) + little(uint64_t(at)) + "PK\6\7" +
            little(uint32_t{0}) + little(uint64_t(at + directory.size())) + little(uint32_t{1});
  const std::string counts = little(uint16_t(count)) + little(uint16_t(count));
  const std::string where =
      options.wide_entries ? std::string(8, '\xff') : little(uint32_t(directory.size())) + little(uint32_t(at));
  return file + "PK\5\6" + little(uint32_t{0}) + counts + where + little(uint16_t(options.comment.size())) +
         options.comment;
}

// Pieces of a pickle of protocol 2.
inline std::string text(std::string_view value) { return "X" + little(uint32_t(value.size())) + std::string(value); }
inline std::string integer(int32_t value) { return "J" + little(value); }
inline std::string name(std::string_view module, std::string_view what) {
  return "c" + std::string(module) + "\n" + std::string(what) + "\n";
}
inline std::string integers(const std::vector<int32_t>& values) {
  std::string out = "(";
  for (int32_t value : values) out += integer(value);
  return out + "t";
}
inline std::string empty_ordered_dict() { return name("collections", "OrderedDict") + ")R"; }

struct PickleTensor {
  std::string name, storage_type = "FloatStorage", key = "0";
  int32_t count = 6, offset = 0;
  std::vector<int32_t> shape = {2, 3}, strides = {3, 1};
};

inline std::string tensor(const PickleTensor& t) {
  return name("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") + name("torch", t.storage_type) +
         text(t.key) + text("cpu") + integer(t.count) + "tQ" + integer(t.offset) + integers(t.shape) +
         integers(t.strides) + "\x89" + empty_ordered_dict() + "tR";
}

// {name: tensor, ...} in a whole pickle.
inline std::string pickle_of(const std::vector<PickleTensor>& tensors) {
  std::string out = "\x80\x02}(";
  for (const PickleTensor& t : tensors) out += text(t.name) + tensor(t);
  return out + "u.";
}

// torch.save's archive of it.
inline std::string torch_file_of(const std::string& pickle, const std::vector<ZipMember>& storages) {
  std::vector<ZipMember> members = {{"model/data.pkl", pickle}, {"model/byteorder", "little"}};
  for (const ZipMember& storage : storages)
    members.push_back({"model/data/" + storage.name, storage.bytes, storage.crc});
  members.push_back({"model/version", "3\n"});
  return zip_of(members, {.wide = true});
}

}  // namespace partita::internal::test
