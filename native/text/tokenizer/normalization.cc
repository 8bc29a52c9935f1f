#include "text/tokenizer/normalization.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/tokenizer/normalization_tables.h"

namespace monolith {
namespace {

// Hangul syllables are composed and decomposed arithmetically; each consists of a leading consonant, a vowel and
// possibly a trailing consonant.
constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kNLeading = 19, kNVowels = 21, kNTrailing = 28, kNSyllables = kNLeading * kNVowels * kNTrailing;

constexpr char32_t kMaxCodePoint = 0x10FFFF;
constexpr char32_t kRawBytes = kMaxCodePoint + 1;  // An invalid UTF-8 byte is represented as kRawBytes + byte.

// Flags of a code point.
constexpr uint8_t kDecomposes = 1;            // Has a canonical decomposition.
constexpr uint8_t kDecomposesCompatibly = 2;  // Has a compatibility decomposition that differs from its canonical one.
constexpr uint8_t kMayCompose = 4;            // May compose with a preceding code point.
constexpr uint8_t kNeverInNfc = 8;            // Composition does not restore it from its decomposition.

struct Properties {
  uint8_t combining_class = 0;
  uint8_t flags = 0;
  bool operator==(const Properties&) const = default;
};

struct Decomposition {
  char32_t code_point;
  const char32_t* begin;
  uint32_t length;
};

struct Composition {
  uint64_t pair;  // first << 32 | second.
  char32_t composite;
};

constexpr uint64_t pair_of(char32_t first, char32_t second) { return uint64_t{first} << 32 | second; }

std::vector<Decomposition> read_decompositions(std::span<const char32_t> table) {
  std::vector<Decomposition> list;
  for (size_t i = 0; i < table.size();) {
    const char32_t first = table[i], count = table[i + 1], length = table[i + 2];
    i += 3;
    for (char32_t k = 0; k < count; ++k, i += length) list.push_back({first + k, &table[i], length});
  }
  return list;
}

const Decomposition* find(const std::vector<Decomposition>& list, char32_t code_point) {
  const auto found = std::ranges::lower_bound(list, code_point, {}, &Decomposition::code_point);
  return found != list.end() && found->code_point == code_point ? &*found : nullptr;
}

// The normalization tables, expanded into a two-level table with shared blocks for constant-time property lookups.
// Immutable.
class Data {
 public:
  static const Data& instance() {
    static const Data data;
    return data;
  }

  Properties of(char32_t code_point) const {
    if (code_point > kMaxCodePoint) return {};
    return blocks_[static_cast<size_t>(block_of_[code_point >> kShift]) << kShift | (code_point & kMask)];
  }
  const Decomposition* canonical(char32_t code_point) const { return find(canonical_, code_point); }
  const Decomposition* compatible(char32_t code_point) const { return find(compatible_, code_point); }

  // Returns 0 if the two code points do not compose.
  char32_t compose(char32_t first, char32_t second) const {
    if (first - kLeading < kNLeading && second - kVowels < kNVowels)
      return kSyllables + ((first - kLeading) * kNVowels + (second - kVowels)) * kNTrailing;
    if (first - kSyllables < kNSyllables && (first - kSyllables) % kNTrailing == 0 &&
        second - kTrailing - 1 < kNTrailing - 1)
      return first + (second - kTrailing);
    return compose_listed(first, second);
  }

 private:
  static constexpr uint32_t kShift = 7, kMask = (1u << kShift) - 1;

  Data() : canonical_(read_decompositions(canonical_table())), compatible_(read_decompositions(compatible_table())) {
    std::vector<Properties> all(kMaxCodePoint + 1);
    const std::span<const char32_t> classes = combining_class_table();
    for (size_t i = 0; i < classes.size(); i += 3)
      for (char32_t c = classes[i]; c <= classes[i + 1]; ++c)
        all[c].combining_class = static_cast<uint8_t>(classes[i + 2]);
    for (const Decomposition& one : canonical_) all[one.code_point].flags |= kDecomposes | kNeverInNfc;
    for (const Decomposition& one : compatible_) all[one.code_point].flags |= kDecomposesCompatibly;
    for (char32_t c = kSyllables; c < kSyllables + kNSyllables; ++c) all[c].flags |= kDecomposes;
    for (char32_t c = kVowels; c < kVowels + kNVowels; ++c) all[c].flags |= kMayCompose;
    for (char32_t c = kTrailing + 1; c < kTrailing + kNTrailing; ++c) all[c].flags |= kMayCompose;
    read_compositions(all);
    compress(all);
  }

