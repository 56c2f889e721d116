// Files in a run's folder, besides logs and checkpoints, that make it self-contained:
//   config.toml     the effective configuration; a differing one of the previous start is kept as
//                   config-until-step-00000060.toml
//   versions.json   versions of the program, libtorch and compiler, and the host
//   tokenizer.json  a copy of the configured tokenizer in its own format (tokenizer.model, vocab.json and merges.txt,
//                   *.tiktoken), with tokenizer_config.json and chat templates if present
//   generation_config.json  copied from the model that training starts from
#pragma once
#include "partita/config/config.h"

namespace partita::internal {

// Writes them into the run's folder, which must exist. The run resumes after `resumed_step`; 0: it starts fresh.
void write_run_files(const Config&, int64_t resumed_step);
// versions.json alone.
void write_versions(const std::filesystem::path& folder);

}  // namespace partita::internal
