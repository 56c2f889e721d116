#include "partita/checkpoint/save_weights.h"

#include <algorithm>
#include <vector>

#include "partita/base/file.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

void write_weights(const std::filesystem::path& folder, int64_t step, std::span<const ParameterSpec> parameters,
                   const WeightSource& source, const nlohmann::json& scalars) {
  Manifest manifest{.step = step, .ranks = 1, .scalars = scalars};
  std::vector<SafetensorsEntry> entries;
  int64_t bytes = 0;
  for (const ParameterSpec& p : parameters) {
    const TensorInfo info{"model/" + p.name, p.shape, DType::fp32};
    entries.push_back({info.name, ElementType::f32, info.shape});
    bytes += info.count() * size_of(info.dtype);
    manifest.tensors.push_back({info, {}});
    if (info.count() > 0) manifest.tensors.back().pieces = {{.key = info.name, .boxes = {whole_box(p.shape)}}};
  }
  require_free_bytes(folder, bytes);
  const std::string name = rank_file_name(0);
  SafetensorsWriter out(folder / name, entries);
  std::vector<float> chunk(static_cast<size_t>(kChunkBytes) / sizeof(float));
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    for (StoredPiece& piece : manifest.tensors[i].pieces) {
      for (int64_t begin = 0; begin < piece.count(); begin += std::ssize(chunk)) {
        const auto values =
            std::span(chunk).first(static_cast<size_t>(std::min(std::ssize(chunk), piece.count() - begin)));
        size_t done = 0;
        for (const Box& box : boxes_of_run(piece.boxes[0], begin, std::ssize(values))) {
          const auto count = static_cast<size_t>(box.count());
          source.read(parameters[i], box, values.subspan(done, count));
          done += count;
        }
        piece.checksums.push_back(checksum(std::as_bytes(values)));
        out.write(std::as_bytes(values));
      }
    }
  }
  out.commit();
  manifest.files.push_back({name, static_cast<int64_t>(std::filesystem::file_size(folder / name))});
  write_file(folder / kManifestName, manifest_text(manifest));
}

}  // namespace partita::internal
