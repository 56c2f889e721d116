#include "partita/train/start_point.h"

#include <optional>
#include <string>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/damage.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"
#include "partita/train/lineage.h"
#include "partita/train/memory_tier.h"
#include "partita/train/start_rule.h"
#include "partita/train/trainer.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFigures[] = {"metrics.jsonl", "validation.jsonl"};

bool names_checkpoint(const std::string& resume) { return resume != "auto" && resume != "never"; }

// Resolves links, as far as the path exists.
fs::path plain(const fs::path& path) {
  std::error_code error;
  fs::path canonical = fs::weakly_canonical(fs::absolute(path), error);
  if (error) canonical = fs::absolute(path).lexically_normal();
  return canonical.has_filename() ? canonical : canonical.parent_path();
}

void copy_if_there(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (fs::exists(from, ignored) && !fs::exists(to, ignored)) write_file(to, read_file(from));
}

// Starts from another run's checkpoint. Recorded before anything else, so that a restart finds it.
void begin_at(const fs::path& run, const fs::path& checkpoint, const std::string& named, int64_t step, bool fork) {
  Lineage lineage = read_lineage(run);
  lineage.parent_checkpoint = plain(checkpoint);
  lineage.parent_named = plain(named);
  lineage.parent_step = step;
  write_lineage(run, lineage);
  // A fork's curves include its parent's; entries after the checkpoint are cut as at every start.
  if (fork)
    for (const char* name : kFigures) copy_if_there(run_of(checkpoint) / name, run / name);
}

fs::path new_folder(const fs::path& path) {
  fs::path folder = path;
  for (int number = 2; fs::exists(folder); ++number) folder = fmt::format("{}-{}", path.string(), number);
  std::error_code error;
  fs::create_directories(folder / "checkpoints", error);
  if (error) fail("cannot make the folder {}: {}", folder.string(), error.message());
  return folder;
}

void rewind(const fs::path& run, int64_t from, int64_t to) {
  const fs::path kept = new_folder(run / fmt::format("rewound-from-step-{:08}", from));
  for (const char* name : {kFigures[0], kFigures[1], "config.toml"}) copy_if_there(run / name, kept / name);
  for (const StepFolder& folder : list_steps(checkpoints_folder(run))) {
    if (folder.step <= to) continue;
    std::error_code error;
    fs::rename(folder.path, kept / "checkpoints" / folder.path.filename(), error);
    if (error) fail("cannot move {} to {}: {}", folder.path.string(), kept.string(), error.message());
  }
  sync_directory(kept / "checkpoints");
  sync_directory(checkpoints_folder(run));
  // Last, so that repeating the command completes an interrupted rewind.
  Lineage lineage = read_lineage(run);
  lineage.rewinds.push_back({.from = from, .to = to, .kept = kept.filename()});
  lineage.resumed_at.reset();
  write_lineage(run, lineage);
  log::info("rewinding from step {} to step {}: what came after is kept in {}", from, to, kept.string());
}

// The step of the checkpoint named by checkpoint.resume, if it no longer exists but a previous start named it.
std::optional<int64_t> removed_start(const Config& config, const Lineage& lineage) {
  const fs::path resume = config.checkpoint.resume;
  std::error_code ignored;
  if (!names_checkpoint(resume) || fs::exists(resume, ignored)) return std::nullopt;
  const std::optional<int64_t> rewound_to =
      lineage.rewinds.empty() ? std::nullopt : std::optional(lineage.rewinds.back().to);
  const std::optional<int64_t> resumed_at = config.run.rewind ? std::nullopt : lineage.resumed_at;
  for (const std::optional<int64_t>& step : {rewound_to, resumed_at})
    if (step && plain(resume) == plain(checkpoints_folder(config.run.directory) / step_folder_name(*step))) return step;
  return std::nullopt;
}

// Records that a start named the newest checkpoint, so that repeating the command after further progress is neither
// refused nor goes back.
void note_start(const Config& config, const StartView& view, const fs::path& newest, Lineage lineage) {
  if (!view.named || view.named != view.newest || !view.named_is_own) return;
  if (config.run.rewind) {
    // Nothing to rewind, or a rewind was interrupted before its last step.
    if (view.rewound_to == view.named) return;
    lineage.rewinds.push_back({.from = *view.newest, .to = *view.newest, .kept = {}});
  } else {
    // Naming the run's folder means its newest checkpoint at every start.
    if (view.resumed_at == view.named || plain(config.checkpoint.resume) != plain(newest)) return;
    lineage.resumed_at = view.named;
  }
  write_lineage(config.run.directory, lineage);
}

}  // namespace

