#include "partita/comm/reception.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "partita/base/error.h"
#include "partita/base/log.h"

namespace partita::internal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kProveWithin = 5s;       // then a visitor is dropped
constexpr auto kTurn = 200ms;           // maximum duration of one call
constexpr size_t kMostStrangers = 256;  // concurrently, in addition to the ranks

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Reception::Reception(std::vector<Socket> listening, const JobKey& key, const Identity& me)
    : listening_(std::move(listening)), key_(key), me_(me), most_(static_cast<size_t>(me.size) + kMostStrangers) {}

std::optional<Reception::Guest> Reception::next(Deadline deadline, const std::function<bool(int)>& taken) {
  const Deadline until = std::min<Deadline>(deadline, Clock::now() + kTurn);
  std::optional<Guest> guest;
  while (!guest) {
    const auto now = Clock::now();
    for (auto visitor = visitors_.begin(); visitor != visitors_.end();)
      if (visitor->until <= now) {
        drop(*visitor, "it did not say that it is a rank of this job");
        visitor = visitors_.erase(visitor);
      } else {
        ++visitor;
      }
    if (now >= until) break;

    std::vector<pollfd> entries;
    for (const Socket& socket : listening_) entries.push_back({socket.descriptor(), POLLIN, 0});
    for (const Visitor& visitor : visitors_) entries.push_back({visitor.socket.descriptor(), POLLIN, 0});
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    if (poll(entries.data(), entries.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR)
      fail("poll: {}", std::strerror(errno));

    size_t at = listening_.size();
    for (auto visitor = visitors_.begin(); visitor != visitors_.end() && !guest; ++at)
      if (entries[at].revents != 0 && !listen_to(*visitor, taken, guest))
        visitor = visitors_.erase(visitor);
      else
        ++visitor;
    for (size_t i = 0; i < listening_.size(); ++i)
      if (entries[i].revents != 0) {
        let_in();
        break;
      }
  }
  return guest;
}

void Reception::let_in() {
  for (const Socket& socket : listening_)
    while (auto accepted = accept_from(socket)) {
      if (visitors_.size() >= most_) {  // real ranks prove themselves in milliseconds: the oldest visitor is not one
        drop(visitors_.front(), "too many others connected");
        visitors_.pop_front();
      }
      visitors_.push_back({std::move(*accepted), Clock::now() + kProveWithin, {}, {}});
    }
}

bool Reception::listen_to(Visitor& visitor, const std::function<bool(int)>& taken, std::optional<Guest>& guest) {
  const size_t due = visitor.nonces ? sizeof(Claim) : sizeof(Opening), had = visitor.received.size();
  visitor.received.resize(due);
  const ssize_t got = recv(visitor.socket.descriptor(), visitor.received.data() + had, due - had, MSG_DONTWAIT);
  visitor.received.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
  if (got <= 0) return false;  // it disconnected
  if (visitor.received.size() < due) return true;

  if (!visitor.nonces) {
    Opening theirs;
    std::memcpy(&theirs, visitor.received.data(), sizeof theirs);
    if (!theirs.ours()) {
      drop(visitor,
           theirs.other_version() ? "it runs another version of this program" : "it is not a rank of this job");
      return false;
    }
    const Opening mine{.nonce = random_nonce()};
    visitor.nonces = Nonces{theirs.nonce, mine.nonce};
    visitor.received.clear();
    return send_all(visitor.socket, bytes_of(mine), Clock::now());  // a few bytes into an empty buffer
  }

  Claim claim;
  std::memcpy(&claim, visitor.received.data(), sizeof claim);
  if (!valid(key_, *visitor.nonces, claim)) {
    drop(visitor, "it does not know this job's key");
    return false;
  }
  const Verdict verdict =
      judge(me_, claim.who, claim.who.rank >= 0 && claim.who.rank < me_.size && taken(claim.who.rank));
  const Answer answer = make_answer(key_, *visitor.nonces, claim, me_, verdict);
  if (!send_all(visitor.socket, bytes_of(answer), Clock::now())) return false;
  guest = Guest{.who = claim.who, .verdict = verdict};
  if (verdict == Verdict::welcome) guest->socket = std::move(visitor.socket);
  return false;  // now a guest
}

// Reported once: port scanners connect again and again.
void Reception::drop(const Visitor& visitor, const char* why) {
  if (++strangers_ == 1)
    log::warn("rank {} turned away a process that connected to port {} from {}: {}", me_.rank, me_.port,
              peer_address(visitor.socket), why);
}

}  // namespace partita::internal
