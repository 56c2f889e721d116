#include "partita/comm/job_key.h"

#include <sodium.h>

#include <cstdint>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

static_assert(std::tuple_size_v<Proof> == crypto_generichash_BYTES);

void start_sodium() {
  if (sodium_init() < 0) fail("libsodium finds no source of random numbers on this machine");
}

const unsigned char* bytes(const void* data) { return static_cast<const unsigned char*>(data); }

// Hashes each part with its length, so that different lists of parts never hash the same bytes.
class Hash {
 public:
  explicit Hash(std::span<const std::byte> key) {
    start_sodium();
    crypto_generichash_init(&state_, key.empty() ? nullptr : bytes(key.data()), key.size(), crypto_generichash_BYTES);
  }
  void add(const void* data, size_t size) {
    const uint64_t length = size;
    crypto_generichash_update(&state_, bytes(&length), sizeof length);
    crypto_generichash_update(&state_, bytes(data), size);
  }
  [[nodiscard]] std::array<std::byte, 32> result() {
    std::array<std::byte, 32> out{};
    crypto_generichash_final(&state_, reinterpret_cast<unsigned char*>(out.data()), out.size());
    return out;
  }

 private:
  crypto_generichash_state state_{};
};

}  // namespace

JobKey job_key(const Launch& launch, std::string_view shared) {
  Hash hash({});
  for (const std::string_view part :
       {std::string_view("partita job"), std::string_view(launch.job), std::string_view(launch.secret), shared})
    hash.add(part.data(), part.size());
  return hash.result();
}

Proof prove(const JobKey& key, std::string_view purpose, std::initializer_list<std::span<const std::byte>> parts) {
  Hash hash(key);
  hash.add(purpose.data(), purpose.size());
  for (const auto part : parts) hash.add(part.data(), part.size());
  return hash.result();
}

bool same(const Proof& a, const Proof& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

Nonce random_nonce() {
  start_sodium();
  Nonce nonce{};
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string random_secret() {
  const Nonce secret = random_nonce();
  std::string text(2 * secret.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes(secret.data()), secret.size());
  text.pop_back();
  return text;
}

}  // namespace partita::internal
