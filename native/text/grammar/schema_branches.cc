// Resolves a conjunction of schemas into branches without applicators.
#include "text/grammar/schema_compiler.h"

#include <algorithm>
#include <cmath>

#include "text/grammar/number_ranges.h"

namespace monolith::grammar {

ShapeId SchemaCompiler::shape_of(Conjunction schemas) {
  std::sort(schemas.begin(), schemas.end());
  schemas.erase(std::unique(schemas.begin(), schemas.end()), schemas.end());
  const auto [found, is_new] = known_.try_emplace(schemas, static_cast<ShapeId>(out_->shapes_.size()));
  if (is_new) {
    out_->shapes_.emplace_back();
    conjunctions_.push_back(std::move(schemas));
    pending_.push_back(found->second);
    if (out_->shapes_.size() > options_.most_shapes)
      problem(SchemaProblem::Kind::kTooLarge, json::kAbsent, "", "the schema has too many parts");
  }
  return found->second;
}

void SchemaCompiler::define(ShapeId id) {
  std::vector<Branch> done;
  branches(conjunctions_[id], done);
  for (const Branch& branch : done) {
    if (failed_) return;
    add_branch(id, branch.flat);
  }
}

void SchemaCompiler::branches(const Conjunction& schemas, std::vector<Branch>& done) {
  std::vector<Branch> work;
  work.push_back({{}, {schemas.rbegin(), schemas.rend()}});
  while (!work.empty() && spend()) {
    if (work.size() + done.size() > kMaxBranches) {
      problem(SchemaProblem::Kind::kTooLarge, schemas.front(), "",
              "its alternatives combine to more than 512 branches");
      return;
    }
    Branch branch = std::move(work.back());
    work.pop_back();
    bool alive = true;
    std::vector<std::vector<Conjunction>> choices;  // In each choice, one alternative must apply.
    while (alive && !branch.open.empty() && spend()) {
      const json::Id schema = branch.open.back();
      branch.open.pop_back();
      switch (doc_.kind(schema)) {
        case Kind::kTrue: break;
        case Kind::kFalse: alive = false; break;
        case Kind::kObject:
          if (std::find(branch.flat.begin(), branch.flat.end(), schema) == branch.flat.end())
            take(schema, branch, choices);
          break;
        default: invalid(schema, "", "a schema must be an object or a boolean"); return;
      }
    }
    if (!alive || failed_) continue;
    if (types_of(branch.flat) == 0) continue;
    // Drops alternatives that the allowed types rule out, before the alternatives are multiplied.
    if (choices.empty()) {
      done.push_back(std::move(branch));
      continue;
    }
    pend(branch, choices, work);
  }
}

// Adds every combination of the choices, varying the last choice fastest. Combinations without a common type are
// dropped immediately.
void SchemaCompiler::pend(const Branch& branch, const std::vector<std::vector<Conjunction>>& choices,
                          std::vector<Branch>& work) {
  std::vector<Branch> now{branch};
  for (const auto& choice : choices) {
    std::vector<Branch> next;
    for (const Branch& so_far : now) {
      for (const Conjunction& way : choice) {
        if (!spend()) return;
        Branch one = so_far;
        uint32_t types = types_of(one.flat) & types_of(one.open);
        for (const json::Id schema : way) types &= type_of(schema);
        if (types == 0) continue;
        one.open.insert(one.open.end(), way.begin(), way.end());
        next.push_back(std::move(one));
        if (next.size() > kMaxBranches) {
          problem(SchemaProblem::Kind::kTooLarge, branch.flat.empty() ? json::kAbsent : branch.flat.front(), "",
                  "its alternatives combine to more than 512 branches");
          return;
        }
      }
    }
    now = std::move(next);
  }
  for (auto at = now.rbegin(); at != now.rend(); ++at) work.push_back(std::move(*at));
}

uint32_t SchemaCompiler::type_named(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "integer") return kInteger;
  if (name == "number") return kNumber;
  if (name == kFractionType) return kFraction;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return 0;
}

