// Unicode normalization of UTF-8 text: NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace monolith {

enum class NormalForm : uint8_t { kNone, kNfc, kNfd, kNfkc, kNfkd };

// "NFC" and so on, as tokenizer.json files name them. Empty view, or nothing, if there is no such form.
std::string_view normal_form_name(NormalForm form);
std::optional<NormalForm> normal_form_of_name(std::string_view name);

// True if `text` was not normalized: `out` then holds the normalized text. False: `text` is normalized already, and
// `out` is unspecified. Bytes that are not UTF-8 stay as they are. Linear in the text, except for sorting runs of
// combining marks; ASCII is only scanned. Any thread.
bool normalize(std::string_view text, NormalForm form, std::string& out);

}  // namespace monolith