fs::path run_of(const fs::path& checkpoint) { return plain(checkpoint).parent_path().parent_path(); }

Config forked(Config config) {
  if (config.run.fork.empty()) return config;
  const fs::path parent = config.run.directory;
  if (plain(config.run.fork) == plain(parent))
    fail("run.fork is the run's own folder, {}: choose a new one", parent.string());
  if (config.checkpoint.resume == "never")
    fail("run.fork begins at a checkpoint, and checkpoint.resume is never: leave one of them out");
  if (config.checkpoint.resume == "auto") config.checkpoint.resume = parent.string();
  config.run.directory = config.run.fork;
  return config;
}

fs::path prepare_start(const Config& config) {
  const fs::path& run = config.run.directory;
  const std::string& resume = config.checkpoint.resume;
  remove_partials(checkpoints_folder(run));  // left by an interrupted save or removal
  const Lineage lineage = read_lineage(run);
  const auto newest = find_latest(checkpoints_folder(run));
  StartView view{.resume = resume,
                 .run = run.string(),
                 .steps = config.train.steps,
                 .fork = !config.run.fork.empty(),
                 .rewind = config.run.rewind};
  if (newest) view.newest = read_manifest(*newest).step;
  if (!lineage.parent_checkpoint.empty()) view.parent = lineage.parent_step;
  view.parent_path = lineage.parent_checkpoint.string();
  if (!lineage.rewinds.empty()) view.rewound_to = lineage.rewinds.back().to;
  view.resumed_at = lineage.resumed_at;
  fs::path named;
  view.named_is_parent = view.parent && names_checkpoint(resume) &&
                         (plain(resume) == lineage.parent_named || plain(resume) == lineage.parent_checkpoint ||
                          (view.fork && plain(resume) == run_of(lineage.parent_checkpoint)));
  if (view.named_is_parent) {
    named = lineage.parent_checkpoint;  // may be deleted by now, but is not needed
    view.named = lineage.parent_step;
  } else if (const auto gone = newest ? removed_start(config, lineage) : std::nullopt) {
    view.named = gone;  // repeated command; later saves removed the checkpoint, but it is not needed
    view.named_is_own = true;
  } else if (names_checkpoint(resume) && !(view.fork && newest)) {
    named = resolve_checkpoint(resume);
    view.named = read_manifest(named).step;
    view.named_is_own = run_of(named) == plain(run);
  }
  const StartDecision decision = decide_start(view);
  switch (decision.kind) {
    case StartKind::first_step:
      return {};
    case StartKind::newest:
      note_start(config, view, *newest, lineage);
      if (view.named && view.named != view.newest)
        log::info("{} continues at its own step {}, not at {}", run.string(), *view.newest, resume);
      return *newest;
    case StartKind::named:
      begin_at(run, named, resume, *view.named, view.fork);
      return named;
    case StartKind::parent:
      return lineage.parent_checkpoint;
    case StartKind::rewind:
      rewind(run, *view.newest, *view.named);
      return named;
    case StartKind::refuse:
      break;
  }
  fail("{}", decision.message);
}

bool may_fall_back(const fs::path& checkpoint, const Error& problem) {
  return is_in_memory(checkpoint) || dynamic_cast<const Damaged*>(&problem) != nullptr;
}

std::string start_text(const fs::path& checkpoint, int64_t step) {
  return is_in_memory(checkpoint) ? fmt::format("step {} in memory ({})", step, checkpoint.string())
                                  : checkpoint.string();
}

void fall_back_from(const Config& config, const fs::path& checkpoint, const std::string& problem) {
  if (is_in_memory(checkpoint)) return discard_in_memory(checkpoint, problem);
  const std::string& resume = config.checkpoint.resume;
  if (run_of(checkpoint) != plain(config.run.directory) ||
      (names_checkpoint(resume) && plain(resume) == plain(checkpoint)) ||  // this checkpoint was requested explicitly
      list_steps(checkpoints_folder(config.run.directory)).size() < 2)
    fail("{}", problem);
  const fs::path aside = set_aside(checkpoint);
  log::warn("{}", problem);
  log::warn("it is kept as {}, and the run goes back to the checkpoint before it", aside.string());
}

}  // namespace partita::internal
