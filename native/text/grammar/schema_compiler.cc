// The Schema class and the main compilation steps: collecting characters, defining shapes, reporting unsupported
// keywords.
#include "text/grammar/schema_compiler.h"

#include <cmath>

#include "text/grammar/formats.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {

std::unique_ptr<Schema> SchemaCompiler::run(std::string_view json) {
  auto schema = std::make_unique<Schema>();
  out_ = schema.get();
  std::string error;
  if (!doc_.parse(json, root_, error)) {
    problem(SchemaProblem::Kind::kInvalid, json::kAbsent, "", "the schema is not valid JSON: " + error);
    return nullptr;
  }
  if (!doc_.is(root_, Kind::kObject) && !doc_.is(root_, Kind::kTrue) && !doc_.is(root_, Kind::kFalse)) {
    problem(SchemaProblem::Kind::kInvalid, root_, "", "a schema must be an object or a boolean");
    return nullptr;
  }
  const json::Id dialect = doc_.member(root_, "$schema");
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
  if (pool_->failed() && !failed_)
    problem(SchemaProblem::Kind::kTooLarge, json::kAbsent, "", "the schema's patterns are too complex");
  if (failed_) return nullptr;
  bool possible = prune();
  if (possible && !pool_->failed() && !unique_.empty()) {
    compare_items();
    if (failed_) return nullptr;
    possible = prune();  // Some arrays may need more distinct items than exist.
  }
  // If the pool has failed, the result of prune() is meaningless.
  if (pool_->failed())
    problem(SchemaProblem::Kind::kTooLarge, json::kAbsent, "", "the schema's patterns are too complex");
  else if (!possible)
    problem(SchemaProblem::Kind::kImpossible, root_, "", "no value fits the schema");
  return failed_ ? nullptr : std::move(schema);
}

void SchemaCompiler::problem(SchemaProblem::Kind kind, json::Id at, std::string_view keyword, std::string what) {
  const bool fatal = kind != SchemaProblem::Kind::kUnsupported || options_.strict;
  if (fatal && failed_) return;
  if (!fatal && problems_.size() >= 32) return;
  problems_.push_back({kind, pointer_to(at), std::string(keyword), std::move(what)});
  failed_ = failed_ || fatal;
}

bool SchemaCompiler::spend(size_t steps) {
  steps_ += steps;
  if (steps_ > options_.most_steps || (pool_ && !pool_->fuel().spend(steps))) takes_too_long();
  return !failed_;
}

// Finds the JSON pointer of a schema with a breadth-first search. Used only for error messages.
std::string SchemaCompiler::pointer_to(json::Id wanted) const {
  if (wanted == json::kAbsent) return "";
  struct Place {
    json::Id id;
    size_t parent;
    std::string step;
  };
  std::vector<Place> places{{root_, SIZE_MAX, ""}};
  for (size_t at = 0; at < places.size(); ++at) {
    if (places[at].id == wanted) {
      std::string out;
      for (size_t p = at; places[p].parent != SIZE_MAX; p = places[p].parent) {
        std::string step = "/";
        for (const char c : places[p].step) {
          if (c == '~')
            step += "~0";
          else if (c == '/')
            step += "~1";
          else
            step += c;
        }
        out = step + out;
      }
      return out.size() > 512 ? out.substr(0, 512) : out;
    }
    const json::Id id = places[at].id;
    if (doc_.kind(id) == Kind::kObject) {
      for (const auto& [name, child] : doc_.members(id)) places.push_back({child, at, name});
    } else if (doc_.kind(id) == Kind::kArray) {
      const auto items = doc_.items(id);
      for (size_t i = 0; i < items.size(); ++i) places.push_back({items[i], at, std::to_string(i)});
    }
  }
  return "";
}

