#include "support/vision_golden.h"

namespace monolith::testing {

std::string vision_path(const std::string& relative) {
  std::vector<std::string> roots;
  if (const char* root = std::getenv("MONOLITH_VISION")) roots.push_back(root);
  roots.push_back(check::data_path("vision"));
  roots.push_back(check::data_path("../../../shared/vision"));
  for (const std::string& root : roots)
    if (const std::string path = root + "/" + relative; std::ifstream(path).good()) return path;
  return {};
}

std::vector<uint8_t> bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<Picture> vision_picture(const std::string& name) {
  const std::string path = vision_path("images/" + name);
  return path.empty() ? std::nullopt : read_png(bytes_of_file(path));
}

std::optional<Json> vision_cases(const std::string& pair) {
  const std::string path = vision_path("cases/" + pair + ".json");
  if (path.empty()) return std::nullopt;
  const std::vector<uint8_t> bytes = bytes_of_file(path);
  return Json::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::vector<uint8_t> bytes_from_base64(std::string_view text) {
  std::vector<uint8_t> bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0) break;
    bits = bits << 6 | static_cast<unsigned>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> held & 0xff));
  }
  return bytes;
}

EmbeddingError embedding_error(const Json& piece, const std::vector<float>& rows, double unit) {
  const auto size = static_cast<size_t>(piece["embedding_size"].integer());
  const std::vector<float> expected = floats_from_base64(piece["embeddings"].string());
  std::vector<size_t> wanted = piece["embedding_rows"].numbers<size_t>();
  if (wanted.empty())
    for (size_t i = 0; i < static_cast<size_t>(piece["n_tokens"].integer()); ++i) wanted.push_back(i);
  if (expected.empty() || expected.size() != wanted.size() * size) return {INFINITY, INFINITY};
  EmbeddingError error;
  for (size_t i = 0; i < wanted.size(); ++i)
    for (size_t j = 0; j < size; ++j) {
      const size_t at = wanted[i] * size + j;
      const double off = at < rows.size() ? std::abs(rows[at] - expected[i * size + j]) / unit : INFINITY;
      error.max = std::max(error.max, std::isnan(off) ? INFINITY : off);
      error.rms += off * off;
    }
  error.rms = std::sqrt(error.rms / static_cast<double>(expected.size()));
  return error;
}

}  // namespace monolith::testing
