#include "partita/tokenizer/sentencepiece/protobuf_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"
#include "tests/tokenizer/protobuf_writer.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view message) {
  return error_message([&] {
    ProtobufReader reader(message, "t");
    while (reader.next()) {
    }
  });
}

TEST(ProtobufWire, ReadsEachKind) {
  const std::string message = protobuf_varint(3, 300) + protobuf_varint(24, ~uint64_t{0}) + protobuf_bytes(1, "ab") +
                              protobuf_float(2, -1.5F) + std::string("\x21\x01\0\0\0\0\0\0\x80", 9) +
                              protobuf_bytes(536870911, "");
  ProtobufReader reader(message, "t");
  auto field = reader.next();
  EXPECT_EQ(field->number, 3U);
  EXPECT_EQ(field->kind, ProtobufKind::varint);
  EXPECT_EQ(field->value, 300U);
  field = reader.next();
  EXPECT_EQ(field->as_int32(), -1);
  EXPECT_TRUE(field->as_bool());
  field = reader.next();
  EXPECT_EQ(field->kind, ProtobufKind::bytes);
  EXPECT_EQ(field->bytes, "ab");
  field = reader.next();
  EXPECT_EQ(field->kind, ProtobufKind::fixed32);
  EXPECT_EQ(field->as_float(), -1.5F);
  field = reader.next();
  EXPECT_EQ(field->number, 4U);
  EXPECT_EQ(field->kind, ProtobufKind::fixed64);
  EXPECT_EQ(field->value, 0x8000000000000001U);
  field = reader.next();
  EXPECT_EQ(field->number, 536870911U);
  EXPECT_EQ(field->bytes, "");
  EXPECT_FALSE(reader.next().has_value());
  EXPECT_FALSE(reader.next().has_value());
}

TEST(ProtobufWire, PassesOverGroups) {
  const std::string message = "\x0B" + protobuf_bytes(1, "in") + "\x13\x14" + "\x0C" + protobuf_varint(7, 5);
  ProtobufReader reader(message, "t");
  EXPECT_EQ(reader.next()->number, 7U);
  EXPECT_FALSE(reader.next().has_value());
}

TEST(ProtobufWire, RefusesWhatIsCutShortOrWrong) {
  EXPECT_EQ(refusal("\x08"), "t: not a protobuf message: it ends within a number");
  EXPECT_THAT(refusal("\x08\x80"), HasSubstr("within a number"));
  EXPECT_THAT(refusal(std::string(1, '\x08') + std::string(11, '\xFF')), HasSubstr("more than 10 bytes"));
  EXPECT_THAT(refusal("\x0A\x05"
                      "abcd"),
              HasSubstr("longer than the message"));
  EXPECT_THAT(refusal("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
                      "a"),
              HasSubstr("longer than the message"));
  EXPECT_THAT(refusal("\x15\x01\x02\x03"), HasSubstr("longer than the message"));
  EXPECT_THAT(refusal(std::string("\0\0", 2)), HasSubstr("out of range"));
  EXPECT_THAT(refusal("\x0E\x01"), HasSubstr("unknown wire type"));
  EXPECT_THAT(refusal("\x0C"), HasSubstr("a group ends that has not begun"));
  EXPECT_THAT(refusal("\x0B\x14"), HasSubstr("a group ends that has not begun"));
  EXPECT_THAT(refusal("\x0B\x08\x01"), HasSubstr("within a group"));
  EXPECT_THAT(refusal(std::string(1000, '\x0B')), HasSubstr("nested too deep"));
}

// Cut anywhere, a message is read up to the cut or refused.
TEST(ProtobufWire, EveryPrefixIsSafe) {
  const std::string message =
      protobuf_bytes(1, protobuf_bytes(1, "piece")) + protobuf_float(2, 1) + protobuf_varint(900, 1);
  int refused = 0;
  for (size_t size = 0; size <= message.size(); ++size) {
    const std::string copy = message.substr(0, size);
    refused += refusal(copy) == "no error" ? 0 : 1;
  }
  EXPECT_EQ(refused, static_cast<int>(message.size()) - 3);
}

}  // namespace
}  // namespace partita::internal
