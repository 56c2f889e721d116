#include "partita/monitor/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using ::testing::ElementsAre;
using ::testing::MatchesRegex;

// A message read back field by field: numbers and bytes by field number, in order.
struct Fields {
  struct Field {
    int number;
    uint64_t integer;
    std::string bytes;
  };
  std::vector<Field> all;

  explicit Fields(std::string_view data) {
    const auto varint = [&data] {
      uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = static_cast<unsigned char>(data.at(0));
        data.remove_prefix(1);
        value |= uint64_t{byte & 0x7FU} << shift;
        if (byte < 0x80) return value;
      }
    };
    while (!data.empty()) {
      const uint64_t key = varint();
      Field field{static_cast<int>(key >> 3), 0, ""};
      size_t size = 0;
      switch (key & 7) {
        case 0:
          field.integer = varint();
          break;
        case 1:
          size = 8;
          break;
        case 2:
          size = varint();
          break;
        case 5:
          size = 4;
          break;
        default:
          throw std::runtime_error("wire type of no use here");
      }
      if (size > data.size()) throw std::runtime_error("field reaches beyond its message");
      field.bytes = std::string(data.substr(0, size));
      data.remove_prefix(size);
      all.push_back(field);
    }
  }
  [[nodiscard]] const Field& get(int number) const {
    for (const Field& field : all)
      if (field.number == number) return field;
    throw std::runtime_error("no field " + std::to_string(number));
  }
  [[nodiscard]] Fields message(int number) const { return Fields(get(number).bytes); }
  template <class T>
  [[nodiscard]] T number(int field) const {
    T value{};
    EXPECT_EQ(get(field).bytes.size(), sizeof(T));
    std::memcpy(&value, get(field).bytes.data(), sizeof(T));
    return value;
  }
};

template <class T>
T read_number(std::string_view data) {
  T value{};
  std::memcpy(&value, data.data(), sizeof(T));
  return value;
}

uint32_t masked(std::string_view bytes) { return internal::masked_crc32c(std::as_bytes(std::span(bytes))); }

// The events of a file; both sums of each record are checked.
std::vector<Fields> read_events(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  std::string_view rest = content;
  std::vector<Fields> events;
  while (!rest.empty()) {
    const auto size = read_number<uint64_t>(rest);
    EXPECT_EQ(read_number<uint32_t>(rest.substr(8)), masked(rest.substr(0, 8)));
    const std::string_view data = rest.substr(12, size);
    EXPECT_EQ(read_number<uint32_t>(rest.substr(12 + size)), masked(data));
    events.emplace_back(data);
    rest.remove_prefix(16 + size);
  }
  return events;
}

// What TensorBoard's own reader says of a folder; empty where the package is missing.
std::optional<nlohmann::json> read_by_tensorboard(const std::filesystem::path& directory) {
  const std::string command = "PYTHONPATH='" PARTITA_PYTHON_PACKAGES "' python3 '" PARTITA_SOURCE_DIR
                              "/tests/train/read_tensorboard.py' '" +
                              directory.string() + "' 2>/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string said;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) return std::nullopt;
  EXPECT_EQ(status, 0);
  return nlohmann::json::parse(said);
}

