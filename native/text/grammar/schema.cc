// How a schema becomes shapes.
//
//   schemas that all hold at one place (a conjunction) ─► branches without applicators ─► one Shape
//
// A conjunction is a sorted set of subschemas; each gets one ShapeId, so recursion ends. $ref, allOf, anyOf,
// oneOf, not, if and the dependencies are resolved into branches: sets of flat schemas that hold together.
// `not` is done by writing the negated schema, keyword by keyword, and reading that.
#include "text/grammar/schema.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "text/grammar/formats.h"
#include "text/grammar/number_ranges.h"
#include "text/grammar/regex.h"
#include "text/grammar/rule_expressions.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {
namespace {

using Kind = JsonDocument::Kind;

enum Types : uint32_t {
  kNull = 1, kBoolean = 2, kInteger = 4, kFraction = 8, kString = 16, kArray = 32, kObject = 64,
  kNumber = kInteger | kFraction, kAll = 127,
};

uint32_t type_named(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "integer") return kInteger;
  if (name == "number") return kNumber;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return 0;
}

// Of our own, in negated schemas; no JSON member written by a client is taken for them.
constexpr const char* kNotEnum = "\x01not-enum";
constexpr const char* kNotPattern = "\x01not-pattern";
constexpr const char* kNotFormat = "\x01not-format";

constexpr size_t kMostBranches = 512;

}  // namespace

