// Negates schemas, and detects pairs of schemas that no value can match at once.
#include "text/grammar/schema_compiler.h"

#include <algorithm>
#include <cstdio>

#include "text/grammar/formats.h"

namespace monolith::grammar {

// Returns true only if it is certain that no value matches both schemas.
bool SchemaCompiler::exclude_each_other(JsonId a, JsonId b, int depth) {
  if (depth > 8) return false;
  a = through_refs(a);
  b = through_refs(b);
  if ((type_of(a) & type_of(b)) == 0) return true;
  if (doc_.kind(a) != Kind::kObject || doc_.kind(b) != Kind::kObject) return false;
  const std::vector<JsonId>* values_a = values_of(a);
  const std::vector<JsonId>* values_b = values_of(b);
  if (values_a && values_b) {
    return std::ranges::none_of(*values_a, [&](JsonId x) {
      return std::ranges::any_of(*values_b, [&](JsonId y) { return doc_.equal(x, y); });
    });
  }
  // Checks the subschemas of allOf, anyOf and oneOf.
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    if (const JsonId all = doc_.member(x, "allOf"); doc_.is(all, Kind::kArray))
      for (const JsonId one : doc_.items(all))
        if (exclude_each_other(one, y, depth + 1)) return true;
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const JsonId any = doc_.member(x, keyword);
      if (doc_.is(any, Kind::kArray) && !doc_.items(any).empty() &&
          std::ranges::all_of(doc_.items(any),
                              [&, y = y](JsonId one) { return exclude_each_other(one, y, depth + 1); }))
        return true;
    }
  }
  // Two object schemas are mutually exclusive if both require a member with incompatible values, or if one requires a
  // member that the other forbids.
  if ((type_of(a) & type_of(b)) != kObject) return false;
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
      if (in_x != kNoJson && exclude_each_other(in_x, in_y, depth + 1)) return true;
    }
  }
  return false;
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

// Schema for objects without a member of this name.
JsonId SchemaCompiler::schema_without(const std::string& name) {
  const JsonId absent = object({{"properties", object({{name, boolean(false)}})}});
  return absent;
}

JsonId SchemaCompiler::count(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return doc_.add_number(text);
}

// Returns a schema that matches exactly the values that `schema` does not match, or kNoJson if it cannot be expressed.
JsonId SchemaCompiler::negate(JsonId schema) {
  const auto known = negations_.find(schema);
  if (known != negations_.end()) return known->second;
  if (negating_ > 16 || !spend()) return kNoJson;
  ++negating_;
  const JsonId result = negation(schema);
  --negating_;
  negations_[schema] = result;
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

bool SchemaCompiler::negate_keyword(JsonId schema, const std::string& name, JsonId value, std::vector<JsonId>& ways) {
  const auto number_plus = [&](double by) { return count(doc_.number(value) + by); };
  // A keyword with an invalid value cannot be negated.
  for (const char* counted :
       {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minimum", "maximum"})
    if (name == counted && !doc_.is(value, Kind::kNumber)) return false;
  if (name == "type") {
    const uint32_t types = types_listed(value);
    std::vector<JsonId> others;
    const auto add = [&](uint32_t bits, const char* other) {
      if ((types & bits) == 0) others.push_back(doc_.add_string(other));
    };
    add(kNull, "null");
    add(kBoolean, "boolean");
    add(kNumber, "number");
    add(kString, "string");
    add(kArray, "array");
    add(kObject, "object");
    if (!others.empty()) ways.push_back(object({{"type", doc_.add_array(std::move(others))}}));
  } else if (name == "enum") {
    ways.push_back(object({{kNotEnum, value}}));
  } else if (name == "const") {
    ways.push_back(object({{kNotEnum, doc_.add_array({value})}}));
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
    return false;
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
  } else if (name == "items" || name == "prefixItems" || name == "additionalItems" || name == "contains" ||
             name == "uniqueItems" || name == "additionalProperties" || name == "patternProperties" ||
             name == "propertyNames" || name == "oneOf" || name == "if" || name == "dependencies" ||
             name == "dependentSchemas" || name == "dependentRequired" || name == "$dynamicRef" ||
             name == "$recursiveRef" || name == "unevaluatedProperties" || name == "unevaluatedItems" ||
             name == "minContains" || name == kNotPattern || name == kNotFormat) {
    // A keyword that every value satisfies is ignored.
    if (doc_.is(value, Kind::kTrue) && (name == "items" || name == "additionalProperties" || name == "additionalItems"))
      return true;
    if (doc_.is(value, Kind::kObject) && doc_.members(value).empty() && name != "oneOf" && name != "if") return true;
    if (doc_.is(value, Kind::kFalse) && name == "uniqueItems") return true;
    return false;
  }
  return true;
}

}  // namespace monolith::grammar
