// Compiles a JSON schema to shapes.
//
//   schemas that all apply at one place (a conjunction) ─► branches without applicators ─► one Shape
//
// A conjunction is a sorted set of subschemas. Each distinct conjunction has one ShapeId, so recursive schemas
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

#include "base/json/document.h"
#include "text/grammar/regex.h"
#include "text/grammar/rule_text.h"
#include "text/grammar/schema.h"

namespace monolith::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaOptions& options, std::vector<SchemaProblem>& problems)
      : options_(options), problems_(problems) {}

  std::unique_ptr<Schema> run(std::string_view json);

 private:
  using Kind = json::Document::Kind;
  using Conjunction = std::vector<json::Id>;
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
  // Internal keywords for negated schemas. The leading \x01 distinguishes them from the keywords that a client sends.
  static constexpr const char* kNotEnum = "\x01not-enum";
  static constexpr const char* kNotPattern = "\x01not-pattern";
  static constexpr const char* kNotFormat = "\x01not-format";
  static constexpr const char* kNotMultiple = "\x01not-multiple";
  static constexpr const char* kSomeMember = "\x01some-member";
  static constexpr const char* kFractionType = "\x01fraction";  // Numbers that are not integers.
  static constexpr size_t kMaxBranches = 512;

  // Schemas that all apply. The schemas in `flat` have been processed; the schemas in `open` have not.
  struct Branch {
    std::vector<json::Id> flat, open;
  };
  struct RegexEntry {
    Regex regex;
    bool usable = false;
    Regex::Problem problem;
  };
  struct ObjectPart {
    json::Id schema, properties, patterns, additional, names;
    std::vector<std::pair<ExprId, json::Id>> pattern_list;
  };

  struct Witness {  // An undeclared member that an object must have.
    ExprId name;
    json::Id value;
  };

  // ---- compilation as a whole, problems, characters: schema_compiler.cc ----
  void problem(SchemaProblem::Kind kind, json::Id at, std::string_view keyword, std::string what);
  void unsupported(json::Id at, std::string_view keyword, std::string what) {
    problem(SchemaProblem::Kind::kUnsupported, at, keyword, std::move(what));
  }
  void invalid(json::Id at, std::string_view keyword, std::string what) {
    problem(SchemaProblem::Kind::kInvalid, at, keyword, std::move(what));
  }
  bool spend(size_t steps = 1);
  void takes_too_long() {
    problem(SchemaProblem::Kind::kTooLarge, json::kAbsent, "", "the schema takes too many steps to compile");
  }
  std::string pointer_to(json::Id wanted) const;
  bool gather_characters();
  void read_text_grammar(json::Id schema);
  void separate_text(const std::string& text);
  RegexEntry& regex(const std::string& pattern);
  void check_unsupported(json::Id schema);
  std::optional<uint32_t> count_of(json::Id schema, const char* keyword);

  // ---- conjunctions, branches, applicators: schema_branches.cc ----
  ShapeId shape_of(Conjunction schemas);
  void define(ShapeId id);
  void branches(const Conjunction& schemas, std::vector<Branch>& done);
  void pend(const Branch& branch, const std::vector<std::vector<Conjunction>>& choices, std::vector<Branch>& work);
  static uint32_t type_named(std::string_view name);
  uint32_t type_of(json::Id schema) const;
  uint32_t types_listed(json::Id type) const;
  bool is_nullable(json::Id schema) const;
  uint32_t type_of_value(json::Id value) const;
  uint32_t types_of(const std::vector<json::Id>& schemas) const;
  void take(json::Id schema, Branch& branch, std::vector<std::vector<Conjunction>>& choices);
  bool is_list_of_schemas(json::Id list) const;
  void take_one_of(json::Id schema, json::Id list, uint32_t types, std::vector<std::vector<Conjunction>>& choices);
  void take_if(json::Id schema, json::Id condition, std::vector<std::vector<Conjunction>>& choices);

  // ---- schema_references.cc ----
  json::Id through_refs(json::Id schema);
  json::Id resolve(const std::string& ref);
  void index_ids();
  json::Id at_fragment(json::Id base, const std::string& fragment);

  // ---- negation and mutually exclusive schemas: schema_negation.cc ----
  json::Id boolean(bool value) { return doc_.add(value ? Kind::kTrue : Kind::kFalse); }
  json::Id object(std::vector<json::Document::Member> members) { return doc_.add_object(std::move(members)); }
  json::Id typed(const char* type, const char* keyword, json::Id value) {
    return object({{"type", doc_.add_string(type)}, {keyword, value}});
  }
  json::Id schema_without(const std::string& name);
  json::Id count(double value);
  json::Id negate(json::Id schema);
  json::Id negation(json::Id schema);
  bool negate_keyword(json::Id schema, const std::string& name, json::Id value, std::vector<json::Id>& ways);
  json::Id undeclared_names(json::Id schema);
  json::Id unlike(const std::vector<json::Id>& values);
  json::Id not_exactly_one(json::Id list);
  json::Id types_schema(uint32_t types);
  json::Id relevant_part(json::Id schema, uint32_t types, int depth);
  json::Id negate_for(json::Id other, uint32_t types, uint32_t all);
  json::Id some_member(json::Id name, json::Id value);
  uint32_t shared_types(json::Id a, json::Id b, uint32_t types, int depth);
  bool objects_exclude(json::Id a, json::Id b, int depth);
  bool arrays_exclude(json::Id a, json::Id b, int depth);
  bool strings_exclude(json::Id a, json::Id b);
  const std::vector<json::Id>* values_of(json::Id schema);

  // ---- one branch, enumerated values, scalars and strings: schema_values.cc ----
  void add_branch(ShapeId id, const std::vector<json::Id>& flat);
  std::optional<std::vector<json::Id>> listed_values(const std::vector<json::Id>& flat);
  std::vector<json::Id> excluded(const std::vector<json::Id>& flat) const;
  void add_values(ShapeId id, const std::vector<json::Id>& flat, uint32_t types, const std::vector<json::Id>& values);
  json::Id without_values(json::Id schema);
  json::Id described(json::Id value);
  ExprId numbers(const std::vector<json::Id>& flat, uint32_t types);
  ExprId plain_numbers();
  ExprId multiples_of(json::Id multiple, uint32_t types);
  ExprId strings(const std::vector<json::Id>& flat);
  ExprId found(json::Id schema, const char* keyword, const std::string& pattern);
  ExprId grammar_text(json::Id schema, const char* keyword);

  // ---- schema_containers.cc ----
  struct Contains {
    json::Id schema = json::kAbsent;  // What the counted items match. json::kAbsent: nothing is counted.
    json::Id at = json::kAbsent;      // The schema that has the keyword.
    uint32_t least = 0, most = kUnbounded;
  };
  Contains contains_of(const std::vector<json::Id>& flat);
  void add_array(ShapeId id, const std::vector<json::Id>& flat);
  void add_object(ShapeId id, const std::vector<json::Id>& flat);
  void add_object(ShapeId id, const std::vector<json::Id>& flat, const std::vector<Witness>& witnesses);
  void add_others(ObjectShape& object, const std::vector<ObjectPart>& parts, ExprId names,
                  const std::vector<Witness>& witnesses);
  std::vector<std::string> declared_names(const std::vector<json::Id>& flat) const;
  ExprId names_fitting(json::Id schema);

  // ---- schema_prune.cc ----
  bool prune();
  void compare_items();

  const SchemaOptions options_;
  std::vector<SchemaProblem>& problems_;
  json::Document doc_;
  json::Id root_ = json::kAbsent;
  Schema* out_ = nullptr;
  ExpressionPool* pool_ = nullptr;
  ExprId any_character_ = ExpressionPool::kNothing;
  bool ref_stands_alone_ = false, failed_ = false;
  size_t steps_ = 0;
  int negating_ = 0;
  std::map<std::string, RegexEntry> regexes_;
  Regex text_regex_;                       // Parsed value of kRegexKeyword.
  RuleTree text_rules_;                    // Parsed value of kLarkKeyword.
  json::Id text_grammar_ = json::kAbsent;  // Value of whichever of the two is present.
  std::map<std::string, ExprId> found_;
  std::map<Conjunction, ShapeId> known_;
  std::vector<Conjunction> conjunctions_;
  std::vector<ShapeId> pending_;
  std::unordered_map<json::Id, json::Id> negations_, bare_;
  std::unordered_map<json::Id, std::vector<json::Id>> values_;
  std::map<std::pair<json::Id, uint32_t>, json::Id> relevant_;
  std::map<std::string, json::Id> ids_;
  std::set<json::Id> checked_;
  std::vector<std::pair<uint32_t, json::Id>> unique_;  // Arrays with distinct items, and the schema that requires this.
};

}  // namespace monolith::grammar