// Returns the types that `type`, `enum` and `const` allow, without resolving applicators.
uint32_t SchemaCompiler::type_of(json::Id schema) const {
  if (doc_.kind(schema) == Kind::kFalse) return 0;
  if (doc_.kind(schema) != Kind::kObject) return kAll;
  uint32_t types = kAll;
  if (const json::Id type = doc_.member(schema, "type"); type != json::kAbsent)
    types &= types_listed(type) | (is_nullable(schema) ? kNull : 0u);
  if (const json::Id values = doc_.member(schema, "enum"); doc_.is(values, Kind::kArray)) {
    uint32_t listed = 0;
    for (const json::Id value : doc_.items(values)) listed |= type_of_value(value);
    types &= listed;
  }
  if (const json::Id value = doc_.member(schema, "const"); value != json::kAbsent) types &= type_of_value(value);
  return types;
}

// In client schemas, `nullable` adds null to the `type` next to it, as in OpenAPI 3.0.
bool SchemaCompiler::is_nullable(json::Id schema) const {
  return options_.one_of_as_any_of && doc_.is(doc_.member(schema, "nullable"), Kind::kTrue);
}

uint32_t SchemaCompiler::types_listed(json::Id type) const {
  if (doc_.kind(type) == Kind::kString) return type_named(doc_.text(type));
  uint32_t types = 0;
  if (doc_.kind(type) == Kind::kArray)
    for (const json::Id one : doc_.items(type))
      if (doc_.is(one, Kind::kString)) types |= type_named(doc_.text(one));
  return types;
}

uint32_t SchemaCompiler::type_of_value(json::Id value) const {
  switch (doc_.kind(value)) {
    case Kind::kNull: return kNull;
    case Kind::kFalse:
    case Kind::kTrue: return kBoolean;
    case Kind::kNumber: {
      if (const auto decimal = Decimal::parse(doc_.text(value))) return decimal->is_whole() ? kInteger : kFraction;
      const double number = doc_.number(value);  // The number has more digits than a Decimal can hold.
      return number == std::floor(number) ? kInteger : kFraction;
    }
    case Kind::kString: return kString;
    case Kind::kArray: return kArray;
    case Kind::kObject: return kObject;
  }
  return 0;
}

uint32_t SchemaCompiler::types_of(const std::vector<json::Id>& schemas) const {
  uint32_t types = kAll;
  for (const json::Id schema : schemas) types &= type_of(schema);
  return types;
}

void SchemaCompiler::take(json::Id schema, Branch& branch, std::vector<std::vector<Conjunction>>& choices) {
  const json::Id ref = doc_.member(schema, "$ref");
  if (doc_.is(ref, Kind::kString)) {
    const json::Id target = resolve(doc_.text(ref));
    if (target == json::kAbsent)
      return unsupported(schema, "$ref", "nothing found at " + doc_.text(ref).substr(0, 200) + " within the schema");
    branch.open.push_back(target);
    if (ref_stands_alone_) return;
  }
  branch.flat.push_back(schema);
  check_unsupported(schema);
  for (const char* keyword : {"$dynamicRef", "$recursiveRef"})
    if (doc_.member(schema, keyword) != json::kAbsent)
      unsupported(schema, keyword, "dynamic references are not supported");
  if (const json::Id all = doc_.member(schema, "allOf"); all != json::kAbsent) {
    if (!is_list_of_schemas(all)) return invalid(schema, "allOf", "allOf must be a non-empty list of schemas");
    const auto items = doc_.items(all);
    branch.open.insert(branch.open.end(), items.rbegin(), items.rend());
  }
  if (const json::Id any = doc_.member(schema, "anyOf"); any != json::kAbsent) {
    if (!is_list_of_schemas(any)) return invalid(schema, "anyOf", "anyOf must be a non-empty list of schemas");
    std::vector<Conjunction> ways;
    for (const json::Id one : doc_.items(any)) ways.push_back({one});
    choices.push_back(std::move(ways));
  }
  if (const json::Id one = doc_.member(schema, "oneOf"); one != json::kAbsent) {
    const uint32_t types = types_of(branch.flat) & types_of(branch.open);
    take_one_of(schema, one, types, choices);
  }
  if (const json::Id no = doc_.member(schema, "not"); no != json::kAbsent) {
    const json::Id negated = negate(no);
    if (negated == json::kAbsent)
      unsupported(schema, "not", "the negation of this schema cannot be expressed");
    else
      branch.open.push_back(negated);
  }
  if (const json::Id condition = doc_.member(schema, "if"); condition != json::kAbsent)
    take_if(schema, condition, choices);
  for (const char* keyword : {"dependentSchemas", "dependencies"}) {
    const json::Id all = doc_.member(schema, keyword);
    if (!doc_.is(all, Kind::kObject)) continue;
    for (const auto& [name, dependent] : doc_.members(all)) {
      if (doc_.kind(dependent) == Kind::kArray) continue;  // A list of names is handled with the object's own keywords.
      choices.push_back({{schema_without(name)}, {dependent}});
    }
  }
}

