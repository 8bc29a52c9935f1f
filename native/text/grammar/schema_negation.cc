// Negates schemas, and detects pairs of schemas that no value can match at the same time.
#include "text/grammar/schema_compiler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/grammar/formats.h"

namespace monolith::grammar {

// Returns the subset of `types` in which some value may match both schemas. For the remaining types, it is certain that
// no value matches both.
uint32_t SchemaCompiler::shared_types(json::Id a, json::Id b, uint32_t types, int depth) {
  a = through_refs(a);
  b = through_refs(b);
  types &= type_of(a) & type_of(b);
  if (types == 0 || depth > 8 || !spend()) return types;
  if (doc_.kind(a) != Kind::kObject || doc_.kind(b) != Kind::kObject) return types;
  const std::vector<json::Id>* values_a = values_of(a);
  const std::vector<json::Id>* values_b = values_of(b);
  if (values_a && values_b) {
    uint32_t shared = 0;
    if (!spend(values_a->size() * values_b->size() / 16)) return types;
    for (const json::Id x : *values_a)
      if (std::ranges::any_of(*values_b, [&](json::Id y) { return doc_.equal(x, y); })) shared |= type_of_value(x);
    types &= shared;
  }
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    if (const json::Id ref = doc_.member(x, "$ref"); doc_.is(ref, Kind::kString)) {
      const json::Id target = resolve(doc_.text(ref));
      if (target != json::kAbsent && target != x) types = shared_types(target, y, types, depth + 1);
    }
    if (const json::Id all = doc_.member(x, "allOf"); doc_.is(all, Kind::kArray))
      for (const json::Id one : doc_.items(all)) types = shared_types(one, y, types, depth + 1);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const json::Id any = doc_.member(x, keyword);
      if (!doc_.is(any, Kind::kArray) || doc_.items(any).empty()) continue;
      uint32_t shared = 0;
      for (const json::Id one : doc_.items(any)) {
        shared |= shared_types(one, y, types, depth + 1);
        if (shared == types) break;
      }
      types &= shared;
    }
  }
  if ((types & kObject) && objects_exclude(a, b, depth)) types &= ~static_cast<uint32_t>(kObject);
  if ((types & kArray) && arrays_exclude(a, b, depth)) types &= ~static_cast<uint32_t>(kArray);
  if ((types & kString) && strings_exclude(a, b)) types &= ~static_cast<uint32_t>(kString);
  return types;
}

// Two object schemas exclude each other if one of them requires a member and the other either forbids the member or
// allows only incompatible values for it.
bool SchemaCompiler::objects_exclude(json::Id a, json::Id b, int depth) {
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    const json::Id required = doc_.member(x, "required");
    if (!doc_.is(required, Kind::kArray)) continue;
    for (const json::Id name : doc_.items(required)) {
      if (!doc_.is(name, Kind::kString)) continue;
      const json::Id in_x = doc_.member(doc_.member(x, "properties"), doc_.text(name));
      const json::Id in_y = doc_.member(doc_.member(y, "properties"), doc_.text(name));
      if (in_y == json::kAbsent) {
        if (doc_.member(y, "patternProperties") == json::kAbsent &&
            doc_.is(doc_.member(y, "additionalProperties"), Kind::kFalse))
          return true;
        continue;
      }
      if (doc_.kind(in_y) == Kind::kFalse) return true;
      // `y` may allow the member to be absent, but `x` requires it, so its value must satisfy both.
      if (in_x != json::kAbsent && shared_types(in_x, in_y, kAll, depth + 1) == 0) return true;
    }
  }
  return false;
}

bool SchemaCompiler::arrays_exclude(json::Id a, json::Id b, int depth) {
  const auto number = [&](json::Id schema, const char* keyword, double otherwise) {
    const json::Id value = doc_.member(schema, keyword);
    return doc_.is(value, Kind::kNumber) ? doc_.number(value) : otherwise;
  };
  const double least = std::max(number(a, "minItems", 0), number(b, "minItems", 0));
  if (least > std::min(number(a, "maxItems", 1e300), number(b, "maxItems", 1e300))) return true;
  const auto first = [&](json::Id schema) {
    const json::Id items = doc_.member(schema, "items"), prefix = doc_.member(schema, "prefixItems");
    for (const json::Id list : {prefix, items})
      if (doc_.is(list, Kind::kArray) && !doc_.items(list).empty()) return doc_.items(list).front();
    return items;
  };
  const json::Id first_a = first(a), first_b = first(b);
  return least >= 1 && first_a != json::kAbsent && first_b != json::kAbsent &&
         shared_types(first_a, first_b, kAll, depth + 1) == 0;
}