  // A composite is made from two code points. The second is the last code point of its decomposition; the first is the
  // result of composing all preceding code points. Shorter decompositions are processed first, because longer
  // decompositions start with them.
  void read_compositions(std::vector<Properties>& all) {
    const std::span<const char32_t> never = never_composed_table();
    for (uint32_t length = 2;; ++length) {
      bool is_last = true;
      std::vector<Composition> found;
      for (const Decomposition& one : canonical_) {
        is_last &= one.length <= length;
        if (one.length != length || std::ranges::binary_search(never, one.code_point)) continue;
        char32_t first = one.begin[0];
        for (uint32_t i = 1; i + 1 < length; ++i) first = compose_listed(first, one.begin[i]);
        found.push_back({pair_of(first, one.begin[length - 1]), one.code_point});
        all[one.begin[length - 1]].flags |= kMayCompose;
        all[one.code_point].flags &= static_cast<uint8_t>(~kNeverInNfc);
      }
      compositions_.insert(compositions_.end(), found.begin(), found.end());
      std::ranges::sort(compositions_, {}, &Composition::pair);
      if (is_last) return;
    }
  }

  void compress(const std::vector<Properties>& all) {
    constexpr size_t kBlock = size_t{1} << kShift;
    for (size_t begin = 0; begin < all.size(); begin += kBlock) {
      const auto block = all.begin() + static_cast<std::ptrdiff_t>(begin);
      size_t at = 0;
      while (at < blocks_.size() &&
             !std::equal(block, block + kBlock, blocks_.begin() + static_cast<std::ptrdiff_t>(at)))
        at += kBlock;
      if (at == blocks_.size()) blocks_.insert(blocks_.end(), block, block + kBlock);
      block_of_[begin >> kShift] = static_cast<uint16_t>(at >> kShift);
    }
  }

  char32_t compose_listed(char32_t first, char32_t second) const {
    const uint64_t pair = pair_of(first, second);
    const auto found = std::ranges::lower_bound(compositions_, pair, {}, &Composition::pair);
    return found != compositions_.end() && found->pair == pair ? found->composite : 0;
  }

  std::vector<Decomposition> canonical_, compatible_;  // In ascending order.
  std::vector<Composition> compositions_;              // In ascending order.
  uint16_t block_of_[(kMaxCodePoint + 1) >> kShift];
  std::vector<Properties> blocks_;
};

struct Unit {
  char32_t code_point;
  uint8_t combining_class;
};

// The state of one normalize() call, which scans `text` and rewrites only the segments that are not normalized.
class Normalizer {
 public:
  Normalizer(std::string_view text, NormalForm form, std::string& out)
      : text_(text),
        composes_(form == NormalForm::kNfc || form == NormalForm::kNfkc),
        compatibly_(form == NormalForm::kNfkc || form == NormalForm::kNfkd),
        wrong_flags_(
            static_cast<uint8_t>((composes_ ? kNeverInNfc : kDecomposes) | (compatibly_ ? kDecomposesCompatibly : 0))),
        out_(out) {}

  bool run() {
    size_t i = 0;
    while (i < text_.size()) {
      i = skip_plain(i);
      if (i == text_.size()) break;
      const Utf8Char wide = at(i);
      const char32_t c = wide.code_point;
      const Properties properties = data_.of(c);
      if (stays(c, properties)) {
        if (properties.combining_class == 0) start_after(i, c, properties);
        last_class_ = properties.combining_class;
        i += wide.size;
        continue;
      }
      const size_t begin = begins_segment(c) ? i : boundary_;
      i = segment_end(begin);
      rewrite(begin, i);
      boundary_ = i;
      starter_ = 0;
      last_class_ = 0;
    }
    if (changed_) out_.append(text_.substr(copied_));
    return changed_;
  }

