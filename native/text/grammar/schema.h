// A JSON Schema (draft 2020-12, and drafts 04 to 07 as they occur in practice) compiled to shapes. For each place in a
// document, a shape lists the scalars, objects and arrays that may occur there. References, unions and intersections
// are resolved, and everything for which no complete text exists is removed. Compilation is bounded by fuel. The result
// is immutable except for the expression pool. Because of the pool, only one thread may use it at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/expression.h"
#include "base/json/document.h"
#include "text/grammar/spelling.h"

namespace monolith::grammar {

using ShapeId = uint32_t;
inline constexpr ShapeId kNoShape = UINT32_MAX;

struct ObjectShape {
  struct Property {
    std::string name;
    ShapeId shape;  // kNoShape = the property must not occur.
    bool required;
  };
  struct OtherNames {  // Undeclared member names, grouped by the shape of their values.
    ExprId name;
    ShapeId shape;
    // Number of distinct names that match, if names are counted; kUnbounded if the number is effectively unlimited.
    uint32_t n;
    uint32_t marks = 0;  // Bit set of the required marks that such a member carries.
  };
  std::vector<Property> properties;  // In schema order.
  // Groups without marks are pairwise disjoint. Each group with marks is a subset of a group without marks.
  std::vector<OtherNames> others;
  uint32_t marks = 0;         // Marks that undeclared members must supply: for each, a member of a group that has it.
  bool marks_values = false;  // A mark restricts the member's value, so a repeated name could revoke it.
  uint32_t least = 0, most = kUnbounded;  // Minimum and maximum number of members.
  // For each property with requirements: the properties that it requires. Sorted by property.
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> needs;
};

struct ArrayShape {
  std::vector<ShapeId> prefix;
  ShapeId rest = kNoShape;  // kNoShape = no items after the prefix.
  uint32_t least = 0, most = kUnbounded;
  // The items are distinct scalars and strings, and there is no prefix. Items must be comparable, so each number can be
  // written in only one way: `scalar` replaces the scalars of `rest`. `n_values` is the number of distinct items, or
  // kUnbounded if it is effectively unlimited.
  bool unique = false;
  ExprId scalar = ExpressionPool::kNothing;
  uint32_t n_values = kUnbounded;
  // Describes arrays whose items that match `contains` are counted. Between least_matches and most_matches items have
  // the shape `matching` (kNoShape: no item can match); all other items have the shape `rest`. If most_matches is
  // bounded, no value has both shapes. Otherwise `rest` includes the matching items, and it is enough that some of them
  // could have been counted. There is no prefix.
  bool counts_matches = false;
  ShapeId matching = kNoShape;
  uint32_t least_matches = 0, most_matches = kUnbounded;

  // Whether an array with `n` items, of which `n_matches` were counted, can end here, and whether it can end here or
  // later.
  bool may_end(uint32_t n, uint32_t n_matches) const {
    return n >= least && (!counts_matches || (n_matches >= least_matches && n_matches <= most_matches));
  }
  bool can_be_completed(uint32_t n, uint32_t n_matches, bool has_rest, bool has_matching) const;
};

struct Shape {
  ExprId scalar = ExpressionPool::kNothing;  // null, booleans and numbers, as written in JSON.
  ExprId string = ExpressionPool::kNothing;  // The characters of a string.
  std::vector<uint32_t> objects, arrays;     // Alternatives: indices into the schema's objects and arrays.
};

struct SchemaOptions {
  // How to handle an unsupported keyword: reject the schema (true), or ignore the keyword and report it (false).
  bool strict = true;
  // If true, treats oneOf as anyOf and supports `nullable` as in OpenAPI 3.0. If false, oneOf is exact, and is rejected
  // if its branches cannot be distinguished.
  bool one_of_as_any_of = false;
  size_t most_expressions = 200'000;
  size_t most_shapes = 20'000;
  size_t most_steps = 2'000'000;       // Maximum number of compilation steps outside the expression pool.
  const Spelling* spelling = nullptr;  // The non-JSON syntax for which the schema is compiled, or null.
  Fuel fuel;                           // Budget for the whole compilation.
};

struct SchemaProblem {
  enum class Kind : uint8_t { kInvalid, kUnsupported, kTooLarge, kImpossible };
  Kind kind;
  std::string pointer;  // JSON pointer into the schema.
  std::string keyword;
  std::string what;
};

enum class RuleNotation : uint8_t { kGbnf, kLark };

// Internal keywords that constrain a whole string, either with a regular expression in Python's dialect or with a Lark
// grammar. The leading \x01 distinguishes them from the keywords that a client sends. A schema may contain at most one
// of these keywords.
inline constexpr const char* kRegexKeyword = "\x01regex";
inline constexpr const char* kLarkKeyword = "\x01lark";

class Schema {
 public:
  // Compiles a schema. Returns null on failure, with the reason in `problems`. On success, `problems` lists the
  // keywords that were ignored.
  static std::unique_ptr<Schema> compile(std::string_view json, const SchemaOptions& options,
                                         std::vector<SchemaProblem>& problems);
  // Returns a schema for any JSON object (`objects_only`) or any JSON value.
  static std::unique_ptr<Schema> any_json(bool objects_only);
  // Grammars for plain text instead of JSON. The whole text must match a regular expression or the root rule (in Lark:
  // start), or it must be one of the given strings.
  static std::unique_ptr<Schema> regex(std::string_view pattern, const SchemaOptions& options,
                                       std::vector<SchemaProblem>& problems);
  static std::unique_ptr<Schema> rules(std::string_view text, const SchemaOptions& options,
                                       std::vector<SchemaProblem>& problems, RuleNotation notation);
  static std::unique_ptr<Schema> choice(std::span<const std::string> texts, const SchemaOptions& options,
                                        std::vector<SchemaProblem>& problems);

  ExpressionPool& expressions() { return *pool_; }
  ShapeId root() const { return root_; }
  // The expression for a plain text, or kNothing if the schema describes a JSON value.
  ExprId text() const { return text_; }
  size_t bytes() const;
  const Shape& shape(ShapeId id) const { return shapes_[id]; }
  const ObjectShape& object(uint32_t id) const { return objects_[id]; }
  const ArrayShape& array(uint32_t id) const { return arrays_[id]; }

 private:
  friend class SchemaCompiler;
  CharPartition partition_;
  std::unique_ptr<ExpressionPool> pool_;
  std::vector<Shape> shapes_;
  std::vector<ObjectShape> objects_;
  std::vector<ArrayShape> arrays_;
  ShapeId root_ = 0;
  ExprId text_ = ExpressionPool::kNothing;
};

}  // namespace monolith::grammar