class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaOptions& options, std::vector<SchemaProblem>& problems) : options_(options), problems_(problems) {}

  std::unique_ptr<Schema> run(std::string_view json) {
    auto schema = std::make_unique<Schema>();
    out_ = schema.get();
    std::string error;
    if (!doc_.parse(json, root_, error)) {
      problem(SchemaProblem::Kind::kInvalid, kNoJson, "", "the schema is not JSON: " + error);
      return nullptr;
    }
    if (!doc_.is(root_, Kind::kObject) && !doc_.is(root_, Kind::kTrue) && !doc_.is(root_, Kind::kFalse)) {
      problem(SchemaProblem::Kind::kInvalid, root_, "", "a schema is an object or a boolean");
      return nullptr;
    }
    const JsonId dialect = doc_.member(root_, "$schema");
    if (doc_.is(dialect, Kind::kString)) {
      const std::string& name = doc_.text(dialect);
      ref_stands_alone_ = name.find("draft-0") != std::string::npos;
    }
    if (!gather_characters()) return nullptr;
    schema->pool_ = std::make_unique<ExpressionPool>(schema->partition_, options_.most_expressions);
    pool_ = schema->pool_.get();
    pool_->fuel() = options_.fuel;
    any_character_ = pool_->set(CodePointSet::all());
    schema->root_ = shape_of({root_});
    while (!pending_.empty() && !failed_) {
      const ShapeId id = pending_.back();
      pending_.pop_back();
      define(id);
    }
    if (pool_->failed() && !failed_) problem(SchemaProblem::Kind::kTooLarge, kNoJson, "", "the schema's patterns are too complex");
    if (failed_) return nullptr;
    if (!prune()) {
      problem(SchemaProblem::Kind::kImpossible, root_, "", "no value fits the schema");
      return nullptr;
    }
    if (pool_->failed()) {
      problem(SchemaProblem::Kind::kTooLarge, kNoJson, "", "the schema's patterns are too complex");
      return nullptr;
    }
    return schema;
  }

 private:
  using Conjunction = std::vector<JsonId>;

  // ---- problems ----

  void problem(SchemaProblem::Kind kind, JsonId at, std::string_view keyword, std::string what) {
    const bool fatal = kind != SchemaProblem::Kind::kUnsupported || options_.strict;
    if (fatal && failed_) return;
    if (!fatal && problems_.size() >= 32) return;
    problems_.push_back({kind, pointer_to(at), std::string(keyword), std::move(what)});
    failed_ = failed_ || fatal;
  }
  void unsupported(JsonId at, std::string_view keyword, std::string what) {
    problem(SchemaProblem::Kind::kUnsupported, at, keyword, std::move(what));
  }
  void invalid(JsonId at, std::string_view keyword, std::string what) {
    problem(SchemaProblem::Kind::kInvalid, at, keyword, std::move(what));
  }
  bool spend(size_t steps = 1) {
    steps_ += steps;
    if (steps_ > options_.most_steps || (pool_ && !pool_->fuel().spend(steps)))
      problem(SchemaProblem::Kind::kTooLarge, kNoJson, "", "the schema takes too many steps to compile");
    return !failed_;
  }

  // Found by looking for it: asked only when something is wrong. Without recursion.
  std::string pointer_to(JsonId wanted) const {
    if (wanted == kNoJson) return "";
    struct Place { JsonId id; size_t parent; std::string step; };
    std::vector<Place> places{{root_, SIZE_MAX, ""}};
    for (size_t at = 0; at < places.size(); ++at) {
      if (places[at].id == wanted) {
        std::string out;
        for (size_t p = at; places[p].parent != SIZE_MAX; p = places[p].parent) {
          std::string step = "/";
          for (const char c : places[p].step) {
            if (c == '~') step += "~0";
            else if (c == '/') step += "~1";
            else step += c;
          }
          out = step + out;
        }
        return out.size() > 512 ? out.substr(0, 512) : out;
      }
      const JsonId id = places[at].id;
      if (doc_.kind(id) == Kind::kObject) {
        for (const auto& [name, child] : doc_.members(id)) places.push_back({child, at, name});
      } else if (doc_.kind(id) == Kind::kArray) {
        const auto items = doc_.items(id);
        for (size_t i = 0; i < items.size(); ++i) places.push_back({items[i], at, std::to_string(i)});
      }
    }
    return "";
  }

  // ---- characters ----

  // Everything any expression will tell apart: every string of the schema, every pattern and format.
  bool gather_characters() {
    CharPartition& partition = out_->partition_;
    for (const char c : std::string_view("+-.0123456789eEnulltruefalse")) partition.separate(static_cast<uint32_t>(c));
    std::set<std::string> formats;
    for (JsonId id = 0; id < doc_.size(); ++id) {
      if (doc_.kind(id) == Kind::kObject) {
        for (const auto& [name, child] : doc_.members(id)) {
          separate_text(name);
          if (name == "pattern" && doc_.is(child, Kind::kString)) regex(doc_.text(child));
          if (name == "format" && doc_.is(child, Kind::kString)) formats.insert(doc_.text(child));
          if (name == "patternProperties" && doc_.is(child, Kind::kObject))
            for (const auto& member : doc_.members(child)) regex(member.first);
        }
      } else if (doc_.kind(id) == Kind::kString) {
        separate_text(doc_.text(id));
      }
    }
    for (const auto& [text, entry] : regexes_)
      if (entry.usable) entry.regex.separate(partition);
    for (const std::string& name : formats) {
      const char* pattern = format_pattern(name);
      if (pattern == nullptr) continue;
      if (regex(pattern).usable) regex(pattern).regex.separate(partition);
    }
    if (partition.freeze()) return true;
    problem(SchemaProblem::Kind::kTooLarge, kNoJson, "", "the schema tells more than 4,096 kinds of characters apart");
    return false;
  }

  // Every string of the schema, because any may turn out to be a name or a listed value.
  void separate_text(const std::string& text) {
    std::string_view left = text;
    while (!left.empty()) {
      const Utf8Char c = decode_utf8(left);
      if (c.code_point != kInvalidByte) out_->partition_.separate(c.code_point);
      left.remove_prefix(c.size);
    }
  }

  struct RegexEntry {
    Regex regex;
    bool usable = false;
    Regex::Problem problem;
  };
  RegexEntry& regex(const std::string& pattern) {
    const auto [found, is_new] = regexes_.try_emplace(pattern);
    if (is_new) found->second.usable = Regex::parse(pattern, found->second.regex, found->second.problem);
    return found->second;
  }

  // ---- shapes ----

  ShapeId shape_of(Conjunction schemas) {
    std::sort(schemas.begin(), schemas.end());
    schemas.erase(std::unique(schemas.begin(), schemas.end()), schemas.end());
    const auto [found, is_new] = known_.try_emplace(schemas, static_cast<ShapeId>(out_->shapes_.size()));
    if (is_new) {
      out_->shapes_.emplace_back();
      conjunctions_.push_back(std::move(schemas));
      pending_.push_back(found->second);
      if (out_->shapes_.size() > options_.most_shapes) problem(SchemaProblem::Kind::kTooLarge, kNoJson, "", "the schema has too many parts");
    }
    return found->second;
  }

  struct Branch {
    std::vector<JsonId> flat, open;
  };

  void define(ShapeId id) {
    std::vector<Branch> done;
    branches(conjunctions_[id], done);
    for (const Branch& branch : done) {
      if (failed_) return;
      add_branch(id, branch.flat);
    }
  }

  void branches(const Conjunction& schemas, std::vector<Branch>& done) {
    std::vector<Branch> work;
    work.push_back({{}, {schemas.rbegin(), schemas.rend()}});
    while (!work.empty() && spend()) {
      if (work.size() + done.size() > kMostBranches) {
        problem(SchemaProblem::Kind::kTooLarge, schemas.front(), "", "its alternatives multiply to more than 512");
        return;
      }
      Branch branch = std::move(work.back());
      work.pop_back();
      bool alive = true;
      std::vector<std::vector<Conjunction>> choices;   // of each one is to hold
      while (alive && !branch.open.empty() && spend()) {
        const JsonId schema = branch.open.back();
        branch.open.pop_back();
        switch (doc_.kind(schema)) {
          case Kind::kTrue: break;
          case Kind::kFalse: alive = false; break;
          case Kind::kObject:
            if (std::find(branch.flat.begin(), branch.flat.end(), schema) == branch.flat.end()) take(schema, branch, choices);
            break;
          default: invalid(schema, "", "a schema is an object or a boolean"); return;
        }
      }
      if (!alive || failed_) continue;
      if (types_of(branch.flat) == 0) continue;
      // What the types rule out of the choices never multiplies.
      if (choices.empty()) {
        done.push_back(std::move(branch));
        continue;
      }
      pend(branch, choices, work);
    }
  }

  // Every combination, the later choices innermost, those without a common type left out at once.
  void pend(const Branch& branch, const std::vector<std::vector<Conjunction>>& choices, std::vector<Branch>& work) {
    std::vector<Branch> now{branch};
    for (const auto& choice : choices) {
      std::vector<Branch> next;
      for (const Branch& so_far : now) {
        for (const Conjunction& way : choice) {
          if (!spend()) return;
          Branch one = so_far;
          uint32_t types = types_of(one.flat) & types_of(one.open);
          for (const JsonId schema : way) types &= type_of(schema);
          if (types == 0) continue;
          one.open.insert(one.open.end(), way.begin(), way.end());
          next.push_back(std::move(one));
          if (next.size() > kMostBranches) {
            problem(SchemaProblem::Kind::kTooLarge, branch.flat.empty() ? kNoJson : branch.flat.front(), "", "its alternatives multiply to more than 512");
            return;
          }
        }
      }
      now = std::move(next);
    }
    for (auto at = now.rbegin(); at != now.rend(); ++at) work.push_back(std::move(*at));
  }

  // Syntactically: what `type`, `enum` and `const` leave.
  uint32_t type_of(JsonId schema) const {
    if (doc_.kind(schema) == Kind::kFalse) return 0;
    if (doc_.kind(schema) != Kind::kObject) return kAll;
    uint32_t types = kAll;
    if (const JsonId type = doc_.member(schema, "type"); type != kNoJson) types &= types_listed(type);
    if (const JsonId values = doc_.member(schema, "enum"); doc_.is(values, Kind::kArray)) {
      uint32_t listed = 0;
      for (const JsonId value : doc_.items(values)) listed |= type_of_value(value);
      types &= listed;
    }
    if (const JsonId value = doc_.member(schema, "const"); value != kNoJson) types &= type_of_value(value);
    return types;
  }
  uint32_t types_listed(JsonId type) const {
    if (doc_.kind(type) == Kind::kString) return type_named(doc_.text(type));
    uint32_t types = 0;
    if (doc_.kind(type) == Kind::kArray)
      for (const JsonId one : doc_.items(type))
        if (doc_.is(one, Kind::kString)) types |= type_named(doc_.text(one));
    return types;
  }
  uint32_t type_of_value(JsonId value) const {
    switch (doc_.kind(value)) {
      case Kind::kNull: return kNull;
      case Kind::kFalse:
      case Kind::kTrue: return kBoolean;
      case Kind::kNumber: {
        const double number = doc_.number(value);
        return number == std::floor(number) ? kInteger : kFraction;
      }
      case Kind::kString: return kString;
      case Kind::kArray: return kArray;
      case Kind::kObject: return kObject;
    }
    return 0;
  }
  uint32_t types_of(const std::vector<JsonId>& schemas) const {
    uint32_t types = kAll;
    for (const JsonId schema : schemas) types &= type_of(schema);
    return types;
  }

  // ---- applicators ----

  void take(JsonId schema, Branch& branch, std::vector<std::vector<Conjunction>>& choices) {
    const JsonId ref = doc_.member(schema, "$ref");
    if (doc_.is(ref, Kind::kString)) {
      const JsonId target = resolve(schema, doc_.text(ref));
      if (target == kNoJson) return unsupported(schema, "$ref", "there is nothing at " + doc_.text(ref).substr(0, 200) + " within the schema");
      branch.open.push_back(target);
      if (ref_stands_alone_) return;
    }
    branch.flat.push_back(schema);
    check_unsupported(schema);
    for (const char* keyword : {"$dynamicRef", "$recursiveRef"})
      if (doc_.member(schema, keyword) != kNoJson) unsupported(schema, keyword, "dynamic references are not supported");
    if (const JsonId all = doc_.member(schema, "allOf"); all != kNoJson) {
      if (!is_list_of_schemas(all)) return invalid(schema, "allOf", "allOf is a list of schemas");
      const auto items = doc_.items(all);
      branch.open.insert(branch.open.end(), items.rbegin(), items.rend());
    }
    if (const JsonId any = doc_.member(schema, "anyOf"); any != kNoJson) {
      if (!is_list_of_schemas(any)) return invalid(schema, "anyOf", "anyOf is a list of schemas");
      std::vector<Conjunction> ways;
      for (const JsonId one : doc_.items(any)) ways.push_back({one});
      choices.push_back(std::move(ways));
    }
    if (const JsonId one = doc_.member(schema, "oneOf"); one != kNoJson) take_one_of(schema, one, choices);
    if (const JsonId no = doc_.member(schema, "not"); no != kNoJson) {
      const JsonId negated = negate(no);
      if (negated == kNoJson) unsupported(schema, "not", "the negation of this schema cannot be decided");
      else branch.open.push_back(negated);
    }
    if (const JsonId condition = doc_.member(schema, "if"); condition != kNoJson) take_if(schema, condition, choices);
    for (const char* keyword : {"dependentSchemas", "dependencies"}) {
      const JsonId all = doc_.member(schema, keyword);
      if (!doc_.is(all, Kind::kObject)) continue;
      for (const auto& [name, dependent] : doc_.members(all)) {
        if (doc_.kind(dependent) == Kind::kArray) continue;   // names: with the object's own keywords
        choices.push_back({{schema_without(name)}, {dependent}});
      }
    }
  }

  bool is_list_of_schemas(JsonId list) const {
    if (!doc_.is(list, Kind::kArray) || doc_.items(list).empty()) return false;
    return std::ranges::all_of(doc_.items(list), [&](JsonId one) {
      return doc_.kind(one) == Kind::kObject || doc_.kind(one) == Kind::kTrue || doc_.kind(one) == Kind::kFalse;
    });
  }

  void take_one_of(JsonId schema, JsonId list, std::vector<std::vector<Conjunction>>& choices) {
    if (!is_list_of_schemas(list)) return invalid(schema, "oneOf", "oneOf is a list of schemas");
    const std::vector<JsonId> ways(doc_.items(list).begin(), doc_.items(list).end());
    std::vector<Conjunction> exact(ways.size());
    for (size_t i = 0; i < ways.size(); ++i) exact[i].push_back(ways[i]);
    for (size_t i = 0; i < ways.size(); ++i) {
      for (size_t j = i + 1; j < ways.size(); ++j) {
        if (!spend()) return;
        if (exclude_each_other(ways[i], ways[j], 0)) continue;
        // Of each pair one has to be false: that of the two whose negation can be written.
        const JsonId not_j = negate(ways[j]), not_i = negate(ways[i]);
        if (not_j != kNoJson && not_i != kNoJson) {
          exact[i].push_back(not_j);
          exact[j].push_back(not_i);
          continue;
        }
        if (!options_.one_of_as_any_of) {
          unsupported(schema, "oneOf", "it cannot be shown that its branches " + std::to_string(i) + " and " + std::to_string(j) + " exclude one another");
          if (failed_) return;
        }
      }
    }
    choices.push_back(std::move(exact));
  }

  void take_if(JsonId schema, JsonId condition, std::vector<std::vector<Conjunction>>& choices) {
    const JsonId then = doc_.member(schema, "then"), other = doc_.member(schema, "else");
    if (then == kNoJson && other == kNoJson) return;
    const JsonId no = negate(condition);
    if (no == kNoJson) return unsupported(schema, "if", "the negation of this schema cannot be decided");
    Conjunction yes{condition}, otherwise{no};
    if (then != kNoJson) yes.push_back(then);
    if (other != kNoJson) otherwise.push_back(other);
    choices.push_back({std::move(yes), std::move(otherwise)});
  }

  // True only if surely no value fits both.
  bool exclude_each_other(JsonId a, JsonId b, int depth) {
    if (depth > 8) return false;
    a = through_refs(a);
    b = through_refs(b);
    if ((type_of(a) & type_of(b)) == 0) return true;
    if (doc_.kind(a) != Kind::kObject || doc_.kind(b) != Kind::kObject) return false;
    const std::vector<JsonId>* values_a = values_of(a);
    const std::vector<JsonId>* values_b = values_of(b);
    if (values_a && values_b) {
      return std::ranges::none_of(*values_a, [&](JsonId x) { return std::ranges::any_of(*values_b, [&](JsonId y) { return doc_.equal(x, y); }); });
    }
    // Through one of its parts.
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      if (const JsonId all = doc_.member(x, "allOf"); doc_.is(all, Kind::kArray))
        for (const JsonId one : doc_.items(all))
          if (exclude_each_other(one, y, depth + 1)) return true;
      for (const char* keyword : {"anyOf", "oneOf"}) {
        const JsonId any = doc_.member(x, keyword);
        if (doc_.is(any, Kind::kArray) && !doc_.items(any).empty() &&
            std::ranges::all_of(doc_.items(any), [&](JsonId one) { return exclude_each_other(one, y, depth + 1); }))
          return true;
      }
    }
    // Objects: a member both need and that cannot be alike, or that one needs and the other forbids.
    if ((type_of(a) & type_of(b)) != kObject) return false;
    for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)}) {
      const JsonId required = doc_.member(x, "required");
      if (!doc_.is(required, Kind::kArray)) continue;
      for (const JsonId name : doc_.items(required)) {
        if (!doc_.is(name, Kind::kString)) continue;
        const JsonId in_x = doc_.member(doc_.member(x, "properties"), doc_.text(name));
        const JsonId in_y = doc_.member(doc_.member(y, "properties"), doc_.text(name));
        if (in_y == kNoJson) {
          if (doc_.member(y, "patternProperties") == kNoJson && doc_.is(doc_.member(y, "additionalProperties"), Kind::kFalse)) return true;
          continue;
        }
        if (doc_.kind(in_y) == Kind::kFalse) return true;
        // Where y need not have it, it may be left out: but x needs it.
        if (in_x != kNoJson && exclude_each_other(in_x, in_y, depth + 1)) return true;
      }
    }
    return false;
  }

  JsonId through_refs(JsonId schema) {
    for (int i = 0; i < 16 && doc_.is(schema, Kind::kObject); ++i) {
      const JsonId ref = doc_.member(schema, "$ref");
      if (!doc_.is(ref, Kind::kString)) return schema;
      if (!ref_stands_alone_ && doc_.members(schema).size() > 1) return schema;
      const JsonId target = resolve(schema, doc_.text(ref));
      if (target == kNoJson) return schema;
      schema = target;
    }
    return schema;
  }

  const std::vector<JsonId>* values_of(JsonId schema) {
    const auto known = values_.find(schema);
    if (known != values_.end()) return known->second.empty() ? nullptr : &known->second;
    std::vector<JsonId>& values = values_[schema];
    if (const JsonId value = doc_.member(schema, "const"); value != kNoJson) values.push_back(value);
    else if (const JsonId list = doc_.member(schema, "enum"); doc_.is(list, Kind::kArray)) values.assign(doc_.items(list).begin(), doc_.items(list).end());
    return values.empty() ? nullptr : &values;
  }

  // ---- references ----

  JsonId resolve(JsonId from, const std::string& ref) {
    (void)from;
    if (ref.starts_with("#")) return at_fragment(root_, ref.substr(1));
    if (ids_.empty()) index_ids();
    const size_t hash = ref.find('#');
    const std::string base = ref.substr(0, hash);
    auto found = ids_.find(base);
    // A relative reference to a document named by an absolute id: by its last part.
    if (found == ids_.end()) {
      for (auto at = ids_.begin(); at != ids_.end(); ++at)
        if (at->first.ends_with("/" + base)) found = at;
    }
    if (found == ids_.end()) return kNoJson;
    return hash == std::string::npos ? found->second : at_fragment(found->second, ref.substr(hash + 1));
  }

  void index_ids() {
    ids_.emplace("\x01", kNoJson);
    for (JsonId id = 0; id < doc_.size(); ++id)
      for (const char* keyword : {"$id", "id"})
        if (const JsonId name = doc_.member(id, keyword); doc_.is(name, Kind::kString)) {
          std::string text = doc_.text(name);
          if (text.ends_with("#")) text.pop_back();
          if (!text.empty()) ids_.emplace(text, id);
        }
  }

  JsonId at_fragment(JsonId base, const std::string& fragment) {
    if (fragment.empty()) return base;
    if (fragment[0] != '/') {
      for (JsonId id = 0; id < doc_.size(); ++id) {
        for (const char* keyword : {"$anchor", "$dynamicAnchor"})
          if (const JsonId name = doc_.member(id, keyword); doc_.is(name, Kind::kString) && doc_.text(name) == fragment) return id;
        for (const char* keyword : {"$id", "id"})
          if (const JsonId name = doc_.member(id, keyword); doc_.is(name, Kind::kString) && doc_.text(name) == "#" + fragment) return id;
      }
      return kNoJson;
    }
    JsonId at = base;
    size_t begin = 1;
    while (begin <= fragment.size()) {
      size_t end = fragment.find('/', begin);
      if (end == std::string::npos) end = fragment.size();
      std::string step;
      for (size_t i = begin; i < end; ++i) {
        if (fragment[i] == '~' && i + 1 < end) step += fragment[++i] == '1' ? '/' : '~';
        else if (fragment[i] == '%' && i + 2 < end) step += static_cast<char>(std::strtol(fragment.substr(i + 1, 2).c_str(), nullptr, 16)), i += 2;
        else step += fragment[i];
      }
      if (doc_.is(at, Kind::kArray)) {
        const size_t index = static_cast<size_t>(std::strtoul(step.c_str(), nullptr, 10));
        at = index < doc_.items(at).size() ? doc_.items(at)[index] : kNoJson;
      } else {
        at = doc_.member(at, step);
      }
      if (at == kNoJson) return kNoJson;
      begin = end + 1;
    }
    return at;
  }

  // ---- negation ----

  JsonId boolean(bool value) { return doc_.add(value ? Kind::kTrue : Kind::kFalse); }
  JsonId object(std::vector<JsonDocument::Member> members) { return doc_.add_object(std::move(members)); }
  JsonId typed(const char* type, const char* keyword, JsonId value) { return object({{"type", doc_.add_string(type)}, {keyword, value}}); }
  JsonId schema_without(const std::string& name) {   // no object that has a member of the name
    const JsonId absent = object({{"properties", object({{name, boolean(false)}})}});
    return absent;
  }
  JsonId count(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f", value);
    return doc_.add_number(text);
  }

  // A schema that fits what `schema` does not; kNoJson if it cannot be written.
  JsonId negate(JsonId schema) {
    const auto known = negations_.find(schema);
    if (known != negations_.end()) return known->second;
    if (negating_ > 16 || !spend()) return kNoJson;
    ++negating_;
    const JsonId result = negation(schema);
    --negating_;
    negations_[schema] = result;
    return result;
  }

  JsonId negation(JsonId schema) {
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

  bool negate_keyword(JsonId schema, const std::string& name, JsonId value, std::vector<JsonId>& ways) {
    const auto number_plus = [&](double by) { return count(doc_.number(value) + by); };
    if (name == "type") {
      const uint32_t types = types_listed(value);
      std::vector<JsonId> others;
      const auto add = [&](uint32_t bits, const char* other) { if ((types & bits) == 0) others.push_back(doc_.add_string(other)); };
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
        ways.push_back(object({{"type", doc_.add_string("object")}, {"properties", object({{property, no}})}, {"required", doc_.add_array({doc_.add_string(property)})}}));
      }
    } else if (name == "pattern") {
      ways.push_back(typed("string", kNotPattern, value));
    } else if (name == "format") {
      if (doc_.is(value, Kind::kString) && format_pattern(doc_.text(value)) != nullptr) ways.push_back(typed("string", kNotFormat, value));
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
      const JsonId target = resolve(schema, doc_.text(value));
      const JsonId no = target == kNoJson ? kNoJson : negate(target);
      if (no == kNoJson) return false;
      ways.push_back(no);
    } else if (name == kNotEnum) {
      ways.push_back(object({{"enum", value}}));
    } else if (name == "items" || name == "prefixItems" || name == "additionalItems" || name == "contains" || name == "uniqueItems" ||
               name == "additionalProperties" || name == "patternProperties" || name == "propertyNames" || name == "oneOf" || name == "if" ||
               name == "dependencies" || name == "dependentSchemas" || name == "dependentRequired" || name == "$dynamicRef" ||
               name == "$recursiveRef" || name == "unevaluatedProperties" || name == "unevaluatedItems" || name == "minContains" ||
               name == kNotPattern || name == kNotFormat) {
      // What holds for everything says nothing.
      if (doc_.is(value, Kind::kTrue) && (name == "items" || name == "additionalProperties" || name == "additionalItems")) return true;
      if (doc_.is(value, Kind::kObject) && doc_.members(value).empty() && name != "oneOf" && name != "if") return true;
      if (doc_.is(value, Kind::kFalse) && name == "uniqueItems") return true;
      return false;
    }
    return true;
  }

  // ---- one branch ----

  void add_branch(ShapeId id, const std::vector<JsonId>& flat) {
    uint32_t types = types_of(flat);
    if (types == 0) return;
    const auto values = listed_values(flat);
    if (values) {
      for (const JsonId value : *values) add_value(id, flat, types, value);
      return;
    }
    ExprId scalar = ExpressionPool::kNothing;
    bool not_null = false, not_true = false, not_false = false;
    for (const JsonId value : excluded(flat)) {
      if (doc_.kind(value) == Kind::kNull) not_null = true;
      if (doc_.kind(value) == Kind::kTrue) not_true = true;
      if (doc_.kind(value) == Kind::kFalse) not_false = true;
      if (doc_.kind(value) == Kind::kObject && (types & kObject)) unsupported(flat.front(), "not", "objects cannot be excluded by value");
      if (doc_.kind(value) == Kind::kArray && (types & kArray)) unsupported(flat.front(), "not", "arrays cannot be excluded by value");
    }
    if ((types & kNull) && !not_null) scalar = pool_->either(scalar, pool_->literal("null"));
    if ((types & kBoolean) && !not_true) scalar = pool_->either(scalar, pool_->literal("true"));
    if ((types & kBoolean) && !not_false) scalar = pool_->either(scalar, pool_->literal("false"));
    if (types & kNumber) scalar = pool_->either(scalar, numbers(flat, types));
    // As the place: `either` over its branches.
    if (types & kString) {
      const ExprId string = strings(flat);
      out_->shapes_[id].string = pool_->either(out_->shapes_[id].string, string);
    }
    out_->shapes_[id].scalar = pool_->either(out_->shapes_[id].scalar, scalar);
    if (types & kArray) add_array(id, flat);
    if (types & kObject) add_object(id, flat);
  }

  void check_unsupported(JsonId schema) {
    if (!checked_.insert(schema).second) return;
    if (doc_.is(doc_.member(schema, "uniqueItems"), Kind::kTrue)) {
      const JsonId most = doc_.member(schema, "maxItems");
      if (!doc_.is(most, Kind::kNumber) || doc_.number(most) > 1) unsupported(schema, "uniqueItems", "items are not compared");
    }
    for (const char* keyword : {"contains", "minContains", "maxContains"})
      if (doc_.member(schema, keyword) != kNoJson) unsupported(schema, keyword, "items are not counted by what they are");
    for (const char* keyword : {"unevaluatedProperties", "unevaluatedItems"})
      if (const JsonId value = doc_.member(schema, keyword); value != kNoJson && doc_.kind(value) != Kind::kTrue)
        unsupported(schema, keyword, "what other keywords looked at is not remembered");
    if (const JsonId type = doc_.member(schema, "type"); type != kNoJson) {
      const auto known = [&](JsonId one) { return doc_.is(one, Kind::kString) && type_named(doc_.text(one)) != 0; };
      const bool good = doc_.kind(type) == Kind::kArray ? std::ranges::all_of(doc_.items(type), known) : known(type);
      if (!good) invalid(schema, "type", "there is no such type");
    }
  }

  std::optional<std::vector<JsonId>> listed_values(const std::vector<JsonId>& flat) {
    std::optional<std::vector<JsonId>> left;
    for (const JsonId schema : flat) {
      for (const char* keyword : {"enum", "const"}) {
        const JsonId given = doc_.member(schema, keyword);
        if (given == kNoJson) continue;
        std::vector<JsonId> values{given};
        if (keyword[0] == 'e') {
          if (!doc_.is(given, Kind::kArray)) {
            invalid(schema, keyword, "enum is a list of values");
            return left;
          }
          values.assign(doc_.items(given).begin(), doc_.items(given).end());
        }
        if (!spend(values.size())) return left;
        if (!left) left = values;
        else std::erase_if(*left, [&](JsonId one) { return std::ranges::none_of(values, [&](JsonId other) { return doc_.equal(one, other); }); });
      }
    }
    return left;
  }

  std::vector<JsonId> excluded(const std::vector<JsonId>& flat) const {
    std::vector<JsonId> values;
    for (const JsonId schema : flat)
      if (const JsonId list = doc_.member(schema, kNotEnum); list != kNoJson)
        for (const JsonId value : doc_.items(list)) values.push_back(value);
    return values;
  }

  // A value that is listed, as far as everything else allows it.
  void add_value(ShapeId id, const std::vector<JsonId>& flat, uint32_t types, JsonId value) {
    if (!spend() || (type_of_value(value) & types) == 0) return;
    Shape& shape = out_->shapes_[id];
    for (const JsonId no : excluded(flat))
      if (doc_.equal(no, value)) return;
    switch (doc_.kind(value)) {
      case Kind::kNull: shape.scalar = pool_->either(shape.scalar, pool_->literal("null")); return;
      case Kind::kTrue: shape.scalar = pool_->either(shape.scalar, pool_->literal("true")); return;
      case Kind::kFalse: shape.scalar = pool_->either(shape.scalar, pool_->literal("false")); return;
      case Kind::kNumber: {
        const ExprId wanted = numbers(flat, types);
        if (pool_->fits(wanted, doc_.text(value))) shape.scalar = pool_->either(shape.scalar, pool_->literal(doc_.text(value)));
        return;
      }
      case Kind::kString: {
        const ExprId wanted = strings(flat);
        if (wanted == ExpressionPool::kAnything || pool_->fits(wanted, doc_.text(value)))
          shape.string = pool_->either(shape.string, pool_->literal(doc_.text(value)));
        return;
      }
      default: {
        // As the schema that describes it, together with what else holds.
        std::vector<JsonId> all;
        for (const JsonId schema : flat) {
          const JsonId rest = without_values(schema);
          all.push_back(rest);
        }
        all.push_back(described(value));
        if (doc_.kind(value) == Kind::kArray) add_array(id, all);
        else add_object(id, all);
      }
    }
  }

  // The flat part of a schema without enum and const.
  JsonId without_values(JsonId schema) {
    const auto known = bare_.find(schema);
    if (known != bare_.end()) return known->second;
    std::vector<JsonDocument::Member> kept;
    for (const auto& member : doc_.members(schema))
      if (member.first != "enum" && member.first != "const") kept.push_back(member);
    return bare_[schema] = object(std::move(kept));
  }

  JsonId described(JsonId value) {
    if (doc_.kind(value) == Kind::kArray) {
      std::vector<JsonId> prefix;
      const std::vector<JsonId> items(doc_.items(value).begin(), doc_.items(value).end());
      for (const JsonId one : items) prefix.push_back(object({{"const", one}}));
      const double n = static_cast<double>(items.size());
      return object({{"type", doc_.add_string("array")}, {"prefixItems", doc_.add_array(std::move(prefix))}, {"items", boolean(false)},
                     {"minItems", count(n)}, {"maxItems", count(n)}});
    }
    std::vector<JsonDocument::Member> properties;
    std::vector<JsonId> required;
    const std::vector<JsonDocument::Member> members(doc_.members(value).begin(), doc_.members(value).end());
    for (const auto& [name, one] : members) {
      properties.emplace_back(name, object({{"const", one}}));
      required.push_back(doc_.add_string(name));
    }
    return object({{"type", doc_.add_string("object")}, {"properties", object(std::move(properties))},
                   {"required", doc_.add_array(std::move(required))}, {"additionalProperties", boolean(false)}});
  }

  // ---- scalars ----

  ExprId numbers(const std::vector<JsonId>& flat, uint32_t types) {
    NumberBounds bounds;
    std::vector<JsonId> multiples;
    const auto tighten = [&](std::optional<Decimal>& bound, bool& excluded, const Decimal& with, bool with_excluded, int sign) {
      const int order = bound ? sign * with.compare(*bound) : 1;
      if (order > 0) bound = with, excluded = with_excluded;
      else if (order == 0) excluded = excluded || with_excluded;
    };
    for (const JsonId schema : flat) {
      const auto bound = [&](const char* keyword, const char* exclusive, std::optional<Decimal>& to, bool& excluded, int sign) {
        const JsonId inclusive_value = doc_.member(schema, keyword);
        const JsonId exclusive_value = doc_.member(schema, exclusive);
        if (inclusive_value != kNoJson) {
          if (!doc_.is(inclusive_value, Kind::kNumber)) return invalid(schema, keyword, "a bound is a number");
          const auto decimal = Decimal::parse(doc_.text(inclusive_value));
          if (!decimal) {
            if (std::abs(doc_.number(inclusive_value)) < 1e60) unsupported(schema, keyword, "a bound with more than 64 digits");
          } else {
            tighten(to, excluded, *decimal, doc_.is(exclusive_value, Kind::kTrue), sign);
          }
        }
        if (doc_.is(exclusive_value, Kind::kNumber)) {
          const auto decimal = Decimal::parse(doc_.text(exclusive_value));
          if (!decimal) unsupported(schema, exclusive, "a bound with more than 64 digits");
          else tighten(to, excluded, *decimal, true, sign);
        }
      };
      bound("minimum", "exclusiveMinimum", bounds.least, bounds.above_least, 1);
      bound("maximum", "exclusiveMaximum", bounds.most, bounds.below_most, -1);
      if (const JsonId multiple = doc_.member(schema, "multipleOf"); multiple != kNoJson) multiples.push_back(multiple);
    }
    if (failed_) return ExpressionPool::kNothing;
    ExprId e = (types & kFraction) ? decimals(*pool_, bounds) : integers(*pool_, bounds);
    if ((types & kNumber) == kFraction) {   // only those that are no integers: not written by schemas
      e = pool_->both(e, pool_->negate(integers(*pool_, {})));
    }
    for (const JsonId multiple : multiples) e = pool_->both(e, multiples_of(multiple, types));
    for (const JsonId value : excluded(flat)) {
      if (doc_.kind(value) != Kind::kNumber) continue;
      const auto decimal = Decimal::parse(doc_.text(value));
      if (!decimal) continue;
      // However it is written without an exponent; with one it would be any of many.
      std::string text = (decimal->negative ? "-" : "") + decimal->whole;
      ExprId spelled = pool_->literal(text);
      const ExprId zeros = pool_->star(pool_->character('0'));
      if (!decimal->fraction.empty()) spelled = pool_->concat(spelled, pool_->concat(pool_->literal("." + decimal->fraction), zeros));
      else spelled = pool_->concat(spelled, pool_->either(ExpressionPool::kEmpty, pool_->concat(pool_->character('.'), zeros)));
      CodePointSet plain = CodePointSet::all().minus(CodePointSet::of('e')).minus(CodePointSet::of('E'));
      e = pool_->both({e, pool_->negate(spelled), pool_->star(pool_->set(plain))});
      if (decimal->is_zero()) e = pool_->both(e, pool_->negate(pool_->concat(pool_->character('-'), spelled)));
    }
    return e;
  }

  ExprId multiples_of(JsonId multiple, uint32_t types) {
    const auto decimal = doc_.is(multiple, Kind::kNumber) ? Decimal::parse(doc_.text(multiple)) : std::nullopt;
    if (!decimal || decimal->negative || decimal->is_zero()) {
      invalid(multiple, "multipleOf", "multipleOf is a number above 0");
      return ExpressionPool::kNothing;
    }
    const ExprId sign = pool_->either(ExpressionPool::kEmpty, pool_->character('-'));
    const ExprId zeros = pool_->star(pool_->character('0'));
    const ExprId point = pool_->character('.');
    if (decimal->is_whole()) {
      if (decimal->whole.size() > 6) {
        unsupported(multiple, "multipleOf", "a divisor above 999,999");
        return ExpressionPool::kAnything;
      }
      const ExprId whole = pool_->concat(sign, pool_->remainder(static_cast<uint32_t>(std::stoul(decimal->whole)), 0));
      if ((types & kFraction) == 0) return whole;
      return pool_->concat(whole, pool_->either(ExpressionPool::kEmpty, pool_->concat(point, pool_->repeat(pool_->character('0'), 1, kUnbounded))));
    }
    // 0.1, 0.01, …: a number of places.
    const std::string& fraction = decimal->fraction;
    if (decimal->whole == "0" && fraction.find_first_not_of('0') == fraction.size() - 1 && fraction.back() == '1') {
      const ExprId digit = pool_->set(CodePointSet::of('0', '9'));
      const ExprId whole = pool_->concat(sign, pool_->repeat(digit, 1, kUnbounded));
      const ExprId places = pool_->concat(pool_->repeat(digit, 0, static_cast<uint32_t>(fraction.size())), zeros);
      return pool_->concat(whole, pool_->either(ExpressionPool::kEmpty, pool_->concat(point, places)));
    }
    if ((types & kFraction) == 0 || fraction.size() > 5) {
      unsupported(multiple, "multipleOf", "a divisor with a fraction");
      return ExpressionPool::kAnything;
    }
    unsupported(multiple, "multipleOf", "a divisor with a fraction other than 0.1, 0.01, …");
    return ExpressionPool::kAnything;
  }

  std::optional<uint32_t> count_of(JsonId schema, const char* keyword) {
    const JsonId value = doc_.member(schema, keyword);
    if (value == kNoJson) return std::nullopt;
    const double number = doc_.is(value, Kind::kNumber) ? doc_.number(value) : -1;
    if (number < 0 || number != std::floor(number)) {
      invalid(schema, keyword, std::string(keyword) + " is a whole number from 0");
      return std::nullopt;
    }
    return static_cast<uint32_t>(std::min(number, 4e9));
  }

  ExprId strings(const std::vector<JsonId>& flat) {
    std::vector<ExprId> all;
    uint32_t least = 0, most = kUnbounded;
    for (const JsonId schema : flat) {
      if (const auto n = count_of(schema, "minLength")) least = std::max(least, *n);
      if (const auto n = count_of(schema, "maxLength")) most = std::min(most, *n);
      for (const char* keyword : {"pattern", kNotPattern}) {
        const JsonId pattern = doc_.member(schema, keyword);
        if (pattern == kNoJson) continue;
        if (!doc_.is(pattern, Kind::kString)) {
          invalid(schema, keyword, "a pattern is a string");
          continue;
        }
        const ExprId e = found(schema, keyword, doc_.text(pattern));
        all.push_back(keyword == std::string_view(kNotPattern) ? pool_->negate(e) : e);
      }
      for (const char* keyword : {"format", kNotFormat}) {
        const JsonId format = doc_.member(schema, keyword);
        if (!doc_.is(format, Kind::kString)) continue;
        const char* pattern = format_pattern(doc_.text(format));
        if (pattern == nullptr) {
          for (const char* known : {"regex", "idn-email", "idn-hostname", "uri-template"})
            if (doc_.text(format) == known) unsupported(schema, "format", std::string("the format ") + known);
          continue;   // an annotation
        }
        const ExprId e = regex(pattern).regex.whole(*pool_);
        all.push_back(keyword == std::string_view(kNotFormat) ? pool_->negate(e) : e);
      }
    }
    for (const JsonId value : excluded(flat))
      if (doc_.kind(value) == Kind::kString) all.push_back(pool_->negate(pool_->literal(doc_.text(value))));
    if (least > most) return ExpressionPool::kNothing;
    if (least > 0 || most != kUnbounded) all.push_back(pool_->repeat(any_character_, least, most));
    const ExprId e = all.empty() ? ExpressionPool::kAnything : pool_->both(std::move(all));
    return pool_->alive(e) ? e : ExpressionPool::kNothing;
  }

  ExprId found(JsonId schema, const char* keyword, const std::string& pattern) {
    const RegexEntry& entry = regex(pattern);
    if (!entry.usable) {
      if (entry.problem.unsupported) unsupported(schema, keyword, "the pattern has " + entry.problem.what);
      else invalid(schema, keyword, "the pattern is no regular expression: " + entry.problem.what);
      return ExpressionPool::kAnything;
    }
    const auto known = found_.find(pattern);
    if (known != found_.end()) return known->second;
    return found_[pattern] = entry.regex.found_in(*pool_);
  }

  // ---- arrays ----

  void add_array(ShapeId id, const std::vector<JsonId>& flat) {
    ArrayShape array;
    struct Part { std::vector<JsonId> prefix; JsonId rest; };
    std::vector<Part> parts;
    size_t n_prefix = 0;
    for (const JsonId schema : flat) {
      if (const auto n = count_of(schema, "minItems")) array.least = std::max(array.least, *n);
      if (const auto n = count_of(schema, "maxItems")) array.most = std::min(array.most, *n);
      Part part{{}, kNoJson};
      const JsonId items = doc_.member(schema, "items");
      JsonId prefix = doc_.member(schema, "prefixItems");
      if (doc_.is(items, Kind::kArray)) {
        prefix = items;
        part.rest = doc_.member(schema, "additionalItems");
      } else {
        part.rest = items;
      }
      if (doc_.is(prefix, Kind::kArray)) part.prefix.assign(doc_.items(prefix).begin(), doc_.items(prefix).end());
      if (part.prefix.empty() && part.rest == kNoJson) continue;
      n_prefix = std::max(n_prefix, part.prefix.size());
      parts.push_back(std::move(part));
    }
    if (array.least > array.most || !spend(n_prefix)) return;
    const auto at = [&](size_t index) {
      Conjunction all;
      for (const Part& part : parts) {
        if (index < part.prefix.size()) all.push_back(part.prefix[index]);
        else if (part.rest != kNoJson) all.push_back(part.rest);
      }
      return shape_of(std::move(all));
    };
    for (size_t i = 0; i < n_prefix && i < array.most; ++i) array.prefix.push_back(at(i));
    if (array.most > n_prefix) array.rest = at(n_prefix);
    out_->arrays_.push_back(std::move(array));
    out_->shapes_[id].arrays.push_back(static_cast<uint32_t>(out_->arrays_.size() - 1));
  }

  // ---- objects ----

  struct ObjectPart {
    JsonId schema, properties, patterns, additional, names;
    std::vector<std::pair<ExprId, JsonId>> pattern_list;
  };

  void add_object(ShapeId id, const std::vector<JsonId>& flat) {
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
    for (const JsonId schema : flat) {
      if (const auto n = count_of(schema, "minProperties")) object.least = std::max(object.least, *n);
      if (const auto n = count_of(schema, "maxProperties")) object.most = std::min(object.most, *n);
      ObjectPart part{schema, doc_.member(schema, "properties"), doc_.member(schema, "patternProperties"),
                      doc_.member(schema, "additionalProperties"), doc_.member(schema, "propertyNames"), {}};
      if (part.properties != kNoJson) {
        if (!doc_.is(part.properties, Kind::kObject)) return invalid(schema, "properties", "properties is an object of schemas");
        for (const auto& member : doc_.members(part.properties)) place(member.first);
      }
      if (part.patterns != kNoJson) {
        if (!doc_.is(part.patterns, Kind::kObject)) return invalid(schema, "patternProperties", "patternProperties is an object of schemas");
        for (const auto& [pattern, inner] : doc_.members(part.patterns)) part.pattern_list.emplace_back(found(schema, "patternProperties", pattern), inner);
      }
      if (part.names != kNoJson) {
        // Names are strings: the strings of the schema they have to fit.
        const ExprId rule = names_fitting(part.names);
        if (failed_) return;
        name_rules.push_back(rule);
      }
      if (const JsonId list = doc_.member(schema, "required"); doc_.is(list, Kind::kArray))
        for (const JsonId name : doc_.items(list))
          if (doc_.is(name, Kind::kString)) required.push_back(doc_.text(name));
      parts.push_back(std::move(part));
    }
    for (const std::string& name : required) place(name);
    std::vector<std::pair<uint32_t, std::vector<uint32_t>>> needs;
    for (const JsonId schema : flat)
      for (const char* keyword : {"dependentRequired", "dependencies"}) {
        const JsonId all = doc_.member(schema, keyword);
        if (!doc_.is(all, Kind::kObject)) continue;
        for (const auto& [name, list] : doc_.members(all)) {
          if (!doc_.is(list, Kind::kArray)) continue;
          std::vector<uint32_t> needed;
          for (const JsonId one : doc_.items(list))
            if (doc_.is(one, Kind::kString)) needed.push_back(place(doc_.text(one)));
          needs.emplace_back(place(name), std::move(needed));
        }
      }
    if (!spend(names.size() * parts.size())) return;
    const ExprId all_names = name_rules.empty() ? ExpressionPool::kAnything : pool_->both(std::vector<ExprId>(name_rules));
    for (const std::string& name : names) {
      Conjunction all;
      bool allowed = all_names == ExpressionPool::kAnything || pool_->fits(all_names, name);
      for (const ObjectPart& part : parts) {
        bool seen = false;
        if (const JsonId own = doc_.member(part.properties, name); own != kNoJson) all.push_back(own), seen = true;
        for (const auto& [pattern, inner] : part.pattern_list)
          if (pool_->fits(pattern, name)) all.push_back(inner), seen = true;
        if (!seen && part.additional != kNoJson) all.push_back(part.additional);
      }
      for (const JsonId schema : all)
        if (doc_.kind(schema) == Kind::kFalse) allowed = false;
      object.properties.push_back({name, allowed ? shape_of(std::move(all)) : kNoShape, false});
    }
    for (const std::string& name : required) object.properties[places[name]].required = true;
    object.needs = std::move(needs);

    std::vector<ExprId> others;
    if (all_names != ExpressionPool::kAnything) others.push_back(all_names);
    std::vector<ExprId> listed;
    for (const std::string& name : names) listed.push_back(pool_->literal(name));
    if (!listed.empty()) others.push_back(pool_->negate(pool_->either(std::move(listed))));
    add_others(object, parts, others.empty() ? ExpressionPool::kAnything : pool_->both(std::move(others)));
    if (failed_) return;
    out_->objects_.push_back(std::move(object));
    out_->shapes_[id].objects.push_back(static_cast<uint32_t>(out_->objects_.size() - 1));
  }

  // Names that are no property's, by which patterns they match.
  void add_others(ObjectShape& object, const std::vector<ObjectPart>& parts, ExprId names) {
    std::vector<ExprId> patterns;
    for (const ObjectPart& part : parts)
      for (const auto& [pattern, schema] : part.pattern_list)
        if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end()) patterns.push_back(pattern);
    struct Kinds { ExprId names; std::vector<ExprId> matched; };
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
        problem(SchemaProblem::Kind::kTooLarge, parts.front().schema, "patternProperties", "its patterns overlap in more than 64 ways");
        return;
      }
    }
    for (const Kinds& kind : kinds) {
      Conjunction all;
      bool allowed = true;
      for (const ObjectPart& part : parts) {
        bool seen = false;
        for (const auto& [pattern, schema] : part.pattern_list)
          if (std::find(kind.matched.begin(), kind.matched.end(), pattern) != kind.matched.end()) all.push_back(schema), seen = true;
        if (!seen && part.additional != kNoJson) all.push_back(part.additional);
      }
      for (const JsonId schema : all)
        if (doc_.kind(schema) == Kind::kFalse) allowed = false;
      if (!allowed || !pool_->alive(kind.names)) continue;
      object.others.push_back({kind.names, shape_of(std::move(all))});
    }
  }

  ExprId names_fitting(JsonId schema) {
    std::vector<Branch> done;
    branches({schema, doc_.add_object({{"type", doc_.add_string("string")}})}, done);
    ExprId e = ExpressionPool::kNothing;
    for (const Branch& branch : done) {
      if (failed_) break;
      const auto values = listed_values(branch.flat);
      const ExprId all = strings(branch.flat);
      if (!values) e = pool_->either(e, all);
      else
        for (const JsonId value : *values)
          if (doc_.kind(value) == Kind::kString && pool_->fits(all, doc_.text(value))) e = pool_->either(e, pool_->literal(doc_.text(value)));
    }
    return e;
  }

  // ---- what can be completed ----

  // Takes away what never could be; false if that is the root. A least fixed point: a shape counts once something
  // of it can be completed with what counts already.
  bool prune() {
    auto& shapes = out_->shapes_;
    std::vector<bool> good(shapes.size(), false);
    for (Shape& shape : shapes) {
      if (!pool_->alive(shape.scalar)) shape.scalar = ExpressionPool::kNothing;
      if (!pool_->alive(shape.string)) shape.string = ExpressionPool::kNothing;
    }
    const auto object_is_good = [&](const ObjectShape& object) {
      uint32_t possible = 0, required = 0;
      for (const auto& property : object.properties) {
        const bool can = property.shape != kNoShape && good[property.shape];
        if (property.required && !can) return false;
        required += property.required;
        possible += can;
      }
      const bool endless = std::ranges::any_of(object.others, [&](const auto& other) { return good[other.shape]; });
      if (required > object.most) return false;
      return endless || possible >= object.least;
    };
    const auto array_is_good = [&](const ArrayShape& array) {
      uint32_t can = 0;
      while (can < array.prefix.size() && good[array.prefix[can]]) ++can;
      if (can >= array.least) return true;
      return can == array.prefix.size() && array.rest != kNoShape && good[array.rest];
    };
    for (bool changed = true; changed;) {
      changed = false;
      if (!spend(shapes.size())) return false;
      for (ShapeId id = 0; id < shapes.size(); ++id) {
        if (good[id]) continue;
        const Shape& shape = shapes[id];
        good[id] = shape.scalar != ExpressionPool::kNothing || shape.string != ExpressionPool::kNothing ||
                   std::ranges::any_of(shape.objects, [&](uint32_t o) { return object_is_good(out_->objects_[o]); }) ||
                   std::ranges::any_of(shape.arrays, [&](uint32_t a) { return array_is_good(out_->arrays_[a]); });
        changed = changed || good[id];
      }
    }
    for (Shape& shape : shapes) {
      std::erase_if(shape.objects, [&](uint32_t o) { return !object_is_good(out_->objects_[o]); });
      std::erase_if(shape.arrays, [&](uint32_t a) { return !array_is_good(out_->arrays_[a]); });
    }
    for (ObjectShape& object : out_->objects_) {
      for (auto& property : object.properties)
        if (property.shape != kNoShape && !good[property.shape]) property.shape = kNoShape;
      std::erase_if(object.others, [&](const auto& other) { return !good[other.shape]; });
    }
    for (ArrayShape& array : out_->arrays_) {
      for (uint32_t i = 0; i < array.prefix.size(); ++i) {
        if (good[array.prefix[i]]) continue;
        array.most = std::min(array.most, i);
        break;
      }
      if (array.rest != kNoShape && !good[array.rest]) array.rest = kNoShape;
      if (array.rest == kNoShape) array.most = std::min(array.most, static_cast<uint32_t>(array.prefix.size()));
    }
    return good[out_->root_];
  }

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
  std::map<std::string, JsonId> ids_;
  std::set<JsonId> checked_;
};

