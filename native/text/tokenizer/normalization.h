// Unicode normalization of UTF-8 text: NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace monolith {

enum class NormalForm : uint8_t { kNone, kNfc, kNfd, kNfkc, kNfkd };

// Conversion to and from the names used in tokenizer.json, such as "NFC". For an unknown form or name, these functions
// return an empty view or nullopt.
std::string_view normal_form_name(NormalForm form);
std::optional<NormalForm> normal_form_of_name(std::string_view name);

// If `text` is not normalized, stores the normalized text in `out` and returns true. If `text` is already normalized,
// returns false; `out` is then unspecified. Invalid UTF-8 bytes are kept. Takes linear time, except for sorting runs of
// combining marks; ASCII text is only scanned. May be called from any thread.
bool normalize(std::string_view text, NormalForm form, std::string& out);

}  // namespace monolith
