#include "support/golden.h"

namespace monolith::testing {

std::vector<float> floats_from_base64(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    if (digit(c) < 0) return {};
    bits = bits << 6 | static_cast<unsigned>(digit(c));
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes += static_cast<char>(bits >> held & 0xff);
    }
  }
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (floats.size() * sizeof(float) != bytes.size()) return {};
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

const Tolerance* Golden::tolerance(std::string_view kind) const {
  for (const auto& [name_of_kind, values] : tolerances) {
    if (name_of_kind == kind) return &values;
  }
  return nullptr;
}

std::optional<Golden> Golden::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto json = Json::parse(text);
  if (!json) return std::nullopt;
  Golden golden;
  golden.name = (*json)["model"].string();
  golden.n_vocab = (*json)["n_vocab"].integer();
  for (const char* kind : {"f32", "f16", "bf16", "int8"}) {
    const Json& row = (*json)["tolerance_vs_exact"][kind];
    if (row.is_null()) continue;
    golden.tolerances.push_back(
        {kind, {row["max"].number(), row["rms"].number(), row["kl"].number(), row["outliers"].number()}});
  }
  const auto logits = [](const Json& from) {
    return GoldenLogits{from["position"].integer(), floats_from_base64(from["exact"].string())};
  };
  for (const Json& from : (*json)["prompts"].array()) {
    GoldenPrompt prompt;
    prompt.id = from["id"].string();
    prompt.tokens = from["tokens"].numbers<int32_t>();
    for (const Json& position : from["positions"].array()) prompt.positions.push_back(logits(position));
    prompt.greedy = from["greedy"]["tokens"].numbers<int32_t>();
    prompt.exact_margins = from["greedy"]["exact_margins"].numbers<double>();
    prompt.last = logits(from["greedy"]["last"]);
    if (const Json& pieces = from["pieces_of_7"]; !pieces.is_null()) {
      prompt.after_pieces = logits(pieces);
      prompt.last_after_pieces = logits(pieces["then_greedy_last"]);
    }
    for (const Json& layer : from["hidden_exact"].array()) {
      prompt.hidden_exact.push_back(floats_from_base64(layer.string()));
    }
    const auto complete = [&](const GoldenLogits& l) { return static_cast<int>(l.exact.size()) == golden.n_vocab; };
    if (prompt.tokens.empty() || prompt.greedy.size() < 2 || prompt.greedy.size() != prompt.exact_margins.size() ||
        prompt.positions.empty() || !complete(prompt.last) || !complete(prompt.after_pieces.value_or(prompt.last)) ||
        !complete(prompt.last_after_pieces.value_or(prompt.last)) || !std::ranges::all_of(prompt.positions, complete)) {
      return std::nullopt;
    }
    golden.prompts.push_back(std::move(prompt));
  }
  if (golden.prompts.empty() || golden.n_vocab < 2) return std::nullopt;
  return golden;
}

double standard_deviation(std::span<const float> values) {
  double mean = 0, squares = 0;
  for (const float v : values) mean += v;
  mean /= static_cast<double>(values.size());
  for (const float v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

double log_sum_exp(std::span<const float> values) {
  const double top = *std::ranges::max_element(values);
  double sum = 0;
  for (const float v : values) sum += std::exp(v - top);
  return top + std::log(sum);
}

int argmax(std::span<const float> values) {
  return static_cast<int>(std::ranges::max_element(values) - values.begin());
}

Distance distance(std::span<const float> engine, std::span<const float> reference, const Tolerance& tolerance) {
  const double std_r = standard_deviation(reference);
  const double norm_r = log_sum_exp(reference), norm_e = log_sum_exp(engine);
  Distance d;
  double squares = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double r = reference[i], e = engine[i];
    const double difference = std::abs(e - r) / std_r;
    d.max = difference > d.max || std::isnan(difference) ? difference : d.max;
    squares += difference * difference;
    d.kl += std::exp(r - norm_r) * ((r - norm_r) - (e - norm_e));
  }
  d.rms = std::sqrt(squares / static_cast<double>(reference.size()));
  std::vector<float> sorted(reference.begin(), reference.end());
  std::ranges::nth_element(sorted, sorted.begin() + 1, std::greater<>());
  const double lead = *std::ranges::max_element(reference) - double{sorted[1]};
  d.same_top = argmax(engine) == argmax(reference) || lead <= 2 * tolerance.max * std_r;
  return d;
}

void Verdict::add(const Distance& d, const Tolerance& tolerance) {
  const auto raise = [](double& to, double value) { to = value > to || std::isnan(value) ? value : to; };
  raise(worst.max, d.max);
  raise(worst.rms, d.rms);
  raise(worst.kl, d.kl);
  ++positions;
  failed += d.within(tolerance) ? 0 : 1;
  same_top += d.same_top ? 1 : 0;
}

bool Verdict::passes(const Tolerance& t) const {
  return positions > 0 && failed <= t.outliers * positions && same_top == positions;
}

}  // namespace monolith::testing
