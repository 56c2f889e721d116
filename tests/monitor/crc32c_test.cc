#include "partita/monitor/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace partita::internal {
namespace {

uint32_t crc_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32c, EqualsPublishedValues) {
  EXPECT_EQ(crc_of(""), 0U);
  EXPECT_EQ(crc_of("123456789"), 0xE3069283U);
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc_of(std::string(32, '\xFF')), 0x62A8AB43U);
  std::string ascending, descending;
  for (char i = 0; i < 32; ++i) ascending += i, descending += static_cast<char>(31 - i);
  EXPECT_EQ(crc_of(ascending), 0x46DD794EU);
  EXPECT_EQ(crc_of(descending), 0x113FDB5CU);
}

}  // namespace
}  // namespace partita::internal
