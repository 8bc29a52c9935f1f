// What mutators put into schemas: members of objects, and what values are wrapped into; each % becomes some value.
#pragma once

#include <string_view>

namespace monolith::fuzzing {

inline constexpr std::string_view kSchemaMembers[] = {
    R"("type": "string")", R"("type": "object")", R"("type": "array")", R"("type": "integer")", R"("type": "number")", R"("type": ["string", "null", "object"])", R"("type": "boolean")",
    R"("properties": {"a": %, "b": %})", R"("properties": {"a": %, "a\u0062": %, "": %})", R"("required": ["a"])", R"("required": ["a", "b", "z"])", R"("additionalProperties": false)", R"("additionalProperties": %)",
    R"("patternProperties": {"^a": %, "b$": %})", R"("propertyNames": {"pattern": "^[a-c]{1,3}$"})", R"("propertyNames": %)", R"("minProperties": 2)", R"("maxProperties": 3)", R"("dependentRequired": {"a": ["b"]})", R"("dependentRequired": {"a": ["b"], "b": ["a"], "c": ["d", "a"], "d": ["c"]})",
    R"("minProperties": 3)", R"("maxProperties": 2)", R"("propertyNames": {"enum": ["a", "b", "ab", "c"]})", R"("propertyNames": {"maxLength": 1})", R"("patternProperties": {"^[a-d]$": %})",
    R"("dependentSchemas": {"a": %})", R"("unevaluatedProperties": false)", R"("unevaluatedItems": false)", R"("items": %)", R"("items": false)", R"("prefixItems": [%, %])", R"("additionalItems": %)", R"("minItems": 1)", R"("maxItems": 4)",
    R"("uniqueItems": true)", R"("contains": %)", R"("minContains": 2)", R"("maxContains": 3)", R"("minLength": 3)", R"("maxLength": 9)", R"("pattern": "^(a|b){2,5}\\d+$")", R"("pattern": "[^a-f]*x?")", R"("format": "date-time")",
    R"("format": "email")", R"("format": "uuid")", R"("format": "ipv6")", R"("format": "uri")", R"("format": "time")", R"("minimum": -5)", R"("maximum": 1234)", R"("exclusiveMinimum": 0.5)", R"("exclusiveMaximum": 1e3)", R"("multipleOf": 7)",
    R"("multipleOf": 0.01)", R"("enum": [1, "a", null, %])", R"("const": %)", R"("anyOf": [%, %])", R"("oneOf": [%, %, %])", R"("allOf": [%, %])", R"("not": %)", R"("if": %, "then": %, "else": %)", R"("$ref": "#")", R"("$ref": "#/$defs/a")",
    R"("$ref": "#/properties/a")", R"("$defs": {"a": %, "b": {"$ref": "#/$defs/a"}})", R"("definitions": {"a": %})", R"("$anchor": "x", "$ref": "#x")", R"("$dynamicRef": "#x", "$dynamicAnchor": "x")", R"("$id": "http://a/b", "$ref": "b#")", R"("nullable": true)",
    R"("x-guidance": {"whitespace_flexible": false})", R"("title": %, "description": "d", "default": %, "examples": [%])"};
inline constexpr std::string_view kSchemaWraps[] = {R"({"anyOf": [%, %]})", R"({"oneOf": [%, %]})", R"({"allOf": [%, %]})", R"({"not": %})", R"({"type": "array", "items": %})", R"({"type": "object", "properties": {"a": %}, "required": ["a"]})",
                                       R"({"properties": {"a": %}, "additionalProperties": %})", R"({"$defs": {"a": %}, "$ref": "#/$defs/a"})", R"({"if": %, "then": %})", R"({"prefixItems": [%, %], "items": %})", "[%, %]", R"({"const": %})"};

}  // namespace monolith::fuzzing
