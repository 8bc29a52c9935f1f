// A JSON Schema (draft 2020-12, and draft-04 to 07 as met in the wild) as shapes: for each place in a document
// which scalars, objects and arrays may stand there, references, unions and intersections resolved, and
// nothing left that could never be completed. Compiled within fuel; immutable afterwards but for the
// expressions' states. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/expression.h"
#include "formats/json/json_document.h"
#include "text/grammar/spelling.h"

namespace monolith::grammar {

using ShapeId = uint32_t;
inline constexpr ShapeId kNoShape = UINT32_MAX;

struct ObjectShape {
  struct Property {
    std::string name;
    ShapeId shape;  // kNoShape: may not be there
    bool required;
  };
  struct OtherNames {  // names that are no property's, by what their values are
    ExprId name;
    ShapeId shape;
    // of them there are, where names are counted; kUnbounded: more than anybody writes
    uint32_t n;
  };
  std::vector<Property> properties;       // in the order of the schema
  std::vector<OtherNames> others;         // no name fits two of them
  uint32_t least = 0, most = kUnbounded;  // members
  // a property that is there needs these; by property
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> needs;
};

struct ArrayShape {
  std::vector<ShapeId> prefix;
  ShapeId rest = kNoShape;  // kNoShape: nothing behind the prefix
  uint32_t least = 0, most = kUnbounded;
};

struct Shape {
  ExprId scalar = ExpressionPool::kNothing;  // null, booleans and numbers, as written
  ExprId string = ExpressionPool::kNothing;  // characters of a string
  std::vector<uint32_t> objects, arrays;     // alternatives: indices
};

struct SchemaOptions {
  // A keyword that is not served: refuse the schema, or leave the keyword out and say so.
  bool strict = true;
  // oneOf whose branches cannot be shown to exclude one another: refuse (strict), or take as anyOf.
  bool one_of_as_any_of = false;
  size_t most_expressions = 200'000;
  size_t most_shapes = 20'000;
  size_t most_steps = 2'000'000;       // of everything else
  const Spelling* spelling = nullptr;  // that it is for
  Fuel fuel;                           // of all together
};

struct SchemaProblem {
  enum class Kind : uint8_t { kInvalid, kUnsupported, kTooLarge, kImpossible };
  Kind kind;
  std::string pointer;  // JSON pointer into the schema
  std::string keyword;
  std::string what;
};

class Schema {
 public:
  // Null with `problems` holding the reason; else what was left out, if anything.
  static std::unique_ptr<Schema> compile(std::string_view json, const SchemaOptions& options,
                                         std::vector<SchemaProblem>& problems);
  // Any JSON object (`objects_only`) or any JSON value.
  static std::unique_ptr<Schema> any_json(bool objects_only);
  // No JSON but the text itself: what a regular expression matches from end to end, what rules make of the one called
  // root, or one of several texts.
  static std::unique_ptr<Schema> regex(std::string_view pattern, const SchemaOptions& options,
                                       std::vector<SchemaProblem>& problems);
  static std::unique_ptr<Schema> rules(std::string_view text, const SchemaOptions& options,
                                       std::vector<SchemaProblem>& problems);
  static std::unique_ptr<Schema> choice(std::span<const std::string> texts, const SchemaOptions& options,
                                        std::vector<SchemaProblem>& problems);

  ExpressionPool& expressions() { return *pool_; }
  ShapeId root() const { return root_; }
  // The characters of such a text; kNothing if the root is a JSON value.
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