TEST(TfRecord, EqualsTensorFlowsBytes) {
  // crc32c(00 00 00 00 00 00 00 00) = 0x8C28B28A; masked: rotated right by 15, plus 0xA282EAD8.
  EXPECT_EQ(masked(std::string(8, '\0')), ((0x8C28B28AU >> 15) | (0x8C28B28AU << 17)) + 0xA282EAD8U);
  const std::string record = internal::tfrecord("abc");
  EXPECT_EQ(record.size(), 8 + 4 + 3 + 4U);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

TEST(TensorBoardWriter, NamesTheFileAsTensorBoardDoes) {
  const TemporaryDirectory folder;
  const TensorBoardWriter writer(folder / "run", {.time = 1234567890.5});
  const std::string pid = std::to_string(::getpid());
  EXPECT_THAT(writer.path().filename().string(), MatchesRegex("events\\.out\\.tfevents\\.1234567890\\.[^/]+\\." + pid));
}

TEST(TensorBoardWriter, WritesVersionScalarsAndText) {
  const TemporaryDirectory folder;
  std::filesystem::path path;
  {
    TensorBoardWriter writer(folder.path(), {.time = 100.25});
    path = writer.path();
    writer.scalar("train/loss", 3.5, 7);
    writer.scalar("train/loss", std::nan(""), int64_t{1} << 40);
    writer.text("config", "    [model]\n", 0);
  }
  const std::vector<Fields> events = read_events(path);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].number<double>(1), 100.25);
  EXPECT_EQ(events[0].get(3).bytes, "brain.Event:2");

  EXPECT_EQ(events[1].number<double>(1), 100.25);
  EXPECT_EQ(events[1].get(2).integer, 7U);
  EXPECT_EQ(events[1].message(5).message(1).get(1).bytes, "train/loss");
  EXPECT_EQ(events[1].message(5).message(1).number<float>(2), 3.5F);

  EXPECT_EQ(events[2].get(2).integer, uint64_t{1} << 40);
  EXPECT_TRUE(std::isnan(events[2].message(5).message(1).number<float>(2)));

  const Fields value = events[3].message(5).message(1);
  EXPECT_EQ(value.get(1).bytes, "config");
  EXPECT_EQ(value.message(8).get(1).integer, 7U);  // DT_STRING
  EXPECT_EQ(value.message(8).get(8).bytes, "    [model]\n");
  EXPECT_EQ(value.message(9).message(1).get(1).bytes, "text");
}

TEST(TensorBoardWriter, FlushMakesAllVisible) {
  const TemporaryDirectory folder;
  TensorBoardWriter writer(folder.path());
  EXPECT_EQ(read_events(writer.path()).size(), 1U);
  for (int64_t i = 0; i < 5000; ++i) writer.scalar("a", static_cast<double>(i), i);  // more than one buffer
  writer.flush();
  EXPECT_EQ(read_events(writer.path()).size(), 5001U);
}

TEST(TensorBoardWriter, NamesAFolderThatCannotBe) {
  const TemporaryDirectory folder;
  write_file(folder / "file", "");
  EXPECT_THAT(error_message([&] { const TensorBoardWriter writer(folder / "file" / "run"); }),
              ::testing::HasSubstr("file/run"));
}

TEST(TensorBoardWriter, TensorBoardReadsScalarsAndText) {
  const TemporaryDirectory folder;
  {
    TensorBoardWriter writer(folder.path());
    for (const int64_t i : {1, 2, 3}) writer.scalar("train/loss", 10.0 / static_cast<double>(i), i);
    writer.text("config", "    [model]\n    layers = 2\n", 0);
  }
  const auto read = read_by_tensorboard(folder.path());
  if (!read) GTEST_SKIP() << "the Python package tensorboard is missing";
  const auto& scalars = read->at("scalars").at("train/loss");
  ASSERT_EQ(scalars.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(scalars.at(i).at(0), i + 1);
    EXPECT_EQ(scalars.at(i).at(1).get<float>(), 10.0F / static_cast<float>(i + 1));
  }
  EXPECT_EQ(read->at("texts").at("config").at(0).at(1), "    [model]\n    layers = 2\n");
  EXPECT_EQ(read->at("plugins").at("config"), "text");
}

TEST(TensorBoardWriter, TensorBoardForgetsWhatAResumedRunWritesAgain) {
  const TemporaryDirectory folder;
  {
    TensorBoardWriter writer(folder.path(), {.time = 1000});
    for (int64_t i = 1; i <= 5; ++i) writer.scalar("loss", 1, i);
  }
  {
    TensorBoardWriter writer(folder.path(), {.first_step = 4, .time = 2000});
    for (int64_t i = 4; i <= 6; ++i) writer.scalar("loss", 2, i);
  }
  const auto read = read_by_tensorboard(folder.path());
  if (!read) GTEST_SKIP() << "the Python package tensorboard is missing";
  std::vector<std::pair<int64_t, double>> values;
  for (const auto& point : read->at("scalars").at("loss")) values.emplace_back(point.at(0), point.at(1));
  using P = std::pair<int64_t, double>;
  EXPECT_THAT(values, ElementsAre(P{1, 1}, P{2, 1}, P{3, 1}, P{4, 2}, P{5, 2}, P{6, 2}));
}

}  // namespace
}  // namespace partita::internal
