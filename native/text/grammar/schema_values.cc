// Compiles the scalars, strings and enumerated values of one branch.
#include "text/grammar/schema_compiler.h"

#include <algorithm>
#include <cmath>

#include "text/grammar/formats.h"
#include "text/grammar/number_ranges.h"
#include "text/grammar/rule_expressions.h"

namespace monolith::grammar {

void SchemaCompiler::add_branch(ShapeId id, const std::vector<json::Id>& flat) {
  uint32_t types = types_of(flat);
  if (types == 0) return;
  const auto values = listed_values(flat);
  if (values) {
    add_values(id, flat, types, *values);
    return;
  }
  ExprId scalar = ExpressionPool::kNothing;
  bool not_null = false, not_true = false, not_false = false;
  for (const json::Id value : excluded(flat)) {
    if (doc_.kind(value) == Kind::kNull) not_null = true;
    if (doc_.kind(value) == Kind::kTrue) not_true = true;
    if (doc_.kind(value) == Kind::kFalse) not_false = true;
  }
  if ((types & kNull) && !not_null) scalar = pool_->either(scalar, pool_->literal("null"));
  if ((types & kBoolean) && !not_true) scalar = pool_->either(scalar, pool_->literal("true"));
  if ((types & kBoolean) && !not_false) scalar = pool_->either(scalar, pool_->literal("false"));
  if (types & kNumber) scalar = pool_->either(scalar, numbers(flat, types));
  // A shape is the union of its branches, so the branch is added to the values that the shape already allows.
  if (types & kString) {
    const ExprId string = strings(flat);
    out_->shapes_[id].string = pool_->either(out_->shapes_[id].string, string);
  }
  out_->shapes_[id].scalar = pool_->either(out_->shapes_[id].scalar, scalar);
  if (types & kArray) add_array(id, flat);
  if (types & kObject) add_object(id, flat);
}

std::optional<std::vector<json::Id>> SchemaCompiler::listed_values(const std::vector<json::Id>& flat) {
  std::optional<std::vector<json::Id>> left;
  for (const json::Id schema : flat) {
    for (const char* keyword : {"enum", "const"}) {
      const json::Id given = doc_.member(schema, keyword);
      if (given == json::kAbsent) continue;
      std::vector<json::Id> values{given};
      if (keyword[0] == 'e') {
        if (!doc_.is(given, Kind::kArray)) {
          invalid(schema, keyword, "enum must be a list of values");
          return left;
        }
        values.assign(doc_.items(given).begin(), doc_.items(given).end());
      }
      if (!spend(values.size())) return left;
      if (!left)
        left = values;
      else
        std::erase_if(*left, [&](json::Id one) {
          return std::ranges::none_of(values, [&](json::Id other) { return doc_.equal(one, other); });
        });
    }
  }
  return left;
}

std::vector<json::Id> SchemaCompiler::excluded(const std::vector<json::Id>& flat) const {
  std::vector<json::Id> values;
  for (const json::Id schema : flat)
    if (const json::Id list = doc_.member(schema, kNotEnum); list != json::kAbsent)
      for (const json::Id value : doc_.items(list)) values.push_back(value);
  return values;
}

// Adds the enumerated values that the branch's other keywords allow.
void SchemaCompiler::add_values(ShapeId id, const std::vector<json::Id>& flat, uint32_t types,
                                const std::vector<json::Id>& values) {
  const std::vector<json::Id> not_allowed = excluded(flat);
  std::optional<ExprId> number, string;  // Values that the other keywords allow.
  std::vector<json::Id> strings_listed;
  std::vector<std::string> scalars_listed;
  for (const json::Id value : values) {
    if (!spend(1 + not_allowed.size())) return;
    if ((type_of_value(value) & types) == 0) continue;
    if (std::ranges::any_of(not_allowed, [&](json::Id no) { return doc_.equal(no, value); })) continue;
    switch (doc_.kind(value)) {
      case Kind::kNull: scalars_listed.emplace_back("null"); break;
      case Kind::kTrue: scalars_listed.emplace_back("true"); break;
      case Kind::kFalse: scalars_listed.emplace_back("false"); break;
      case Kind::kNumber: {
        // Numbers are compared by value, so 2.0 is an integer. A number may be written as in the list, or without an
        // exponent and without trailing zeros.
        if (!number) number = numbers(flat, types);
        const std::string& written = doc_.text(value);
        const auto decimal = Decimal::parse(written);
        const std::string plain = decimal ? decimal->text() : written;
        if (!pool_->fits(*number, plain) && !pool_->fits(*number, written)) break;
        scalars_listed.push_back(written);
        scalars_listed.push_back(plain);
        break;
      }
      case Kind::kString:
        if (!string) string = strings(flat);
        if (*string == ExpressionPool::kAnything || pool_->fits(*string, doc_.text(value)))
          strings_listed.push_back(value);
        break;
      default: {
        // An enumerated array or object is replaced with a schema that matches exactly this value. The branch's other
        // keywords still apply.
        std::vector<json::Id> all;
        for (const json::Id schema : flat) {
          const json::Id rest = without_values(schema);
          all.push_back(rest);
        }
        all.push_back(described(value));
        if (doc_.kind(value) == Kind::kArray)
          add_array(id, all);
        else
          add_object(id, all);
      }
    }
  }
  std::vector<std::string_view> texts;
  for (const json::Id value : strings_listed) texts.push_back(doc_.text(value));
  Shape& shape = out_->shapes_[id];
  shape.string = pool_->either(shape.string, pool_->literals(std::move(texts)));
  shape.scalar = pool_->either(shape.scalar, pool_->literals({scalars_listed.begin(), scalars_listed.end()}));
}

// Returns the flat schema without enum and const.
json::Id SchemaCompiler::without_values(json::Id schema) {
  const auto known = bare_.find(schema);
  if (known != bare_.end()) return known->second;
  std::vector<json::Document::Member> kept;
  for (const auto& member : doc_.members(schema))
    if (member.first != "enum" && member.first != "const") kept.push_back(member);
  return bare_[schema] = object(std::move(kept));
}

json::Id SchemaCompiler::described(json::Id value) {
  if (doc_.kind(value) == Kind::kArray) {
    std::vector<json::Id> prefix;
    const std::vector<json::Id> items(doc_.items(value).begin(), doc_.items(value).end());
    for (const json::Id one : items) prefix.push_back(object({{"const", one}}));
    const double n = static_cast<double>(items.size());
    return object({{"type", doc_.add_string("array")},
                   {"prefixItems", doc_.add_array(std::move(prefix))},
                   {"items", boolean(false)},
                   {"minItems", count(n)},
                   {"maxItems", count(n)}});
  }
  std::vector<json::Document::Member> properties;
  std::vector<json::Id> required;
  const std::vector<json::Document::Member> members(doc_.members(value).begin(), doc_.members(value).end());
  for (const auto& [name, one] : members) {
    properties.emplace_back(name, object({{"const", one}}));
    required.push_back(doc_.add_string(name));
  }
  return object({{"type", doc_.add_string("object")},
                 {"properties", object(std::move(properties))},
                 {"required", doc_.add_array(std::move(required))},
                 {"additionalProperties", boolean(false)}});
}

ExprId SchemaCompiler::numbers(const std::vector<json::Id>& flat, uint32_t types) {
  NumberBounds bounds;
  std::vector<json::Id> multiples;
  const auto tighten = [&](std::optional<Decimal>& bound, bool& excluded, const Decimal& with, bool with_excluded,
                           int sign) {
    const int order = bound ? sign * with.compare(*bound) : 1;
    if (order > 0)
      bound = with, excluded = with_excluded;
    else if (order == 0)
      excluded = excluded || with_excluded;
  };
  for (const json::Id schema : flat) {
    const auto bound = [&](const char* keyword, const char* exclusive, std::optional<Decimal>& to, bool& excluded,
                           int sign) {
      const json::Id inclusive_value = doc_.member(schema, keyword);
      const json::Id exclusive_value = doc_.member(schema, exclusive);
      if (inclusive_value != json::kAbsent) {
        if (!doc_.is(inclusive_value, Kind::kNumber)) return invalid(schema, keyword, "a bound must be a number");
        const auto decimal = Decimal::parse(doc_.text(inclusive_value));
        if (!decimal) {
          if (std::abs(doc_.number(inclusive_value)) < 1e60)
            unsupported(schema, keyword, "the bound has more than 64 digits");
        } else {
          tighten(to, excluded, *decimal, doc_.is(exclusive_value, Kind::kTrue), sign);
        }
      }
      if (doc_.is(exclusive_value, Kind::kNumber)) {
        const auto decimal = Decimal::parse(doc_.text(exclusive_value));
        if (!decimal)
          unsupported(schema, exclusive, "the bound has more than 64 digits");
        else
          tighten(to, excluded, *decimal, true, sign);
      }
    };
    bound("minimum", "exclusiveMinimum", bounds.least, bounds.above_least, 1);
    bound("maximum", "exclusiveMaximum", bounds.most, bounds.below_most, -1);
    if (const json::Id multiple = doc_.member(schema, "multipleOf"); multiple != json::kAbsent)
      multiples.push_back(multiple);
  }
  if (failed_) return ExpressionPool::kNothing;
  ExprId e = (types & kFraction) ? decimals(*pool_, bounds) : integers(*pool_, bounds);
  // Allows only numbers that are not integers. Clients cannot express this in a schema, but negation can produce it.
  if ((types & kNumber) == kFraction) {
    const ExprId point = pool_->character('.');
    const ExprId zeros = pool_->concat(point, pool_->star(pool_->character('0')));
    const ExprId digits = pool_->star(pool_->set(CodePointSet::of('0', '9')));
    const ExprId sign = pool_->either(ExpressionPool::kEmpty, pool_->character('-'));
    const ExprId whole = pool_->concat(sign, pool_->concat(digits, pool_->either(ExpressionPool::kEmpty, zeros)));
    e = pool_->both({e, pool_->negate(whole), plain_numbers()});
  }
  for (const json::Id multiple : multiples) e = pool_->both(e, multiples_of(multiple, types));
  for (const json::Id schema : flat)
    if (const json::Id multiple = doc_.member(schema, kNotMultiple); multiple != json::kAbsent)
      e = pool_->both({e, pool_->negate(multiples_of(multiple, kNumber)), plain_numbers()});
  for (const json::Id value : excluded(flat)) {
    if (doc_.kind(value) != Kind::kNumber) continue;
    const auto decimal = Decimal::parse(doc_.text(value));
    if (!decimal) continue;
    // Excludes every spelling of the value without an exponent. All spellings with an exponent are excluded, because a
    // value has too many of them to exclude individually.
    ExprId spelled = pool_->literal((decimal->negative ? "-" : "") + decimal->whole);
    const ExprId zeros = pool_->star(pool_->character('0'));
    if (!decimal->fraction.empty())
      spelled = pool_->concat(spelled, pool_->concat(pool_->literal("." + decimal->fraction), zeros));
    else
      spelled =
          pool_->concat(spelled, pool_->either(ExpressionPool::kEmpty, pool_->concat(pool_->character('.'), zeros)));
    e = pool_->both({e, pool_->negate(spelled), plain_numbers()});
    if (decimal->is_zero()) e = pool_->both(e, pool_->negate(pool_->concat(pool_->character('-'), spelled)));
  }
  return e;
}

// The expression for numbers without an exponent. Numbers with an exponent are excluded, because a value has too many
// such spellings to exclude them individually.
ExprId SchemaCompiler::plain_numbers() {
  return pool_->star(pool_->set(CodePointSet::all().minus(CodePointSet::of('e')).minus(CodePointSet::of('E'))));
}

ExprId SchemaCompiler::multiples_of(json::Id multiple, uint32_t types) {
  const auto decimal = doc_.is(multiple, Kind::kNumber) ? Decimal::parse(doc_.text(multiple)) : std::nullopt;
  if (!decimal || decimal->negative || decimal->is_zero()) {
    invalid(multiple, "multipleOf", "multipleOf must be a number above 0");
    return ExpressionPool::kNothing;
  }
  const ExprId sign = pool_->either(ExpressionPool::kEmpty, pool_->character('-'));
  const ExprId zeros = pool_->star(pool_->character('0'));
  const ExprId point = pool_->character('.');
  if (decimal->is_whole()) {
    if (decimal->whole.size() > 6) {
      unsupported(multiple, "multipleOf", "the divisor is above 999,999");
      return ExpressionPool::kAnything;
    }
    const ExprId whole = pool_->concat(sign, pool_->remainder(static_cast<uint32_t>(std::stoul(decimal->whole)), 0));
    if ((types & kFraction) == 0) return whole;
    return pool_->concat(whole,
                         pool_->either(ExpressionPool::kEmpty,
                                       pool_->concat(point, pool_->repeat(pool_->character('0'), 1, kUnbounded))));
  }
  // If `multipleOf` is 0.1, 0.01 and so on, limits the number of decimal places.
  const std::string& fraction = decimal->fraction;
  if (decimal->whole == "0" && fraction.find_first_not_of('0') == fraction.size() - 1 && fraction.back() == '1') {
    const ExprId digit = pool_->set(CodePointSet::of('0', '9'));
    const ExprId whole = pool_->concat(sign, pool_->repeat(digit, 1, kUnbounded));
    const ExprId places = pool_->concat(pool_->repeat(digit, 0, static_cast<uint32_t>(fraction.size())), zeros);
    return pool_->concat(whole, pool_->either(ExpressionPool::kEmpty, pool_->concat(point, places)));
  }
  if ((types & kFraction) == 0 || fraction.size() > 5) {
    unsupported(multiple, "multipleOf", "the divisor has a fraction");
    return ExpressionPool::kAnything;
  }
  unsupported(multiple, "multipleOf", "the divisor has a fraction other than 0.1, 0.01, …");
  return ExpressionPool::kAnything;
}

ExprId SchemaCompiler::strings(const std::vector<json::Id>& flat) {
  std::vector<ExprId> all;
  uint32_t least = 0, most = kUnbounded;
  for (const json::Id schema : flat) {
    if (const auto n = count_of(schema, "minLength")) least = std::max(least, *n);
    if (const auto n = count_of(schema, "maxLength")) most = std::min(most, *n);
    for (const char* keyword : {"pattern", kNotPattern}) {
      const json::Id pattern = doc_.member(schema, keyword);
      if (pattern == json::kAbsent) continue;
      if (!doc_.is(pattern, Kind::kString)) {
        invalid(schema, keyword, "a pattern must be a string");
        continue;
      }
      const ExprId e = found(schema, keyword, doc_.text(pattern));
      all.push_back(keyword == std::string_view(kNotPattern) ? pool_->negate(e) : e);
    }
    for (const char* keyword : {"format", kNotFormat}) {
      const json::Id format = doc_.member(schema, keyword);
      if (!doc_.is(format, Kind::kString)) continue;
      const char* pattern = format_pattern(doc_.text(format));
      if (pattern == nullptr) {
        for (const char* known : {"regex", "idn-email", "idn-hostname", "uri-template"})
          if (doc_.text(format) == known)
            unsupported(schema, "format", std::string("this format is not enforced: ") + known);
        continue;  // The format is only an annotation.
      }
      const ExprId e = regex(pattern).regex.whole(*pool_);
      all.push_back(keyword == std::string_view(kNotFormat) ? pool_->negate(e) : e);
    }
  }
  for (const json::Id schema : flat)
    for (const char* keyword : {kRegexKeyword, kLarkKeyword})
      if (doc_.member(schema, keyword) != json::kAbsent) all.push_back(grammar_text(schema, keyword));
  for (const json::Id value : excluded(flat))
    if (doc_.kind(value) == Kind::kString) all.push_back(pool_->negate(pool_->literal(doc_.text(value))));
  if (least > most) return ExpressionPool::kNothing;
  if (least > 0 || most != kUnbounded) all.push_back(pool_->repeat(any_character_, least, most));
  const ExprId e = all.empty() ? ExpressionPool::kAnything : pool_->both(std::move(all));
  return pool_->alive(e) ? e : ExpressionPool::kNothing;
}

ExprId SchemaCompiler::found(json::Id schema, const char* keyword, const std::string& pattern) {
  const RegexEntry& entry = regex(pattern);
  if (!entry.usable) {
    if (entry.problem.unsupported)
      unsupported(schema, keyword, "the pattern contains " + entry.problem.what);
    else
      invalid(schema, keyword, "the pattern is not a valid regular expression: " + entry.problem.what);
    return ExpressionPool::kAnything;
  }
  const auto known = found_.find(pattern);
  if (known != found_.end()) return known->second;
  return found_[pattern] = entry.regex.found_in(*pool_);
}

ExprId SchemaCompiler::grammar_text(json::Id schema, const char* keyword) {
  const auto known = found_.find(keyword);
  if (known != found_.end()) return known->second;
  std::string what = "no text matches the pattern";
  const ExprId e = keyword == std::string_view(kRegexKeyword) ? text_regex_.whole(*pool_)
                                                              : texts_of_rules(text_rules_, *pool_, what);
  if (!pool_->failed() && !pool_->alive(e)) problem(SchemaProblem::Kind::kImpossible, schema, keyword, what);
  return found_[keyword] = e;
}

}  // namespace monolith::grammar
