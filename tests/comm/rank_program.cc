// A rank of a job started by tests: prints a greeting, or misbehaves in one of the ways that other ranks must survive.
//
//   rank_program hello                  "rank 1 of 4 (local 1 of 2): sum 10"
//   rank_program MODE SECONDS           the last rank misbehaves; SECONDS: timeout of collectives
//     hang        never calls the collective           elsewhere   waits in a different collective
//     throw       ends with an error of its own        kill        kills itself (SIGKILL)
//     leave       exits cleanly, but too early         sizes       gathers a different size
//     code2, code7  exits with this code               late        hangs after the last collective
//     interrupt   all ranks wait for SIGINT, then exit cleanly
//     starting    all ranks wait, without a signal handler
//     bar         all ranks log lines, rank 0 above a progress bar; with another word: until SIGINT
//     early       exits with code 0 without shutting down
//   rank_program arguments WORD...      prints each argument in quotes
//   rank_program launch N MODE SECONDS  starts itself on N ranks, as `partita launch` does
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/comm/launched_arguments.h"
#include "partita/comm/launcher.h"
#include "partita/comm/mesh.h"

namespace partita::internal {
namespace {

std::atomic<bool> interrupted = false;

// One write a line, so that lines of several ranks do not mix.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::perror("write");
}

void hello(World& world, Communicator& all, Stream& stream) {
  at::Tensor sum = at::full({1}, world.rank() + 1, at::kLong);
  all.all_reduce(sum, Reduce::sum, stream).wait();
  const Launch& launch = world.launch();
  say(fmt::format("rank {} of {} (local {} of {}): sum {}", world.rank(), world.size(), launch.local_rank,
                  launch.local_size, sum.item<int64_t>()));
}

void misbehave(const std::string& mode, Communicator& all, Communicator& other, Stream& stream) {
  if (mode == "hang") std::this_thread::sleep_for(std::chrono::minutes(1));
  if (mode == "elsewhere") other.barrier();
  if (mode == "throw") fail("the disk of rank {} is full", all.rank());
  if (mode == "kill") std::raise(SIGKILL);
  if (mode == "early") std::_Exit(0);
  if (mode == "code2") std::_Exit(2);
  if (mode == "code7") std::_Exit(7);
  if (mode == "sizes") {
    at::Tensor full = at::full({3 * all.size()}, 1.F);
    all.all_gather(full, at::full({3}, 1.F), stream).wait();
  }
}

// Draws a progress bar while both ranks say things on standard output and error.
void show_bar(World& world, bool forever) {
  log::configure(world.rank(), world.size());
  for (int i = 1; (i <= 100 || forever) && !interrupted; ++i) {
    if (world.rank() == 0) {
      log::status(fmt::format("{:3d}% [{}]  {} columns  of a bar that is wider than the screen", i % 101,
                              std::string(10, '#'), log::terminal_width()));
      if (i % 5 == 0) log::print(fmt::format("rank 0 says iteration {}", i));
      if (i % 10 == 0) log::info("rank 0 says saved {}", i);
    } else if (i % 10 == 0) {
      log::warn("rank 1 says slow {}", i);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  log::status("");
  if (interrupted) say(fmt::format("rank {} says goodbye", world.rank()));
}

void run(const std::string& mode, double seconds, bool forever) {
  if (mode != "starting") std::signal(SIGINT, [](int) { interrupted = true; });
  World world = World::connect({.timeout = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000))});
  const Mesh mesh(world, {.data = world.size()});
  Communicator& all = mesh.data();
  CpuStream stream;
  hello(world, all, stream);
  if (mode == "hello") return;
  all.barrier();
  if (mode == "starting") std::this_thread::sleep_for(std::chrono::minutes(1));
  if (mode == "bar") return show_bar(world, forever);
  if (mode == "late") {
    if (world.rank() == world.size() - 1) std::this_thread::sleep_for(std::chrono::minutes(1));
    return;
  }
  if (mode == "interrupt") {
    while (!interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    say(fmt::format("rank {} was interrupted", world.rank()));
    return;
  }
  if (world.rank() == world.size() - 1) {
    misbehave(mode, all, mesh.world(), stream);
  } else {
    at::Tensor full = at::empty({4 * all.size()}, at::kFloat);
    all.all_gather(full, at::full({4}, 1.F), stream).wait();
  }
}

}  // namespace
}  // namespace partita::internal

int main(int argc, char** argv) {
  try {
    if (argc > 3 && argv[1] == std::string("launch"))
      return partita::launch(std::atoi(argv[2]), {argv + 3, argv + argc}, {});
    const std::vector<std::string> arguments = partita::internal::own_arguments(argc, argv);
    if (!arguments.empty() && arguments[0] == "arguments") {
      for (const std::string& argument : arguments) partita::internal::say("'" + argument + "'");
      return 0;
    }
    partita::internal::run(arguments.empty() ? "hello" : arguments[0],
                           arguments.size() > 1 ? std::stod(arguments[1]) : 60, arguments.size() > 2);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    partita::World::abort(1, error.what());
  }
}
