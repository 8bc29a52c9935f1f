#include "formats/hf/tiktoken.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <unordered_map>

#include "formats/gguf/parser.h"
#include "formats/hf/base64.h"
#include "text/tokenizer/byte_alphabet.h"

namespace monolith::hf {
namespace {

constexpr size_t kMaxRanks = 1 << 22;
// Maximum number of bytes per token. Limited because the time to find a token's merge is quadratic in the token's
// length.
constexpr size_t kMaxBytes = 1 << 10;

std::string in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const uint16_t character = kCharacterOfByte[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      text.push_back(static_cast<char>(character));
    } else {
      text.push_back(static_cast<char>(0xC0 | character >> 6));
      text.push_back(static_cast<char>(0x80 | (character & 0x3F)));
    }
  }
  return text;
}

using Ranks = std::unordered_map<std::string_view, size_t>;

// Returns the length of the left half of the merge that produces the token `bytes` of rank `rank`, or 0 if no merge
// produces it.
size_t joint_of(std::string_view bytes, size_t rank, const Ranks& ranks, std::vector<size_t>& ends) {
  ends.clear();
  for (size_t i = 1; i <= bytes.size(); ++i) ends.push_back(i);
  while (ends.size() > 2) {
    size_t best = rank, at = 0, begin = 0;
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      const auto found = ranks.find(bytes.substr(begin, ends[i + 1] - begin));
      if (found != ranks.end() && found->second < best) best = found->second, at = i;
      begin = ends[i];
    }
    if (best == rank) return 0;
    ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return ends.size() == 2 ? ends[0] : 0;
}

}  // namespace

Result<RankedTokens> read_ranked_tokens(std::string_view text, const std::string& name) {
  std::vector<std::string> tokens;
  std::vector<std::byte> bytes;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view entry = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (entry.ends_with('\r')) entry.remove_suffix(1);
    if (entry.empty()) continue;
    const auto invalid = [&](const std::string& what) {
      return Error{ErrorCode::kInvalidFile, name + ": line " + std::to_string(line) + " " + what};
    };
    const size_t space = entry.find(' ');
    if (space == entry.npos || !decode_base64(entry.substr(0, space), bytes) || bytes.empty())
      return invalid("is not a base64 token followed by its rank");
    if (bytes.size() > kMaxBytes) return invalid("has a token of " + std::to_string(bytes.size()) + " bytes");
    size_t rank = 0;
    const std::string_view number = entry.substr(space + 1);
    const auto [last, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (error != std::errc() || last != number.data() + number.size() || rank != tokens.size() || rank >= kMaxRanks)
      return invalid("has rank " + in_quotes(number) + ", expected " + std::to_string(tokens.size()));
    tokens.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (tokens.empty()) return Error{ErrorCode::kInvalidFile, name + ": contains no tokens"};
  Ranks ranks;
  ranks.reserve(tokens.size());
  for (size_t rank = 0; rank < tokens.size(); ++rank)
    if (!ranks.emplace(tokens[rank], rank).second)
      return Error{ErrorCode::kInvalidFile, name + ": contains the token of rank " + std::to_string(rank) + " twice"};
  RankedTokens result;
  std::vector<size_t> ends;
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string_view token = tokens[rank];
    result.texts.push_back(in_alphabet(token));
    if (const size_t joint = joint_of(token, rank, ranks, ends); joint > 0)
      result.merges.push_back(in_alphabet(token.substr(0, joint)) + " " + in_alphabet(token.substr(joint)));
  }
  return result;
}

}  // namespace monolith::hf