std::unique_ptr<Schema> Schema::compile(std::string_view json, const SchemaOptions& options, std::vector<SchemaProblem>& problems) {
  return SchemaCompiler(options, problems).run(json);
}

std::unique_ptr<Schema> Schema::regex(std::string_view pattern, const SchemaOptions& options, std::vector<SchemaProblem>& problems) {
  const auto problem = [&](SchemaProblem::Kind kind, std::string what) {
    problems.push_back({kind, "", "", std::move(what)});
    return nullptr;
  };
  Regex regex;
  Regex::Problem error;
  if (!Regex::parse(pattern, regex, error))
    return problem(error.unsupported ? SchemaProblem::Kind::kUnsupported : SchemaProblem::Kind::kInvalid,
                   error.unsupported ? "the pattern has " + error.what : "the pattern is no regular expression: " + error.what);
  auto schema = std::make_unique<Schema>();
  regex.separate(schema->partition_);
  if (!schema->partition_.freeze()) return problem(SchemaProblem::Kind::kTooLarge, "the pattern tells more than 4,096 kinds of characters apart");
  schema->pool_ = std::make_unique<ExpressionPool>(schema->partition_, options.most_expressions);
  schema->pool_->fuel() = options.fuel;
  schema->text_ = regex.whole(*schema->pool_);
  const bool possible = schema->pool_->alive(schema->text_);
  if (schema->pool_->failed()) return problem(SchemaProblem::Kind::kTooLarge, "the pattern is too complex");
  if (!possible) return problem(SchemaProblem::Kind::kImpossible, "no text matches the pattern");
  return schema;
}

