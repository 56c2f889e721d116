#include "partita/train/memory_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/config/optimizer_place.h"
#include "partita/train/build_model.h"
#include "partita/train/memory_forecast.h"
#include "partita/train/step_forecast.h"

namespace partita::internal {
namespace {

constexpr size_t kListed = 3;
constexpr int64_t kTwentieths = 20;
constexpr int64_t kMoreRanks = 8;
constexpr size_t kSmallSets = 2;    // keys that are changed together whatever was found with fewer
constexpr size_t kMostTries = 800;  // forecasts: about 5 ms each for 50 layers

struct Setting {
  std::string text;
  std::function<void(Config&)> apply;
  bool rounds = false;
};
using Settings = std::vector<Setting>;

Setting number(const char* key, int64_t value, int64_t ParallelConfig::*member) {
  return {fmt::format("{}={}", key, value), [=](Config& c) { c.parallel.*member = value; }};
}

Setting sums_on_host() {
  return {"memory.gradients_on_host=true", [](Config& c) { c.memory.gradients_on_host = true; }};
}

// Whether gradients of micro-batches may be added in host memory.
bool adds_on_host(const Config& c, int64_t ranks, at::Device device) {
  return device.is_cuda() && !delays_weights(c) && accumulation_steps(c, ranks) > 1;
}

// [key][value]: changes of one key each, of which one value counts; the one that saves most is last.
std::vector<Settings> changes_of_keys(const Config& c, int64_t ranks, at::Device device) {
  std::vector<Settings> keys;
  Settings& recompute = keys.emplace_back();
  for (auto r = static_cast<size_t>(c.memory.recompute) + 1; r < EnumNames<Recompute>::kNames.size(); ++r) {
    const auto mode = static_cast<Recompute>(r);
    recompute.push_back(
        {fmt::format("memory.recompute={}", name_of(mode)), [mode](Config& x) { x.memory.recompute = mode; }});
  }
  Settings& batch = keys.emplace_back();
  for (int64_t size = c.train.micro_batch / 2; size > 0; --size)
    if (c.train.micro_batch % size == 0)
      batch.push_back({fmt::format("train.micro_batch={}", size), [size](Config& x) { x.train.micro_batch = size; }});
  Settings& zero = keys.emplace_back();
  for (int64_t stage = c.parallel.zero_stage + 1; sharding_ranks(c, ranks) > 1 && stage <= 3; ++stage)
    zero.push_back(number("parallel.zero_stage", stage, &ParallelConfig::zero_stage));
  Settings& precision = keys.emplace_back();
  const bool wide = c.precision.compute == DType::fp32;
  if (wide) precision.push_back({"precision.compute=bf16", [](Config& x) { x.precision.compute = DType::bf16; }, true});
  if (c.precision.compute != DType::fp16 && c.precision.states == DType::fp32)
    precision.push_back({wide ? "precision.compute=bf16 with precision.states=bf16" : "precision.states=bf16",
                         [](Config& x) { x.precision.compute = x.precision.states = DType::bf16; }, true});
  Settings& open = keys.emplace_back();
  if (delays_weights(c))
    for (const int64_t sets : {1, 0})
      open.push_back(number("parallel.open_weights", sets, &ParallelConfig::open_weights));
  Settings& sums = keys.emplace_back();
  const bool off_device = optimizer_place(c.memory.optimizer).off_device() > 0;
  if (off_device && adds_on_host(c, ranks, device) && !c.memory.gradients_on_host) sums.push_back(sums_on_host());
  Settings& weights = keys.emplace_back();
  if (c.memory.parameters == "device" && off_device)
    weights.push_back(
        {"memory.parameters=" + c.memory.optimizer, [](Config& x) { x.memory.parameters = x.memory.optimizer; }});
  Settings& plan = keys.emplace_back();
  if (c.parallel.tensor > 1 && !c.parallel.plan.empty())
    plan.push_back({"parallel.plan={}", [](Config& x) { x.parallel.plan.clear(); }});
  std::erase_if(keys, [](const Settings& s) { return s.empty(); });
  return keys;
}

std::string place_text(double host, double disk) {
  const auto part = [](const char* name, double share) {
    return share <= 0 ? "" : share >= 1 ? std::string(name) : fmt::format("{}:{}", name, share);
  };
  const std::string both = part("host", host), more = part("disk", disk);
  return both.empty() || more.empty() ? both + more : both + "," + more;
}

Setting place(double host, double disk) {
  const std::string text = place_text(host, disk);
  return {"memory.optimizer=" + text, [text](Config& c) { c.memory.optimizer = text; }};
}

// States and weights.
Setting both_on_host(double share) {
  const std::string text = place_text(share, 0);
  return {fmt::format("memory.optimizer={} with memory.parameters={}", text, text),
          [text](Config& c) { c.memory.optimizer = c.memory.parameters = text; }};
}

Setting activations(int64_t layers) {
  return {fmt::format("memory.offload_activations={}", layers),
          [layers](Config& c) { c.memory.offload_activations = layers; }};
}

class Search {
 public:
  Search(const Config& c, int64_t ranks, at::Device device, const MemoryRoom& room, const StepRates& rates)
      : c_(c), ranks_(ranks), device_(device), room_(room), rates_(rates), keys_(changes_of_keys(c, ranks, device)) {}

