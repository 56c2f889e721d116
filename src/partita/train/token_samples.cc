#include "partita/train/token_samples.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "partita/base/error.h"
#include "partita/data/blend.h"
#include "partita/data/blended_dataset.h"
#include "partita/train/token_checks.h"

namespace partita::internal {
namespace {

constexpr const char* kNoCache = "none";

IndexCache cache_beside(const std::filesystem::path& prefix, const DataConfig& d, bool warns) {
  if (d.cache == kNoCache) return {};
  if (!d.cache.empty()) return IndexCache(d.cache, warns);
  std::filesystem::path folder = prefix;
  folder += "_cache";
  return IndexCache(folder, warns);
}

struct OpenPart {
  std::optional<double> weight;
  std::shared_ptr<const IndexedDataset> tokens;
  SequenceRange range;
  int64_t samples_per_epoch;
};

OpenPart open_part(const BlendPart& part, const Config& config, SplitName split, int rank, int ranks) {
  OpenPart open{part.weight, std::make_shared<const IndexedDataset>(part.prefix), {}, 0};
  // Files shared by training and validation are checked once.
  if (split == SplitName::train || !config.data.validation.empty()) check_token_file(*open.tokens, config, rank, ranks);
  const int64_t sequences = open.tokens->sequences();
  open.range = config.data.validation.empty() ? split_range(parse_split(config.data.split), split, sequences)
                                              : SequenceRange{0, sequences};
  int64_t tokens = 0;
  for (int64_t s = open.range.begin; s < open.range.end; ++s) tokens += open.tokens->length(s);
  open.samples_per_epoch = (tokens - 1) / config.train.sequence_length;
  return open;
}

}  // namespace

Documents documents_of(const DataConfig& d) {
  const bool separate =
      d.separate_documents == Switch::automatic ? d.format == DataFormat::prompts : d.separate_documents == Switch::on;
  return separate ? Documents::separate : Documents::joined;
}

TokenSamples open_token_samples(const Config& config, SplitName split, std::span<const int64_t> planned, int rank,
                                int ranks) {
  const bool warns = rank == 0;
  const DataConfig& d = config.data;
  const bool own_validation = split == SplitName::valid && !d.validation.empty();
  const bool blended = !d.blend.empty() && !own_validation;
  const std::vector<BlendPart> wanted =
      blended ? parse_blend(d.blend) : std::vector<BlendPart>{{{}, own_validation ? d.validation : d.path}};

  TokenSamples found;
  std::vector<OpenPart> parts;
  for (const BlendPart& part : wanted) {
    parts.push_back(open_part(part, config, split, rank, ranks));
    found.samples_per_epoch += parts.back().samples_per_epoch;
    const int64_t tokens = parts.back().tokens->tokens();
    if (!blended)
      found.parts = fmt::to_string(tokens);
    else
      found.parts +=
          fmt::format("{}{}{} with {} tokens", found.parts.empty() ? "" : ", ",
                      part.weight ? fmt::format("{} of ", *part.weight) : "", part.prefix.filename().string(), tokens);
  }
  const GptIndexSpec spec{.split = std::string(name_of(split)),
                          .sequence_length = config.train.sequence_length,
                          .samples = planned.front(),
                          .seed = static_cast<uint32_t>(d.seed)};
  const GptDataset::Options options{.documents = documents_of(d),
                                    .cache = cache_beside(wanted[0].prefix, d, warns),
                                    .prolonged = {planned.begin() + 1, planned.end()}};
  if (!blended) {
    found.source = std::make_unique<GptDataset>(parts[0].tokens, parts[0].range, spec, options);
    return found;
  }
  std::vector<BlendedDataset::Part> blend;
  for (size_t i = 0; i < parts.size(); ++i) {
    const OpenPart& part = parts[i];
    // A part that is too small is reported below; its weight must not be zero here.
    const double weight = part.weight.value_or(static_cast<double>(std::max<int64_t>(part.samples_per_epoch, 1)));
    blend.push_back({weight, part.tokens, part.range, cache_beside(wanted[i].prefix, d, warns)});
  }
  found.source = std::make_unique<BlendedDataset>(blend, spec, options);
  return found;
}

}  // namespace partita::internal
