// The timeline of a pipeline as it was measured in a step of a run, for `partita schedule`.
//
//   MeasuredTimeline measured(config, mesh, *engine);
//   measured.before_step();
//   engine->step(...);
//   measured.after_step();              // in the last profiled step: writes timeline.json into the run folder
//
//   const std::optional<Timeline> timeline = read_timeline(run / "timeline.json", shape);
#pragma once
#include <filesystem>
#include <optional>

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

// Times of each rank start with its step; busy, makespan and bubble are those of a simulated timeline (timeline.h).
// Nothing if there is no such file, or if it is of another shape. Error: a file that is not one.
[[nodiscard]] std::optional<Timeline> read_timeline(const std::filesystem::path& file, const PipelineShape&);

}  // namespace partita::internal