std::unique_ptr<Schema> Schema::rules(std::string_view text, const SchemaOptions& options, std::vector<SchemaProblem>& problems) {
  const auto problem = [&](SchemaProblem::Kind kind, std::string what) {
    problems.push_back({kind, "", "", std::move(what)});
    return nullptr;
  };
  RuleTree tree;
  std::string what;
  if (!RuleTree::parse(text, tree, what)) return problem(SchemaProblem::Kind::kInvalid, "the grammar is wrong: " + what);
  auto schema = std::make_unique<Schema>();
  tree.separate(schema->partition_);
  if (!schema->partition_.freeze()) return problem(SchemaProblem::Kind::kTooLarge, "the grammar tells more than 4,096 kinds of characters apart");
  schema->pool_ = std::make_unique<ExpressionPool>(schema->partition_, options.most_expressions);
  schema->pool_->fuel() = options.fuel;
  schema->text_ = texts_of_rules(tree, *schema->pool_, what);
  if (schema->pool_->failed()) return problem(SchemaProblem::Kind::kTooLarge, what.empty() ? "the grammar is too complex" : "the grammar is too complex: " + what);
  if (schema->text_ == ExpressionPool::kNothing) return problem(SchemaProblem::Kind::kImpossible, what);
  return schema;
}

std::unique_ptr<Schema> Schema::choice(std::span<const std::string> texts, const SchemaOptions& options, std::vector<SchemaProblem>& problems) {
  auto schema = std::make_unique<Schema>();
  for (const std::string& text : texts) {
    for (std::string_view left = text; !left.empty();) {
      const Utf8Char c = decode_utf8(left);
      if (c.code_point != kInvalidByte) schema->partition_.separate(c.code_point);
      left.remove_prefix(c.size);
    }
  }
  const auto problem = [&](SchemaProblem::Kind kind, std::string what) {
    problems.push_back({kind, "", "", std::move(what)});
    return nullptr;
  };
  if (!schema->partition_.freeze()) return problem(SchemaProblem::Kind::kTooLarge, "the choices have more than 4,096 different characters");
  schema->pool_ = std::make_unique<ExpressionPool>(schema->partition_, options.most_expressions);
  schema->pool_->fuel() = options.fuel;
  std::vector<ExprId> ways;
  for (const std::string& text : texts) ways.push_back(schema->pool_->literal(text));
  schema->text_ = schema->pool_->either(std::move(ways));
  if (schema->pool_->failed()) return problem(SchemaProblem::Kind::kTooLarge, "the choices are too long");
  if (schema->text_ == ExpressionPool::kNothing) return problem(SchemaProblem::Kind::kImpossible, "there is no choice");
  return schema;
}

size_t Schema::bytes() const {
  size_t bytes = pool_->bytes() + shapes_.size() * sizeof(Shape) + arrays_.size() * sizeof(ArrayShape) + objects_.size() * sizeof(ObjectShape);
  for (const ObjectShape& object : objects_)
    bytes += object.properties.size() * (sizeof(ObjectShape::Property) + 32) + object.others.size() * sizeof(ObjectShape::OtherNames) + object.needs.size() * 64;
  return bytes + partition_.n_classes() * 64;
}

std::unique_ptr<Schema> Schema::any_json(bool objects_only) {
  std::vector<SchemaProblem> problems;
  return compile(objects_only ? R"({"type":"object"})" : "true", {}, problems);
}

}  // namespace monolith::grammar