  std::vector<MemoryChange> operator()() {
    const std::vector<Settings> strongest = strongest_sets();
    if (std::ranges::none_of(strongest, [this](const Settings& s) { return fits_device(s); })) return least(strongest);
    const double now = forecast_step(c_, ranks_, device_, rates_).time.seconds;
    for (size_t count = 0; count <= keys_.size(); ++count) {
      if (count > kSmallSets && (found_.size() >= kListed || forecasts_.size() > kMostTries)) break;
      each_set(count, {}, 0, [this, count](const Settings& set) { try_set(set, count); });
    }
    if (found_.empty()) return least(strongest);
    for (Found& f : found_) f.change.slower = f.seconds / now - 1;
    return listed();
  }

 private:
  struct Found {
    MemoryChange change;
    double seconds = 0;
  };

  [[nodiscard]] Config with(const Settings& set) const {
    Config changed = c_;
    for (const Setting& s : set) s.apply(changed);
    return changed;
  }

  static std::vector<std::string> texts(const Settings& set) {
    std::vector<std::string> all;
    for (const Setting& s : set) all.push_back(s.text);
    return all;
  }

  // Empty: not possible together.
  const std::optional<MemoryForecast>& forecast(const Settings& set) {
    const auto [entry, added] = forecasts_.try_emplace(texts(set));
    if (added) try {
        const Config changed = with(set);
        validate_step(changed, ranks_);
        check_fp8_sizes(changed);
        check_offload(changed, device_);
        entry->second = forecast_training(changed, ranks_, device_);
      } catch (const std::exception& error) {
        log::debug("{} was left out: {}", fmt::join(entry->first, " with "), error.what());
      }
    return entry->second;
  }

  bool fits_device(const Settings& set) {
    const std::optional<MemoryForecast>& f = forecast(set);
    return f && f->device_bytes() <= room_.device;
  }

  bool fits(const Settings& set) { return fits_device(set) && forecast(set)->host <= room_.host; }

  MemoryChange change_of(const Settings& set) {
    const MemoryForecast& f = *forecast(set);
    MemoryChange change{.settings = texts(set), .bytes = f.device_bytes(), .host = f.host, .disk = f.disk};
    change.fits = fits(set);
    change.rounds = std::ranges::any_of(set, &Setting::rounds);
    return change;
  }

  void add(const Settings& set) {
    found_.push_back({change_of(set), forecast_step(with(set), ranks_, device_, rates_).time.seconds});
  }

  // Sets of one value of each of `count` keys, from `key` on.
  void each_set(size_t count, Settings set, size_t key, const std::function<void(const Settings&)>& visit) const {
    if (count == 0) return visit(set);
    for (size_t k = key; k + count <= keys_.size(); ++k)
      for (const Setting& value : keys_[k]) {
        set.push_back(value);
        each_set(count - 1, set, k + 1, visit);
        set.pop_back();
      }
  }