// Collects the characters that any expression will have to distinguish: the characters in every string, pattern and
// format of the schema.
bool SchemaCompiler::gather_characters() {
  CharPartition& partition = out_->partition_;
  for (const char c : std::string_view("+-.0123456789eEnulltruefalse")) partition.separate(static_cast<uint32_t>(c));
  std::set<std::string> formats;
  for (json::Id id = 0; id < doc_.size(); ++id)
    if (doc_.kind(id) == Kind::kObject) read_text_grammar(id);
  if (failed_) return false;
  for (json::Id id = 0; id < doc_.size(); ++id) {
    if (doc_.kind(id) == Kind::kObject) {
      for (const auto& [name, child] : doc_.members(id)) {
        separate_text(name);
        if (name == "pattern" && doc_.is(child, Kind::kString)) regex(doc_.text(child));
        if (name == "format" && doc_.is(child, Kind::kString)) formats.insert(doc_.text(child));
        if (name == "patternProperties" && doc_.is(child, Kind::kObject))
          for (const auto& member : doc_.members(child)) regex(member.first);
      }
    } else if (doc_.kind(id) == Kind::kString && id != text_grammar_) {
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
  if (options_.spelling) options_.spelling->separate(partition);
  if (partition.freeze()) return true;
  problem(SchemaProblem::Kind::kTooLarge, json::kAbsent, "",
          "the schema distinguishes more than 4,096 classes of characters");
  return false;
}

// Parses the value of the schema's internal keyword (kRegexKeyword or kLarkKeyword), if present, and adds the
// characters that it distinguishes to the partition.
void SchemaCompiler::read_text_grammar(json::Id schema) {
  for (const char* keyword : {kRegexKeyword, kLarkKeyword}) {
    const json::Id value = doc_.member(schema, keyword);
    if (value == json::kAbsent) continue;
    if (!doc_.is(value, Kind::kString) || text_grammar_ != json::kAbsent)
      return invalid(schema, keyword, "a schema may contain at most one grammar for a string");
    text_grammar_ = value;
    std::string what;
    if (keyword == std::string_view(kLarkKeyword)) {
      if (!RuleTree::parse_lark(doc_.text(value), text_rules_, what))
        return invalid(schema, keyword, "the grammar is invalid: " + what);
      text_rules_.separate(out_->partition_);
      continue;
    }
    Regex::Problem problem;
    if (!Regex::parse(doc_.text(value), text_regex_, problem, RegexDialect::kPython))
      return invalid(schema, keyword,
                     problem.unsupported ? "the pattern contains " + problem.what
                                         : "the pattern is not a valid regular expression: " + problem.what);
    text_regex_.separate(out_->partition_);
  }
}

// Makes each character of a string a separate class. This is done for all strings of the schema, because any of them
// may turn out to be a member name or an enumerated value.
void SchemaCompiler::separate_text(const std::string& text) {
  std::string_view left = text;
  while (!left.empty()) {
    const Utf8Char c = decode_utf8(left);
    if (c.code_point != kInvalidByte) out_->partition_.separate(c.code_point);
    left.remove_prefix(c.size);
  }
}

SchemaCompiler::RegexEntry& SchemaCompiler::regex(const std::string& pattern) {
  const auto [found, is_new] = regexes_.try_emplace(pattern);
  if (is_new) found->second.usable = Regex::parse(pattern, found->second.regex, found->second.problem);
  return found->second;
}

void SchemaCompiler::check_unsupported(json::Id schema) {
  if (!checked_.insert(schema).second) return;
  for (const char* keyword : {"unevaluatedProperties", "unevaluatedItems"})
    if (const json::Id value = doc_.member(schema, keyword); value != json::kAbsent && doc_.kind(value) != Kind::kTrue)
      unsupported(schema, keyword, "evaluated members are not tracked");
  if (const json::Id type = doc_.member(schema, "type"); type != json::kAbsent) {
    const auto known = [&](json::Id one) { return doc_.is(one, Kind::kString) && type_named(doc_.text(one)) != 0; };
    const bool good = doc_.kind(type) == Kind::kArray ? std::ranges::all_of(doc_.items(type), known) : known(type);
    if (!good) invalid(schema, "type", "the type is unknown");
  }
}

std::optional<uint32_t> SchemaCompiler::count_of(json::Id schema, const char* keyword) {
  const json::Id value = doc_.member(schema, keyword);
  if (value == json::kAbsent) return std::nullopt;
  const double number = doc_.is(value, Kind::kNumber) ? doc_.number(value) : -1;
  if (number < 0 || number != std::floor(number)) {
    invalid(schema, keyword, std::string(keyword) + " must be an integer of at least 0");
    return std::nullopt;
  }
  return static_cast<uint32_t>(std::min(number, 4e9));
}

std::unique_ptr<Schema> Schema::compile(std::string_view json, const SchemaOptions& options,
                                        std::vector<SchemaProblem>& problems) {
  return SchemaCompiler(options, problems).run(json);
}

size_t Schema::bytes() const {
  size_t bytes = pool_->bytes() + shapes_.size() * sizeof(Shape) + arrays_.size() * sizeof(ArrayShape) +
                 objects_.size() * sizeof(ObjectShape);
  for (const ObjectShape& object : objects_)
    bytes += object.properties.size() * (sizeof(ObjectShape::Property) + 32) +
             object.others.size() * sizeof(ObjectShape::OtherNames) + object.needs.size() * 64;
  return bytes + partition_.n_classes() * 64;
}

std::unique_ptr<Schema> Schema::any_json(bool objects_only) {
  std::vector<SchemaProblem> problems;
  return compile(objects_only ? R"({"type":"object"})" : "true", {}, problems);
}

}  // namespace monolith::grammar
