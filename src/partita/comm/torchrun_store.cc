#include "partita/comm/torchrun_store.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/number.h"

namespace partita::internal {
namespace {

std::chrono::milliseconds left_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

// First line of a libtorch error, without the stack trace.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string to_text(const Publication& p) { return fmt::format("{} {} {}", p.port, p.secret, p.address); }

std::optional<Publication> parse_publication(const std::string& text) {
  const size_t first = text.find(' '), second = first == text.npos ? first : text.find(' ', first + 1);
  if (second == text.npos) return {};
  Publication p{.secret = text.substr(first + 1, second - first - 1), .address = text.substr(second + 1)};
  p.port = parse_number<int>(std::string_view(text).substr(0, first)).value_or(0);
  if (p.port < 1 || p.port > 65535 || p.secret.empty()) return {};
  return p;
}

struct TorchrunStore::Client {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

TorchrunStore::TorchrunStore(const Launch& launch, Deadline deadline)
    : client_(std::make_unique<Client>()),
      key_("partita/" + launch.job + "/rank 0"),
      place_(fmt::format("{} port {}", launch.master_address, launch.master_port)),
      rank_(launch.rank) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.master_port);
  options.waitWorkers = false;
  options.timeout = left_until(deadline);
  try {
    // A container's name may not resolve inside the container.
    const bool here = launch.hosts == Launch::Hosts::one;
    client_->store = c10::make_intrusive<c10d::TCPStore>(here ? "127.0.0.1" : launch.master_address, options);
  } catch (const std::exception& error) {
    fail("rank {}: torchrun's store at {} does not answer: {}", rank_, place_, first_line(error));
  }
}

TorchrunStore::~TorchrunStore() = default;

void TorchrunStore::publish(const Publication& publication) {
  const std::string text = to_text(publication);
  try {
    client_->store->set(key_, std::vector<uint8_t>(text.begin(), text.end()));
  } catch (const std::exception& error) {
    fail("rank {}: torchrun's store at {} has ended: {}", rank_, place_, first_line(error));
  }
}

Publication TorchrunStore::read(Deadline deadline) {
  std::string text;
  try {
    client_->store->wait({key_}, left_until(deadline));
    const std::vector<uint8_t> value = client_->store->get(key_);
    text.assign(value.begin(), value.end());
  } catch (const std::exception& error) {
    fail("rank {} did not hear of rank 0 from torchrun's store at {}: {}", rank_, place_, first_line(error));
  }
  if (auto publication = parse_publication(text)) return *publication;
  fail("rank {}: torchrun's store at {} holds something else for '{}': is another program using it?", rank_, place_,
       key_);
}

}  // namespace partita::internal
