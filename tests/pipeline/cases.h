// Shapes of all schedules, and spellings of action lists, for the tests of this folder.
#pragma once
#include <sodium.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "partita/pipeline/action.h"
#include "partita/pipeline/placement.h"
#include "partita/pipeline/schedules.h"
#include "partita/pipeline/shape.h"

namespace partita::internal {

inline const std::vector<PipelineSchedule> kAllSchedules = {
    PipelineSchedule::gpipe,      PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
    PipelineSchedule::looped_bfs, PipelineSchedule::zb_h1,       PipelineSchedule::interleaved_zero_bubble,
    PipelineSchedule::zbv,        PipelineSchedule::dual_pipe_v};

inline std::vector<int> chunks_for(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe:
    case PipelineSchedule::one_f_one_b:
    case PipelineSchedule::zb_h1:
      return {1};
    case PipelineSchedule::zbv:
    case PipelineSchedule::dual_pipe_v:
      return {2};
    default:
      return {1, 2, 3};
  }
}

// Every schedule; 1 to 8 ranks; 1 to 2P + 1 micro-batches, and some more.
inline std::vector<PipelineShape> all_shapes() {
  std::vector<PipelineShape> shapes;
  for (const PipelineSchedule schedule : kAllSchedules)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const int chunks : chunks_for(schedule)) {
        std::set<int> micro_batches = {3 * ranks, 3 * ranks + 2, 4 * ranks - 1, 37};
        for (int m = 1; m <= 2 * ranks + 1; ++m) micro_batches.insert(m);
        for (const int m : micro_batches) shapes.push_back({schedule, ranks, chunks, m});
      }
  return shapes;
}

inline std::string described(const PipelineShape& shape) {
  return std::string(name_of(shape.schedule)) + " P" + std::to_string(shape.ranks) + " V" +
         std::to_string(shape.chunks) + " M" + std::to_string(shape.micro_batches);
}

// "0F0 1B2 (0F3;1B1)OVERLAP_F_B": as torch.distributed.pipelining spells stages.
inline std::string torch_spelling(const ActionList& list, int rank, const StagePlacement& placement) {
  std::string text;
  bool second = false;
  for (const PipelineAction& action : list) {
    text += second ? ";" : text.empty() ? "" : " ";
    if (action.with_next) text += "(";
    text += std::to_string(placement.stage(rank, action.chunk)) + "FBIW"[static_cast<size_t>(action.kind)] +
            std::to_string(action.micro_batch);
    if (second) text += ")OVERLAP_F_B";
    second = action.with_next;
  }
  return text;
}

// The first 16 hexadecimal digits of the sha256 of torch's spelling, a line for each rank.
inline std::string torch_hash(const PipelineShape& shape) {
  const ActionLists lists = pipeline_actions(shape);
  const StagePlacement placement(shape);
  std::string text;
  for (int rank = 0; rank < shape.ranks; ++rank)
    text += (rank > 0 ? "\n" : "") + torch_spelling(lists[static_cast<size_t>(rank)], rank, placement);
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size());
  std::array<char, 17> hex{};
  sodium_bin2hex(hex.data(), hex.size(), hash.data(), 8);
  return hex.data();
}

// "F0 F1 [F2 b0] i1": labels of a rank's passes, pairs in brackets.
inline std::string labels(const ActionList& list, int chunks) {
  std::string text;
  bool second = false;
  for (const PipelineAction& action : list) {
    text += text.empty() ? "" : " ";
    if (action.with_next) text += "[";
    text += action_label(action, chunks);
    if (second) text += "]";
    second = action.with_next;
  }
  return text;
}

}  // namespace partita::internal
