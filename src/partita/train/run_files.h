// What a run's folder holds in addition to logs and checkpoints, so that it can be understood and used on its own:
//   config.toml     the effective configuration; where it differs from that of the last start, that one is kept as
//                   config-until-step-00000060.toml
//   versions.json   the program's version, libtorch's, the compiler, the host
//   tokenizer.json  a copy of the tokenizer, where one is configured (or tokenizer.model, vocab.json and merges.txt,
//                   *.tiktoken, whatever it is), with tokenizer_config.json and chat templates where there are some
//   generation_config.json  of the model that training begins from
#pragma once
#include "partita/config/config.h"

namespace partita::internal {

// Writes them into the run's folder, which exists. The run continues behind `resumed_step`; 0: it begins.
void write_run_files(const Config&, int64_t resumed_step);

}  // namespace partita::internal