// Returns whether no string satisfies the string keywords and enumerated values of both schemas.
bool SchemaCompiler::strings_exclude(json::Id a, json::Id b) {
  bool any = false;
  for (const json::Id schema : {a, b})
    for (const char* keyword : {"pattern", "format", kNotPattern, kNotFormat, "minLength", "maxLength"}) {
      const json::Id value = doc_.member(schema, keyword);
      if (value == json::kAbsent) continue;
      any = true;
      const std::string_view name(keyword);
      const bool is_count = name == "minLength" || name == "maxLength";
      if (!doc_.is(value, is_count ? Kind::kNumber : Kind::kString)) return false;
      if (is_count && (doc_.number(value) < 0 || doc_.number(value) != std::floor(doc_.number(value)))) return false;
      if ((name == "pattern" || name == kNotPattern) && !regex(doc_.text(value)).usable) return false;
      if (name.ends_with("format") && format_pattern(doc_.text(value)) == nullptr) return false;
    }
  if (!any) return false;
  const ExprId both = strings({a, b});
  const std::vector<json::Id>* values = values_of(a) ? values_of(a) : values_of(b);
  if (!values) return both == ExpressionPool::kNothing && !pool_->failed();
  return std::ranges::none_of(
             *values,
             [&](json::Id value) { return doc_.is(value, Kind::kString) && pool_->fits(both, doc_.text(value)); }) &&
         !pool_->failed();
}

const std::vector<json::Id>* SchemaCompiler::values_of(json::Id schema) {
  const auto known = values_.find(schema);
  if (known != values_.end()) return known->second.empty() ? nullptr : &known->second;
  std::vector<json::Id>& values = values_[schema];
  if (const json::Id value = doc_.member(schema, "const"); value != json::kAbsent)
    values.push_back(value);
  else if (const json::Id list = doc_.member(schema, "enum"); doc_.is(list, Kind::kArray))
    values.assign(doc_.items(list).begin(), doc_.items(list).end());
  return values.empty() ? nullptr : &values;
}

// Returns a schema for objects without a member of this name.
json::Id SchemaCompiler::schema_without(const std::string& name) {
  const json::Id absent = object({{"properties", object({{name, boolean(false)}})}});
  return absent;
}

json::Id SchemaCompiler::count(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return doc_.add_number(text);
}

json::Id SchemaCompiler::types_schema(uint32_t types) {
  std::vector<json::Id> names;
  const auto add = [&](uint32_t bits, const char* name) {
    if ((types & bits) == bits) names.push_back(doc_.add_string(name));
  };
  add(kNull, "null");
  add(kBoolean, "boolean");
  add(kString, "string");
  add(kArray, "array");
  add(kObject, "object");
  if ((types & kNumber) == kNumber)
    names.push_back(doc_.add_string("number"));
  else
    add(kInteger, "integer"), add(kFraction, kFractionType);
  return object({{"type", doc_.add_array(std::move(names))}});
}

