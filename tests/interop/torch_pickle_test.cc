#include "partita/interop/torch_pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/interop/zip_writer.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<PickledTensor> unpickle(std::string_view pickle) {
  return unpickle_tensors(std::as_bytes(std::span(pickle)), "folder/x.bin");
}
std::string error_of(std::string_view pickle) {
  return error_message([&] { (void)unpickle(pickle); });
}
// A pickle with these opcodes after its protocol.
std::string raw(std::string_view opcodes) { return "\x80\x02" + std::string(opcodes); }

TEST(TorchPickle, ReadsADictionaryOfTensors) {
  const auto tensors = unpickle(pickle_of({{.name = "a"},
                                           {.name = "b",
                                            .storage_type = "BFloat16Storage",
                                            .key = "17",
                                            .count = 100,
                                            .offset = 4,
                                            .shape = {5},
                                            .strides = {2}},
                                           {.name = "scalar", .shape = {}, .strides = {}}}));
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].type, ElementType::f32);
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors[0].strides, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(tensors[1].type, ElementType::bf16);
  EXPECT_EQ(tensors[1].storage, "17");
  EXPECT_EQ(tensors[1].storage_count, 100);
  EXPECT_EQ(tensors[1].offset, 4);
  EXPECT_TRUE(tensors[2].shape.empty());
  EXPECT_TRUE(unpickle(raw("}.")).empty());
}

// An OrderedDict with module versions as its state, a parameter, the memo, and numbers in each of their forms.
TEST(TorchPickle, ReadsWhatStateDictsHold) {
  const std::string parameter =
      name("torch._utils", "_rebuild_parameter") + "(" + tensor({.name = "w"}) + "\x88" + empty_ordered_dict() + "tR";
  const std::string metadata =
      "}" + text("_metadata") + empty_ordered_dict() + text("") + "}" + text("version") + "K\x01" + "sss";
  const auto tensors =
      unpickle(raw(empty_ordered_dict() + "q\x01(" + text("w") + parameter + "r\x02\x01" + std::string(2, '\0') +
                   text("tied") + "j\x02\x01" + std::string(2, '\0') + "u" + metadata + "b."));
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[1].name, "tied");
  EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{2, 3}));
}

TEST(TorchPickle, ReadsProtocol4) {
  const auto short_text = [](std::string_view t) { return "\x8c" + std::string(1, char(t.size())) + std::string(t); };
  const auto stack_name = [&](std::string_view m, std::string_view n) {
    return short_text(m) + short_text(n) + "\x93";
  };
  const std::string body = "}\x94" + short_text("w") + stack_name("torch._utils", "_rebuild_tensor_v2") + "((" +
                           short_text("storage") + stack_name("torch", "HalfStorage") + short_text("0") +
                           short_text("cpu") + "M\x2c\x01tQ" + std::string("\x8a\x02\xff\0", 4) +
                           "K\x05\x85K\x01\x85\x89" + stack_name("collections", "OrderedDict") + ")RtRs.";
  const auto tensors = unpickle(std::string("\x80\x04\x95", 3) + little(uint64_t(body.size())) + body);
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].type, ElementType::f16);
  EXPECT_EQ(tensors[0].storage_count, 300);
  EXPECT_EQ(tensors[0].offset, 255);
}

struct Attack {
  std::string pickle;
  const char* message;
};

