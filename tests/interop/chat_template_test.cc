#include "partita/interop/chat_template.h"

#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

TEST(ChatTemplate, IsTheFirstThatIsThere) {
  const TemporaryDirectory folder;
  EXPECT_EQ(chat_template(tokenizer_side_files(folder.path())), "");
  write_file(folder / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(chat_template(tokenizer_side_files(folder.path())), "");
  write_file(folder / "tokenizer_config.json",
             R"({"chat_template": [{"name": "tools", "template": "b"}, {"name": "default", "template": "a"}]})");
  EXPECT_EQ(chat_template(tokenizer_side_files(folder.path())), "a");
  write_file(folder / "tokenizer_config.json", R"({"chat_template": "c"})");
  EXPECT_EQ(chat_template(tokenizer_side_files(folder.path())), "c");
  write_file(folder / "chat_template.json", R"({"chat_template": "d"})");
  EXPECT_EQ(chat_template(tokenizer_side_files(folder.path())), "d");
  write_file(folder / "chat_template.jinja", "{{ e }}");
  EXPECT_EQ(chat_template(tokenizer_side_files(folder.path())), "{{ e }}");
}

}  // namespace
}  // namespace partita::internal
