#include "partita/tokenizer/sentencepiece/protobuf_wire.h"

#include <bit>
#include <vector>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kGroupBegin = 3, kGroupEnd = 4, kFixed32 = 5;
constexpr size_t kDeepest = 100;  // nested groups

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace

float ProtobufField::as_float() const { return std::bit_cast<float>(static_cast<uint32_t>(value)); }

void ProtobufReader::broken(const char* what) const { fail("{}: not a protobuf message: {}", origin_, what); }

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (rest_.empty()) broken("it ends within a number");
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  broken("a number of more than 10 bytes");
}

std::string_view ProtobufReader::take(uint64_t bytes) {
  if (bytes > rest_.size()) broken("a field is longer than the message");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::optional<ProtobufField> ProtobufReader::next() {
  std::vector<uint32_t> groups;  // numbers of the open groups
  while (!rest_.empty()) {
    const uint64_t tag = varint();
    if (tag > UINT32_MAX || tag >> 3 == 0) broken("a field number is out of range");
    ProtobufField field{static_cast<uint32_t>(tag >> 3), ProtobufKind::varint, 0, {}};
    switch (tag & 7) {
      case kVarint:
        field.value = varint();
        break;
      case kFixed64:
        field.kind = ProtobufKind::fixed64;
        field.value = little_endian(take(8));
        break;
      case kBytes:
        field.kind = ProtobufKind::bytes;
        field.bytes = take(varint());
        break;
      case kFixed32:
        field.kind = ProtobufKind::fixed32;
        field.value = little_endian(take(4));
        break;
      case kGroupBegin:
        groups.push_back(field.number);
        if (groups.size() > kDeepest) broken("groups are nested too deep");
        continue;
      case kGroupEnd:
        if (groups.empty() || groups.back() != field.number) broken("a group ends that has not begun");
        groups.pop_back();
        continue;
      default:
        broken("a field of unknown wire type");
    }
    if (groups.empty()) return field;
  }
  if (!groups.empty()) broken("it ends within a group");
  return std::nullopt;
}

}  // namespace partita::internal
