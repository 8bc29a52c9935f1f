#include "engine/output/text_stage_reference.h"

namespace monolith::testing {

void Collected::piece(Section section, std::string_view text, int n, std::span<const TokenLogprobs> logprobs) {
  CHECK(!text.empty());
  CHECK(section == Section::kContent || logprobs.empty());
  (section == Section::kContent ? content : section == Section::kReasoning ? reasoning : calls) += text;
  if (sections.empty() || sections.back().first != section) sections.emplace_back(section, "");
  sections.back().second += text;
  n_tokens += n;
  for (const TokenLogprobs& entry : logprobs) entries.push_back(entry.token);
}

std::vector<std::pair<Section, std::string>> Reference::sections() const {
  std::vector<std::pair<Section, std::string>> joined;
  for (const Piece& piece : pieces) {
    if (joined.empty() || joined.back().first != piece.section) joined.emplace_back(piece.section, "");
    joined.back().second += text_.substr(piece.begin, piece.end - piece.begin);
  }
  return joined;
}

Reference::Fate Reference::fate_of(size_t begin, size_t end) const {
  while (begin > 0 && (static_cast<unsigned char>(text_[begin]) & 0xC0) == 0x80) --begin;  // Start of the character.
  for (const Piece& piece : pieces)
    if (begin < piece.end && end > piece.begin) return {true, piece.section == Section::kContent};
  for (const auto& [from, to] : line_breaks_)  // Dropped line breaks are counted with the text that follows.
    if (end > from && end <= to && !pieces.empty() && pieces.back().begin >= to) return {true, false};
  return {};
}

void Reference::add(Section section, size_t begin, size_t end) {
  if (begin < end) pieces.push_back({section, begin, end});
}

size_t Reference::behind_line_breaks(size_t begin, size_t end) {
  size_t at = begin;
  while (at < end && (text_[at] == '\n' || text_[at] == '\r')) ++at;
  line_breaks_.emplace_back(begin, at);
  return at;
}

size_t Reference::before_line_breaks(size_t begin, size_t end) {
  size_t at = end;
  while (at > begin && (text_[at - 1] == '\n' || text_[at - 1] == '\r')) --at;
  line_breaks_.emplace_back(at, end);
  return at;
}

void Reference::run() {
  const ReasoningParams& reasoning = params_.reasoning;
  bool inside = reasoning.starts_inside;
  size_t at = 0;
  if (!inside && !reasoning.open.text.empty()) {
    const size_t start = behind_spaces(0);
    inside = start <= 32 && text_.compare(start, reasoning.open.text.size(), reasoning.open.text) == 0;
    if (inside) at = start + reasoning.open.text.size();
  }
  if (inside) {
    const size_t close = reasoning.close.text.empty() ? std::string::npos : text_.find(reasoning.close.text, at);
    const size_t end = std::min(close, text_.size());
    const bool continued = reasoning.starts_inside && reasoning.continued;
    const size_t begin = continued ? at : behind_line_breaks(at, end);
    add(Section::kReasoning, begin, close == std::string::npos ? end : before_line_breaks(begin, end));
    at = close == std::string::npos ? text_.size() : close + reasoning.close.text.size();
    at = behind_line_breaks(at, text_.size());
  }
  content(at);
}

void Reference::content(size_t begin) {
  const CallParams& calls = params_.calls;
  bool first = true;
  for (;;) {
    const size_t spaces = behind_spaces(begin) - begin;
    size_t end = begin;
    bool opens = false;
    while (!opens && stop < 0 && end < text_.size()) {
      const std::string_view read = std::string_view(text_).substr(begin, ++end - begin);
      opens = !calls.open.text.empty() && read.ends_with(calls.open.text);
      if (calls.at_start) opens = opens && first && spaces <= 32 && read.size() == spaces + calls.open.text.size();
      for (size_t i = 0; i < params_.stops.size() && !opens; ++i) {
        if (!read.ends_with(params_.stops[i])) continue;
        if (stop < 0 || params_.stops[i].size() > params_.stops[static_cast<size_t>(stop)].size())
          stop = static_cast<int>(i);
      }
    }
    if (stop >= 0) end -= params_.stops[static_cast<size_t>(stop)].size();
    if (!opens) return add(Section::kContent, begin, end);
    const size_t start = calls.at_start ? begin : end - calls.open.text.size();
    add(Section::kContent, begin, start);
    const size_t close = calls.close.text.empty() ? std::string::npos : text_.find(calls.close.text, end);
    begin = close == std::string::npos ? text_.size() : close + calls.close.text.size();
    add(Section::kCall, start, begin);
    first = false;
  }
}

void check_cut(const std::string& text, const StageParams& params, uint64_t cuts) {
  const Reference expected(text, params);
  Collected got;
  OutputParser stage(params.reasoning, params.calls, params.stops, true);
  int stop = -1, n_counted = 0;
  std::vector<TokenId> entries;
  TokenId next = 0;
  const auto marker_at = [&](size_t at) -> const Marker* {
    for (const Marker* marker : {&params.calls.open, &params.calls.close})
      if (marker->token != kNoToken && text.compare(at, marker->text.size(), marker->text) == 0) return marker;
    return nullptr;
  };
  for (size_t begin = 0; begin < text.size() && stop < 0;) {
    const Marker* marker = marker_at(begin);
    size_t end = begin + (marker ? marker->text.size() : 1);
    while (!marker && end < text.size() && !marker_at(end) && !(cuts >> (end % 64) & 1)) ++end;
    TokenLogprobs entry;
    entry.token = marker ? marker->token : next++;
    const Reference::Fate fate = expected.fate_of(begin, end);
    n_counted += fate.counted;
    if (fate.has_entry) entries.push_back(entry.token);
    stop = stage.push(entry.token, std::string_view(text).substr(begin, end - begin), &entry, got);
    begin = end;
  }
  if (stop < 0) stop = stage.finish(got);
  const auto show = [](const std::vector<std::pair<Section, std::string>>& sections) {
    std::string shown;
    for (const auto& [section, part] : sections)
      shown += " " + std::to_string(static_cast<int>(section)) + " '" + part + "'";
    return shown.empty() ? " nothing" : shown;
  };
  if (got.sections != expected.sections() || stop != expected.stop) {
    check::fail(__FILE__, __LINE__,
                "'" + text + "' cut " + std::to_string(cuts) + ":" + show(got.sections) + " instead of" +
                    show(expected.sections()) + ", stop " + std::to_string(stop) + " instead of " +
                    std::to_string(expected.stop));
  }
  if (got.entries != entries || got.n_tokens != n_counted) {
    check::fail(__FILE__, __LINE__,
                "'" + text + "' cut " + std::to_string(cuts) + ": " + std::to_string(got.entries.size()) +
                    " entries instead of " + std::to_string(entries.size()) + ", " + std::to_string(got.n_tokens) +
                    " tokens instead of " + std::to_string(n_counted));
  }
}

void check_every_cut(const std::string& text, const StageParams& params) {
  // Bit 0 would split nothing.
  for (uint64_t cuts = 0; cuts < uint64_t{1} << text.size(); cuts += 2) check_cut(text, params, cuts);
}

}  // namespace monolith::testing
