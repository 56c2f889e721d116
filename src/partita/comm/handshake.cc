#include "partita/comm/handshake.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "partita/base/error.h"
#include "partita/base/host.h"

namespace partita::internal {
namespace {

constexpr std::chrono::seconds kAnswerWithin{25};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  return std::as_bytes(std::span(&value, 1));
}

template <size_t N>
std::string text_of(const std::array<char, N>& text) {
  return {text.data(), std::find(text.begin(), text.end(), '\0')};
}

template <size_t N>
void set_text(std::array<char, N>& to, const std::string& from) {
  std::copy_n(from.data(), std::min(from.size(), N - 1), to.data());
}

[[noreturn]] void turned_away(const Identity& me, const Identity& by, Verdict verdict) {
  switch (verdict) {
    case Verdict::taken:
      fail(
          "rank {}: another process has this rank, according to {}: give each process its own rank, and end what is "
          "left of an earlier attempt of the job",
          me.rank, by.text());
    case Verdict::other_size:
      fail("rank {} was started as one of {} ranks, {} as one of {}: start all ranks of a job with the same number",
           me.rank, me.size, by.text(), by.size);
    case Verdict::other_version:
    case Verdict::welcome:
      break;
  }
  fail("rank {} runs version {} of this program, {} version {}: install one version on all hosts", me.rank,
       text_of(me.version), by.text(), text_of(by.version));
}

}  // namespace

bool Opening::other_version() const {
  return !ours() && std::equal(kProtocol.begin(), kProtocol.end() - 1, protocol.begin());
}

std::string Identity::text() const { return fmt::format("rank {} (process {} on {})", rank, process, text_of(host)); }

Identity own_identity(int rank, int size, int port) {
  Identity me{.rank = rank, .size = size, .port = port, .process = getpid()};
  set_text(me.host, host_name());
  set_text(me.version, PARTITA_VERSION);
  return me;
}

Claim make_claim(const JobKey& key, const Nonces& nonces, const Identity& me) {
  return {me, prove(key, "claim", {nonces.connects, nonces.listens, bytes_of(me)})};
}

bool valid(const JobKey& key, const Nonces& nonces, const Claim& claim) {
  return same(claim.proof, make_claim(key, nonces, claim.who).proof);
}

Answer make_answer(const JobKey& key, const Nonces& nonces, const Claim& claim, const Identity& me, Verdict verdict) {
  return {
      me, verdict,
      prove(key, "answer", {nonces.connects, nonces.listens, bytes_of(claim.who), bytes_of(me), bytes_of(verdict)})};
}

bool valid(const JobKey& key, const Nonces& nonces, const Claim& claim, const Answer& answer) {
  return same(answer.proof, make_answer(key, nonces, claim, answer.who, answer.verdict).proof);
}

Verdict judge(const Identity& me, const Identity& who, bool taken) {
  if (who.version != me.version) return Verdict::other_version;
  if (who.size != me.size || who.rank < 0 || who.rank >= me.size) return Verdict::other_size;
  return taken || who.rank == me.rank ? Verdict::taken : Verdict::welcome;
}

GreetResult greet(const Socket& socket, const JobKey& key, const Identity& me, Deadline deadline, Identity& other) {
  const Opening mine{.nonce = random_nonce()};
  Opening theirs;
  if (!send_all(socket, bytes_of(mine), deadline) ||
      !receive_all(socket, std::as_writable_bytes(std::span(&theirs, 1)), deadline))
    return theirs.other_version() ? GreetResult::other_version : GreetResult::stranger;
  if (!theirs.ours()) return theirs.other_version() ? GreetResult::other_version : GreetResult::stranger;
  const Nonces nonces{mine.nonce, theirs.nonce};
  const Claim claim = make_claim(key, nonces, me);
  Answer answer;
  // The peer follows the protocol. A busy rank gets more time: it tracks which ranks have proved their membership.
  if (!send_all(socket, bytes_of(claim), deadline) ||
      !receive_all(socket, std::as_writable_bytes(std::span(&answer, 1)), deadline + kAnswerWithin) ||
      !valid(key, nonces, claim, answer))
    return GreetResult::stranger;
  if (answer.verdict != Verdict::welcome) turned_away(me, answer.who, answer.verdict);
  other = answer.who;
  return GreetResult::member;
}

}  // namespace partita::internal
