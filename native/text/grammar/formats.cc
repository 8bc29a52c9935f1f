#include "text/grammar/formats.h"

#include <string>
#include <utility>
#include <vector>

namespace monolith::grammar {
namespace {

const std::string kDate =
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1["
    "0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
// Leap seconds are rejected because they are valid only at midnight UTC, which is not checked here.
const std::string kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
// RFC 3339, appendix A: each unit may be followed only by the next smaller unit.
const std::string kTimeSpan = "(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
const std::string kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const std::string kHostname = kLabel + "(?:\\." + kLabel + ")*";
const std::string kByte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const std::string kIpv4 = kByte + "(?:\\." + kByte + "){3}";
const std::string kGroup = "[0-9A-Fa-f]{1,4}";
const std::string kLast = "(?:" + kGroup + ":" + kGroup + "|" + kIpv4 + ")";

// RFC 4291: eight groups, with at most one run of zeros abbreviated to "::".
std::string ipv6() {
  std::string out = "(?:(?:" + kGroup + ":){6}" + kLast + "|::(?:" + kGroup + ":){5}" + kLast;
  out += "|(?:" + kGroup + ")?::(?:" + kGroup + ":){4}" + kLast;
  for (int before = 1; before <= 4; ++before) {
    out += "|(?:(?:" + kGroup + ":){0," + std::to_string(before) + "}" + kGroup + ")?::";
    const int after = 4 - before;
    if (after > 0)
      out += "(?:" + kGroup + ":){" + std::to_string(after - 0) + "}" + kLast;
    else
      out += kLast;
  }
  out += "|(?:(?:" + kGroup + ":){0,5}" + kGroup + ")?::" + kGroup;
  out += "|(?:(?:" + kGroup + ":){0,6}" + kGroup + ")?::)";
  return out;
}

const std::string kUnreserved = "A-Za-z0-9\\-._~";
const std::string kSub = "!$&'()*+,;=";
const std::string kPercent = "%[0-9A-Fa-f]{2}";
const std::string kPchar = "(?:[" + kUnreserved + kSub + ":@]|" + kPercent + ")";
const std::string kAuthority = "(?:(?:[" + kUnreserved + kSub + ":]|" + kPercent + ")*@)?(?:\\[(?:" + ipv6() +
                               ")\\]|(?:[" + kUnreserved + kSub + "]|" + kPercent + ")*)(?::[0-9]*)?";
const std::string kTail = "(?:\\?(?:" + kPchar + "|[/?])*)?(?:#(?:" + kPchar + "|[/?])*)?";
const std::string kHier = "(?://" + kAuthority + "(?:/" + kPchar + "*)*|/(?:" + kPchar + "+(?:/" + kPchar + "*)*)?|" +
                          kPchar + "+(?:/" + kPchar + "*)*|)";
const std::string kUri = "[A-Za-z][A-Za-z0-9+\\-.]*:" + kHier + kTail;
const std::string kNoColon = "(?:[" + kUnreserved + kSub + "@]|" + kPercent + ")";
const std::string kRelative = "(?://" + kAuthority + "(?:/" + kPchar + "*)*|/(?:" + kPchar + "+(?:/" + kPchar +
                              "*)*)?|" + kNoColon + "+(?:/" + kPchar + "*)*|)" + kTail;

// RFC 3987: a URI whose unreserved characters include non-ASCII characters.
std::string international(std::string pattern) {
  const std::string wide = kUnreserved + "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{EFFFD}";
  for (size_t at = 0; (at = pattern.find(kUnreserved, at)) != std::string::npos; at += wide.size())
    pattern.replace(at, kUnreserved.size(), wide);
  return pattern;
}

// The RFC 5321 mailboxes that common validators accept: no quoted local parts, and domains with at least two labels.
const std::string kAtom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const std::string kEmail = "(?:" + kAtom + "(?:\\." + kAtom + ")*)@(?:" + kLabel + "\\.)+" + kLabel;

const std::vector<std::pair<std::string_view, std::string>>& table() {
  static const std::vector<std::pair<std::string_view, std::string>> formats = {
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "[Tt]" + kTime},
      {"duration", "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T" + kTimeSpan +
                       ")?|T" + kTimeSpan + ")"},
      {"email", kEmail},
      {"hostname", "(?=.{1,253}$)" + kHostname},
      {"ipv4", kIpv4},
      {"ipv6", ipv6()},
      {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
      {"uri", kUri},
      {"iri", international(kUri)},
      {"iri-reference", international("(?:" + kUri + "|" + kRelative + ")")},
      {"uri-reference", "(?:" + kUri + "|" + kRelative + ")"},
      {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"},
      {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)"},
  };
  return formats;
}

}  // namespace

const char* format_pattern(std::string_view name) {
  for (const auto& [known, pattern] : table())
    if (known == name) return pattern.c_str();
  return nullptr;
}

}  // namespace monolith::grammar
