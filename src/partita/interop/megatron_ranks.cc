#include "partita/interop/megatron_ranks.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "partita/base/error.h"
#include "partita/base/printable.h"
#include "partita/checkpoint/reshard.h"
#include "partita/interop/megatron_names.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "mp_rank_";
constexpr const char* kFile = "model_optim_rng.pt";
constexpr int kMostRanks = 100'000;

// The numbers of "mp_rank_01_003"; empty: another name.
std::vector<int> rank_numbers(std::string_view name) {
  if (!name.starts_with(kFolder)) return {};
  std::vector<int> numbers;
  for (name.remove_prefix(kFolder.size());; name.remove_prefix(1)) {
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || number < 0 || number >= kMostRanks) return {};
    numbers.push_back(number);
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    if (name.empty()) return numbers;
    if (name[0] != '_') return {};
  }
}

// Rows [begin, begin + count) of a tensor.
MappedTensor rows_of(const MappedTensor& tensor, int64_t begin, int64_t count) {
  MappedTensor part = tensor;
  part.shape[0] = count;
  if (part.bytes.empty()) return part;  // no elements, so that its strides may be anything
  part.bytes = part.bytes.subspan(static_cast<size_t>(begin * tensor.strides[0] * size_of(tensor.type)));
  return part;
}

std::vector<int64_t> shifted(size_t dimensions, size_t dimension, int64_t by) {
  std::vector<int64_t> offsets(dimensions, 0);
  offsets[dimension] = by;
  return offsets;
}

// A tensor from the parts of tensor-parallel ranks, which are alike in shape. `what`: its name, for the message.
ChunkedTensor merge(const std::vector<MappedTensor>& parts, MegatronCut cut, const std::string& what) {
  const MappedTensor& first = parts[0];
  ChunkedTensor tensor{first.shape, first.type, std::string(name_of(first.type)), {}};
  const auto add = [&](std::vector<int64_t> offsets, MappedTensor part) {
    std::vector<int64_t> sizes = part.shape;
    tensor.chunks.push_back({std::move(offsets), std::move(sizes), [part = std::move(part)] { return part; }});
  };
  const size_t dimensions = first.shape.size();
  if (cut == MegatronCut::none) {
    add(std::vector<int64_t>(dimensions, 0), first);
    return tensor;
  }
  const size_t dimension = cut == MegatronCut::columns ? 1 : 0;
  const auto ranks = std::ssize(parts);
  const int64_t size = first.shape[dimension];
  if (__builtin_mul_overflow(size, ranks, &tensor.shape[dimension]))
    fail("{}: {} ranks of {} have an impossible shape: copy or write the checkpoint again", what, ranks,
         shape_text(first.shape));
  for (int64_t r = 0; r < ranks; ++r) {
    const MappedTensor& part = parts[static_cast<size_t>(r)];
    if (cut != MegatronCut::gate_up_rows) {
      add(shifted(dimensions, dimension, r * size), part);
      continue;
    }
    const int64_t half = size / 2;
    add(shifted(dimensions, 0, r * half), rows_of(part, 0, half));
    add(shifted(dimensions, 0, (ranks + r) * half), rows_of(part, half, half));
  }
  return tensor;
}

constexpr int64_t kMostLayers = 1'000'000;

// The number of the layer in a name, which ends at `end`; -1: none.
int64_t layer_of(std::string_view name, size_t& end) {
  if (!name.starts_with(kMegatronLayers)) return -1;
  int64_t layer = 0;
  const auto [stop, error] = std::from_chars(name.data() + kMegatronLayers.size(), name.data() + name.size(), layer);
  if (error != std::errc() || layer < 0 || layer > kMostLayers) return -1;
  end = static_cast<size_t>(stop - name.data());
  return layer;
}

}  // namespace

bool has_megatron_ranks(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(fs::directory_iterator(folder, ignored), [](const fs::directory_entry& entry) {
    return !rank_numbers(entry.path().filename().string()).empty();
  });
}

MegatronRanks::MegatronRanks(fs::path folder) : folder_(std::move(folder)) {
  find_files();
  const MegatronFile& first = files_.begin()->second;
  if (const double version = first.number("checkpoint_version").value_or(0); version < 2)
    fail(
        "{}: checkpoint_version is {}, which orders the rows of queries, keys and values in another way: load it with "
        "Megatron-LM and save it again",
        first.path().string(), version);
  check_counters();
  arguments_ = first.arguments();
  check_arguments();
}

