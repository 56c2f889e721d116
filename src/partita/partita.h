// Partita as a library: everything in namespace partita, by one include. docs/library.md shows how to use it, and
// examples/ has programs. What is in partita::internal may change without notice.
//
//   subject                 headers
//   ranks and devices       comm/world.h, comm/mesh.h, comm/communicator.h, comm/sum_over.h,
//                           comm/device.h, comm/host_threads.h
//   models                  models/config.h, models/presets.h, models/lora.h, models/model.h; own blocks: nn/block.h
//   training                train/build_model.h (make_engine), engine/engine.h, train/batch_loader.h, optim/schedule.h
//   whole runs              config/config.h, train/trainer.h, monitor/hooks.h, train/evaluate.h
//   modules of torch::nn    module/zero_optimizer.h, module/lazy_construction.h, module/recompute.h,
//                           module/parallelize.h, module/pipeline.h; whole runs: train/module_trainer.h,
//                           train/module_checkpoint.h, train/module_offload_file.h, data/shuffled_samples.h; with
//                           torch/torch.h: torch_modules.h
//   checkpoints             train/engine_checkpoint.h, checkpoint/checkpoint.h
//   others' models          interop/model_source.h, interop/model_transfer.h
//   text and tokens         tokenizer/tokenizer.h, data/indexed_writer.h, data/indexed_dataset.h, data/gpt_dataset.h,
//                           data/prompt_dataset.h, data/tokenize_corpus.h
//   generation              generate/generator.h
#pragma once

// IWYU pragma: begin_exports
#include "partita/base/dtype.h"
#include "partita/base/error.h"
#include "partita/base/label.h"
#include "partita/base/log.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/comm/communicator.h"
#include "partita/comm/device.h"
#include "partita/comm/host_threads.h"
#include "partita/comm/mesh.h"
#include "partita/comm/sum_over.h"
#include "partita/comm/world.h"
#include "partita/config/config.h"
#include "partita/data/gpt_dataset.h"
#include "partita/data/indexed_dataset.h"
#include "partita/data/indexed_writer.h"
#include "partita/data/prompt_dataset.h"
#include "partita/data/sample_source.h"
#include "partita/data/shuffled_samples.h"
#include "partita/data/tokenize_corpus.h"
#include "partita/engine/engine.h"
#include "partita/generate/generator.h"
#include "partita/interop/model_source.h"
#include "partita/interop/model_tokenizer.h"
#include "partita/interop/model_transfer.h"
#include "partita/models/config.h"
#include "partita/models/flops.h"
#include "partita/models/lora.h"
#include "partita/models/model.h"
#include "partita/models/presets.h"
#include "partita/module/lazy_construction.h"
#include "partita/module/parallelize.h"
#include "partita/module/pipeline.h"
#include "partita/module/recompute.h"
#include "partita/module/tensor_plan.h"
#include "partita/module/zero_optimizer.h"
#include "partita/monitor/hooks.h"
#include "partita/monitor/metrics.h"
#include "partita/nn/block.h"
#include "partita/optim/schedule.h"
#include "partita/shard/zero.h"
#include "partita/tokenizer/tokenizer.h"
#include "partita/train/batch_loader.h"
#include "partita/train/build_model.h"
#include "partita/train/engine_checkpoint.h"
#include "partita/train/evaluate.h"
#include "partita/train/module_checkpoint.h"
#include "partita/train/module_offload_file.h"
#include "partita/train/module_trainer.h"
#include "partita/train/run_counts.h"
#include "partita/train/tensor_plan_file.h"
#include "partita/train/trainer.h"
// IWYU pragma: end_exports
