#include "partita/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/damage.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Manifest small_manifest() {
  const TensorInfo matrix{"model/w", {2, 5}, DType::fp32}, empty{"model/none", {0, 4}, DType::bf16};
  const Box left{0, 2, 0, 2}, right{0, 2, 2, 3};
  return {
      7,
      2,
      {{"consumed_samples", 12}, {"seed", 18446744073709551615U}, {"loss", 0.1}},
      {{"rank-00000.safetensors", 80}, {"rank-00001.safetensors", 96}},
      {{matrix, {{1, piece_key(matrix, left), {left}, {1}}, {0, piece_key(matrix, right), {right}, {~uint64_t{0}}}}},
       {empty, {}}}};
}

TEST(Manifest, ComesBackAsWritten) {
  const Manifest written = small_manifest();
  const std::string text = manifest_text(written);
  const Manifest read = parse_manifest(text, "m.json");
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.ranks, 2);
  EXPECT_EQ(read.scalars, written.scalars);
  EXPECT_EQ(read.scalars["seed"].get<uint64_t>(), 18446744073709551615U);
  ASSERT_EQ(read.files.size(), 2U);
  EXPECT_EQ(read.files[1].bytes, 96);
  ASSERT_EQ(read.tensors.size(), 2U);
  EXPECT_EQ(read.tensors[0].info, written.tensors[0].info);
  ASSERT_EQ(read.tensors[0].pieces.size(), 2U);
  EXPECT_EQ(read.tensors[0].pieces[0].key, "model/w[0:2,0:2]");
  EXPECT_EQ(read.tensors[0].pieces[1].boxes, std::vector{(Box{0, 2, 2, 3})});
  EXPECT_EQ(read.tensors[0].pieces[1].checksums, std::vector<uint64_t>{~uint64_t{0}});
  EXPECT_EQ(manifest_text(read), text);
}

