#include "partita/comm/tcp_peer.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

// Tags of messages that do not belong to a collective.
constexpr uint32_t kControl = UINT32_MAX;
constexpr Tag kLetter{kControl, 0}, kGoodbye{kControl, 1}, kCause{kControl, 2};

constexpr size_t kStagingBytes = 64 << 10;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;  // larger messages indicate a corrupt header

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

template <class Queue>
auto find_tag(Queue& queue, Tag tag) {
  return std::find_if(queue.begin(), queue.end(), [&](const auto& entry) {
    if constexpr (requires { entry.header; })
      return entry.header.tag == tag;
    else
      return entry.tag == tag;
  });
}

}  // namespace

TcpPeer::TcpPeer(int rank, std::string name, Socket socket)
    : rank_(rank), name_(std::move(name)), socket_(std::move(socket)), staging_(socket_ ? kStagingBytes : 0) {}

void TcpPeer::died() const { throw Interrupted(fmt::format("{} ended unexpectedly: its connection is closed", name_)); }

void TcpPeer::left() const {
  throw Interrupted(fmt::format("{} has finished, but this rank still expects messages from it", name_));
}

bool TcpPeer::fits(const Awaited& awaited, uint64_t bytes) const {
  if (bytes == awaited.bytes.size()) return true;
  awaited.state->error =
      fmt::format("{} sent {} bytes instead of {}: the ranks differ in the order or the sizes of their calls", name_,
                  bytes, awaited.bytes.size());
  return false;
}

std::shared_ptr<TcpPeer::State> TcpPeer::enqueue(Outgoing out) {
  out.state = std::make_shared<State>();
  auto state = out.state;
  outgoing_.push_back(std::move(out));
  if (!outgoing_.back().owned.empty()) outgoing_.back().bytes = std::as_bytes(std::span(outgoing_.back().owned));
  if (outgoing_.size() == 1) write();
  return state;
}

std::shared_ptr<TcpPeer::State> TcpPeer::send(Tag tag, std::span<const std::byte> bytes) {
  if (finished()) left();
  return enqueue({.header = {tag, bytes.size()}, .bytes = bytes});
}

void TcpPeer::send_letter(std::string text) {
  if (finished()) return;
  const size_t bytes = text.size();
  enqueue({.header = {kLetter, bytes}, .owned = std::move(text)});
}

// Also sent to a peer that has said goodbye and is waiting for ours.
void TcpPeer::send_goodbye() {
  if (socket_) enqueue({.header = {kGoodbye, 0}});
}

void TcpPeer::send_cause(std::string text) {
  if (!socket_) return;
  text.resize(std::min(text.size(), Transport::kMostLetterBytes));
  enqueue({.header = {kCause, text.size()}, .owned = std::move(text)});
}

void TcpPeer::disconnect() {
  socket_.close();
  outgoing_.clear();
}

std::shared_ptr<TcpPeer::State> TcpPeer::receive(Tag tag, std::span<std::byte> bytes) {
  Awaited awaited{tag, bytes, std::make_shared<State>()};
  const auto early = find_tag(early_, tag);
  if (early != early_.end()) {
    if (fits(awaited, early->header.bytes)) copy_bytes(bytes.data(), early->own.get(), bytes.size());
    awaited.state->done = true;
    early_.erase(early);
  } else if (arriving_ && !incoming_.state && incoming_.header.tag == tag) {
    incoming_.state = awaited.state;
    if (fits(awaited, incoming_.header.bytes)) {  // the rest is received in place
      copy_bytes(bytes.data(), incoming_.own.get(), incoming_.got);
      incoming_.target = bytes.data();
      incoming_.own.reset();
    }
  } else {
    if (finished()) left();
    awaited_.push_back(awaited);
  }
  return awaited.state;
}

void TcpPeer::write() {
  while (!outgoing_.empty()) {
    Outgoing& out = outgoing_.front();
    const auto part = [](const void* data, size_t bytes, size_t skip) {
      return iovec{const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skip, bytes - skip};
    };
    const size_t header_sent = std::min(out.sent, sizeof(Header));
    iovec parts[] = {part(&out.header, sizeof(Header), header_sent),
                     part(out.bytes.data(), out.bytes.size(), out.sent - header_sent)};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = sendmsg(socket_.descriptor(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      goodbye_ ? left() : died();
    }
    out.sent += static_cast<size_t>(sent);
    if (out.sent < sizeof(Header) + out.bytes.size()) continue;
    out.state->done = true;
    outgoing_.pop_front();
  }
}

void TcpPeer::read(std::deque<Transport::Letter>& letters) {
  while (socket_) {
    // The rest of a message in progress is received in place; everything else is staged.
    std::byte* place = arriving_ ? incoming_.target + incoming_.got : staging_.data() + staged_;
    const size_t room = arriving_ ? incoming_.header.bytes - incoming_.got : kStagingBytes - staged_;
    const ssize_t got = recv(socket_.descriptor(), place, room, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      if (!goodbye_) died();
      socket_.close();
    } else if (arriving_) {
      incoming_.got += static_cast<size_t>(got);
      if (incoming_.got == incoming_.header.bytes) arrived(letters);
    } else {
      staged_ += static_cast<size_t>(got);
      unpack(letters);
    }
  }
}

void TcpPeer::unpack(std::deque<Transport::Letter>& letters) {
  size_t at = 0;
  while (staged_ - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, staging_.data() + at, sizeof header);
    at += sizeof header;
    begin(header);
    const size_t here = std::min<size_t>(header.bytes, staged_ - at);
    copy_bytes(incoming_.target, staging_.data() + at, here);
    at += here;
    incoming_.got = here;
    if (here < header.bytes) break;
    arrived(letters);
  }
  staged_ -= at;
  if (staged_ > 0) std::memmove(staging_.data(), staging_.data() + at, staged_);
}

void TcpPeer::begin(const Header& header) {
  incoming_ = {.header = header};
  arriving_ = true;
  const auto awaited = find_tag(awaited_, header.tag);
  if (awaited != awaited_.end()) {
    incoming_.state = awaited->state;
    if (fits(*awaited, header.bytes)) incoming_.target = awaited->bytes.data();
    awaited_.erase(awaited);
  }
  if (incoming_.target == nullptr) {
    const uint64_t most = header.tag.channel == kControl ? Transport::kMostLetterBytes : kMostBytes;
    if (header.bytes > most)
      fail("{} announces a message of {} bytes: the ranks run different programs, or the connection is broken", name_,
           header.bytes);
    incoming_.own = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
    incoming_.target = incoming_.own.get();
  }
}

void TcpPeer::arrived(std::deque<Transport::Letter>& letters) {
  arriving_ = false;
  if (incoming_.header.tag == kLetter) {
    letters.push_back({rank_, {reinterpret_cast<const char*>(incoming_.own.get()), incoming_.header.bytes}});
  } else if (incoming_.header.tag == kCause) {
    cause_ = {reinterpret_cast<const char*>(incoming_.own.get()), incoming_.header.bytes};
  } else if (incoming_.header.tag == kGoodbye) {
    goodbye_ = true;
    if (!awaited_.empty()) left();
  } else if (incoming_.state) {
    incoming_.state->done = true;
  } else {
    early_.push_back(std::move(incoming_));
  }
}

}  // namespace partita::internal
