// Tracks the progress within an object: the members that may come next, and whether the object may end.
#include "text/grammar/automaton.h"

#include <algorithm>

#include "text/grammar/object_members.h"

namespace monolith::grammar {
namespace {

bool has(const std::vector<uint64_t>& bits, size_t i) { return bits[i / 64] >> (i % 64) & 1; }

}  // namespace

bool Automaton::remembers_names(const ObjectShape& object) { return !object.others.empty() && counts_names(object); }

// Returns how many more members that the schema does not declare are possible. Stops counting at the largest number
// that makes a difference.
uint64_t Automaton::others_left(const ObjectShape& object, const Progress& progress) {
  if (!remembers_names(object)) return !object.others.empty() && progress.others == 0 ? 1 : 0;
  uint64_t n = 0;
  for (const auto& other : object.others) n += other.marks == 0 ? other.n : 0;
  return n > progress.others ? n - progress.others : 0;
}

// Returns whether the object can still be completed.
bool Automaton::feasible(const ObjectShape& object, const Progress& progress) {
  const size_t n = object.properties.size();
  const bool ordered = options_.order == PropertyOrder::kSchema;
  std::vector<bool> must(n), may(n);
  for (size_t i = 0; i < n; ++i) {
    const bool seen = has(progress.seen, i);
    must[i] = object.properties[i].required || seen;
    may[i] =
        seen || (object.properties[i].shape != kNoShape && (!ordered || (i >= progress.next && progress.others == 0)));
  }
  const uint64_t counted = remembers_names(object) ? progress.others : std::min(progress.others, 1u);
  uint32_t offered = 0;
  bool together = false;
  const uint32_t missing = object.marks & ~progress.marks;
  for (const auto& other : object.others) {
    if (missing == 0 || (other.marks & missing) == 0 || names_left(other, progress) == 0) continue;
    offered |= other.marks;
    together = together || (other.marks & missing) == missing;
  }
  const auto marked = members_for_marks(missing, offered, together);
  if (!marked || progress.others + uint64_t{*marked} > object.most) return false;
  const uint64_t least = object.least - std::min<uint64_t>(object.least, counted),
                 most = object.most - progress.others - *marked;
  if (least > most + *marked) return false;
  const uint64_t from_others = std::max<uint64_t>(others_left(object, progress), *marked);
  const auto can =
      can_have(object, std::move(must), std::move(may), least - std::min(least, from_others), most, pool_.fuel());
  if (!can) pool_.run_dry();
  return can.value_or(false);
}

// Returns how many names of a group are not in the object yet.
uint64_t Automaton::names_left(const ObjectShape::OtherNames& group, const Progress& progress) {
  if (group.n == kUnbounded || progress.names.empty()) return group.n;
  uint64_t left = group.n;
  for (const uint32_t name : progress.names) {
    std::vector<uint32_t> characters;
    for (uint32_t at = name; at > 1; at = static_cast<uint32_t>(name_origins_[at] >> 21))
      characters.push_back(static_cast<uint32_t>(name_origins_[at] & 0x1FFFFF));
    ExprId e = group.name;
    for (auto at = characters.rbegin(); at != characters.rend(); ++at)
      e = pool_.derivative(e, pool_.partition().class_of(*at));
    left -= pool_.nullable(e) && left > 0;
  }
  return left;
}

// Collects the names that may come next. Used if properties must come in schema order and no property requires another.
// Because the properties after each name are counted along the way, a single pass determines for all names what
// feasible() would return.
void Automaton::add_next_in_order(const ObjectShape& object, const Progress& now, const std::vector<ExprId>& names,
                                  std::vector<ExprId>& ways) {
  const uint32_t n = static_cast<uint32_t>(object.properties.size());
  if (now.others > 0 || now.next >= n) return;
  if (!pool_.fuel().spend(1 + n / 8)) return pool_.run_dry();
  const uint64_t n_others = others_left(object, now);
  // The numbers of required and of possible optional properties after the current property.
  uint64_t n_seen = 0, required = 0, possible = 0;
  for (const uint64_t word : now.seen) n_seen += static_cast<uint64_t>(__builtin_popcountll(word));
  const size_t first_way = ways.size();
  for (uint32_t i = n; i-- > now.next;) {
    const auto& property = object.properties[i];
    const bool available = property.shape != kNoShape;
    const uint64_t counted = n_seen + 1 + required;
    const bool enough = counted + possible + n_others >= object.least;
    if (property.required) ways.resize(first_way);  // No property after a required one may come before it.
    if (available && counted <= object.most && enough) ways.push_back(names[i]);
    // This required property can never be written, so no name before it leads to a complete object.
    if (property.required && !available) return;
    if (property.required)
      ++required;
    else
      possible += available;
  }
}

// Builds the counts by prefix that n_taken_behind() reads.
void Automaton::know_taken(uint32_t progress_id) {
  if (taken_of_ == progress_id) return;
  if (!pool_.fuel().spend(progress_[progress_id].names.size())) return pool_.run_dry();
  taken_of_ = progress_id;
  taken_.clear();
  for (uint32_t name : progress_[progress_id].names)
    for (; name != 1; name = static_cast<uint32_t>(name_origins_[name] >> 21)) {
      auto& next = taken_[static_cast<uint32_t>(name_origins_[name] >> 21)];
      const auto code_point = static_cast<uint32_t>(name_origins_[name] & 0x1FFFFF);
      const auto known = std::ranges::find(next, code_point, &std::pair<uint32_t, uint32_t>::first);
      if (known == next.end())
        next.emplace_back(code_point, 1);
      else
        ++known->second;
    }
}

// Returns how many of the object's existing names start with `name` and continue with a character in [first, last].
uint32_t Automaton::n_taken_behind(uint32_t name, uint32_t first, uint32_t last) const {
  const auto next = taken_.find(name);
  uint32_t n = 0;
  if (next != taken_.end())
    for (const auto& [code_point, names] : next->second)
      if (code_point >= first && code_point <= last) n += names;
  return n;
}

const Automaton::Progress& Automaton::progress(uint32_t id) {
  if (progress_[id].known) return progress_[id];
  Progress now = progress_[id];
  const ObjectShape& object = schema_.object(now.object);
  const size_t n = object.properties.size();
  const bool ordered = options_.order == PropertyOrder::kSchema;
  if (name_expressions_.size() <= now.object) name_expressions_.resize(now.object + 1);
  std::vector<ExprId>& names = name_expressions_[now.object];
  if (names.empty() && n + object.others.size() > 0) {
    for (uint32_t i = 0; i < n; ++i)
      names.push_back(pool_.concat(pool_.literal(object.properties[i].name), pool_.tag(i)));
    for (uint32_t i = 0; i < object.others.size(); ++i)
      names.push_back(pool_.concat(other_name(now.object, i), pool_.tag(static_cast<uint32_t>(n) + i)));
    if (failed()) {  // The pool has failed, so some name expressions are incomplete.
      names.clear();
      return progress_[id];
    }
  }
  std::vector<ExprId> ways;
  const bool simple = object.needs.empty() && object.most == kUnbounded && object.least <= 1 && object.marks == 0;
  const bool counted_at_once = ordered && object.needs.empty() && !simple && object.marks == 0;
  if (counted_at_once) add_next_in_order(object, now, names, ways);
  for (uint32_t i = 0; i < n && !counted_at_once; ++i) {
    if (object.properties[i].shape == kNoShape || has(now.seen, i) || (ordered && (i < now.next || now.others > 0)))
      continue;
    if (!simple) {
      if (!pool_.fuel().spend(n / 8)) pool_.run_dry();
      if (failed()) break;
      Progress with = now;
      with.seen[i / 64] |= uint64_t{1} << (i % 64);
      if (ordered) with.next = i + 1;
      if (!feasible(object, with)) continue;
    }
    ways.push_back(names[i]);
    // If members must come in schema order, properties after a missing required property may not come next.
    if (simple && ordered && object.properties[i].required) break;
  }
  if (!remembers_names(object) ? !object.others.empty() : others_left(object, now) > 0) {
    Progress with = now;
    ++with.others;
    const bool is_feasible = object.marks == 0 && feasible(object, with);
    for (size_t i = 0; i < object.others.size(); ++i) {
      if (object.marks != 0) with.marks = now.marks | object.others[i].marks;
      if (object.marks != 0 ? names_left(object.others[i], now) > 0 && feasible(object, with) : is_feasible)
        ways.push_back(names[n + i]);
    }
  }
  now.keys = pool_.either(std::move(ways));
  if (!pool_.alive(now.keys)) now.keys = ExpressionPool::kNothing;
  // The object may end if it has all required members and reaches the minimum number of members.
  uint32_t n_seen = 0;
  bool complete = (object.marks & ~now.marks) == 0;
  for (size_t i = 0; i < n; ++i) {
    n_seen += has(now.seen, i);
    if (object.properties[i].required && !has(now.seen, i)) complete = false;
  }
  for (const auto& [property, others] : object.needs)
    if (has(now.seen, property))
      for (const uint32_t other : others)
        if (!has(now.seen, other)) complete = false;
  const uint32_t counted = n_seen + (remembers_names(object) ? now.others : std::min(now.others, 1u));
  now.may_close = complete && counted >= object.least;
  if (failed()) return progress_[id];
  now.known = true;
  return progress_[id] = std::move(now);
}

uint32_t Automaton::with_member(uint32_t progress_id, uint32_t index) {
  Progress now = progress_[progress_id];
  now.known = false;
  now.keys = ExpressionPool::kNothing;
  const ObjectShape& object = schema_.object(now.object);
  if (index < object.properties.size()) {
    now.seen[index / 64] |= uint64_t{1} << (index % 64);
    if (options_.order == PropertyOrder::kSchema) now.next = index + 1;
  } else {
    ++now.others;
    now.marks |= object.others[index - object.properties.size()].marks;
    // If the number of undeclared members makes no difference, every number above 0 is stored as 1, so that fewer
    // states are distinct.
    if (object.most == kUnbounded && !remembers_names(object)) now.others = 1;
  }
  return intern_progress(std::move(now));
}

// Called at the end of a member's name.
void Automaton::close_key(const Place& place) {
  const Lex lex = lexes_[place.lex];
  const Frame frame = frames_[place.frame];
  const ObjectShape& object = schema_.object(frame.shape);
  pool_.tags(lex.expression, tags_);
  for (const uint32_t tag : std::vector<uint32_t>(tags_)) {
    const bool is_property = tag < object.properties.size();
    const ShapeId shape =
        is_property ? object.properties[tag].shape : object.others[tag - object.properties.size()].shape;
    uint32_t progress_id = with_member(frame.progress, tag);
    if (!is_property && remembers_names(object)) {
      Progress now = progress_[progress_id];
      const auto at = std::lower_bound(now.names.begin(), now.names.end(), lex.name);
      // A repeated name would count only once and is therefore not allowed.
      if (at != now.names.end() && *at == lex.name) continue;
      now.names.insert(at, lex.name);
      now.known = false;
      if (object.marks != 0 && !feasible(object, now)) continue;
      progress_id = intern_progress(std::move(now));
    }
    put({Phase::kColon, shape, 0, intern_frame({true, frame.shape, progress_id, frame.parent})});
  }
}

}  // namespace monolith::grammar