 private:
  size_t skip_ascii(size_t i) const {
    constexpr uint64_t kHighBits = 0x8080808080808080;
    for (uint64_t eight; i + sizeof eight <= text_.size(); i += sizeof eight) {
      std::memcpy(&eight, text_.data() + i, sizeof eight);
      if (eight & kHighBits) break;
    }
    while (i < text_.size() && static_cast<unsigned char>(text_[i]) < 0x80) ++i;
    return i;
  }

  // Skips characters that are normalized in any context, as most characters are. Records only the last skipped
  // character.
  size_t skip_plain(size_t i) {
    const uint8_t flags = static_cast<uint8_t>(wrong_flags_ | (composes_ ? kMayCompose : 0));
    size_t last = i;
    char32_t c = 0;
    Properties properties;
    const size_t begin = i;
    while (i < text_.size()) {
      if (static_cast<unsigned char>(text_[i]) < 0x80) {
        i = skip_ascii(i);
        last = i - 1;
        c = static_cast<unsigned char>(text_[last]);
        properties = {};
        continue;
      }
      const Utf8Char wide = at(i);
      const Properties own = data_.of(wide.code_point);
      if (own.combining_class != 0 || (own.flags & flags)) break;
      last = i;
      c = wide.code_point;
      properties = own;
      i += wide.size;
    }
    if (i > begin) start_after(last, c, properties);
    return i;
  }

  // Records the character at `i`, which is normalized and has combining class 0.
  void start_after(size_t i, char32_t c, Properties properties) {
    boundary_ = i;
    starter_ = c;
    starter_decomposes_ = properties.flags & kDecomposes;
    last_class_ = 0;
  }

  // Returns whether the text up to and including `c` is normalized, given that the text before `c` is. This check is
  // conservative: it may return false for normalized text.
  bool stays(char32_t c, Properties properties) const {
    if (properties.flags & wrong_flags_) return false;
    const uint8_t own = properties.combining_class;
    if (own != 0 && own < last_class_) return false;
    if (!composes_ || !(properties.flags & kMayCompose)) return true;
    if (own == 0) return last_class_ != 0 || data_.compose(starter_, c) == 0;
    if (own == last_class_) return true;  // A mark of the same class blocks `c` from composing.
    return !starter_decomposes_ && data_.compose(starter_, c) == 0;
  }

  // Returns null for characters that do not decompose, and for Hangul syllables.
  const Decomposition* decomposition(char32_t c, Properties properties) const {
    if (compatibly_ && (properties.flags & kDecomposesCompatibly)) return data_.compatible(c);
    return properties.flags & kDecomposes ? data_.canonical(c) : nullptr;
  }

  // Returns whether `c` starts a new segment, that is, no preceding character can compose with `c` or be reordered with
  // a part of it.
  bool begins_segment(char32_t c) const {
    const Decomposition* found = decomposition(c, data_.of(c));
    const Properties first = data_.of(found != nullptr ? found->begin[0] : c);
    return first.combining_class == 0 && !(first.flags & kMayCompose);
  }

  // Decodes the character at `i`. Has fast paths for two-byte and three-byte characters, which are the most frequent.
  Utf8Char at(size_t i) const {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text_[i + k]); };
    const auto continues = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
    const unsigned char lead = byte(0);
    const size_t left = text_.size() - i;
    if (lead >= 0xC2 && lead < 0xE0 && left >= 2 && continues(1)) return {(lead & 0x1Fu) << 6 | (byte(1) & 0x3Fu), 2};
    if (lead > 0xE0 && lead < 0xED && left >= 3 && continues(1) && continues(2))
      return {(lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu), 3};
    Utf8Char c = decode_utf8(text_.substr(i));
    if (c.code_point == kInvalidByte) c.code_point = kRawBytes + lead;
    return c;
  }

  size_t segment_end(size_t begin) const {
    size_t end = begin + at(begin).size;
    while (end < text_.size()) {
      const Utf8Char c = at(end);
      if (begins_segment(c.code_point)) break;
      end += c.size;
    }
    return end;
  }

