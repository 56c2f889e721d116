// Reads messages in protobuf's wire format, field by field; every length is checked against the message.
//
//   ProtobufReader reader(bytes, "tokenizer.model");
//   while (const auto field = reader.next()) {
//     if (field->number == 1 && field->kind == ProtobufKind::bytes) use(field->bytes);
//   }
//
// Callers skip unknown fields and fields of an unexpected kind, as protobuf's own readers do.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace partita::internal {

enum class ProtobufKind : uint8_t { varint, fixed64, bytes, fixed32 };  // bytes: strings and nested messages too

struct ProtobufField {
  uint32_t number;
  ProtobufKind kind;
  uint64_t value;          // for varint, fixed64, fixed32
  std::string_view bytes;  // for bytes; a view of the message

  [[nodiscard]] bool as_bool() const { return value != 0; }
  [[nodiscard]] int32_t as_int32() const { return static_cast<int32_t>(static_cast<uint32_t>(value)); }
  [[nodiscard]] float as_float() const;
};

class ProtobufReader {
 public:
  // `origin` prefixes error messages.
  ProtobufReader(std::string_view message, std::string origin) : rest_(message), origin_(std::move(origin)) {}

  // The next field; groups (deprecated) are skipped. Error: the message is truncated or not protobuf.
  [[nodiscard]] std::optional<ProtobufField> next();

 private:
  [[noreturn]] void broken(const char* what) const;
  uint64_t varint();
  std::string_view take(uint64_t bytes);

  std::string_view rest_;
  std::string origin_;
};

}  // namespace partita::internal