// Ways to run code, as pickles have been abused; each is refused where it names what it wants.
TEST(TorchPickle, RefusesEveryWayToRunCode) {
  const std::vector<Attack> attacks = {
      {raw(name("os", "system") + "(" + text("echo owned") + "tR."), "at byte 2: the name os.system is not allowed"},
      {raw(name("posix", "system") + text("id") + "\x85R."), "the name posix.system is not allowed"},
      {raw(name("builtins", "eval") + text("1") + "\x85R."), "builtins.eval"},
      {raw(name("builtins", "getattr") + "."), "builtins.getattr"},
      {raw(name("torch", "load") + "."), "torch.load"},
      {raw(name("torch._utils", "_rebuild_tensor_v2.__globals__") + "."), "_rebuild_tensor_v2.__globals__ is not"},
      {raw(name("torch.hub", "load") + "."), "torch.hub.load"},
      {raw(name("runpy", "_run_code") + "."), "runpy._run_code"},
      {raw(text("os") + text("system") + "\x93."), "the name os.system is not allowed"},
      {raw("(S'echo owned'\nios\nsystem\n."), "0x53 (STRING) is not allowed"},
      {raw("(" + text("echo owned") + "ios\nsystem\n."), "0x69 (INST) is not allowed"},
      {raw("(" + name("os", "system") + text("echo owned") + "o."), "os.system"},
      {raw("(o."), "0x6f (OBJ) is not allowed"},
      {raw(")\x81."), "0x81 (NEWOBJ) is not allowed"},
      {raw(")}\x92."), "0x92 (NEWOBJ_EX) is not allowed"},
      {raw("\x82\x01."), "0x82 (EXT1) is not allowed"},
      {raw("Pabc\n."), "0x50 (PERSID) is not allowed"},
      {raw("\x97."), "0x97 (NEXT_BUFFER) is not allowed"},
      {raw(std::string("\xf0.", 2)), "the opcode 0xf0 is not allowed"},
      // Known names in other uses.
      {raw(text("x") + ")R."), "a function was expected"},
      {raw(name("torch", "FloatStorage") + ")R."), "a call of torch.FloatStorage with 0 arguments"},
      {raw(name("collections", "OrderedDict") + "]\x85R."), "a call of collections.OrderedDict with 1 arguments"},
      {raw(name("collections", "OrderedDict") + "}b."), "a dictionary with a state was expected"},
      {raw("]}b."), "a dictionary with a state was expected"},
      {raw("}" + text("x") + "b."), "a state that is a dictionary was expected"},
      {raw("(" + text("module") + "tQ."), "a persistent id that is not a storage"},
      {raw(text("id") + "Q."), "a persistent id that is a tuple was expected"},
      {raw(name("torch._utils", "_rebuild_tensor_v2") + ")R."), "with 0 arguments"},
  };
  for (const Attack& attack : attacks)
    EXPECT_THAT(error_of(attack.pickle), AllOf(HasSubstr("folder/x.bin is refused"), HasSubstr(attack.message)));
  // The name of an attacker does not spoil the message.
  const std::string error = error_of(raw(name("os\x1b[31m", "sys\ttem") + "."));
  EXPECT_THAT(error, HasSubstr("the name os\\x1b[31m.sys\\x09tem is not allowed"));
}

TEST(TorchPickle, RefusesHooksAndMetadata) {
  const std::string start = "}" + text("w") + name("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") +
                            name("torch", "FloatStorage") + text("0") + text("cpu") + "K\x06tQ" + integer(0) +
                            integers({6}) + integers({1}) + "\x89";
  const std::string filled = "}" + text("hook") + "K\x01s";
  EXPECT_EQ(error_of(raw(start + "}tRs.")), "no error");
  EXPECT_EQ(error_of(raw(start + "}}tRs.")), "no error");
  EXPECT_EQ(error_of(raw(start + "NtRs.")), "no error");
  EXPECT_THAT(error_of(raw(start + filled + "tRs.")), HasSubstr("hooks of a tensor are not allowed"));
  EXPECT_THAT(error_of(raw(start + "}" + filled + "tRs.")), HasSubstr("metadata of a tensor are not allowed"));
}

