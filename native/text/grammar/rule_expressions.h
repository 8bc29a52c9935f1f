// Rules as expressions, so that a text of them is followed by derivatives like any other. Whatever can be written as
// rules is served, left recursion too: rules that begin with one another are solved for what they begin with.
#pragma once

#include <string>

#include "text/grammar/expression.h"
#include "text/grammar/rule_text.h"

namespace monolith::grammar {

// The texts of the rule called root; the pool's partition has been separated by the tree. kNothing if there are none,
// and then `problem` says why, or if the pool has failed.
ExprId texts_of_rules(const RuleTree& tree, ExpressionPool& pool, std::string& problem);

}  // namespace monolith::grammar
