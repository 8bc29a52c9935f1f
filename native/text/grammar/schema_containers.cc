// Compiles the arrays and objects of one branch.
#include "text/grammar/schema_compiler.h"

#include <algorithm>
#include <set>

#include "text/grammar/object_members.h"

namespace monolith::grammar {

void SchemaCompiler::add_array(ShapeId id, const std::vector<json::Id>& flat) {
  ArrayShape array;
  struct Part {
    std::vector<json::Id> prefix;
    json::Id rest;
  };
  std::vector<Part> parts;
  size_t n_prefix = 0;
  for (const json::Id schema : flat) {
    if (const auto n = count_of(schema, "minItems")) array.least = std::max(array.least, *n);
    if (const auto n = count_of(schema, "maxItems")) array.most = std::min(array.most, *n);
    Part part{{}, json::kAbsent};
    const json::Id items = doc_.member(schema, "items");
    json::Id prefix = doc_.member(schema, "prefixItems");
    if (doc_.is(items, Kind::kArray)) {
      prefix = items;
      part.rest = doc_.member(schema, "additionalItems");
    } else {
      part.rest = items;
    }
    if (doc_.is(prefix, Kind::kArray)) part.prefix.assign(doc_.items(prefix).begin(), doc_.items(prefix).end());
    if (part.prefix.empty() && part.rest == json::kAbsent) continue;
    n_prefix = std::max(n_prefix, part.prefix.size());
    parts.push_back(std::move(part));
  }
  if (array.least > array.most || !spend(n_prefix)) return;
  json::Id unique = json::kAbsent;
  if (array.most > 1)
    for (const json::Id schema : flat)
      if (doc_.is(doc_.member(schema, "uniqueItems"), Kind::kTrue)) unique = schema;
  if (unique != json::kAbsent && (n_prefix > 0 || (options_.spelling && options_.spelling->nested))) {
    unsupported(unique, "uniqueItems", "these items are not compared");
    unique = json::kAbsent;
  }
  Contains contained = contains_of(flat);
  if (contained.schema != json::kAbsent &&
      (n_prefix > 0 || unique != json::kAbsent || (options_.spelling && options_.spelling->nested))) {
    unsupported(contained.at, "contains", "items are not counted together with prefixItems or uniqueItems");
    contained = {};
  }
  const auto items_at = [&](size_t index) {
    Conjunction all;
    for (const Part& part : parts) {
      if (index < part.prefix.size())
        all.push_back(part.prefix[index]);
      else if (part.rest != json::kAbsent)
        all.push_back(part.rest);
    }
    return all;
  };
  for (size_t i = 0; i < n_prefix && i < array.most; ++i) array.prefix.push_back(shape_of(items_at(i)));
  Conjunction rest = items_at(n_prefix);
  if (contained.most < array.most) {
    // Items that are not counted must not match `contains`.
    const json::Id no = negate(contained.schema);
    if (no != json::kAbsent) {
      rest.push_back(no);
      array.most_matches = contained.most;
    } else {
      unsupported(contained.at, "maxContains", "the negation of `contains` cannot be computed");
    }
  }
  if (contained.least > 0 || (array.most_matches != kUnbounded && array.most_matches > 0)) {
    array.counts_matches = true;
    array.least_matches = contained.least;
    Conjunction matching = items_at(n_prefix);
    matching.push_back(contained.schema);
    array.matching = shape_of(std::move(matching));
  }
  if (array.most > n_prefix) array.rest = shape_of(std::move(rest));
  out_->arrays_.push_back(std::move(array));
  out_->shapes_[id].arrays.push_back(static_cast<uint32_t>(out_->arrays_.size() - 1));
  if (unique != json::kAbsent) unique_.emplace_back(static_cast<uint32_t>(out_->arrays_.size() - 1), unique);
}

// Returns the `contains` of a branch. A `contains` that accepts every array is ignored. Several different `contains`
// schemas are not supported.
SchemaCompiler::Contains SchemaCompiler::contains_of(const std::vector<json::Id>& flat) {
  Contains found;
  for (const json::Id schema : flat) {
    const json::Id value = doc_.member(schema, "contains");
    if (value == json::kAbsent) continue;
    const Contains one{value, schema, count_of(schema, "minContains").value_or(1),
                       count_of(schema, "maxContains").value_or(kUnbounded)};
    if (one.least == 0 && one.most == kUnbounded) continue;
    if (found.schema == json::kAbsent)
      found = one;
    else if (doc_.equal(found.schema, one.schema))
      found.least = std::max(found.least, one.least), found.most = std::min(found.most, one.most);
    else
      unsupported(schema, "contains", "only one `contains` is counted per array");
  }
  return found;
}

// Returns the names of all members that a schema of the branch mentions, in schema order.
std::vector<std::string> SchemaCompiler::declared_names(const std::vector<json::Id>& flat) const {
  std::vector<std::string> names;
  std::set<std::string> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  const auto add_all = [&](json::Id list) {
    for (const json::Id name : doc_.items(list))
      if (doc_.is(name, Kind::kString)) add(doc_.text(name));
  };
  for (const json::Id schema : flat)
    for (const auto& member : doc_.members(doc_.member(schema, "properties"))) add(member.first);
  for (const json::Id schema : flat) add_all(doc_.member(schema, "required"));
  for (const json::Id schema : flat)
    for (const char* keyword : {"dependentRequired", "dependencies"})
      for (const auto& [name, list] : doc_.members(doc_.member(schema, keyword))) {
        if (!doc_.is(list, Kind::kArray)) continue;
        add(name);
        add_all(list);
      }
  return names;
}

// A required member is either one of the declared members or an undeclared one. Each combination of these cases becomes
// a separate object shape.
void SchemaCompiler::add_object(ShapeId id, const std::vector<json::Id>& flat) {
  struct Way {
    std::vector<json::Id> flat;
    std::vector<Witness> witnesses;
  };
  constexpr size_t kMaxWays = 64;
  std::vector<Way> ways{{flat, {}}};
  std::vector<std::string> names;
  for (const json::Id schema : flat) {
    const json::Id wanted = doc_.member(schema, kSomeMember);
    if (wanted == json::kAbsent) continue;
    if (names.empty()) names = declared_names(flat);
    const ExprId rule = names_fitting(doc_.member(wanted, "name"));
    const json::Id value = doc_.member(wanted, "value");
    std::vector<json::Id> declared;
    std::vector<ExprId> listed;
    for (const std::string& name : names) {
      if (!spend()) return;
      listed.push_back(pool_->literal(name));
      if (!pool_->fits(rule, name)) continue;
      declared.push_back(
          object({{"properties", object({{name, value}})}, {"required", doc_.add_array({doc_.add_string(name)})}}));
    }
    const ExprId undeclared =
        listed.empty() ? rule : pool_->both(rule, pool_->negate(pool_->either(std::move(listed))));
    const bool closed = std::ranges::any_of(flat, [&](json::Id one) {
      return doc_.is(doc_.member(one, "additionalProperties"), Kind::kFalse) &&
             doc_.member(one, "patternProperties") == json::kAbsent;
    });
    std::vector<Way> next;
    for (const Way& way : ways) {
      for (const json::Id one : declared) {
        next.push_back(way);
        next.back().flat.push_back(one);
      }
      if (closed || !pool_->alive(undeclared)) continue;
      next.push_back(way);
      next.back().witnesses.push_back({undeclared, value});
    }
    ways = std::move(next);
    if (ways.size() > kMaxWays)
      return problem(SchemaProblem::Kind::kTooLarge, flat.front(), "not", "the member can be one of more than 64");
  }
  for (const Way& way : ways) {
    if (failed_) return;
    add_object(id, way.flat, way.witnesses);
  }
}

void SchemaCompiler::add_object(ShapeId id, const std::vector<json::Id>& flat, const std::vector<Witness>& witnesses) {
  if (witnesses.size() > 2 || (!witnesses.empty() && options_.spelling)) {
    unsupported(flat.front(), "not", "the object would need an undeclared member");
    return;
  }
  ObjectShape object;
  std::vector<ObjectPart> parts;
  std::vector<std::string> names;
  std::unordered_map<std::string, uint32_t> places;
  const auto place = [&](const std::string& name) {
    const auto [found, is_new] = places.try_emplace(name, static_cast<uint32_t>(names.size()));
    if (is_new) names.push_back(name);
    return found->second;
  };
  std::vector<ExprId> name_rules;
  std::vector<std::string> required;
  for (const json::Id schema : flat) {
    if (const auto n = count_of(schema, "minProperties")) object.least = std::max(object.least, *n);
    if (const auto n = count_of(schema, "maxProperties")) object.most = std::min(object.most, *n);
    ObjectPart part{schema,
                    doc_.member(schema, "properties"),
                    doc_.member(schema, "patternProperties"),
                    doc_.member(schema, "additionalProperties"),
                    doc_.member(schema, "propertyNames"),
                    {}};
    if (part.properties != json::kAbsent) {
      if (!doc_.is(part.properties, Kind::kObject))
        return invalid(schema, "properties", "properties must be an object of schemas");
      for (const auto& member : doc_.members(part.properties)) place(member.first);
    }
    if (part.patterns != json::kAbsent) {
      if (!doc_.is(part.patterns, Kind::kObject))
        return invalid(schema, "patternProperties", "patternProperties must be an object of schemas");
      for (const auto& [pattern, inner] : doc_.members(part.patterns))
        part.pattern_list.emplace_back(found(schema, "patternProperties", pattern), inner);
    }
    if (part.names != json::kAbsent) {
      // Names are strings, so only the strings that the name schema allows matter.
      const ExprId rule = names_fitting(part.names);
      if (failed_) return;
      name_rules.push_back(rule);
    }
    if (const json::Id list = doc_.member(schema, "required"); doc_.is(list, Kind::kArray))
      for (const json::Id name : doc_.items(list))
        if (doc_.is(name, Kind::kString)) required.push_back(doc_.text(name));
    parts.push_back(std::move(part));
  }
  for (const std::string& name : required) place(name);
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> needs;
  for (const json::Id schema : flat)
    for (const char* keyword : {"dependentRequired", "dependencies"}) {
      const json::Id all = doc_.member(schema, keyword);
      if (!doc_.is(all, Kind::kObject)) continue;
      for (const auto& [name, list] : doc_.members(all)) {
        if (!doc_.is(list, Kind::kArray)) continue;
        std::vector<uint32_t> needed;
        for (const json::Id one : doc_.items(list))
          if (doc_.is(one, Kind::kString)) needed.push_back(place(doc_.text(one)));
        needs.emplace_back(place(name), std::move(needed));
      }
    }
  if (!spend(names.size() * parts.size())) return;
  const ExprId all_names =
      name_rules.empty() ? ExpressionPool::kAnything : pool_->both(std::vector<ExprId>(name_rules));
  for (const std::string& name : names) {
    Conjunction all;
    bool allowed = all_names == ExpressionPool::kAnything || pool_->fits(all_names, name);
    for (const ObjectPart& part : parts) {
      bool seen = false;
      if (const json::Id own = doc_.member(part.properties, name); own != json::kAbsent)
        all.push_back(own), seen = true;
      for (const auto& [pattern, inner] : part.pattern_list)
        if (pool_->fits(pattern, name)) all.push_back(inner), seen = true;
      if (!seen && part.additional != json::kAbsent) all.push_back(part.additional);
    }
    for (const json::Id schema : all)
      if (doc_.kind(schema) == Kind::kFalse) allowed = false;
    object.properties.push_back({name, allowed ? shape_of(std::move(all)) : kNoShape, false});
  }
  for (const std::string& name : required) object.properties[places[name]].required = true;
  object.needs = std::move(needs);
  std::ranges::stable_sort(object.needs, {}, [](const auto& one) { return one.first; });

  std::vector<ExprId> others;
  if (all_names != ExpressionPool::kAnything) others.push_back(all_names);
  std::vector<ExprId> listed;
  for (const std::string& name : names) listed.push_back(pool_->literal(name));
  if (!listed.empty()) others.push_back(pool_->negate(pool_->either(std::move(listed))));
  object.marks = (1u << witnesses.size()) - 1;
  object.marks_values =
      std::ranges::any_of(witnesses, [&](const Witness& one) { return doc_.kind(one.value) != Kind::kTrue; });
  add_others(object, parts, others.empty() ? ExpressionPool::kAnything : pool_->both(std::move(others)), witnesses);
  if (failed_) return;
  out_->objects_.push_back(std::move(object));
  out_->shapes_[id].objects.push_back(static_cast<uint32_t>(out_->objects_.size() - 1));
}

// Adds the undeclared names, grouped by the patterns that they match.
void SchemaCompiler::add_others(ObjectShape& object, const std::vector<ObjectPart>& parts, ExprId names,
                                const std::vector<Witness>& witnesses) {
  std::vector<ExprId> patterns;
  for (const ObjectPart& part : parts)
    for (const auto& [pattern, schema] : part.pattern_list)
      if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end()) patterns.push_back(pattern);
  struct Kinds {
    ExprId names;
    std::vector<ExprId> matched;
  };
  std::vector<Kinds> kinds{{names, {}}};
  for (const ExprId pattern : patterns) {
    std::vector<Kinds> next;
    for (const Kinds& kind : kinds) {
      if (!spend()) return;
      Kinds with{pool_->both(kind.names, pattern), kind.matched};
      with.matched.push_back(pattern);
      Kinds without{pool_->both(kind.names, pool_->negate(pattern)), kind.matched};
      if (pool_->alive(with.names)) next.push_back(std::move(with));
      if (pool_->alive(without.names)) next.push_back(std::move(without));
    }
    kinds = std::move(next);
    if (kinds.size() > 64) {
      problem(SchemaProblem::Kind::kTooLarge, parts.front().schema, "patternProperties",
              "the patterns overlap in more than 64 ways");
      return;
    }
  }
  const bool counted = counts_names(object);
  // The number of possible names is exact up to this limit; above it, the names count as unlimited.
  const uint64_t most = std::max(object.least, 1u << 20);
  for (const Kinds& kind : kinds) {
    Conjunction all;
    bool allowed = true;
    for (const ObjectPart& part : parts) {
      bool seen = false;
      for (const auto& [pattern, schema] : part.pattern_list)
        if (std::find(kind.matched.begin(), kind.matched.end(), pattern) != kind.matched.end())
          all.push_back(schema), seen = true;
      if (!seen && part.additional != json::kAbsent) all.push_back(part.additional);
    }
    for (const json::Id schema : all)
      if (doc_.kind(schema) == Kind::kFalse) allowed = false;
    if (!allowed || !pool_->alive(kind.names)) continue;
    for (uint32_t marks = 0; marks <= object.marks; ++marks) {
      ExprId marked = kind.names;
      Conjunction values = all;
      for (size_t i = 0; i < witnesses.size(); ++i) {
        if (!(marks >> i & 1)) continue;
        marked = pool_->both(marked, witnesses[i].name);
        values.push_back(witnesses[i].value);
      }
      if (marks != 0 && !pool_->alive(marked)) continue;
      const uint64_t n = counted ? pool_->count(marked, most) : most;
      if (counted && n < most && witnesses.size() > 1)
        return unsupported(parts.front().schema, "not", "the object would need several undeclared members");
      object.others.push_back(
          {marked, shape_of(std::move(values)), n < most ? static_cast<uint32_t>(n) : kUnbounded, marks});
    }
  }
}

ExprId SchemaCompiler::names_fitting(json::Id schema) {
  std::vector<Branch> done;
  branches({schema, doc_.add_object({{"type", doc_.add_string("string")}})}, done);
  ExprId e = ExpressionPool::kNothing;
  for (const Branch& branch : done) {
    if (failed_) break;
    const auto values = listed_values(branch.flat);
    const ExprId all = strings(branch.flat);
    if (!values) {
      e = pool_->either(e, all);
      continue;
    }
    std::vector<std::string_view> listed;
    for (const json::Id value : *values)
      if (doc_.kind(value) == Kind::kString && pool_->fits(all, doc_.text(value))) listed.push_back(doc_.text(value));
    e = pool_->either(e, pool_->literals(std::move(listed)));
  }
  return e;
}

}  // namespace monolith::grammar