  void rewrite(size_t begin, size_t end) {
    units_.clear();
    for (size_t i = begin; i < end;) {
      const Utf8Char c = at(i);
      decompose(c.code_point);
      i += c.size;
    }
    sort_marks();
    if (composes_) compose();
    segment_.clear();
    for (const Unit& unit : units_) {
      if (unit.code_point >= kRawBytes)
        segment_.push_back(static_cast<char>(unit.code_point - kRawBytes));
      else
        append_utf8(unit.code_point, segment_);
    }
    if (segment_ == text_.substr(begin, end - begin)) return;
    if (!changed_) {
      out_.clear();
      out_.reserve(text_.size() + segment_.size());
      changed_ = true;
    }
    out_.append(text_.substr(copied_, begin - copied_)).append(segment_);
    copied_ = end;
  }

  void decompose(char32_t c) {
    const Properties properties = data_.of(c);
    if (c - kSyllables < kNSyllables) {
      const char32_t index = c - kSyllables, trailing = index % kNTrailing;
      units_.push_back({kLeading + index / (kNVowels * kNTrailing), 0});
      units_.push_back({kVowels + index / kNTrailing % kNVowels, 0});
      if (trailing != 0) units_.push_back({kTrailing + trailing, 0});
      return;
    }
    const Decomposition* found = decomposition(c, properties);
    if (found == nullptr) return units_.push_back({c, properties.combining_class});
    for (uint32_t i = 0; i < found->length; ++i)
      units_.push_back({found->begin[i], data_.of(found->begin[i]).combining_class});
  }

  void sort_marks() {
    for (auto begin = units_.begin(); begin != units_.end();) {
      if (begin->combining_class == 0) {
        ++begin;
        continue;
      }
      const auto end = std::find_if(begin, units_.end(), [](const Unit& unit) { return unit.combining_class == 0; });
      std::stable_sort(begin, end, [](const Unit& a, const Unit& b) { return a.combining_class < b.combining_class; });
      begin = end;
    }
  }

  void compose() {
    constexpr size_t kNone = SIZE_MAX;
    size_t starter = kNone, size = 0;
    uint8_t last_class = 0;  // Combining class of the last character kept after the starter.
    for (const Unit unit : units_) {
      if (starter != kNone && (size == starter + 1 || last_class < unit.combining_class)) {
        if (const char32_t composite = data_.compose(units_[starter].code_point, unit.code_point)) {
          units_[starter].code_point = composite;
          continue;
        }
      }
      if (unit.combining_class == 0) starter = size;
      last_class = unit.combining_class;
      units_[size++] = unit;
    }
    units_.resize(size);
  }

  const Data& data_ = Data::instance();
  const std::string_view text_;
  const bool composes_, compatibly_;
  const uint8_t wrong_flags_;  // Flags of code points that never occur in normalized text.
  std::string& out_;
  bool changed_ = false;
  size_t copied_ = 0;  // Everything before this offset is in `out_`, normalized.
  // The last character with combining class 0, and the combining class of the last character.
  size_t boundary_ = 0;
  char32_t starter_ = 0;
  bool starter_decomposes_ = false;
  uint8_t last_class_ = 0;
  std::vector<Unit> units_;
  std::string segment_;
};

constexpr std::pair<NormalForm, std::string_view> kNames[] = {
    {NormalForm::kNfc, "NFC"}, {NormalForm::kNfd, "NFD"}, {NormalForm::kNfkc, "NFKC"}, {NormalForm::kNfkd, "NFKD"}};

}  // namespace

std::string_view normal_form_name(NormalForm form) {
  const auto found = std::ranges::find(kNames, form, &std::pair<NormalForm, std::string_view>::first);
  return found != std::end(kNames) ? found->second : std::string_view();
}

std::optional<NormalForm> normal_form_of_name(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &std::pair<NormalForm, std::string_view>::second);
  if (found == std::end(kNames)) return std::nullopt;
  return found->first;
}

bool normalize(std::string_view text, NormalForm form, std::string& out) {
  return form != NormalForm::kNone && Normalizer(text, form, out).run();
}

}  // namespace monolith