void MegatronRanks::find_files() {
  std::map<Rank, fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    const std::vector<int> numbers = rank_numbers(name);
    if (numbers.empty()) continue;
    if (numbers.size() > 2)
      fail("{} belongs to an expert-parallel rank: mixtures of experts are not read", entry.path().string());
    const Rank rank = {numbers.size() == 2 ? numbers[1] : 0, numbers[0]};
    if (!paths.emplace(rank, entry.path() / kFile).second)
      fail("{} has two folders of tensor-parallel rank {} and pipeline rank {}", folder_.string(), rank.second,
           rank.first);
    pipeline_ranks_ = std::max(pipeline_ranks_, rank.first + 1);
    tensor_ranks_ = std::max(tensor_ranks_, rank.second + 1);
  }
  if (paths.empty()) fail("{} has no folder {}00 or {}00_000", folder_.string(), kFolder, kFolder);
  for (int p = 0; p < pipeline_ranks_; ++p)
    for (int t = 0; t < tensor_ranks_; ++t)
      if (!paths.contains({p, t}))
        fail("{} has no folder of tensor-parallel rank {} and pipeline rank {}, but of rank {} and {}: copy all ranks",
             folder_.string(), t, p, tensor_ranks_ - 1, pipeline_ranks_ - 1);
  for (const auto& [rank, path] : paths) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) fail("{} is missing: copy all files of the checkpoint", path.string());
    mapped_.emplace_back(path, MappedFile::Access::sequential);
    files_.emplace(rank, MegatronFile(mapped_.back().bytes(), path));
  }
}

// Files of two saves, as after an incomplete copy.
void MegatronRanks::check_counters() const {
  const MegatronFile& first = files_.begin()->second;
  const auto shown = [](std::optional<double> value) { return value ? fmt::format("{}", *value) : "missing"; };
  for (const char* name : {"iteration", "checkpoint_version"})
    for (const auto& [rank, file] : files_)
      if (file.number(name) != first.number(name))
        fail("{} of {} is {}, and of {} {}: they are not ranks of one checkpoint, copy all files again", name,
             first.path().string(), shown(first.number(name)), file.path().string(), shown(file.number(name)));
}

void MegatronRanks::check_arguments() const {
  if (!arguments_) return;
  const auto check = [&](const char* name, int found) {
    const auto said = arguments_->find(name);
    if (said != arguments_->end() && said->is_number_integer() && *said != found)
      fail("{}: {} is {}, and there are folders of {} ranks: copy all ranks", file().string(), name,
           said->get<int64_t>(), found);
  };
  check("tensor_model_parallel_size", tensor_ranks_);
  check("pipeline_model_parallel_size", pipeline_ranks_);
}

void MegatronRanks::refuse_rank(int pipeline, int tensor, std::string_view name) const {
  fail("{} and {} hold different tensors '{}': they are not ranks of one checkpoint",
       files_.at({pipeline, 0}).path().string(), files_.at({pipeline, tensor}).path().string(), printable_line(name));
}

void MegatronRanks::check_names(const std::vector<Values>& ranks, int pipeline) const {
  const auto require_all = [&](const Values& names, const Values& others, int tensor) {
    for (const auto& [name, value] : names) {
      if (!value.tensor) continue;
      const auto found = others.find(name);
      if (found == others.end() || !found->second.tensor) refuse_rank(pipeline, tensor, name);
    }
  };
  for (int t = 1; t < std::ssize(ranks); ++t) {
    require_all(ranks[0], ranks[static_cast<size_t>(t)], t);
    require_all(ranks[static_cast<size_t>(t)], ranks[0], t);
  }
}

ChunkedTensors MegatronRanks::tensors(bool gated) const {
  ChunkedTensors whole;
  int64_t layers = 0;                                        // before the current stage
  const bool chunks = !files_.begin()->second.has("model");  // with virtual stages: model0, model1, ...
  for (int v = 0; chunks ? files_.begin()->second.has(fmt::format("model{}", v)) : v == 0; ++v) {
    const std::string entry = chunks ? fmt::format("model{}", v) : "model";
    for (int p = 0; p < pipeline_ranks_; ++p) {
      std::vector<Values> ranks;
      for (int t = 0; t < tensor_ranks_; ++t) ranks.push_back(files_.at({p, t}).tensors(entry));
      check_names(ranks, p);
      int64_t here = 0;
      for (const auto& [name, value] : ranks[0]) {
        std::string core = megatron_core_name(name);
        size_t end = 0;
        if (const int64_t layer = layer_of(core, end); layer >= 0) {
          here = std::max(here, layer + 1);
          core = fmt::format("{}{}{}", kMegatronLayers, layers + layer, std::string_view(core).substr(end));
        }
        std::vector<MappedTensor> parts;
        for (int t = 0; t < tensor_ranks_ && value.tensor; ++t) {
          parts.push_back(*ranks[static_cast<size_t>(t)].at(name).tensor);
          if (parts.back().shape != parts[0].shape || parts.back().type != parts[0].type) refuse_rank(p, t, name);
        }
        const MegatronCut cut = megatron_cut(core, gated);
        ChunkedTensor tensor{{}, std::nullopt, value.what, {}};
        if (!parts.empty()) {
          if (cut == MegatronCut::columns ? parts[0].shape.size() != 2
                                          : cut != MegatronCut::none && parts[0].shape.empty())
            fail("{}: '{}' has {} dimensions", files_.at({p, 0}).path().string(), printable_line(name),
                 parts[0].shape.size());
          tensor = merge(parts, cut, printable_line(name));
        }
        if (!whole.emplace(core, std::move(tensor)).second)
          fail("{} holds '{}', as another rank of the pipeline does", files_.at({p, 0}).path().string(),
               printable_line(core));
      }
      layers += here;
    }
  }
  return whole;
}

}  // namespace partita::internal