// Returns a schema that is equivalent to `schema` for all values of `types` and has no keywords for other types.
json::Id SchemaCompiler::relevant_part(json::Id schema, uint32_t types, int depth) {
  schema = through_refs(schema);
  if (doc_.kind(schema) != Kind::kObject || depth > 4 || !spend()) return schema;
  static const std::map<std::string_view, uint32_t> kTypes = {
      {"minLength", kString},
      {"maxLength", kString},
      {"pattern", kString},
      {"format", kString},
      {kNotPattern, kString},
      {kNotFormat, kString},
      {"minimum", kNumber},
      {"maximum", kNumber},
      {"exclusiveMinimum", kNumber},
      {"exclusiveMaximum", kNumber},
      {"multipleOf", kNumber},
      {kNotMultiple, kNumber},
      {"items", kArray},
      {"prefixItems", kArray},
      {"additionalItems", kArray},
      {"minItems", kArray},
      {"maxItems", kArray},
      {"uniqueItems", kArray},
      {"contains", kArray},
      {"minContains", kArray},
      {"maxContains", kArray},
      {"unevaluatedItems", kArray},
      {"properties", kObject},
      {"required", kObject},
      {"additionalProperties", kObject},
      {"patternProperties", kObject},
      {"propertyNames", kObject},
      {"minProperties", kObject},
      {"maxProperties", kObject},
      {"dependentRequired", kObject},
      {"dependentSchemas", kObject},
      {"dependencies", kObject},
      {"unevaluatedProperties", kObject},
      {kSomeMember, kObject},
  };
  const auto [known, is_new] = relevant_.try_emplace({schema, types}, schema);
  if (!is_new) return known->second;
  std::vector<json::Document::Member> kept;
  const std::vector<json::Document::Member> members(doc_.members(schema).begin(), doc_.members(schema).end());
  for (const auto& [name, value] : members) {
    if (const auto of = kTypes.find(name); of != kTypes.end() && (of->second & types) == 0) continue;
    if (name == "type" && (type_of(schema) & types) == types) continue;
    if ((name == "allOf" || name == "anyOf" || name == "oneOf") && is_list_of_schemas(value)) {
      std::vector<json::Id> parts;
      for (const json::Id one : std::vector<json::Id>(doc_.items(value).begin(), doc_.items(value).end()))
        parts.push_back(relevant_part(one, types, depth + 1));
      kept.emplace_back(name, doc_.add_array(std::move(parts)));
      continue;
    }
    kept.emplace_back(name, value);
  }
  return relevant_[{schema, types}] = object(std::move(kept));
}

// Returns a schema that rejects the values of `types` that match `other`, and accepts all values of the other types in
// `all`. Returns json::kAbsent if this cannot be expressed.
json::Id SchemaCompiler::negate_for(json::Id other, uint32_t types, uint32_t all) {
  const json::Id part = relevant_part(other, types, 0);
  const json::Id no = negate(part);
  if (no == json::kAbsent) return no;
  const uint32_t free = all & ~types;
  if (free == 0) return no;
  if (doc_.kind(no) == Kind::kFalse) return types_schema(free);
  const json::Id here = object({{"allOf", doc_.add_array({types_schema(types), no})}});
  return object({{"anyOf", doc_.add_array({types_schema(free), here})}});
}

// Returns a schema for objects that have at least one member whose name matches `name` and whose value matches `value`.
json::Id SchemaCompiler::some_member(json::Id name, json::Id value) {
  if (doc_.kind(name) == Kind::kTrue && doc_.kind(value) == Kind::kTrue)
    return typed("object", "minProperties", count(1));
  return typed("object", kSomeMember, object({{"name", name}, {"value", value}}));
}

// Returns a schema that matches exactly the values that `schema` does not match, or json::kAbsent if this cannot be
// expressed.
json::Id SchemaCompiler::negate(json::Id schema) {
  const auto known = negations_.find(schema);
  if (known != negations_.end()) return known->second;
  if (negating_ > 16 || !spend()) return json::kAbsent;
  ++negating_;
  const json::Id result = negation(schema);
  --negating_;
  negations_[schema] = result;
  if (result != json::kAbsent && doc_.kind(result) == Kind::kObject) negations_.try_emplace(result, schema);
  return result;
}

json::Id SchemaCompiler::negation(json::Id schema) {
  switch (doc_.kind(schema)) {
    case Kind::kTrue: return boolean(false);
    case Kind::kFalse: return boolean(true);
    case Kind::kObject: break;
    default: return json::kAbsent;
  }
  std::vector<json::Id> ways;
  const std::vector<json::Document::Member> members(doc_.members(schema).begin(), doc_.members(schema).end());
  const bool alone = ref_stands_alone_ && doc_.member(schema, "$ref") != json::kAbsent;
  for (const auto& [name, value] : members) {
    if (alone && name != "$ref") continue;
    if (!negate_keyword(schema, name, value, ways)) return json::kAbsent;
  }
  if (ways.empty()) return boolean(false);
  if (ways.size() == 1) return ways.front();
  return object({{"anyOf", doc_.add_array(std::move(ways))}});
}

