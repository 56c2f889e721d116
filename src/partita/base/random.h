// Counter-based random numbers: a value is a pure function of its key and counter, independent of how work is divided
// (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11: Philox4x32-10).
//
// Three uses, each with its convention:
//   initial weights       key = hash(seed, parameter name), counter = element index / 4 (ops/normal.h)
//   dropout masks         dropout_key and dropout_block below
//   stochastic rounding   rounding_key and rounding_block below
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace partita::internal {

using PhiloxKey = std::array<uint32_t, 2>;
using PhiloxBlock = std::array<uint32_t, 4>;

// Ten rounds of Philox4x32.
[[nodiscard]] constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

// Mixes 64 bits (SplitMix64's finalizer).
[[nodiscard]] constexpr uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// FNV-1a of the name, alone or mixed with the seed.
[[nodiscard]] constexpr uint64_t hash_of(std::string_view name) {
  uint64_t h = 0xCBF29CE484222325;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return h;
}
[[nodiscard]] constexpr uint64_t hash_of(uint64_t seed, std::string_view name) {
  return mix(hash_of(name) ^ mix(seed));
}

[[nodiscard]] constexpr PhiloxKey philox_key(uint64_t bits) {
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

// The 16 bits of `element` within its block of eight neighbors.
[[nodiscard]] constexpr uint32_t random16(const PhiloxBlock& block, int64_t element) {
  const auto lane = static_cast<uint32_t>(element & 7);
  return (block[lane >> 1] >> (16 * (lane & 1))) & 0xFFFF;
}

// A block of the sequence (site, id) for a key: the counter layout of dropout and stochastic rounding.
[[nodiscard]] constexpr PhiloxBlock philox_block(PhiloxKey key, uint32_t site, int64_t id, int64_t block) {
  return philox({static_cast<uint32_t>(block), site, static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32)}, key);
}

// Dropout. A mask bit is a function of (seed, step, sample, site, element): the same in recomputation and in every
// layout. `element` counts within one sample; eight neighbors share one Philox block, 16 bits each.
[[nodiscard]] constexpr PhiloxKey dropout_key(uint64_t seed, int64_t step) {
  return philox_key(mix(mix(seed) ^ static_cast<uint64_t>(step)));
}
[[nodiscard]] constexpr PhiloxBlock dropout_block(PhiloxKey key, int64_t sample, uint32_t site, int64_t block) {
  return philox_block(key, site, sample, block);
}
// An element is kept if its 16 bits are >= threshold; kept elements are multiplied by dropout_scale.
[[nodiscard]] constexpr uint32_t dropout_threshold(float p) { return static_cast<uint32_t>(p * 65536.0F + 0.5F); }
[[nodiscard]] constexpr float dropout_scale(float p) {
  return 65536.0F / (65536.0F - static_cast<float>(dropout_threshold(p)));
}
[[nodiscard]] constexpr bool dropout_keeps(const PhiloxBlock& block, int64_t element, uint32_t threshold) {
  return random16(block, element) >= threshold;
}

// Stochastic rounding of optimizer outputs (ops/rounding.h). 16 bits are a function of (seed, step, parameter, tensor,
// element), the same in every layout. `parameter`: hash_of(its name); `tensor`: 0 for the weights, 1, 2 ... for
// optimizer states; `element` counts within the whole parameter, and eight neighbors share a block.
[[nodiscard]] constexpr PhiloxKey rounding_key(uint64_t seed, uint64_t parameter) {
  return philox_key(mix(mix(parameter ^ mix(seed))));  // mixed once more than the key of initial weights
}
[[nodiscard]] constexpr PhiloxBlock rounding_block(PhiloxKey key, int64_t step, uint32_t tensor, int64_t block) {
  return philox_block(key, tensor, step, block);
}

}  // namespace partita::internal
