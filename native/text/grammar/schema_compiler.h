// Compiles a JSON schema to shapes.
//
//   schemas that all apply at one place (a conjunction) ─► branches without applicators ─► one Shape
//
// A conjunction is a sorted set of subschemas. Each distinct conjunction gets one ShapeId, so recursive schemas
// terminate. $ref, allOf, anyOf, oneOf, not, if and the dependency keywords are resolved into branches; a branch is a
// set of flat schemas that all apply. To resolve `not`, the negated schema is written out keyword by keyword and then
// compiled. Used only by schema*.cc. A compiler is used for one compilation, on one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/json/json_document.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema.h"

namespace monolith::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaOptions& options, std::vector<SchemaProblem>& problems)
      : options_(options), problems_(problems) {}

  std::unique_ptr<Schema> run(std::string_view json);

 private:
  using Kind = JsonDocument::Kind;
  using Conjunction = std::vector<JsonId>;
  enum Types : uint32_t {
    kNull = 1,
    kBoolean = 2,
    kInteger = 4,
    kFraction = 8,
    kString = 16,
    kArray = 32,
    kObject = 64,
    kNumber = kInteger | kFraction,
    kAll = 127,
  };
  // Internal keywords for negated schemas. The leading \x01 keeps them apart from the keywords that a client sends.
  static constexpr const char* kNotEnum = "\x01not-enum";
  static constexpr const char* kNotPattern = "\x01not-pattern";
  static constexpr const char* kNotFormat = "\x01not-format";
  static constexpr const char* kNotMultiple = "\x01not-multiple";
  static constexpr const char* kSomeMember = "\x01some-member";
  static constexpr const char* kFractionType = "\x01fraction";  // Numbers that are not integers.
  static constexpr size_t kMaxBranches = 512;

  // Schemas that all apply. Those in `flat` have been processed, those in `open` have not.
  struct Branch {
    std::vector<JsonId> flat, open;
  };
  struct RegexEntry {
    Regex regex;
    bool usable = false;
    Regex::Problem problem;
  };
  struct ObjectPart {
    JsonId schema, properties, patterns, additional, names;
    std::vector<std::pair<ExprId, JsonId>> pattern_list;
  };

  struct Witness {  // An undeclared member that an object must have.
    ExprId name;
    JsonId value;
  };

  // ---- compilation as a whole, problems, characters: schema_compiler.cc ----
  void problem(SchemaProblem::Kind kind, JsonId at, std::string_view keyword, std::string what);
  void unsupported(JsonId at, std::string_view keyword, std::string what) {
    problem(SchemaProblem::Kind::kUnsupported, at, keyword, std::move(what));
  }
  void invalid(JsonId at, std::string_view keyword, std::string what) {
    problem(SchemaProblem::Kind::kInvalid, at, keyword, std::move(what));
  }
  bool spend(size_t steps = 1);
  void takes_too_long() {
    problem(SchemaProblem::Kind::kTooLarge, kNoJson, "", "the schema takes too many steps to compile");
  }
  std::string pointer_to(JsonId wanted) const;
  bool gather_characters();
  void separate_text(const std::string& text);
  RegexEntry& regex(const std::string& pattern);
  void check_unsupported(JsonId schema);
  std::optional<uint32_t> count_of(JsonId schema, const char* keyword);

  // ---- conjunctions, branches, applicators: schema_branches.cc ----
  ShapeId shape_of(Conjunction schemas);
  void define(ShapeId id);
  void branches(const Conjunction& schemas, std::vector<Branch>& done);
  void pend(const Branch& branch, const std::vector<std::vector<Conjunction>>& choices, std::vector<Branch>& work);
  static uint32_t type_named(std::string_view name);
  uint32_t type_of(JsonId schema) const;
  uint32_t types_listed(JsonId type) const;
  bool is_nullable(JsonId schema) const;
  uint32_t type_of_value(JsonId value) const;
  uint32_t types_of(const std::vector<JsonId>& schemas) const;
  void take(JsonId schema, Branch& branch, std::vector<std::vector<Conjunction>>& choices);
  bool is_list_of_schemas(JsonId list) const;
  void take_one_of(JsonId schema, JsonId list, uint32_t types, std::vector<std::vector<Conjunction>>& choices);
  void take_if(JsonId schema, JsonId condition, std::vector<std::vector<Conjunction>>& choices);

  // ---- schema_references.cc ----
  JsonId through_refs(JsonId schema);
  JsonId resolve(const std::string& ref);
  void index_ids();
  JsonId at_fragment(JsonId base, const std::string& fragment);

  // ---- negation and mutually exclusive schemas: schema_negation.cc ----
  JsonId boolean(bool value) { return doc_.add(value ? Kind::kTrue : Kind::kFalse); }
  JsonId object(std::vector<JsonDocument::Member> members) { return doc_.add_object(std::move(members)); }
  JsonId typed(const char* type, const char* keyword, JsonId value) {
    return object({{"type", doc_.add_string(type)}, {keyword, value}});
  }
  JsonId schema_without(const std::string& name);
  JsonId count(double value);
  JsonId negate(JsonId schema);
  JsonId negation(JsonId schema);
  bool negate_keyword(JsonId schema, const std::string& name, JsonId value, std::vector<JsonId>& ways);
  JsonId undeclared_names(JsonId schema);
  JsonId unlike(const std::vector<JsonId>& values);
  JsonId not_exactly_one(JsonId list);
  JsonId types_schema(uint32_t types);
  JsonId relevant_part(JsonId schema, uint32_t types, int depth);
  JsonId negate_for(JsonId other, uint32_t types, uint32_t all);
  JsonId some_member(JsonId name, JsonId value);
  uint32_t shared_types(JsonId a, JsonId b, uint32_t types, int depth);
  bool objects_exclude(JsonId a, JsonId b, int depth);
  bool arrays_exclude(JsonId a, JsonId b, int depth);
  bool strings_exclude(JsonId a, JsonId b);
  const std::vector<JsonId>* values_of(JsonId schema);

  // ---- one branch, enumerated values, scalars and strings: schema_values.cc ----
  void add_branch(ShapeId id, const std::vector<JsonId>& flat);
  std::optional<std::vector<JsonId>> listed_values(const std::vector<JsonId>& flat);
  std::vector<JsonId> excluded(const std::vector<JsonId>& flat) const;
  void add_values(ShapeId id, const std::vector<JsonId>& flat, uint32_t types, const std::vector<JsonId>& values);
  JsonId without_values(JsonId schema);
  JsonId described(JsonId value);
  ExprId numbers(const std::vector<JsonId>& flat, uint32_t types);
  ExprId plain_numbers();
  ExprId multiples_of(JsonId multiple, uint32_t types);
  ExprId strings(const std::vector<JsonId>& flat);
  ExprId found(JsonId schema, const char* keyword, const std::string& pattern);

  // ---- schema_containers.cc ----
  struct Contains {
    JsonId schema = kNoJson;  // What the counted items match. kNoJson: nothing is counted.
    JsonId at = kNoJson;      // The schema that has the keyword.
    uint32_t least = 0, most = kUnbounded;
  };
  Contains contains_of(const std::vector<JsonId>& flat);
  void add_array(ShapeId id, const std::vector<JsonId>& flat);
  void add_object(ShapeId id, const std::vector<JsonId>& flat);
  void add_object(ShapeId id, const std::vector<JsonId>& flat, const std::vector<Witness>& witnesses);
  void add_others(ObjectShape& object, const std::vector<ObjectPart>& parts, ExprId names,
                  const std::vector<Witness>& witnesses);
  std::vector<std::string> declared_names(const std::vector<JsonId>& flat) const;
  ExprId names_fitting(JsonId schema);

  // ---- schema_prune.cc ----
  bool prune();
  void compare_items();

  const SchemaOptions options_;
  std::vector<SchemaProblem>& problems_;
  JsonDocument doc_;
  JsonId root_ = kNoJson;
  Schema* out_ = nullptr;
  ExpressionPool* pool_ = nullptr;
  ExprId any_character_ = ExpressionPool::kNothing;
  bool ref_stands_alone_ = false, failed_ = false;
  size_t steps_ = 0;
  int negating_ = 0;
  std::map<std::string, RegexEntry> regexes_;
  std::map<std::string, ExprId> found_;
  std::map<Conjunction, ShapeId> known_;
  std::vector<Conjunction> conjunctions_;
  std::vector<ShapeId> pending_;
  std::unordered_map<JsonId, JsonId> negations_, bare_;
  std::unordered_map<JsonId, std::vector<JsonId>> values_;
  std::map<std::pair<JsonId, uint32_t>, JsonId> relevant_;
  std::map<std::string, JsonId> ids_;
  std::set<JsonId> checked_;
  std::vector<std::pair<uint32_t, JsonId>> unique_;  // Arrays with distinct items, and the schema that requires this.
};

}  // namespace monolith::grammar