// Returns a schema for the names that a schema declares neither in `properties` nor in `patternProperties`.
json::Id SchemaCompiler::undeclared_names(json::Id schema) {
  std::vector<json::Id> declared, patterns;
  for (const auto& member : doc_.members(doc_.member(schema, "properties")))
    declared.push_back(doc_.add_string(member.first));
  for (const auto& member : doc_.members(doc_.member(schema, "patternProperties")))
    patterns.push_back(object({{kNotPattern, doc_.add_string(member.first)}}));
  std::vector<json::Document::Member> parts{{kNotEnum, doc_.add_array(std::move(declared))}};
  if (!patterns.empty()) parts.emplace_back("allOf", doc_.add_array(std::move(patterns)));
  return object(std::move(parts));
}

// Returns a schema for the values that differ from all of `values`.
json::Id SchemaCompiler::unlike(const std::vector<json::Id>& values) {
  std::vector<json::Id> scalars, all;
  for (const json::Id value : values) {
    if (doc_.kind(value) != Kind::kArray && doc_.kind(value) != Kind::kObject) {
      scalars.push_back(value);
      continue;
    }
    const json::Id no = negate(described(value));
    if (no == json::kAbsent) return json::kAbsent;
    all.push_back(no);
  }
  const json::Id rest = object({{kNotEnum, doc_.add_array(std::move(scalars))}});
  if (all.empty()) return rest;
  all.push_back(rest);
  return object({{"allOf", doc_.add_array(std::move(all))}});
}

// Returns a schema for the values that match none or at least two of the schemas in `list`.
json::Id SchemaCompiler::not_exactly_one(json::Id list) {
  if (!is_list_of_schemas(list)) return json::kAbsent;
  const std::vector<json::Id> all(doc_.items(list).begin(), doc_.items(list).end());
  if (all.size() > 8) return json::kAbsent;
  std::vector<json::Id> none, ways;
  for (const json::Id one : all) {
    none.push_back(negate(one));
    if (none.back() == json::kAbsent) return json::kAbsent;
  }
  ways.push_back(object({{"allOf", doc_.add_array(std::move(none))}}));
  for (size_t i = 0; i < all.size() && !options_.one_of_as_any_of; ++i)
    for (size_t j = i + 1; j < all.size(); ++j)
      if (shared_types(all[i], all[j], kAll, 0) != 0)
        ways.push_back(object({{"allOf", doc_.add_array({all[i], all[j]})}}));
  return object({{"anyOf", doc_.add_array(std::move(ways))}});
}

