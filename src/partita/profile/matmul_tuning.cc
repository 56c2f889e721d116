#include "partita/profile/matmul_tuning.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/json.h"
#include "partita/base/log.h"

namespace partita::internal {
namespace {

// Tuning takes about 27 steps, some of them slower, and speeds up later steps by at most 2%.
constexpr int64_t kStepsToEarnIt = 500;

// Broadcasts rank 0's text. Collective.
std::string from_rank_0(Communicator& host, const std::string& mine) {
  return gather_strings(host, host.rank() == 0 ? mine : std::string()).front();
}

// The choice in a file. Empty: the file does not exist, or is unusable, which is logged.
std::optional<MatmulTuning> usable(const std::filesystem::path& file, const std::string& library) {
  if (file.empty() || !std::filesystem::exists(file)) return {};
  try {
    MatmulTuning found = parse_matmul_tuning(read_file(file), file.string());
    if (found.library == library) return found;
    log::warn("{} is not used: it is of {}, this is {}", file.string(), found.library, library);
  } catch (const Error& error) {
    log::warn("{}; it is not used", error.what());
  }
  return {};
}

double total(const MatmulTuning& tuning, double TunedProduct::*microseconds) {
  double sum = 0;
  for (const TunedProduct& product : tuning.products) sum += product.*microseconds;
  return sum;
}

}  // namespace

std::string to_json(const MatmulTuning& tuning) {
  nlohmann::ordered_json products = nlohmann::json::array();
  for (const TunedProduct& p : tuning.products)
    products.push_back({{"product", p.choice.product},
                        {"algorithm", p.choice.algorithm},
                        {"microseconds", p.microseconds},
                        {"first_microseconds", p.first_microseconds}});
  return nlohmann::ordered_json{{"library", tuning.library}, {"products", products}}.dump(1) + "\n";
}

MatmulTuning parse_matmul_tuning(std::string_view text, const std::string& name) {
  const nlohmann::json json = parse_json(text, name);
  try {
    MatmulTuning tuning{.library = json.at("library").get<std::string>(), .products = {}};
    for (const nlohmann::json& p : json.at("products"))
      tuning.products.push_back(
          {.choice = {.product = p.at("product").get<std::string>(), .algorithm = p.at("algorithm").get<std::string>()},
           .microseconds = p.at("microseconds").get<double>(),
           .first_microseconds = p.at("first_microseconds").get<double>()});
    return tuning;
  } catch (const nlohmann::json::exception& error) {
    fail("{} is not a file of tuned matrix products: {}", name, error.what());
  }
}

MatmulTuning choose_algorithms(std::string library, std::span<const MatmulTimes> all) {
  MatmulTuning tuning{.library = std::move(library), .products = {}};
  for (const MatmulTimes& times : all) {
    const auto tried = std::ranges::count_if(times.milliseconds, [](const auto& calls) { return !calls.empty(); });
    if (tried < 2 || times.milliseconds.front().empty()) continue;
    const size_t best = fastest_candidate(times);
    tuning.products.push_back({.choice = {.product = times.product, .algorithm = times.algorithms[best]},
                               .microseconds = 1e3 * static_cast<double>(median_of(times.milliseconds[best])),
                               .first_microseconds = 1e3 * static_cast<double>(median_of(times.milliseconds.front()))});
  }
  return tuning;
}

bool tunes_matmul(Switch wish, bool on_device, bool deterministic, int64_t steps_left) {
  if (wish == Switch::off) return false;
  if (wish == Switch::automatic) return on_device && !deterministic && steps_left >= kStepsToEarnIt;
  if (!on_device)
    fail("kernels.tune_matmul is true on the CPU: there is nothing to choose, use auto, or train on cuda");
  if (deterministic)
    fail(
        "kernels.tune_matmul is true with kernels.deterministic: what is measured differs from run to run. Tune in a "
        "run "
        "of "
        "its own, and give its matmul_tuning.json as kernels.tuning_file");
  return true;
}

MatmulTuner::MatmulTuner(Communicator& host, MatmulLibrary library, Options options)
    : host_(host), library_(std::move(library)), options_(std::move(options)) {
  if (library_.name.empty()) {
    if (host_.rank() == 0 && !options_.shared.empty())
      log::warn("{} is not used: here is nothing to choose", options_.shared.string());
    return;
  }
  std::string found;
  bool kept = false;
  if (host_.rank() == 0) {
    std::optional<MatmulTuning> tuning = usable(options_.kept, library_.name);
    kept = tuning.has_value();
    if (!tuning && !options_.shared.empty() && !std::filesystem::exists(options_.shared))
      log::warn("{} does not exist: no tuning is read from it", options_.shared.string());
    if (!tuning) tuning = usable(options_.shared, library_.name);
    if (tuning) found = to_json(*tuning);
  }
  found = from_rank_0(host_, found);
  if (found.empty()) {
    if (!options_.tune) return;
    step_ = 0;
    record_steps(false);
    return;
  }
  const MatmulTuning tuning = parse_matmul_tuning(found, "what rank 0 sent");
  if (kept) options_.kept.clear();  // already stored
  take(tuning);
  log::info("reusing the tuned algorithms of {} matmuls", tuning.products.size());
}

void MatmulTuner::before_step() {
  if (running() && step_ >= kWarmSteps) library_.begin_trial(step_ - kWarmSteps);
}

void MatmulTuner::after_step() {
  if (!running()) return;
  library_.end_trial();
  if (++step_ < kSteps) return;
  const MatmulTuning mine = choose_algorithms(library_.name, library_.take_times());
  const MatmulTuning tuning = parse_matmul_tuning(from_rank_0(host_, to_json(mine)), "what rank 0 sent");
  take(tuning);
  record_steps(true);
  const double first = total(tuning, &TunedProduct::first_microseconds);
  const auto changed = std::ranges::count_if(
      tuning.products, [](const TunedProduct& p) { return p.microseconds < p.first_microseconds; });
  log::info("{} of {} matmuls use a faster algorithm now: {:.1f}% less time per call", changed, tuning.products.size(),
            first > 0 ? 100 * (1 - total(tuning, &TunedProduct::microseconds) / first) : 0.0);
}

void MatmulTuner::record_steps(bool on) const {
  if (options_.record_steps) options_.record_steps(on);
}

void MatmulTuner::take(const MatmulTuning& tuning) {
  std::vector<MatmulChoice> choices;
  for (const TunedProduct& product : tuning.products) choices.push_back(product.choice);
  library_.use(choices);
  products_ = choices.size();
  if (host_.rank() != 0 || options_.kept.empty()) return;
  try {
    write_file(options_.kept, to_json(tuning));
  } catch (const Error& error) {  // this rank only; the run is just as good without it
    log::warn("the choice of algorithms is not kept: {}", error.what());
  }
}

}  // namespace partita::internal
