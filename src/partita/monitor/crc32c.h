// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected), as used by TFRecord files and iSCSI (RFC 3720).
//
//   uint32_t sum = crc32c(std::as_bytes(std::span("123456789", 9)));   // 0xE3069283
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace partita::internal {

[[nodiscard]] uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace partita::internal
