#include <unistd.h>
#include <thread>

#include "partita/base/error.h"
#include "partita/comm/transport.h"

namespace partita::internal {
namespace {

class LocalTransport final : public Transport {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::unique_ptr<Transfer> send(int to, Tag, std::span<const std::byte>) override { no_peer(to); }
  [[nodiscard]] std::unique_ptr<Transfer> receive(int from, Tag, std::span<std::byte>) override { no_peer(from); }
  void progress() override {}
  void idle(std::chrono::microseconds pause) override { std::this_thread::sleep_for(pause); }
  void post(int to, std::string) override { no_peer(to); }
  [[nodiscard]] std::optional<Letter> poll() override { return {}; }
  void close() override {}
  [[noreturn]] void abort(int exit_code, const std::string&) override { _exit(exit_code); }

 private:
  [[noreturn]] static void no_peer(int peer) { fail("no rank {}: the job has one rank", peer); }
};

}  // namespace

std::unique_ptr<Transport> make_local_transport() { return std::make_unique<LocalTransport>(); }

}  // namespace partita::internal