bool SchemaCompiler::negate_keyword(json::Id schema, const std::string& name, json::Id value,
                                    std::vector<json::Id>& ways) {
  const auto number_plus = [&](double by) { return count(doc_.number(value) + by); };
  // A keyword that has an invalid value cannot be negated.
  for (const char* counted :
       {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minimum", "maximum"})
    if (name == counted && !doc_.is(value, Kind::kNumber)) return false;
  if (name == "type") {
    const uint32_t types = types_listed(value) | (is_nullable(schema) ? kNull : 0u);
    std::vector<json::Id> others;
    const auto add = [&](uint32_t bits, const char* other) {
      if ((types & bits) == 0) others.push_back(doc_.add_string(other));
    };
    add(kNull, "null");
    add(kBoolean, "boolean");
    if ((types & kNumber) == kInteger)
      others.push_back(doc_.add_string(kFractionType));
    else if ((types & kNumber) == kFraction)
      others.push_back(doc_.add_string("integer"));
    else
      add(kNumber, "number");
    add(kString, "string");
    add(kArray, "array");
    add(kObject, "object");
    if (!others.empty()) ways.push_back(object({{"type", doc_.add_array(std::move(others))}}));
  } else if (name == "enum") {
    if (!doc_.is(value, Kind::kArray)) return false;
    const json::Id no = unlike({doc_.items(value).begin(), doc_.items(value).end()});
    if (no == json::kAbsent) return false;
    ways.push_back(no);
  } else if (name == "const") {
    const json::Id no = unlike({value});
    if (no == json::kAbsent) return false;
    ways.push_back(no);
  } else if (name == "required") {
    if (!doc_.is(value, Kind::kArray)) return false;
    for (const json::Id one : doc_.items(value)) {
      if (!doc_.is(one, Kind::kString)) return false;
      ways.push_back(typed("object", "properties", object({{doc_.text(one), boolean(false)}})));
    }
  } else if (name == "properties") {
    if (!doc_.is(value, Kind::kObject)) return false;
    const std::vector<json::Document::Member> all(doc_.members(value).begin(), doc_.members(value).end());
    for (const auto& [property, inner] : all) {
      const json::Id no = negate(inner);
      if (no == json::kAbsent) return false;
      if (doc_.kind(no) == Kind::kFalse) continue;
      ways.push_back(object({{"type", doc_.add_string("object")},
                             {"properties", object({{property, no}})},
                             {"required", doc_.add_array({doc_.add_string(property)})}}));
    }
  } else if (name == "pattern") {
    ways.push_back(typed("string", kNotPattern, value));
  } else if (name == "format") {
    if (doc_.is(value, Kind::kString) && format_pattern(doc_.text(value)) != nullptr)
      ways.push_back(typed("string", kNotFormat, value));
  } else if (name == "minLength") {
    if (doc_.number(value) > 0) ways.push_back(typed("string", "maxLength", number_plus(-1)));
  } else if (name == "maxLength") {
    ways.push_back(typed("string", "minLength", number_plus(1)));
  } else if (name == "minItems") {
    if (doc_.number(value) > 0) ways.push_back(typed("array", "maxItems", number_plus(-1)));
  } else if (name == "maxItems") {
    ways.push_back(typed("array", "minItems", number_plus(1)));
  } else if (name == "minProperties") {
    if (doc_.number(value) > 0) ways.push_back(typed("object", "maxProperties", number_plus(-1)));
  } else if (name == "maxProperties") {
    ways.push_back(typed("object", "minProperties", number_plus(1)));
  } else if (name == "minimum") {
    const bool exclusive = doc_.is(doc_.member(schema, "exclusiveMinimum"), Kind::kTrue);
    ways.push_back(typed("number", exclusive ? "maximum" : "exclusiveMaximum", value));
  } else if (name == "maximum") {
    const bool exclusive = doc_.is(doc_.member(schema, "exclusiveMaximum"), Kind::kTrue);
    ways.push_back(typed("number", exclusive ? "minimum" : "exclusiveMinimum", value));
  } else if (name == "exclusiveMinimum") {
    if (doc_.is(value, Kind::kNumber)) ways.push_back(typed("number", "maximum", value));
  } else if (name == "exclusiveMaximum") {
    if (doc_.is(value, Kind::kNumber)) ways.push_back(typed("number", "minimum", value));
  } else if (name == "multipleOf") {
    ways.push_back(typed("number", kNotMultiple, value));
  } else if (name == "propertyNames") {
    const json::Id no = negate(value);
    if (no == json::kAbsent) return false;
    if (doc_.kind(no) != Kind::kFalse) ways.push_back(some_member(no, boolean(true)));
  } else if (name == "patternProperties") {
    if (!doc_.is(value, Kind::kObject)) return false;
    const std::vector<json::Document::Member> all(doc_.members(value).begin(), doc_.members(value).end());
    for (const auto& [pattern, inner] : all) {
      const json::Id no = negate(inner);
      if (no == json::kAbsent) return false;
      if (doc_.kind(no) != Kind::kFalse)
        ways.push_back(some_member(object({{"pattern", doc_.add_string(pattern)}}), no));
    }
  } else if (name == "additionalProperties") {
    const json::Id no = negate(value);
    if (no == json::kAbsent) return false;
    if (doc_.kind(no) != Kind::kFalse) ways.push_back(some_member(undeclared_names(schema), no));
  } else if (name == "prefixItems" || (name == "items" && doc_.is(value, Kind::kArray))) {
    const std::vector<json::Id> all(doc_.items(value).begin(), doc_.items(value).end());
    for (size_t i = 0; i < all.size(); ++i) {
      const json::Id no = negate(all[i]);
      if (no == json::kAbsent) return false;
      if (doc_.kind(no) == Kind::kFalse) continue;
      std::vector<json::Id> places(i, boolean(true));
      places.push_back(no);
      ways.push_back(object({{"type", doc_.add_string("array")},
                             {"prefixItems", doc_.add_array(std::move(places))},
                             {"minItems", count(static_cast<double>(i + 1))}}));
    }
  } else if (name == "dependentRequired" || name == "dependentSchemas" || name == "dependencies") {
    if (!doc_.is(value, Kind::kObject)) return false;
    const std::vector<json::Document::Member> all(doc_.members(value).begin(), doc_.members(value).end());
    for (const auto& [property, needed] : all) {
      std::vector<json::Id> unmet;
      if (doc_.kind(needed) == Kind::kArray) {
        for (const json::Id one : std::vector<json::Id>(doc_.items(needed).begin(), doc_.items(needed).end()))
          if (doc_.is(one, Kind::kString)) unmet.push_back(schema_without(doc_.text(one)));
      } else if (const json::Id no = negate(needed); no == json::kAbsent) {
        return false;
      } else {
        unmet.push_back(no);
      }
      if (unmet.empty()) continue;
      ways.push_back(object({{"type", doc_.add_string("object")},
                             {"required", doc_.add_array({doc_.add_string(property)})},
                             {"anyOf", doc_.add_array(std::move(unmet))}}));
    }
  } else if (name == "oneOf") {
    const json::Id no = not_exactly_one(value);
    if (no == json::kAbsent) return false;
    ways.push_back(no);
  } else if (name == "if") {
    const json::Id then = doc_.member(schema, "then"), other = doc_.member(schema, "else");
    const json::Id unlike_if = negate(value);
    if (unlike_if == json::kAbsent) return false;
    for (const auto& [condition, outcome] : {std::pair(value, then), std::pair(unlike_if, other)}) {
      if (outcome == json::kAbsent) continue;
      const json::Id no = negate(outcome);
      if (no == json::kAbsent) return false;
      ways.push_back(object({{"allOf", doc_.add_array({condition, no})}}));
    }
  } else if (name == "not") {
    ways.push_back(value);
  } else if (name == "allOf") {
    if (!is_list_of_schemas(value)) return false;
    const std::vector<json::Id> all(doc_.items(value).begin(), doc_.items(value).end());
    for (const json::Id one : all) {
      const json::Id no = negate(one);
      if (no == json::kAbsent) return false;
      ways.push_back(no);
    }
  } else if (name == "anyOf") {
    if (!is_list_of_schemas(value)) return false;
    const std::vector<json::Id> all(doc_.items(value).begin(), doc_.items(value).end());
    std::vector<json::Id> none;
    for (const json::Id one : all) {
      const json::Id no = negate(one);
      if (no == json::kAbsent) return false;
      none.push_back(no);
    }
    ways.push_back(object({{"allOf", doc_.add_array(std::move(none))}}));
  } else if (name == "$ref") {
    if (!doc_.is(value, Kind::kString)) return false;
    const json::Id target = resolve(doc_.text(value));
    const json::Id no = target == json::kAbsent ? json::kAbsent : negate(target);
    if (no == json::kAbsent) return false;
    ways.push_back(no);
  } else if (name == kNotEnum) {
    ways.push_back(object({{"enum", value}}));
  } else if (name == "contains") {
    const uint32_t least = count_of(schema, "minContains").value_or(1);
    const uint32_t most = count_of(schema, "maxContains").value_or(kUnbounded);
    const json::Document::Member type{"type", doc_.add_string("array")};
    if (least > 0)
      ways.push_back(object({type, {"contains", value}, {"minContains", count(0)}, {"maxContains", count(least - 1)}}));
    if (most != kUnbounded) ways.push_back(object({type, {"contains", value}, {"minContains", count(most + 1.0)}}));
  } else if (name == "items" && (doc_.is(value, Kind::kObject) || doc_.is(value, Kind::kFalse)) &&
             doc_.member(schema, "prefixItems") == json::kAbsent) {
    // The negation of "every item matches" is "some item does not match".
    const json::Id no = negate(value);
    if (no == json::kAbsent) return false;
    if (doc_.kind(no) != Kind::kFalse) ways.push_back(typed("array", "contains", no));
  } else if (name == "items" || name == "additionalItems" || name == "uniqueItems" || name == "$dynamicRef" ||
             name == "$recursiveRef" || name == "unevaluatedProperties" || name == "unevaluatedItems" ||
             name == kNotPattern || name == kNotFormat || name == kNotMultiple || name == kSomeMember) {
    // A keyword that every value satisfies is ignored.
    if (doc_.is(value, Kind::kTrue) &&
        (name == "items" || name == "additionalItems" || name.starts_with("unevaluated")))
      return true;
    if (doc_.is(value, Kind::kObject) && doc_.members(value).empty() && (name == "items" || name == "additionalItems"))
      return true;
    if (doc_.is(value, Kind::kFalse) && name == "uniqueItems") return true;
    return false;
  }
  return true;
}

}  // namespace monolith::grammar