  void try_set(const Settings& set, size_t count) {
    if (forecasts_.size() > kMostTries || std::ranges::any_of(sufficient_, [&](const auto& smaller) {
          return std::ranges::includes(sorted(set), smaller);
        }))
      return;
    if (fits(set)) {
      sufficient_.push_back(sorted(set));
      return add(set);
    }
    // What moves states and activations has many values: with more keys only where little else was found.
    if (count >= kSmallSets && found_.size() >= kListed) return;
    for (const Settings& most : moved(set)) {
      Settings without = most;
      without.pop_back();
      if (!fits_device(most) || fits_device(without)) continue;
      // Less on the host than all may fit there.
      if (const Settings least = smallest(most); fits(least)) add(least);
    }
  }

  static std::vector<std::string> sorted(const Settings& set) {
    std::vector<std::string> all = texts(set);
    std::ranges::sort(all);
    return all;
  }

  // The set with as much of states, weights, activations or several of them elsewhere as possible.
  [[nodiscard]] std::vector<Settings> moved(const Settings& set) const {
    const OptimizerPlace now = optimizer_place(c_.memory.optimizer);
    std::vector<Setting> places;
    if (device_.is_cuda() && now.disk == 0 && now.host < 1) places.push_back(place(1, 0));
    if (now.disk < 1) places.push_back(place(0, 1));
    std::vector<Settings> all;
    const auto add = [&](std::initializer_list<Setting> more) {
      all.push_back(set);
      all.back().insert(all.back().end(), more);
    };
    for (const Setting& p : places) add({p});
    if (device_.is_cuda() && c_.memory.offload_activations < c_.model.layers) {
      const Setting layers = activations(c_.model.layers);
      add({layers});
      for (const Setting& p : places) add({p, layers}), add({layers, p});
    }
    if (device_.is_cuda() && now.off_device() == 0 && c_.memory.parameters == "device") {
      add({both_on_host(1)});
      add({activations(c_.model.layers), both_on_host(1)});
      if (!delays_weights(c_) && adds_on_host(with(set), ranks_, device_)) add({sums_on_host(), both_on_host(1)});
    }
    return all;
  }

  // With the smallest value of the last setting that fits, one of those of `moved`.
  Settings smallest(const Settings& most) {
    const bool of_layers = most.back().text.starts_with("memory.offload_activations");
    const bool of_both = most.back().text.ends_with("memory.parameters=host");
    const bool of_host = most.back().text == "memory.optimizer=host";
    const OptimizerPlace now = optimizer_place(c_.memory.optimizer);
    const auto with_value = [&](int64_t value) {
      const double share = static_cast<double>(value) / kTwentieths;
      Settings changed = most;
      if (of_layers)
        changed.back() = activations(value);
      else if (of_both)
        changed.back() = both_on_host(share);
      else if (of_host)
        changed.back() = place(share, 0);
      else
        changed.back() = place(std::min(now.host, std::round(kTwentieths * (1 - share)) / kTwentieths), share);
      return changed;
    };
    const double moved = of_both ? 0 : kTwentieths * (of_host ? now.host : now.disk);
    int64_t low = 1 + (of_layers ? c_.memory.offload_activations : static_cast<int64_t>(std::floor(moved + 1e-9)));
    int64_t high = of_layers ? c_.model.layers : kTwentieths;
    while (low < high)
      if (const int64_t middle = (low + high) / 2; fits_device(with_value(middle)))
        high = middle;
      else
        low = middle + 1;
    return with_value(high);
  }

  // Whether all that one change changes is also changed by the other.
  static bool changes_less(const MemoryChange& one, const MemoryChange& other) {
    return std::ranges::all_of(one.settings, [&](const std::string& s) {
      return std::ranges::find(other.settings, s) != other.settings.end();
    });
  }

  [[nodiscard]] std::vector<MemoryChange> listed() {
    std::ranges::stable_sort(
        found_, {}, [](const Found& f) { return std::tuple(f.seconds, f.change.settings.size(), f.change.bytes); });
    std::vector<MemoryChange> front;
    for (size_t i = 0; i < found_.size(); ++i) {
      const MemoryChange& one = found_[i].change;
      if (std::ranges::none_of(std::span(found_).first(i), [&one](const Found& cheaper) {
            if (cheaper.change.rounds && !one.rounds) return false;
            return cheaper.change.bytes <= one.bytes || changes_less(cheaper.change, one);
          }))
        front.push_back(one);
    }
    if (front.size() <= kListed) return front;
    const auto keeps = std::ranges::find(front, false, &MemoryChange::rounds);
    if (keeps != front.end() && keeps >= front.begin() + kListed) std::swap(front[kListed - 1], *keeps);
    front.resize(kListed);
    return front;
  }