TEST(TorchPickle, RefusesWhatIsNoDictionaryOfTensors) {
  EXPECT_THAT(error_of(""), HasSubstr("does not begin as one"));
  EXPECT_THAT(error_of("\x80\x01."), HasSubstr("its protocol is 1"));
  EXPECT_THAT(error_of(raw(".")), HasSubstr("ends with 0 values"));
  EXPECT_THAT(error_of(raw("NN.")), HasSubstr("ends with 2 values"));
  EXPECT_THAT(error_of(raw("}.x")), HasSubstr("1 bytes follow its end"));
  EXPECT_THAT(error_of(raw("].")), HasSubstr("a dictionary of tensors was expected"));
  EXPECT_THAT(error_of(raw("}" + text("step") + "K\x01s.")), HasSubstr("'step' is not a tensor"));
  EXPECT_THAT(error_of(raw("}K\x01K\x01s.")), HasSubstr("a name of a tensor was expected"));
  EXPECT_THAT(error_of(pickle_of({{.name = "a"}, {.name = "a"}})), HasSubstr("the name 'a' occurs twice"));
  EXPECT_THAT(error_of(pickle_of({{.name = "a", .shape = {1}}})), HasSubstr("a tensor with 1 sizes and 2 strides"));
  EXPECT_THAT(error_of(pickle_of({{.name = "a", .count = -1}})), HasSubstr("a storage of -1 elements"));
  EXPECT_THAT(error_of(pickle_of({{.name = "a", .storage_type = "UntypedStorage"}})),
              HasSubstr("torch.UntypedStorage"));
  // Of the machine itself.
  EXPECT_THAT(error_of(raw("h\x05.")), HasSubstr("its memo holds nothing at 5"));
  EXPECT_THAT(error_of(raw("t.")), HasSubstr("a mark is missing"));
  EXPECT_THAT(error_of(raw("\x85.")), HasSubstr("a value is missing"));
  EXPECT_THAT(error_of(raw("N(\x85.")), HasSubstr("a value is missing"));
  EXPECT_THAT(error_of(raw("(N.")), HasSubstr("ends with 1 values"));
  EXPECT_THAT(error_of(raw("}(NNNu.")), HasSubstr("a key without a value"));
  EXPECT_THAT(error_of(raw("\x8a\x09"
                           "123456789.")),
              HasSubstr("a number of 9 bytes"));
  EXPECT_THAT(error_of(raw("X\xff\xff\xff\xff"
                           "abc.")),
              HasSubstr("4294967295 bytes should follow, 4 do"));
  EXPECT_THAT(error_of(raw("cos")), HasSubstr("a line does not end"));
}

// A long text that is written once can be named any number of times, so no value takes a copy of one.
TEST(TorchPickle, RefusesLongNames) {
  const auto keyed = [](size_t length) {
    return error_of(pickle_of({{.name = "a", .key = std::string(length, 'k')}}));
  };
  EXPECT_EQ(keyed(255), "no error");
  EXPECT_THAT(keyed(256), HasSubstr("the key of a storage has 256 bytes, at most 255 are read"));
  const std::string some(255, 'm'), more(256, 'm');
  const auto named = [](const std::string& module, const std::string& what) {
    return std::array{error_of(raw(name(module, what) + ".")), error_of(raw(text(module) + text(what) + "\x93."))};
  };
  for (const std::string& error : named(some, some)) EXPECT_THAT(error, HasSubstr("is not allowed"));
  for (const std::string& error : named(more, "n"))
    EXPECT_THAT(error, HasSubstr("a name of 256 and 1 bytes, at most 255 each are read"));
  for (const std::string& error : named("m", more)) EXPECT_THAT(error, HasSubstr("a name of 1 and 256 bytes"));
}

// A list that holds itself, and a nest as deep as the pickle is long: nothing here follows references.
TEST(TorchPickle, SurvivesCyclesAndDepth) {
  EXPECT_THAT(error_of(raw("]q\x01h\x01"
                           "a.")),
              HasSubstr("a dictionary of tensors was expected"));
  EXPECT_THAT(error_of(raw("}q\x01" + text("x") + "h\x01s.")), HasSubstr("'x' is not a tensor"));
  EXPECT_THAT(error_of(raw(")" + std::string(1'000'000, '\x85') + ".")), HasSubstr("a dictionary of tensors"));
}

TEST(TorchPickle, RefusesEveryCut) {
  const std::string pickle = pickle_of({{.name = "a"}, {.name = "b"}});
  for (size_t length = 0; length < pickle.size(); ++length)
    EXPECT_NE(error_of(pickle.substr(0, length)), "no error") << length;
}

TEST(TorchPickle, SurvivesRandomDamage) {
  const std::string good = pickle_of({{.name = "a"}, {.name = "b", .key = "1"}});
  std::mt19937 random(9);
  int refused = 0;
  for (int round = 0; round < 30000; ++round) {
    std::string pickle = good;
    for (uint32_t changes = 1 + random() % 4; changes > 0; --changes)
      pickle[random() % pickle.size()] = static_cast<char>(random());
    if (error_of(pickle) != "no error") ++refused;
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace partita::internal