bool SchemaCompiler::is_list_of_schemas(json::Id list) const {
  if (!doc_.is(list, Kind::kArray) || doc_.items(list).empty()) return false;
  return std::ranges::all_of(doc_.items(list), [&](json::Id one) {
    return doc_.kind(one) == Kind::kObject || doc_.kind(one) == Kind::kTrue || doc_.kind(one) == Kind::kFalse;
  });
}

void SchemaCompiler::take_one_of(json::Id schema, json::Id list, uint32_t types,
                                 std::vector<std::vector<Conjunction>>& choices) {
  if (!is_list_of_schemas(list)) return invalid(schema, "oneOf", "oneOf must be a non-empty list of schemas");
  const std::vector<json::Id> ways(doc_.items(list).begin(), doc_.items(list).end());
  std::vector<Conjunction> exact(ways.size());
  for (size_t i = 0; i < ways.size(); ++i) exact[i].push_back(ways[i]);
  if (options_.one_of_as_any_of) return choices.push_back(std::move(exact));
  for (size_t i = 0; i < ways.size(); ++i) {
    for (size_t j = i + 1; j < ways.size(); ++j) {
      if (!spend()) return;
      const uint32_t shared = shared_types(ways[i], ways[j], types, 0);
      if (shared == 0) continue;
      // At most one schema of each pair may match. Each of the two branches is therefore combined with the negation of
      // the other.
      const json::Id not_j = negate_for(ways[j], shared, types & type_of(through_refs(ways[i])));
      const json::Id not_i = negate_for(ways[i], shared, types & type_of(through_refs(ways[j])));
      if (not_j != json::kAbsent && not_i != json::kAbsent) {
        exact[i].push_back(not_j);
        exact[j].push_back(not_i);
        continue;
      }
      unsupported(
          schema, "oneOf",
          "branches " + std::to_string(i) + " and " + std::to_string(j) + " cannot be shown to be mutually exclusive");
      if (failed_) return;
    }
  }
  choices.push_back(std::move(exact));
}

void SchemaCompiler::take_if(json::Id schema, json::Id condition, std::vector<std::vector<Conjunction>>& choices) {
  const json::Id then = doc_.member(schema, "then"), other = doc_.member(schema, "else");
  if (then == json::kAbsent && other == json::kAbsent) return;
  const json::Id no = negate(condition);
  if (no == json::kAbsent) return unsupported(schema, "if", "the negation of this schema cannot be expressed");
  Conjunction yes{condition}, otherwise{no};
  if (then != json::kAbsent) yes.push_back(then);
  if (other != json::kAbsent) otherwise.push_back(other);
  choices.push_back({std::move(yes), std::move(otherwise)});
}

}  // namespace monolith::grammar
