#include "text/grammar/general_categories.h"

namespace monolith::grammar {
namespace {

struct Name {
  const char *brief, *name;
};

// The categories are in the same order as in the generated table. The names come from Unicode's PropertyValueAliases.
constexpr Name kNames[] = {
    {"Lu", "Uppercase_Letter"},    {"Ll", "Lowercase_Letter"},  {"Lt", "Titlecase_Letter"},
    {"Lm", "Modifier_Letter"},     {"Lo", "Other_Letter"},      {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},        {"Me", "Enclosing_Mark"},    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},       {"No", "Other_Number"},      {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},    {"Ps", "Open_Punctuation"},  {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"}, {"Pf", "Final_Punctuation"}, {"Po", "Other_Punctuation"},
    {"Sm", "Math_Symbol"},         {"Sc", "Currency_Symbol"},   {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},        {"Zs", "Space_Separator"},   {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"}, {"Cc", "Control"},           {"Cf", "Format"},
    {"Cs", "Surrogate"},           {"Co", "Private_Use"},       {"Cn", "Unassigned"},
};

struct Group {
  const char *brief, *name;
  uint32_t first, last;  // Indices into kNames.
};

constexpr Group kGroups[] = {
    {"L", "Letter", 0, 4},   {"LC", "Cased_Letter", 0, 2}, {"M", "Mark", 5, 7},          {"M", "Combining_Mark", 5, 7},
    {"N", "Number", 8, 10},  {"Nd", "digit", 8, 8},        {"P", "Punctuation", 11, 17}, {"P", "punct", 11, 17},
    {"S", "Symbol", 18, 21}, {"Z", "Separator", 22, 24},   {"Cc", "cntrl", 25, 25},      {"C", "Other", 25, 29},
};

CodePointSet of_categories(uint32_t first, uint32_t last) {
  CodePointSet set;
  const auto starts = general_category_starts();
  for (size_t i = 0; i < starts.size(); ++i) {
    const uint32_t category = starts[i] % 32;
    if (category >= first && category <= last)
      set.add(starts[i] / 32, i + 1 < starts.size() ? starts[i + 1] / 32 - 1 : kLastCodePoint);
  }
  return set;
}

}  // namespace

std::optional<CodePointSet> general_category(std::string_view name) {
  for (const Group& group : kGroups)
    if (name == group.brief || name == group.name) return of_categories(group.first, group.last);
  for (uint32_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i].brief || name == kNames[i].name) return of_categories(i, i);
  return std::nullopt;
}

}  // namespace monolith::grammar