TEST(Manifest, ThePieceOfAWholeTensorHasItsName) {
  const TensorInfo matrix{"a", {2, 3}, DType::fp32}, deep{"a", {4, 2, 3}, DType::fp32}, vector{"a", {5}, DType::fp32},
      scalar{"a", {}, DType::fp32};
  EXPECT_EQ(piece_key(matrix, {0, 2, 0, 3}), "a");
  EXPECT_EQ(piece_shape(matrix, {0, 2, 0, 3}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(piece_key(matrix, {1, 1, 0, 3}), "a[1:2,0:3]");
  EXPECT_EQ(piece_shape(matrix, {0, 2, 1, 1}), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(piece_key(deep, {0, 4, 0, 6}), "a");
  EXPECT_EQ(piece_shape(deep, {0, 4, 0, 6}), (std::vector<int64_t>{4, 2, 3}));
  EXPECT_EQ(piece_key(deep, {1, 3, 0, 6}), "a[1:4,0:6]");
  EXPECT_EQ(piece_key(vector, {0, 1, 2, 3}), "a[0:1,2:5]");
  EXPECT_EQ(piece_key(scalar, {0, 1, 0, 1}), "a");
}

// A byte changed anywhere is either seen or changes nothing (white space).
TEST(Manifest, EveryChangedByteIsSeen) {
  const std::string good = manifest_text(small_manifest());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = bad[at] == '1' ? '2' : '1';
    if (bad == good) continue;
    try {
      EXPECT_EQ(manifest_text(parse_manifest(bad, "folder/manifest.json")), good) << "byte " << at;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("folder/manifest.json")) << "byte " << at;
    }
  }
}

TEST(Manifest, SaysWhatIsWrong) {
  const auto parse = [](std::string_view text) { return [text] { (void)parse_manifest(text, "m"); }; };
  EXPECT_THAT(parse(""), ThrowsMessage<Error>(HasSubstr("m:1:1: not valid JSON")));
  EXPECT_THAT(parse("[]"), ThrowsMessage<Error>(HasSubstr("it is not a manifest of a checkpoint")));
  EXPECT_THAT(parse(R"({"format":"other"})"), ThrowsMessage<Error>(HasSubstr("it is not a manifest of a checkpoint")));
  EXPECT_THAT(parse(R"({"format":"partita checkpoint","version":4})"),
              ThrowsMessage<Error>(HasSubstr("another version of Partita (format 4; this one reads 1 to 3)")));
  EXPECT_THAT(parse(R"({"format":"partita checkpoint","version":0})"),
              ThrowsMessage<Error>(HasSubstr("another version of Partita (format 0; this one reads 1 to 3)")));
  EXPECT_THAT(parse(R"({"format":"partita checkpoint","version":1})"), ThrowsMessage<Error>(HasSubstr("checksum")));
  EXPECT_THAT([] { (void)read_manifest("/nonexistent/step-1"); },
              ThrowsMessage<Error>(HasSubstr("/nonexistent/step-1 is not a checkpoint")));
}

// Another version may write all the rest otherwise: that is not damage, for which a run would go back to an older one.
TEST(Manifest, OfAnotherVersionIsNotDamaged) {
  for (const char* text : {R"({"format":99})", R"({"format":"partita checkpoint","version":99})",
                           R"({"format":"partita checkpoint","version":99,"step":"?","checksum":"0"})"}) {
    try {
      (void)parse_manifest(text, "m");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(dynamic_cast<const Damaged*>(&error), nullptr) << text;
      EXPECT_THAT(error.what(), HasSubstr("m cannot be used: it was written by another version of Partita (format 99; "
                                          "this one reads 1 to 3)"));
    }
  }
  for (const char* text : {R"({"format":"partita checkpoint"})", R"({"format":"partita checkpoint","version":"2"})",
                           R"({"format":[99]})", "{}"})
    EXPECT_THROW((void)parse_manifest(text, "m"), Damaged) << text;
}

TEST(Manifest, RefusesReferencesThatDoNotFit) {
  const auto parse = [](const Manifest& manifest) {
    return [&manifest] { (void)parse_manifest(manifest_text(manifest), "m"); };
  };
  Manifest file = small_manifest(), sums = small_manifest(), path = small_manifest(), twice = small_manifest();
  file.tensors[0].pieces[0].file = 2;
  sums.tensors[0].pieces[0].checksums.push_back(3);
  path.files[0].name = "../rank-00000.safetensors";
  twice.tensors.push_back(twice.tensors[0]);
  EXPECT_THAT(parse(file),
              ThrowsMessage<Error>(HasSubstr("tensors[0].pieces[0].file is 2: expected an integer from 0 to 1")));
  EXPECT_THAT(parse(sums), ThrowsMessage<Error>(HasSubstr("'model/w' has 2 checksums")));
  EXPECT_THAT(parse(path), ThrowsMessage<Error>(HasSubstr("leads out of the folder")));
  EXPECT_THAT(parse(twice), ThrowsMessage<Error>(HasSubstr("'model/w' occurs twice")));
}

// A forged text, whose checksum is right: each field has a kind and a range, and is named.
TEST(Manifest, RefusesForgedFields) {
  const auto error_with = [](const std::string& pointer, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(manifest_text(small_manifest()));
    json[nlohmann::json::json_pointer(pointer)] = value;
    json.erase("checksum");
    json["checksum"] = checksum_text(checksum(json.dump()));
    return [text = json.dump()] { (void)parse_manifest(text, "m"); };
  };
  const std::vector<nlohmann::json> no_numbers = {-1, 1.5, int64_t{1} << 62, UINT64_MAX, "x", nullptr, true, {1}};
  for (const auto& [pointer, name] :
       std::vector<std::pair<std::string, std::string>>{{"/step", "step"},
                                                        {"/ranks", "ranks"},
                                                        {"/files/1/bytes", "files[1].bytes"},
                                                        {"/tensors/0/shape/1", "tensors[0].shape[1]"},
                                                        {"/tensors/0/pieces/0/file", "tensors[0].pieces[0].file"},
                                                        {"/tensors/0/pieces/0/box/0", "tensors[0].pieces[0].box[0]"},
                                                        {"/tensors/0/pieces/0/box/3", "tensors[0].pieces[0].box[3]"}})
    for (const nlohmann::json& value : no_numbers)
      EXPECT_THAT(error_with(pointer, value), ThrowsMessage<Damaged>(HasSubstr(name + " is " + value.dump())));
  EXPECT_THAT(error_with("/ranks", 0), ThrowsMessage<Damaged>(HasSubstr("ranks is 0")));
  EXPECT_THAT(error_with("/ranks", 1), ThrowsMessage<Damaged>(HasSubstr("2 files of 1 ranks")));
  EXPECT_THAT(error_with("/scalars", 3), ThrowsMessage<Damaged>(HasSubstr("scalars is 3: expected an object")));
  EXPECT_THAT(error_with("/files", 3), ThrowsMessage<Damaged>(HasSubstr("files is 3: expected a list")));
  EXPECT_THAT(error_with("/files/0/name", 3), ThrowsMessage<Damaged>(HasSubstr("files[0].name is 3: expected a text")));
  EXPECT_THAT(error_with("/files/0/name", ".."), ThrowsMessage<Damaged>(HasSubstr("leads out of the folder")));
  EXPECT_THAT(error_with("/tensors/0/shape", nlohmann::json::array()), ThrowsMessage<Damaged>(HasSubstr("model/w")));
  const int64_t third = int64_t{1} << 21;
  EXPECT_THAT(error_with("/tensors/0/shape", {third, third, third}), ThrowsMessage<Damaged>(HasSubstr("elements")));
  EXPECT_THAT(error_with("/tensors/0/shape", {0, third, third, third}), ThrowsMessage<Damaged>(HasSubstr("elements")));
  EXPECT_THAT(error_with("/tensors/0/shape", {0, 1, 1, 1, 1, 1, 1, 1, 1}), ThrowsMessage<Damaged>(HasSubstr("sizes")));
  EXPECT_THAT(error_with("/tensors/0/pieces/0/box", {0, 2, 0}),
              ThrowsMessage<Damaged>(HasSubstr("box is [0,2,0]: expected first row, rows, first column and columns")));
  EXPECT_THAT(error_with("/tensors/0/pieces/0/box", 3), ThrowsMessage<Damaged>(HasSubstr("expected a list")));
  EXPECT_THAT(error_with("/tensors/0/pieces/0/box/1", 0), ThrowsMessage<Damaged>(HasSubstr("rows [0, 0)")));
  EXPECT_THAT(error_with("/tensors/0/pieces/0/box/1", int64_t{1} << 60), ThrowsMessage<Damaged>(HasSubstr("[2, 5]")));
  EXPECT_THAT(error_with("/tensors/0/dtype", "fp33"), ThrowsMessage<Damaged>(HasSubstr("fp33")));
  EXPECT_THAT(error_with("/tensors/0/pieces/0/checksums", {"x"}), ThrowsMessage<Damaged>(HasSubstr("'x'")));
}

// Version 1 stored flat runs; what it did not write is refused by name as well.
TEST(Manifest, ReadsRunsOfVersion1) {
  const auto text = [](const nlohmann::json& pieces) {
    nlohmann::json json = {{"format", "partita checkpoint"},
                           {"version", 1},
                           {"step", 7},
                           {"ranks", 1},
                           {"scalars", nlohmann::json::object()},
                           {"files", {{{"name", "rank-00000.safetensors"}, {"bytes", 80}}}},
                           {"tensors", {{{"name", "w"}, {"dtype", "fp32"}, {"shape", {4, 5}}, {"pieces", pieces}}}}};
    json["checksum"] = checksum_text(checksum(json.dump()));
    return json.dump();
  };
  const auto run = [](const char* key, const nlohmann::json& begin, const nlohmann::json& count) -> nlohmann::json {
    return {{"file", 0}, {"key", key}, {"begin", begin}, {"count", count}, {"checksums", {checksum_text(1)}}};
  };
  const Manifest manifest = parse_manifest(text({run("w[0:3]", 0, 3), run("w[3:20]", 3, 17)}), "m");
  ASSERT_EQ(manifest.tensors[0].pieces.size(), 2U);
  EXPECT_EQ(manifest.tensors[0].pieces[0].boxes, std::vector{(Box{0, 1, 0, 3})});
  EXPECT_EQ(manifest.tensors[0].pieces[1].boxes, (std::vector<Box>{{0, 1, 3, 2}, {1, 3, 0, 5}}));
  EXPECT_EQ(manifest.tensors[0].pieces[1].key, "w[3:20]");
  const auto parse = [&](const nlohmann::json& pieces) {
    return [text = text(pieces)] { (void)parse_manifest(text, "m"); };
  };
  EXPECT_THAT(parse(nlohmann::json::array({run("w", 0, 21)})),
              ThrowsMessage<Damaged>(HasSubstr("21 elements from 0 of 'w', which has 20")));
  EXPECT_THAT(parse(nlohmann::json::array({run("w", 21, 1)})),
              ThrowsMessage<Damaged>(HasSubstr("1 elements from 21 of 'w'")));
  EXPECT_THAT(parse(nlohmann::json::array({run("w", 0, 0)})), ThrowsMessage<Damaged>(HasSubstr("count is 0")));
  EXPECT_THAT(parse(nlohmann::json::array({run("w", -1, 3)})), ThrowsMessage<Damaged>(HasSubstr("begin is -1")));
  EXPECT_THAT(parse(nlohmann::json::array({run("w", 1, 19)})),
              ThrowsMessage<Damaged>(HasSubstr("rows [0, 1), columns [0, 1) of 'w' are stored by no rank")));
  EXPECT_THAT(parse(nlohmann::json::array({run("w", 0, 20), run("x", 3, 17)})),
              ThrowsMessage<Damaged>(HasSubstr("are stored twice")));
}

}  // namespace
}  // namespace partita::internal
