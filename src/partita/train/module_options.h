// What ModuleTraining means: checks, defaults, and the sections of a configuration that it has. Pure.
#pragma once
#include <string>

#include "partita/config/config.h"
#include "partita/train/module_trainer.h"

namespace partita::internal {

// Error: a value out of range, by name; a global batch that ranks and micro-batches do not divide.
void validate(const ModuleTraining&, int ranks, int micro_batches);

// For hooks, and for what a run has in common with `partita train`: its schedule, too. Other values are the defaults.
[[nodiscard]] Config config_of(const ModuleTraining&);

// "steps = 1000", a line each.
[[nodiscard]] std::string settings_text(const ModuleTraining&);

}  // namespace partita::internal
