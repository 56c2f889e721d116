// The timeline of a pipeline as it was measured in a step of a run, for `partita schedule`.
//
//   MeasuredTimeline measured(config, mesh, *engine);
//   measured.before_step();
//   engine->step(...);
//   measured.after_step();              // in the last profiled step: writes timeline.json into the run folder
//
//   const std::optional<MeasuredStep> step = read_timeline(run / "timeline.json");
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "partita/comm/mesh.h"
#include "partita/config/config.h"
#include "partita/engine/engine.h"
#include "partita/pipeline/timeline.h"

namespace partita::internal {

class MeasuredTimeline {
 public:
  // All outlive this object. Without a pipeline, or without log.profile_steps, it does nothing.
  MeasuredTimeline(const Config& config, const Mesh& mesh, Engine& engine)
      : config_(config), mesh_(mesh), engine_(engine) {}

  void before_step();
  // Collective.
  void after_step();

 private:
  const Config& config_;
  const Mesh& mesh_;
  Engine& engine_;
  int64_t step_ = 0;
};

struct MeasuredStep {
  PipelineShape shape;
  Timeline timeline;  // times of each rank start with its step; the rest is that of a simulated timeline (timeline.h)
};

// Nothing if there is no such file. Error: a file that is not one.
[[nodiscard]] std::optional<MeasuredStep> read_timeline(const std::filesystem::path& file);

// Pure. What the measured shape has instead of the other's: "schedule zbv, not 1f1b; 4 micro-batches, not 8"; empty:
// they are the same.
[[nodiscard]] std::string shape_difference(const PipelineShape& measured, const PipelineShape& other);

}  // namespace partita::internal
