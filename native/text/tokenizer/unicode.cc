#include "text/tokenizer/unicode.h"

#include <algorithm>
#include <cstring>

namespace monolith {

const CharClasses& CharClasses::instance() {
  static const CharClasses classes;
  return classes;
}

// Only about 300 of the 8704 blocks are distinct, so the table takes 80 KiB instead of 2.2 MiB.
CharClasses::CharClasses() {
  constexpr size_t kBlock = size_t{1} << kShift;
  std::vector<CharProperties> all(0x110000, {CharClass::kOther, CharDetail::kNone});
  for (const CharClassRange& range : char_class_ranges())
    for (uint32_t c = range.first; c <= range.last; ++c) all[c].char_class = range.char_class;
  for (const CharDetailRange& range : char_detail_ranges())
    for (uint32_t c = range.first; c <= range.last; c += range.step) all[c].detail = range.detail;

  std::vector<uint32_t> order(all.size() / kBlock);
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto compare = [&](uint32_t a, uint32_t b) {
    return std::memcmp(&all[a * kBlock], &all[b * kBlock], kBlock * sizeof(CharProperties));
  };
  // The ASCII block stays first, so that of_ascii() needs no first-level lookup. The other blocks are sorted, so that
  // equal blocks become adjacent.
  std::sort(order.begin() + 1, order.end(), [&](uint32_t a, uint32_t b) { return compare(a, b) < 0; });
  for (size_t i = 0; i < order.size(); ++i) {
    if (i < 2 || compare(order[i], order[i - 1]) != 0) {
      const CharProperties* block = &all[order[i] * kBlock];
      blocks_.insert(blocks_.end(), block, block + kBlock);
    }
    block_of_[order[i]] = static_cast<uint16_t>(blocks_.size() / kBlock - 1);
  }
}

}  // namespace monolith
