// The key of a job over sockets, and proofs that a process knows it: what the ranks tell each other before anything
// else, so that neighbours on one host, earlier attempts and strangers never join.
//
//   const JobKey key = job_key(launch, secret_of_rank_0);
//   const Proof proof = prove(key, "claim", {nonce_of_one, nonce_of_the_other, message});
//   if (!same(proof, theirs)) ...
//
// A proof is a keyed hash (BLAKE2b) over numbers that are drawn for each connection: who listens in learns neither the
// key nor anything that serves a second time.
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

// Made of launch.job, launch.secret, and of what rank 0 drew and handed on by torchrun's store (empty: there is none).
[[nodiscard]] JobKey job_key(const Launch& launch, std::string_view shared);
[[nodiscard]] Proof prove(const JobKey& key, std::string_view purpose,
                          std::initializer_list<std::span<const std::byte>> parts);
[[nodiscard]] bool same(const Proof& a, const Proof& b);  // in a time that does not depend on where they differ
[[nodiscard]] Nonce random_nonce();
[[nodiscard]] std::string random_secret();  // 64 hexadecimal digits

}  // namespace partita::internal