  // All that may save memory together: with the smallest and with the present micro-batch, which lets gradients share
  // the memory of activations; with and without other rounding.
  [[nodiscard]] std::vector<Settings> strongest_sets() {
    std::vector<Settings> all;
    for (const bool rounds : {false, true})
      for (const bool batch : {true, false}) {
        Settings set;
        for (const Settings& key : keys_)
          if (key.back().rounds <= rounds && (batch || !key.back().text.starts_with("train.micro_batch")))
            set.push_back(key.back());
        all.push_back(set);
        for (const Settings& more : moved(set)) all.push_back(more);
      }
    return all;
  }

  // Without what does not help: the fewest settings that save as much.
  std::vector<MemoryChange> least(const std::vector<Settings>& sets) {
    std::vector<MemoryChange> all;
    for (const bool rounds : {false, true}) {
      std::optional<Settings> best;
      for (const Settings& set : sets)
        if (std::ranges::any_of(set, &Setting::rounds) == rounds && forecast(set) &&
            (!best || forecast(set)->device_bytes() < forecast(*best)->device_bytes()))
          best = set;
      for (size_t i = best ? best->size() : 0; i-- > 0;) {
        Settings fewer = *best;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        if (forecast(fewer) && forecast(fewer)->device_bytes() <= forecast(*best)->device_bytes()) best = fewer;
      }
      if (best && !best->empty() && (all.empty() || forecast(*best)->device_bytes() < all.back().bytes))
        all.push_back(change_of(*best));
    }
    const int64_t ranks = kMoreRanks * ranks_;
    try {
      Config sharded = c_;
      sharded.parallel.zero_stage = 3;
      if (sharded.parallel.data > 0) sharded.parallel.data *= kMoreRanks;
      sharded.train.global_batch = kMoreRanks * c_.train.global_batch;  // the same batch size per rank
      const MemoryForecast f = forecast_training(sharded, ranks, device_);
      all.push_back({.settings = {fmt::format("parallel.zero_stage=3 on {} ranks", ranks),
                                  fmt::format("train.global_batch={}", sharded.train.global_batch)},
                     .bytes = f.device_bytes(),
                     .host = f.host,
                     .disk = f.disk,
                     .fits = f.device_bytes() <= room_.device && f.host <= room_.host});
    } catch (const std::exception& error) {
      log::debug("more ranks were left out: {}", error.what());
    }
    return all;
  }

  const Config& c_;
  int64_t ranks_;
  at::Device device_;
  MemoryRoom room_;
  StepRates rates_;
  std::vector<Settings> keys_;
  std::map<std::vector<std::string>, std::optional<MemoryForecast>> forecasts_;
  std::vector<Found> found_;
  std::vector<std::vector<std::string>> sufficient_;  // sets that fit without moving anything, sorted
};

std::string time_text(double slower) {
  const double percent = std::round(100 * slower);
  if (percent == 0) return "steps about as long";
  return fmt::format("steps about {:.0f}% {}", std::abs(percent), percent > 0 ? "longer" : "shorter");
}

}  // namespace

std::string MemoryChange::text() const {
  std::string line = fmt::format("{}: {}", fmt::join(settings, " with "), human_bytes(bytes));
  if (host > 0) line += fmt::format(" and {} of host memory", human_bytes(host));
  if (disk > 0) line += fmt::format(" and {} on disk", human_bytes(disk));
  if (slower) line += ", " + time_text(*slower);
  return rounds ? line + ", other rounding" : line;
}

std::vector<MemoryChange> memory_changes(const Config& c, int64_t ranks, at::Device device, const MemoryRoom& room,
                                         const StepRates& rates) {
  return Search(c, ranks, device, room, rates)();
}

}  // namespace partita::internal
