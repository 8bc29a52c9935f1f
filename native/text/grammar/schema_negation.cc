// Negates schemas, and detects pairs of schemas that no value can match at the same time.
#include "text/grammar/schema_compiler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/grammar/formats.h"

namespace monolith::grammar {

// Returns the subset of `types` in which some value may match both schemas. In the other types, certainly no value
// does.
uint32_t SchemaCompiler::shared_types(JsonId a, JsonId b, uint32_t types, int depth) {
  a = through_refs(a);
  b = through_refs(b);
  types &= type_of(a) & type_of(b);
  if (types == 0 || depth > 8 || !spend()) return types;
  if (doc_.kind(a) != Kind::kObject || doc_.kind(b) != Kind::kObject) return types;
  const std::vector<JsonId>* values_a = values_of(a);
  const std::vector<JsonId>* values_b = values_of(b);
  if (values_a && values_b) {
    uint32_t shared = 0;
    if (!spend(values_a->size() * values_b->size() / 16)) return types;
    for (const JsonId x : *values_a)
      if (std::ranges::any_of(*values_b, [&](JsonId y) { return doc_.equal(x, y); })) shared |= type_of_value(x);
    types &= shared;
  }
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    if (const JsonId ref = doc_.member(x, "$ref"); doc_.is(ref, Kind::kString)) {
      const JsonId target = resolve(doc_.text(ref));
      if (target != kNoJson && target != x) types = shared_types(target, y, types, depth + 1);
    }
    if (const JsonId all = doc_.member(x, "allOf"); doc_.is(all, Kind::kArray))
      for (const JsonId one : doc_.items(all)) types = shared_types(one, y, types, depth + 1);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const JsonId any = doc_.member(x, keyword);
      if (!doc_.is(any, Kind::kArray) || doc_.items(any).empty()) continue;
      uint32_t shared = 0;
      for (const JsonId one : doc_.items(any)) {
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

// Two object schemas exclude each other if one requires a member that the other forbids or whose values are
// incompatible.
bool SchemaCompiler::objects_exclude(JsonId a, JsonId b, int depth) {
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    const JsonId required = doc_.member(x, "required");
    if (!doc_.is(required, Kind::kArray)) continue;
    for (const JsonId name : doc_.items(required)) {
      if (!doc_.is(name, Kind::kString)) continue;
      const JsonId in_x = doc_.member(doc_.member(x, "properties"), doc_.text(name));
      const JsonId in_y = doc_.member(doc_.member(y, "properties"), doc_.text(name));
      if (in_y == kNoJson) {
        if (doc_.member(y, "patternProperties") == kNoJson &&
            doc_.is(doc_.member(y, "additionalProperties"), Kind::kFalse))
          return true;
        continue;
      }
      if (doc_.kind(in_y) == Kind::kFalse) return true;
      // `y` may allow the member to be absent, but `x` requires it.
      if (in_x != kNoJson && shared_types(in_x, in_y, kAll, depth + 1) == 0) return true;
    }
  }
  return false;
}

bool SchemaCompiler::arrays_exclude(JsonId a, JsonId b, int depth) {
  const auto number = [&](JsonId schema, const char* keyword, double otherwise) {
    const JsonId value = doc_.member(schema, keyword);
    return doc_.is(value, Kind::kNumber) ? doc_.number(value) : otherwise;
  };
  const double least = std::max(number(a, "minItems", 0), number(b, "minItems", 0));
  if (least > std::min(number(a, "maxItems", 1e300), number(b, "maxItems", 1e300))) return true;
  const auto first = [&](JsonId schema) {
    const JsonId items = doc_.member(schema, "items"), prefix = doc_.member(schema, "prefixItems");
    for (const JsonId list : {prefix, items})
      if (doc_.is(list, Kind::kArray) && !doc_.items(list).empty()) return doc_.items(list).front();
    return items;
  };
  const JsonId first_a = first(a), first_b = first(b);
  return least >= 1 && first_a != kNoJson && first_b != kNoJson && shared_types(first_a, first_b, kAll, depth + 1) == 0;
}

// Returns whether no string satisfies the string keywords and enumerated values of both schemas.
bool SchemaCompiler::strings_exclude(JsonId a, JsonId b) {
  bool any = false;
  for (const JsonId schema : {a, b})
    for (const char* keyword : {"pattern", "format", kNotPattern, kNotFormat, "minLength", "maxLength"}) {
      const JsonId value = doc_.member(schema, keyword);
      if (value == kNoJson) continue;
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
  const std::vector<JsonId>* values = values_of(a) ? values_of(a) : values_of(b);
  if (!values) return both == ExpressionPool::kNothing && !pool_->failed();
  return std::ranges::none_of(
             *values,
             [&](JsonId value) { return doc_.is(value, Kind::kString) && pool_->fits(both, doc_.text(value)); }) &&
         !pool_->failed();
}

const std::vector<JsonId>* SchemaCompiler::values_of(JsonId schema) {
  const auto known = values_.find(schema);
  if (known != values_.end()) return known->second.empty() ? nullptr : &known->second;
  std::vector<JsonId>& values = values_[schema];
  if (const JsonId value = doc_.member(schema, "const"); value != kNoJson)
    values.push_back(value);
  else if (const JsonId list = doc_.member(schema, "enum"); doc_.is(list, Kind::kArray))
    values.assign(doc_.items(list).begin(), doc_.items(list).end());
  return values.empty() ? nullptr : &values;
}

// Returns a schema for objects without a member of this name.
JsonId SchemaCompiler::schema_without(const std::string& name) {
  const JsonId absent = object({{"properties", object({{name, boolean(false)}})}});
  return absent;
}

JsonId SchemaCompiler::count(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return doc_.add_number(text);
}

JsonId SchemaCompiler::types_schema(uint32_t types) {
  std::vector<JsonId> names;
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

// Returns a schema that agrees with `schema` on all values of `types` and has no keywords for other types.
JsonId SchemaCompiler::relevant_part(JsonId schema, uint32_t types, int depth) {
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
  std::vector<JsonDocument::Member> kept;
  const std::vector<JsonDocument::Member> members(doc_.members(schema).begin(), doc_.members(schema).end());
  for (const auto& [name, value] : members) {
    if (const auto of = kTypes.find(name); of != kTypes.end() && (of->second & types) == 0) continue;
    if (name == "type" && (type_of(schema) & types) == types) continue;
    if ((name == "allOf" || name == "anyOf" || name == "oneOf") && is_list_of_schemas(value)) {
      std::vector<JsonId> parts;
      for (const JsonId one : std::vector<JsonId>(doc_.items(value).begin(), doc_.items(value).end()))
        parts.push_back(relevant_part(one, types, depth + 1));
      kept.emplace_back(name, doc_.add_array(std::move(parts)));
      continue;
    }
    kept.emplace_back(name, value);
  }
  return relevant_[{schema, types}] = object(std::move(kept));
}

// Returns a schema that rejects the values of `types` that match `other`, and accepts all values of the other types in
// `all`. Returns kNoJson if this cannot be expressed.
JsonId SchemaCompiler::negate_for(JsonId other, uint32_t types, uint32_t all) {
  const JsonId part = relevant_part(other, types, 0);
  const JsonId no = negate(part);
  if (no == kNoJson) return no;
  const uint32_t free = all & ~types;
  if (free == 0) return no;
  if (doc_.kind(no) == Kind::kFalse) return types_schema(free);
  const JsonId here = object({{"allOf", doc_.add_array({types_schema(types), no})}});
  return object({{"anyOf", doc_.add_array({types_schema(free), here})}});
}

// Returns a schema for objects with at least one member whose name and value match these schemas.
JsonId SchemaCompiler::some_member(JsonId name, JsonId value) {
  if (doc_.kind(name) == Kind::kTrue && doc_.kind(value) == Kind::kTrue)
    return typed("object", "minProperties", count(1));
  return typed("object", kSomeMember, object({{"name", name}, {"value", value}}));
}

// Returns a schema that matches exactly the values that `schema` does not match, or kNoJson if this cannot be
// expressed.
JsonId SchemaCompiler::negate(JsonId schema) {
  const auto known = negations_.find(schema);
  if (known != negations_.end()) return known->second;
  if (negating_ > 16 || !spend()) return kNoJson;
  ++negating_;
  const JsonId result = negation(schema);
  --negating_;
  negations_[schema] = result;
  if (result != kNoJson && doc_.kind(result) == Kind::kObject) negations_.try_emplace(result, schema);
  return result;
}

JsonId SchemaCompiler::negation(JsonId schema) {
  switch (doc_.kind(schema)) {
    case Kind::kTrue: return boolean(false);
    case Kind::kFalse: return boolean(true);
    case Kind::kObject: break;
    default: return kNoJson;
  }
  std::vector<JsonId> ways;
  const std::vector<JsonDocument::Member> members(doc_.members(schema).begin(), doc_.members(schema).end());
  const bool alone = ref_stands_alone_ && doc_.member(schema, "$ref") != kNoJson;
  for (const auto& [name, value] : members) {
    if (alone && name != "$ref") continue;
    if (!negate_keyword(schema, name, value, ways)) return kNoJson;
  }
  if (ways.empty()) return boolean(false);
  if (ways.size() == 1) return ways.front();
  return object({{"anyOf", doc_.add_array(std::move(ways))}});
}

// Returns a schema for the names that a schema declares neither in `properties` nor in `patternProperties`.
JsonId SchemaCompiler::undeclared_names(JsonId schema) {
  std::vector<JsonId> declared, patterns;
  for (const auto& member : doc_.members(doc_.member(schema, "properties")))
    declared.push_back(doc_.add_string(member.first));
  for (const auto& member : doc_.members(doc_.member(schema, "patternProperties")))
    patterns.push_back(object({{kNotPattern, doc_.add_string(member.first)}}));
  std::vector<JsonDocument::Member> parts{{kNotEnum, doc_.add_array(std::move(declared))}};
  if (!patterns.empty()) parts.emplace_back("allOf", doc_.add_array(std::move(patterns)));
  return object(std::move(parts));
}

// Returns a schema for the values that equal none of `values`.
JsonId SchemaCompiler::unlike(const std::vector<JsonId>& values) {
  std::vector<JsonId> scalars, all;
  for (const JsonId value : values) {
    if (doc_.kind(value) != Kind::kArray && doc_.kind(value) != Kind::kObject) {
      scalars.push_back(value);
      continue;
    }
    const JsonId no = negate(described(value));
    if (no == kNoJson) return kNoJson;
    all.push_back(no);
  }
  const JsonId rest = object({{kNotEnum, doc_.add_array(std::move(scalars))}});
  if (all.empty()) return rest;
  all.push_back(rest);
  return object({{"allOf", doc_.add_array(std::move(all))}});
}

// Returns a schema for the values that match none or at least two of the schemas in `list`.
JsonId SchemaCompiler::not_exactly_one(JsonId list) {
  if (!is_list_of_schemas(list)) return kNoJson;
  const std::vector<JsonId> all(doc_.items(list).begin(), doc_.items(list).end());
  if (all.size() > 8) return kNoJson;
  std::vector<JsonId> none, ways;
  for (const JsonId one : all) {
    none.push_back(negate(one));
    if (none.back() == kNoJson) return kNoJson;
  }
  ways.push_back(object({{"allOf", doc_.add_array(std::move(none))}}));
  for (size_t i = 0; i < all.size() && !options_.one_of_as_any_of; ++i)
    for (size_t j = i + 1; j < all.size(); ++j)
      if (shared_types(all[i], all[j], kAll, 0) != 0)
        ways.push_back(object({{"allOf", doc_.add_array({all[i], all[j]})}}));
  return object({{"anyOf", doc_.add_array(std::move(ways))}});
}

bool SchemaCompiler::negate_keyword(JsonId schema, const std::string& name, JsonId value, std::vector<JsonId>& ways) {
  const auto number_plus = [&](double by) { return count(doc_.number(value) + by); };
  // A keyword whose value is invalid cannot be negated.
  for (const char* counted :
       {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minimum", "maximum"})
    if (name == counted && !doc_.is(value, Kind::kNumber)) return false;
  if (name == "type") {
    const uint32_t types = types_listed(value) | (is_nullable(schema) ? kNull : 0u);
    std::vector<JsonId> others;
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
    const JsonId no = unlike({doc_.items(value).begin(), doc_.items(value).end()});
    if (no == kNoJson) return false;
    ways.push_back(no);
  } else if (name == "const") {
    const JsonId no = unlike({value});
    if (no == kNoJson) return false;
    ways.push_back(no);
  } else if (name == "required") {
    if (!doc_.is(value, Kind::kArray)) return false;
    for (const JsonId one : doc_.items(value)) {
      if (!doc_.is(one, Kind::kString)) return false;
      ways.push_back(typed("object", "properties", object({{doc_.text(one), boolean(false)}})));
    }
  } else if (name == "properties") {
    if (!doc_.is(value, Kind::kObject)) return false;
    const std::vector<JsonDocument::Member> all(doc_.members(value).begin(), doc_.members(value).end());
    for (const auto& [property, inner] : all) {
      const JsonId no = negate(inner);
      if (no == kNoJson) return false;
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
    const JsonId no = negate(value);
    if (no == kNoJson) return false;
    if (doc_.kind(no) != Kind::kFalse) ways.push_back(some_member(no, boolean(true)));
  } else if (name == "patternProperties") {
    if (!doc_.is(value, Kind::kObject)) return false;
    const std::vector<JsonDocument::Member> all(doc_.members(value).begin(), doc_.members(value).end());
    for (const auto& [pattern, inner] : all) {
      const JsonId no = negate(inner);
      if (no == kNoJson) return false;
      if (doc_.kind(no) != Kind::kFalse)
        ways.push_back(some_member(object({{"pattern", doc_.add_string(pattern)}}), no));
    }
  } else if (name == "additionalProperties") {
    const JsonId no = negate(value);
    if (no == kNoJson) return false;
    if (doc_.kind(no) != Kind::kFalse) ways.push_back(some_member(undeclared_names(schema), no));
  } else if (name == "prefixItems" || (name == "items" && doc_.is(value, Kind::kArray))) {
    const std::vector<JsonId> all(doc_.items(value).begin(), doc_.items(value).end());
    for (size_t i = 0; i < all.size(); ++i) {
      const JsonId no = negate(all[i]);
      if (no == kNoJson) return false;
      if (doc_.kind(no) == Kind::kFalse) continue;
      std::vector<JsonId> places(i, boolean(true));
      places.push_back(no);
      ways.push_back(object({{"type", doc_.add_string("array")},
                             {"prefixItems", doc_.add_array(std::move(places))},
                             {"minItems", count(static_cast<double>(i + 1))}}));
    }
  } else if (name == "dependentRequired" || name == "dependentSchemas" || name == "dependencies") {
    if (!doc_.is(value, Kind::kObject)) return false;
    const std::vector<JsonDocument::Member> all(doc_.members(value).begin(), doc_.members(value).end());
    for (const auto& [property, needed] : all) {
      std::vector<JsonId> unmet;
      if (doc_.kind(needed) == Kind::kArray) {
        for (const JsonId one : std::vector<JsonId>(doc_.items(needed).begin(), doc_.items(needed).end()))
          if (doc_.is(one, Kind::kString)) unmet.push_back(schema_without(doc_.text(one)));
      } else if (const JsonId no = negate(needed); no == kNoJson) {
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
    const JsonId no = not_exactly_one(value);
    if (no == kNoJson) return false;
    ways.push_back(no);
  } else if (name == "if") {
    const JsonId then = doc_.member(schema, "then"), other = doc_.member(schema, "else");
    const JsonId unlike_if = negate(value);
    if (unlike_if == kNoJson) return false;
    for (const auto& [condition, outcome] : {std::pair(value, then), std::pair(unlike_if, other)}) {
      if (outcome == kNoJson) continue;
      const JsonId no = negate(outcome);
      if (no == kNoJson) return false;
      ways.push_back(object({{"allOf", doc_.add_array({condition, no})}}));
    }
  } else if (name == "not") {
    ways.push_back(value);
  } else if (name == "allOf") {
    if (!is_list_of_schemas(value)) return false;
    const std::vector<JsonId> all(doc_.items(value).begin(), doc_.items(value).end());
    for (const JsonId one : all) {
      const JsonId no = negate(one);
      if (no == kNoJson) return false;
      ways.push_back(no);
    }
  } else if (name == "anyOf") {
    if (!is_list_of_schemas(value)) return false;
    const std::vector<JsonId> all(doc_.items(value).begin(), doc_.items(value).end());
    std::vector<JsonId> none;
    for (const JsonId one : all) {
      const JsonId no = negate(one);
      if (no == kNoJson) return false;
      none.push_back(no);
    }
    ways.push_back(object({{"allOf", doc_.add_array(std::move(none))}}));
  } else if (name == "$ref") {
    if (!doc_.is(value, Kind::kString)) return false;
    const JsonId target = resolve(doc_.text(value));
    const JsonId no = target == kNoJson ? kNoJson : negate(target);
    if (no == kNoJson) return false;
    ways.push_back(no);
  } else if (name == kNotEnum) {
    ways.push_back(object({{"enum", value}}));
  } else if (name == "contains") {
    const uint32_t least = count_of(schema, "minContains").value_or(1);
    const uint32_t most = count_of(schema, "maxContains").value_or(kUnbounded);
    const JsonDocument::Member type{"type", doc_.add_string("array")};
    if (least > 0)
      ways.push_back(object({type, {"contains", value}, {"minContains", count(0)}, {"maxContains", count(least - 1)}}));
    if (most != kUnbounded) ways.push_back(object({type, {"contains", value}, {"minContains", count(most + 1.0)}}));
  } else if (name == "items" && (doc_.is(value, Kind::kObject) || doc_.is(value, Kind::kFalse)) &&
             doc_.member(schema, "prefixItems") == kNoJson) {
    // Not every item matches: some item does not.
    const JsonId no = negate(value);
    if (no == kNoJson) return false;
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
