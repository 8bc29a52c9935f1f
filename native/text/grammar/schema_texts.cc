// Grammars for plain text instead of JSON: regular expressions, rules and choices.
#include <utility>

#include "text/grammar/regex.h"
#include "text/grammar/rule_expressions.h"
#include "text/grammar/schema.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {

std::unique_ptr<Schema> Schema::regex(std::string_view pattern, const SchemaOptions& options,
                                      std::vector<SchemaProblem>& problems) {
  const auto problem = [&](SchemaProblem::Kind kind, std::string what) {
    problems.push_back({kind, "", "", std::move(what)});
    return nullptr;
  };
  Regex regex;
  Regex::Problem error;
  if (!Regex::parse(pattern, regex, error))
    return problem(error.unsupported ? SchemaProblem::Kind::kUnsupported : SchemaProblem::Kind::kInvalid,
                   error.unsupported ? "the pattern contains " + error.what
                                     : "the pattern is not a valid regular expression: " + error.what);
  auto schema = std::make_unique<Schema>();
  regex.separate(schema->partition_);
  if (!schema->partition_.freeze())
    return problem(SchemaProblem::Kind::kTooLarge, "the pattern distinguishes more than 4,096 classes of characters");
  schema->pool_ = std::make_unique<ExpressionPool>(schema->partition_, options.most_expressions);
  schema->pool_->fuel() = options.fuel;
  schema->text_ = regex.whole(*schema->pool_);
  const bool possible = schema->pool_->alive(schema->text_);
  if (schema->pool_->failed()) return problem(SchemaProblem::Kind::kTooLarge, "the pattern is too complex");
  if (!possible) return problem(SchemaProblem::Kind::kImpossible, "no text matches the pattern");
  return schema;
}

std::unique_ptr<Schema> Schema::rules(std::string_view text, const SchemaOptions& options,
                                      std::vector<SchemaProblem>& problems, RuleNotation notation) {
  const auto problem = [&](SchemaProblem::Kind kind, std::string what) {
    problems.push_back({kind, "", "", std::move(what)});
    return nullptr;
  };
  RuleTree tree;
  std::string what;
  const auto parse = notation == RuleNotation::kLark ? RuleTree::parse_lark : RuleTree::parse_gbnf;
  if (!parse(text, tree, what)) return problem(SchemaProblem::Kind::kInvalid, "the grammar is invalid: " + what);
  auto schema = std::make_unique<Schema>();
  tree.separate(schema->partition_);
  if (!schema->partition_.freeze())
    return problem(SchemaProblem::Kind::kTooLarge, "the grammar distinguishes more than 4,096 classes of characters");
  schema->pool_ = std::make_unique<ExpressionPool>(schema->partition_, options.most_expressions);
  schema->pool_->fuel() = options.fuel;
  schema->text_ = texts_of_rules(tree, *schema->pool_, what);
  if (schema->pool_->failed())
    return problem(SchemaProblem::Kind::kTooLarge,
                   what.empty() ? "the grammar is too complex" : "the grammar is too complex: " + what);
  if (schema->text_ == ExpressionPool::kNothing) return problem(SchemaProblem::Kind::kImpossible, what);
  return schema;
}

std::unique_ptr<Schema> Schema::choice(std::span<const std::string> texts, const SchemaOptions& options,
                                       std::vector<SchemaProblem>& problems) {
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
  if (!schema->partition_.freeze())
    return problem(SchemaProblem::Kind::kTooLarge, "the choices have more than 4,096 different characters");
  schema->pool_ = std::make_unique<ExpressionPool>(schema->partition_, options.most_expressions);
  schema->pool_->fuel() = options.fuel;
  schema->text_ = schema->pool_->literals({texts.begin(), texts.end()});
  if (schema->pool_->failed()) return problem(SchemaProblem::Kind::kTooLarge, "the choices are too long");
  if (schema->text_ == ExpressionPool::kNothing)
    return problem(SchemaProblem::Kind::kImpossible, "the list of choices is empty");
  return schema;
}

}  // namespace monolith::grammar
