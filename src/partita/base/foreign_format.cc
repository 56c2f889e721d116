#include "partita/base/foreign_format.h"

#include "partita/base/error.h"
#include "partita/base/printable.h"

namespace partita::internal {
namespace {

using namespace std::string_view_literals;

struct Magic {
  size_t at;
  std::string_view bytes;
  ForeignFormat format;
};

// The short text that a clone without Git LFS has in place of a large file.
constexpr Magic kLfsPointer = {0,
                               "version https://git-lfs.github.com/spec/"sv,
                               {"a Git LFS pointer, not the file itself",
                                "Run 'git lfs install && git lfs pull' in its repository, or download the file again"}};
constexpr std::string_view kParquet =
    "Convert it, for example: python3 -c \"import pandas, sys; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[1] + "
    "'.jsonl', orient='records', lines=True)\" FILE";
constexpr std::string_view kFeather =
    "Convert it, for example: python3 -c \"import pandas, sys; pandas.read_feather(sys.argv[1]).to_json(sys.argv[1] + "
    "'.jsonl', orient='records', lines=True)\" FILE";
constexpr std::string_view kArrowStream =
    "Convert it, for example: python3 -c \"import datasets, sys; "
    "datasets.Dataset.from_file(sys.argv[1]).to_json(sys.argv[1] + '.jsonl')\" FILE";
constexpr std::string_view kExtract = "Extract the text first";
constexpr std::string_view kToText = "Extract its text first";

// Several bytes that no text begins with: a word alone ("ORC") is not enough.
constexpr Magic kMagics[] = {
    kLfsPointer,
    {0, "PAR1\x15"sv, {"an Apache Parquet file", kParquet}},  // plus the first field of a page or footer: an integer
    {0, "ARROW1\0\0"sv, {"an Apache Arrow (Feather) file", kFeather}},
    {0, "FEA1"sv, {"a Feather file", kFeather}},
    {0, "\xFF\xFF\xFF\xFF"sv, {"an Apache Arrow stream, as `datasets` stores it", kArrowStream}},
    {0, "Obj\x01"sv, {"an Apache Avro file", "Convert it to JSON lines, for example: avro-tools tojson FILE"}},
    {0, "PK\x03\x04"sv, {"a zip archive", "Use: unzip -p FILE | partita ... --input -"}},
    {0, "PK\x05\x06"sv, {"an empty zip archive", ""}},
    {0, "7z\xBC\xAF\x27\x1C"sv, {"a 7z archive", "Use: 7z x -so FILE | partita ... --input -"}},
    {0, "Rar!\x1A\x07"sv, {"a RAR archive", kExtract}},
    {0, "\x04\x22\x4D\x18"sv, {"compressed by lz4", "Use: lz4cat FILE | partita ... --input -"}},
    {0, "LZIP\x01"sv, {"compressed by lzip", "Use: lzip -dc FILE | partita ... --input -"}},
    {0, "\xFD\x37zXZ\0"sv, {"compressed by xz", "Use: xzcat FILE | partita ... --input -"}},
    {0, "\x1F\x9D"sv, {"compressed by compress", "Use: zcat FILE | partita ... --input -"}},
    {257, "ustar"sv, {"a tar archive", "Use: tar -xOf FILE | partita ... --input -"}},
    {0, "SQLite format 3\0"sv, {"an SQLite database", "Select its texts as JSON lines first"}},
    {0, "\x89HDF\r\n\x1A\n"sv, {"an HDF5 file", kToText}},
    {0, "\x93NUMPY"sv, {"a numpy array", kToText}},
    {0, "MMIDIDX\0"sv, {"an index of token files", "Give the text that the tokens were made of"}},
    {0, "GGUF\x02\0"sv, {"a GGUF model", ""}},
    {0, "GGUF\x03\0"sv, {"a GGUF model", ""}},
    {0, "%PDF-"sv, {"a PDF document", "Use: pdftotext FILE - | partita ... --format text --input -"}},
    {0, "{\\rtf"sv, {"an RTF document", kToText}},
    {0, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, {"a document of Microsoft Office", kToText}},
    {0,
     "\x7F"
     "ELF"sv,
     {"a program", ""}},
    {0, "\x89PNG\r\n\x1A\n"sv, {"a PNG image", ""}},
    {0, "\xFF\xD8\xFF"sv, {"a JPEG image", ""}},
    {0, "GIF87a"sv, {"a GIF image", ""}},
    {0, "GIF89a"sv, {"a GIF image", ""}},
    {0, "\xFF\xFE"sv, {"UTF-16 text", "Use: iconv -f UTF-16 -t UTF-8 FILE | partita ... --input -"}},
    {0, "\xFE\xFF"sv, {"UTF-16 text", "Use: iconv -f UTF-16 -t UTF-8 FILE | partita ... --input -"}},
};

bool begins_with(std::string_view head, const Magic& magic) {
  return head.size() > magic.at && head.substr(magic.at).starts_with(magic.bytes);
}

bool is_bzip2(std::string_view head) {
  return head.size() > 3 && head.starts_with("BZh") && head[3] >= '1' && head[3] <= '9';
}

// Output of torch.save and pickle.dump: protocol 2 or later, then a frame, dictionary, module name or number.
bool is_pickle(std::string_view head) {
  return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 &&
         (head[2] == '\x95' || head[2] == '}' || head[2] == 'c' || head[2] == '\x8A' || head[2] == ']');
}

// Characters unsafe for terminals, as escapes that bash, zsh and ksh understand.
std::string escaped_word(std::string_view text) {
  std::string word = "$'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\')
      word += {'\\', c};
    else if (c == '\n')
      word += "\\n";
    else if (code < 0x20 || code >= 0x7F)
      word += fmt::format("\\x{:02x}", code);
    else
      word += c;
  }
  return word + "'";
}

}  // namespace

std::optional<ForeignFormat> foreign_format(std::string_view head) {
  for (const Magic& magic : kMagics)
    if (begins_with(head, magic)) return magic.format;
  if (is_bzip2(head)) return ForeignFormat{"compressed by bzip2", "Use: bzcat FILE | partita ... --input -"};
  if (is_pickle(head)) return ForeignFormat{"a pickle of Python", kToText};
  return std::nullopt;
}

void refuse_lfs_pointer(std::string_view head, std::string_view name, std::string_view expected) {
  if (begins_with(head, kLfsPointer)) fail("{}", describe(kLfsPointer.format, name, expected));
}

std::string describe(const ForeignFormat& format, std::string_view name, std::string_view expected) {
  return describe(format, name, expected, shell_word(name));
}

std::string describe(const ForeignFormat& format, std::string_view name, std::string_view expected,
                     std::string_view word) {
  std::string remedy(format.remedy);
  for (size_t at = 0; (at = remedy.find("FILE", at)) != std::string::npos; at += word.size())
    remedy.replace(at, 4, word);
  return fmt::format("{} is {}; expected {}{}{}", name, format.name, expected, remedy.empty() ? "" : ". ", remedy);
}

std::string shell_word(std::string_view file) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  std::string word = file.starts_with('-') ? "./" : "";  // must not look like an option
  word += file;
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  if (printable_line(word) != word) return escaped_word(word);
  for (size_t at = 0; (at = word.find('\'', at)) != std::string::npos; at += 4) word.replace(at, 1, "'\\''");
  return "'" + word + "'";
}

}  // namespace partita::internal
