#include "partita/train/step_time.h"

#include <algorithm>
#include <limits>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

using enum StepResource;

PassLoad sum(PassLoad a, const PassLoad& b) {
  a.flops += b.flops, a.device_bytes += b.device_bytes;
  a.down += b.down, a.up += b.up;
  a.host_bytes += b.host_bytes, a.disk_bytes += b.disk_bytes;
  a.moved += b.moved, a.exchanged += b.exchanged;
  return a;
}

double pass_seconds(const PassLoad& p, const StepRates& r) {
  const double computes = p.flops / r[compute] + p.device_bytes / r[device_memory];
  return std::max({computes, p.down / r[link], p.up / r[link], p.host_bytes / r[host_memory], p.disk_bytes / r[disk],
                   p.moved / r[network]}) +
         p.exchanged / r[network];
}

// The part of the host's updates that the last backward pass leaves.
double updates_left(const StepLoad& load, const StepRates& r, double last_backward) {
  double all = 0;
  for (const UnitUpdate& u : load.updates) all += std::max(u.host_bytes / r[host_memory], u.disk_bytes / r[disk]);
  return load.early && all > 0 ? std::max(0.0, 1 - last_backward / all) : 1;
}

// The first forward pass, from the norm on, with this part of the host's updates under it: until the backward pass may
// begin.
double first_forward_seconds(const StepLoad& load, const StepRates& r, double updates) {
  PassLoad first = load.forward;
  first.moved += load.moved_update;
  const double pass = pass_seconds(first, r);
  std::vector<double> ready(load.blocks.size(), 0);  // [block]
  double disk_done = 0, updated = 0, arrived = 0;
  for (const UnitUpdate& u : load.updates) {
    disk_done += updates * u.disk_bytes / r[disk];
    updated = std::max(updated + updates * u.host_bytes / r[host_memory], disk_done);
    arrived = std::max(arrived, updated) + updates * u.up / r[link];
    ready[static_cast<size_t>(u.first_block)] = arrived;
  }
  double now = load.update_bytes / r[device_memory];
  for (size_t b = 0; b < ready.size(); ++b) now = std::max(now, ready[b]) + load.blocks[b] * pass;
  return now;
}

double seconds_at(const StepLoad& load, const StepRates& r) {
  const double forward = pass_seconds(load.forward, r), backward = pass_seconds(load.backward, r);
  const auto m = static_cast<double>(load.micro_batches);
  const double last = pass_seconds(sum(load.backward, load.last_backward), r);
  return first_forward_seconds(load, r, updates_left(load, r, last)) + (m - 1) * (forward + backward) + last +
         load.bubble * m * (forward + backward);
}

}  // namespace

double StepLoad::down() const {
  return static_cast<double>(micro_batches) * (forward.down + backward.down) + last_backward.down;
}

double StepLoad::up() const {
  double bytes = static_cast<double>(micro_batches) * (forward.up + backward.up) + last_backward.up;
  for (const UnitUpdate& u : updates) bytes += u.up;
  return bytes;
}

double StepLoad::total(StepResource resource) const {
  const auto m = static_cast<double>(micro_batches);
  const auto passes = [&](double PassLoad::*of) { return m * (forward.*of + backward.*of) + last_backward.*of; };
  double bytes = 0;
  switch (resource) {
    case compute:
      return passes(&PassLoad::flops);
    case device_memory:
      return passes(&PassLoad::device_bytes) + update_bytes;
    case link:
      return down() + up();
    case host_memory:
      for (const UnitUpdate& u : updates) bytes += u.host_bytes;
      return bytes + passes(&PassLoad::host_bytes);
    case disk:
      for (const UnitUpdate& u : updates) bytes += u.disk_bytes;
      return bytes + passes(&PassLoad::disk_bytes);
    case network:
      break;
  }
  return passes(&PassLoad::moved) + passes(&PassLoad::exchanged) + moved_update;
}

StepTime step_time(const StepLoad& load, const StepRates& rates) {
  for (const double rate : rates.of)
    if (!(rate > 0)) fail("a rate of {}: expected more than 0", rate);
  StepTime time{.seconds = seconds_at(load, rates)};
  time.unbound_seconds = time.seconds;
  for (size_t r = 0; r < kStepResources; ++r) {
    StepRates without = rates;
    without.of[r] = std::numeric_limits<double>::infinity();
    const double seconds = seconds_at(load, without);
    if (seconds >= time.unbound_seconds) continue;
    time.unbound_seconds = seconds;
    time.bound = static_cast<StepResource>(r);
  }
  return time;
}

}  // namespace partita::internal
