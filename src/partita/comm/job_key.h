// The key of a socket job, and proofs of knowing it: exchanged by ranks before anything else, so that other jobs on the
// host, earlier attempts and strangers cannot join.
//
//   const JobKey key = job_key(launch, secret_of_rank_0);
//   const Proof proof = prove(key, "claim", {nonce_of_one, nonce_of_the_other, message});
//   if (!same(proof, theirs)) ...
//
// A proof is a keyed hash (BLAKE2b) over random numbers drawn per connection: an eavesdropper learns neither the key
// nor anything reusable.
#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "partita/comm/environment.h"

namespace partita::internal {

using JobKey = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

// Derived from launch.job, launch.secret, and the secret that rank 0 published in torchrun's store (empty without a
// store).
[[nodiscard]] JobKey job_key(const Launch& launch, std::string_view shared);
[[nodiscard]] Proof prove(const JobKey& key, std::string_view purpose,
                          std::initializer_list<std::span<const std::byte>> parts);
[[nodiscard]] bool same(const Proof& a, const Proof& b);  // in constant time
[[nodiscard]] Nonce random_nonce();
[[nodiscard]] std::string random_secret();  // 64 hexadecimal digits

}  // namespace partita::internal
