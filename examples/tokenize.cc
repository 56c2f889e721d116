// tokenize TOKENIZER TEXT PREFIX: writes PREFIX.bin and PREFIX.idx, one document per line of TEXT.
#include <partita/partita.h>

#include <fstream>

using namespace partita;

int main(int count, char** arguments) try {
  if (count != 4) fail("usage: tokenize TOKENIZER TEXT PREFIX");
  const auto tokenizer = load_tokenizer(arguments[1]);  // tokenizer.json, SentencePiece, tiktoken, or a folder
  const auto encoder = tokenizer->make_encoder();       // one per thread
  IndexedWriter writer(arguments[3], token_type_for(tokenizer->vocab_size()));
  std::ifstream text(arguments[2]);
  if (!text) fail("{} cannot be read", arguments[2]);
  std::vector<TokenId> ids;
  for (std::string line; std::getline(text, line); ids.clear()) {
    encoder->encode(line, ids);
    if (const auto end = tokenizer->end_of_document()) ids.push_back(*end);
    writer.add_document(ids);
  }
  writer.close();
  log::info("{} documents, {} tokens", writer.documents(), writer.tokens());
} catch (const std::exception& error) {
  log::error("{}", error.what());
  return 1;
}
