#include "text/grammar/automaton.h"

#include <algorithm>

#include "text/grammar/mix.h"
#include "text/tokenizer/unicode.h"

namespace monolith::grammar {
namespace {

// Within a character of a string: the low four bits of Lex::sub.
enum Sub : uint32_t {
  kBetween = 0,      // characters
  kUtf8 = 1,         // bits 4..7: bytes to come; more: bits so far
  kEscape = 2,       // behind a backslash
  kHex = 3,          // bits 4..7: digits so far; more: their value
  kHigh = 4,         // behind a high surrogate (more)
  kHighEscape = 5,   // and a backslash
  kLowHex = 6,       // bits 4..7: digits so far, from bit 8 their value; more: the high surrogate
  // What the character is no longer matters: the expression is that behind it already.
  kAnyUtf8 = 7,      // bits 4..7: bytes to come
  kAnyHex = 8,       // bits 4..7: digits so far
  kAnyHigh = 9,      // behind any high surrogate
  kAnyHighEscape = 10,
  kAnyLowHex = 11,   // bits 4..7: digits so far, from bit 8 the value of the first two
};

int hex_digit(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool has_short_escape(uint32_t c) { return c == '\b' || c == '\t' || c == '\n' || c == '\f' || c == '\r'; }

bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

constexpr uint32_t kMostSpaces = 20;   // in a row: a model in doubt would write them for ever

bool has(const std::vector<uint64_t>& bits, size_t i) { return bits[i / 64] >> (i % 64) & 1; }

}  // namespace

Automaton::Automaton(Schema& schema, const TokenTrie& trie, const AutomatonOptions& options)
    : schema_(schema), pool_(schema.expressions()), trie_(trie), options_(options) {
  frames_.push_back({false, 0, 0, 0});   // 0: no frame, the value is the whole text
  lexes_.push_back({ExpressionPool::kNothing});
  intern(false);                         // kDead
  bool accepts = false;
  if (schema.text() == ExpressionPool::kNothing) {
    put({Phase::kValue, schema.root(), 0, 0});
  } else {
    put_lex(Phase::kText, {schema.text()}, 0);
    accepts_next_ = false;
    if (pool_.nullable(schema.text())) complete(0);
    accepts = accepts_next_;
  }
  start_ = intern(accepts);
}

StateId Automaton::compute(StateId state, uint8_t byte) {
  next_.clear();
  accepts_next_ = false;
  const Header header = headers_[state];
  if (!pool_.fuel().spend(1 + header.n_places)) failed_ = true;
  for (uint32_t i = 0; i < header.n_places && !failed_; ++i) {
    const Place place = places_[header.first_place + i];   // a copy: places_ may grow
    advance(place, byte);
  }
  const StateId next = failed() ? kDead : intern(accepts_next_);
  if (rows_[state] == kNoRow) {
    if (transitions_.size() / 256 >= options_.most_rows) {
      failed_ = true;
      return kDead;
    }
    rows_[state] = static_cast<uint32_t>(transitions_.size() / 256);
    transitions_.resize(transitions_.size() + 256, kUnknown);
  }
  transitions_[size_t{rows_[state]} * 256 + byte] = next;
  return next;
}

StateId Automaton::intern(bool accepts) {
  if (next_.size() > 1) {
    std::sort(next_.begin(), next_.end());
    next_.erase(std::unique(next_.begin(), next_.end()), next_.end());
  }
  uint64_t hash = accepts;
  for (const Place& place : next_)
    hash = mix(mix(hash, uint64_t{static_cast<uint8_t>(place.phase)} << 32 | place.what), uint64_t{place.lex} << 32 | place.frame);
  const auto [first, last] = states_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Header& known = headers_[at->second];
    if (known.accepts == accepts && known.n_places == next_.size() &&
        std::equal(next_.begin(), next_.end(), places_.begin() + known.first_place))
      return at->second;
  }
  if (headers_.size() >= options_.most_states || places_.size() + next_.size() > options_.most_places ||
      lexes_.size() + frames_.size() + progress_.size() > options_.most_places) {
    failed_ = true;
    return kDead;
  }
  uint32_t free = 0;
  for (const Place& place : next_) {
    if (place.phase != Phase::kString && place.phase != Phase::kKey && place.phase != Phase::kText) continue;
    const Lex& lex = lexes_[place.lex];
    if (lex.sub == kBetween && lex.name == 0) free = std::max(free, pool_.free_characters(lex.expression));
  }
  const StateId id = static_cast<StateId>(headers_.size());
  headers_.push_back({static_cast<uint32_t>(places_.size()), static_cast<uint32_t>(next_.size()), accepts, free});
  places_.insert(places_.end(), next_.begin(), next_.end());
  rows_.push_back(kNoRow);
  only_bytes_.push_back(kUnknownByte);
  states_by_hash_.emplace(hash, id);
  return id;
}

int Automaton::only_byte(StateId state) {
  constexpr uint32_t kMostPlaces = 64;   // where a text may be in more, it has hardly one way to go on
  if (only_bytes_[state] != kUnknownByte) return only_bytes_[state];
  const Header header = headers_[state];
  int only = kNoByte;
  if (!header.accepts && header.free == 0 && header.n_places > 0 && header.n_places <= kMostPlaces) {
    for (int i = 0; i < 256; ++i) {
      const int byte = (i + 0x20) & 0xFF;   // what is text first: a second one is soon found
      if (step(state, static_cast<uint8_t>(byte)) == kDead) continue;
      if (only != kNoByte) {
        only = kNoByte;
        break;
      }
      only = byte;
    }
    if (failed()) return kNoByte;
  }
  only_bytes_[state] = static_cast<int16_t>(only);
  return only;
}

bool Automaton::goes_on_in_a_token(std::string_view text, StateId state) {
  for (const TokenTree* tree : {&trie_.plain(), &trie_.other()}) {
    const auto& nodes = tree->nodes;
    uint32_t first = 0, end = static_cast<uint32_t>(nodes.size());
    for (const char c : text) {
      while (first < end && nodes[first].byte != static_cast<uint8_t>(c)) first = nodes[first].end;
      if (first == end) break;
      end = nodes[first].end;
      ++first;
    }
    for (; first < end; first = nodes[first].end)
      if (step(state, nodes[first].byte) != kDead) return true;
  }
  return false;
}

uint32_t Automaton::intern_lex(const Lex& lex) {
  const uint64_t hash = mix(mix(lex.expression, uint64_t{lex.sub} << 32 | lex.more), uint64_t{lex.name} << 1 | lex.plain);
  const auto [first, last] = lexes_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (lexes_[at->second] == lex) return at->second;
  lexes_.push_back(lex);
  lexes_by_hash_.emplace(hash, static_cast<uint32_t>(lexes_.size() - 1));
  return static_cast<uint32_t>(lexes_.size() - 1);
}

uint32_t Automaton::intern_frame(const Frame& frame) {
  const uint64_t hash = mix(mix(frame.is_object, uint64_t{frame.shape} << 32 | frame.progress), frame.parent);
  const auto [first, last] = frames_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (frames_[at->second] == frame) return at->second;
  frames_.push_back(frame);
  frames_by_hash_.emplace(hash, static_cast<uint32_t>(frames_.size() - 1));
  return static_cast<uint32_t>(frames_.size() - 1);
}

uint32_t Automaton::intern_progress(Progress progress) {
  uint64_t hash = mix(mix(progress.object, progress.next), progress.others);
  for (const uint64_t word : progress.seen) hash = mix(hash, word);
  for (const uint32_t name : progress.names) hash = mix(hash, name);
  const auto [first, last] = progress_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Progress& known = progress_[at->second];
    if (known.object == progress.object && known.next == progress.next && known.others == progress.others &&
        known.seen == progress.seen && known.names == progress.names)
      return at->second;
  }
  progress_.push_back(std::move(progress));
  progress_by_hash_.emplace(hash, static_cast<uint32_t>(progress_.size() - 1));
  return static_cast<uint32_t>(progress_.size() - 1);
}

// ---- objects ----

bool Automaton::remembers_names(const ObjectShape& object) const {
  if (object.others.empty()) return false;
  const auto required = std::ranges::count_if(object.properties, [](const auto& property) { return property.required; });
  return object.least > static_cast<uint32_t>(required) + 1;
}

// Whether the object can still be completed.
bool Automaton::feasible(const ObjectShape& object, const Progress& progress) const {
  const size_t n = object.properties.size();
  const bool ordered = options_.order == PropertyOrder::kSchema;
  const auto available = [&](size_t i) {
    return object.properties[i].shape != kNoShape && !has(progress.seen, i) && (!ordered || (i >= progress.next && progress.others == 0));
  };
  uint32_t n_seen = 0, missing = 0, possible = 0;
  std::vector<bool> needed(n);
  for (size_t i = 0; i < n; ++i) needed[i] = object.properties[i].required || has(progress.seen, i);
  for (bool changed = !object.needs.empty(); changed;) {
    changed = false;
    for (const auto& [property, others] : object.needs) {
      if (!needed[property]) continue;
      for (const uint32_t other : others)
        if (!needed[other]) needed[other] = changed = true;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    if (has(progress.seen, i)) ++n_seen;
    else if (needed[i]) {
      if (!available(i)) return false;
      ++missing;
    } else {
      possible += available(i);
    }
  }
  if (uint64_t{n_seen} + progress.others + missing > object.most) return false;
  const bool remembers = remembers_names(object);
  const uint32_t counted = n_seen + missing + (remembers ? progress.others : std::min(progress.others, 1u));
  if (counted + possible >= object.least) return true;
  if (object.others.empty()) return false;
  return remembers || (progress.others == 0 && counted + possible + 1 >= object.least);
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
    for (uint32_t i = 0; i < n; ++i) names.push_back(pool_.concat(pool_.literal(object.properties[i].name), pool_.tag(i)));
    for (uint32_t i = 0; i < object.others.size(); ++i)
      names.push_back(pool_.concat(object.others[i].name, pool_.tag(static_cast<uint32_t>(n) + i)));
  }
  std::vector<ExprId> ways;
  const bool simple = object.needs.empty() && object.most == kUnbounded && object.least <= 1;
  for (uint32_t i = 0; i < n; ++i) {
    if (object.properties[i].shape == kNoShape || has(now.seen, i) || (ordered && (i < now.next || now.others > 0))) continue;
    if (!simple) {
      if (!pool_.fuel().spend(n / 8)) failed_ = true;
      if (failed_) break;
      Progress with = now;
      with.seen[i / 64] |= uint64_t{1} << (i % 64);
      if (ordered) with.next = i + 1;
      if (!feasible(object, with)) continue;
    }
    ways.push_back(names[i]);
    // In order: behind a required one nothing can be chosen before it.
    if (simple && ordered && object.properties[i].required) break;
  }
  if (!object.others.empty()) {
    Progress with = now;
    ++with.others;
    if (feasible(object, with))
      for (size_t i = 0; i < object.others.size(); ++i) ways.push_back(names[n + i]);
  }
  now.keys = pool_.either(std::move(ways));
  if (!pool_.alive(now.keys)) now.keys = ExpressionPool::kNothing;
  // It may end if nothing is missing: the same question with no member more.
  uint32_t n_seen = 0;
  bool complete = true;
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
    // More of them are told apart only where their number matters.
    if (object.most == kUnbounded && !remembers_names(object)) now.others = 1;
  }
  return intern_progress(std::move(now));
}

// A member's name has ended.
void Automaton::close_key(const Place& place) {
  const Lex lex = lexes_[place.lex];
  const Frame frame = frames_[place.frame];
  const ObjectShape& object = schema_.object(frame.shape);
  pool_.tags(lex.expression, tags_);
  for (const uint32_t tag : std::vector<uint32_t>(tags_)) {
    const bool is_property = tag < object.properties.size();
    const ShapeId shape = is_property ? object.properties[tag].shape : object.others[tag - object.properties.size()].shape;
    uint32_t progress_id = with_member(frame.progress, tag);
    if (!is_property && remembers_names(object)) {
      Progress now = progress_[progress_id];
      const auto at = std::lower_bound(now.names.begin(), now.names.end(), lex.name);
      if (at != now.names.end() && *at == lex.name) continue;   // the same member twice counts once
      now.names.insert(at, lex.name);
      now.known = false;
      progress_id = intern_progress(std::move(now));
    }
    put({Phase::kColon, shape, 0, intern_frame({true, frame.shape, progress_id, frame.parent})});
  }
}

// ---- values ----

void Automaton::complete(uint32_t frame) {
  if (frame == 0 && options_.suffix.empty()) accepts_next_ = true;
  else if (frame == 0) put({Phase::kSuffix, 0, 0, 0});
  else put({frames_[frame].is_object ? Phase::kAfterMember : Phase::kAfterItem, 0, 0, frame});
}

void Automaton::open_value(uint32_t shape_id, uint32_t frame, uint8_t byte) {
  const Shape& shape = schema_.shape(shape_id);
  switch (byte) {
    case '"': {
      Lex lex{shape.string};
      lex.plain = writes_plainly() && pool_.free_characters(shape.string) == 0;
      put_lex(Phase::kString, lex, frame);
      return;
    }
    case '{':
      for (const uint32_t id : shape.objects) {
        Progress fresh;
        fresh.object = id;
        fresh.seen.resize((schema_.object(id).properties.size() + 63) / 64);
        put({Phase::kObjectStart, 0, 0, intern_frame({true, id, intern_progress(std::move(fresh)), frame})});
      }
      return;
    case '[':
      for (const uint32_t id : shape.arrays) put({Phase::kArrayStart, 0, 0, intern_frame({false, id, 0, frame})});
      return;
    default: {
      if (byte >= 0x80 || shape.scalar == ExpressionPool::kNothing) return;
      Lex lex{shape.scalar};
      if (!read(lex, byte)) return;
      if (pool_.nullable(lex.expression)) complete(frame);
      put_lex(Phase::kScalar, lex, frame);
    }
  }
}

void Automaton::put_lex(Phase phase, const Lex& lex, uint32_t frame) {
  if (lex.expression == ExpressionPool::kNothing) return;
  if (lex.expression == ExpressionPool::kEmpty && (phase == Phase::kScalar || (phase == Phase::kText && lex.sub == kBetween))) return;
  put({phase, 0, intern_lex(lex), frame});
}

// One more character; false if nothing fits then.
bool Automaton::read(Lex& lex, uint32_t code_point) {
  lex.expression = pool_.derivative(lex.expression, pool_.partition().class_of(code_point));
  if (!pool_.alive(lex.expression)) return false;
  lex.sub = lex.more = 0;
  if (lex.name != 0) {
    const uint64_t key = uint64_t{lex.name} << 21 | code_point;
    const auto [found, is_new] = name_children_.try_emplace(key, n_names_ + 1);
    if (is_new) ++n_names_;
    lex.name = found->second;
  }
  return true;
}

bool Automaton::any_alive(ExprId e, uint32_t first, uint32_t last) {
  if (pool_.free_characters(e) > 0) return true;
  bool alive = false;
  pool_.partition().for_each_class(first, last, [&](CharClassId c) {
    alive = alive || pool_.alive(pool_.derivative(e, c));
  });
  return alive;
}

// The one expression behind every character of the range, or kNothing if they differ.
ExprId Automaton::uniform(ExprId e, uint32_t first, uint32_t last) {
  if (pool_.free_characters(e) == kUnbounded && pool_.derivative(e, pool_.partition().class_of(0xE9)) == e) return e;
  ExprId one = ExpressionPool::kFailed;
  bool same = true;
  pool_.partition().for_each_class(first, last, [&](CharClassId c) {
    if (!same) return;
    const ExprId to = pool_.derivative(e, c);
    if (one == ExpressionPool::kFailed) one = to;
    same = one == to;
  });
  return same && one != ExpressionPool::kFailed && pool_.alive(one) ? one : ExpressionPool::kNothing;
}

// Forgets what the unfinished character is where that makes no difference, so that its forms are one state.
void Automaton::forget(Lex& lex) {
  if (lex.name != 0) return;
  const uint32_t kind = lex.sub & 15, count = lex.sub >> 4 & 15;
  uint32_t first, last, sub;
  switch (kind) {
    case kUtf8:
      // The second byte is not free behind these first ones.
      if ((count == 2 && (lex.more == 0 || lex.more == 0xD)) || (count == 3 && (lex.more == 0 || lex.more == 4))) return;
      first = lex.more << (6 * count);
      last = first | ((1u << (6 * count)) - 1);
      sub = kAnyUtf8 | count << 4;
      break;
    case kHex:
      if (count == 0 || lex.plain) return;
      first = lex.more << (4 * (4 - count));
      last = first | ((1u << (4 * (4 - count))) - 1);
      if (first <= 0xDFFF && last >= 0xD800) return;
      sub = kAnyHex | count << 4;
      break;
    case kHigh:
      first = 0x10000 + ((lex.more - 0xD800) << 10);
      last = first + 0x3FF;
      sub = kAnyHigh;
      break;
    default: return;
  }
  const ExprId behind = uniform(lex.expression, first, last);
  if (behind == ExpressionPool::kNothing) return;
  lex.expression = behind;
  lex.sub = sub;
  lex.more = 0;
}

// Whether the unfinished character can become one that fits.
bool Automaton::partial_is_alive(const Lex& lex) {
  const uint32_t kind = lex.sub & 15, count = lex.sub >> 4 & 15;
  switch (kind) {
    case kUtf8: {
      uint32_t first = lex.more << (6 * count), last = first | ((1u << (6 * count)) - 1);
      // Shortest forms only; after the first byte of three or four the range's beginning is not one.
      if (count == 2 && lex.more == 0) first = 0x800;
      if (count == 3 && lex.more == 0) first = 0x10000;
      return any_alive(lex.expression, first, std::min(last, kLastCodePoint));
    }
    case kEscape:
      if (lex.plain) return any_alive(lex.expression, 0, 0x1F) || any_alive(lex.expression, '"', '"') || any_alive(lex.expression, '\\', '\\');
      return any_alive(lex.expression, 0, kLastCodePoint);
    case kHex: {
      const uint32_t first = lex.more << (4 * (4 - count)), last = first | ((1u << (4 * (4 - count))) - 1);
      if (lex.plain) {
        for (uint32_t c = first; c <= std::min(last, 0x1Fu); ++c)
          if (!has_short_escape(c) && any_alive(lex.expression, c, c)) return true;
        return false;
      }
      if (any_alive(lex.expression, first, last)) return true;
      const uint32_t low = std::max(first, 0xD800u), high = std::min(last, 0xDBFFu);
      return low <= high && any_alive(lex.expression, 0x10000 + ((low - 0xD800) << 10), 0x10000 + ((high - 0xD800) << 10) + 0x3FF);
    }
    case kHigh:
    case kHighEscape: return any_alive(lex.expression, 0x10000 + ((lex.more - 0xD800) << 10), 0x10000 + ((lex.more - 0xD800) << 10) + 0x3FF);
    case kLowHex: {
      const uint32_t value = lex.sub >> 8;
      uint32_t first = value << (4 * (4 - count)), last = first | ((1u << (4 * (4 - count))) - 1);
      first = std::max(first, 0xDC00u);
      last = std::min(last, 0xDFFFu);
      if (first > last) return false;
      const uint32_t base = 0x10000 + ((lex.more - 0xD800) << 10);
      return any_alive(lex.expression, base + (first - 0xDC00), base + (last - 0xDC00));
    }
    default: return true;
  }
}

// One more byte of text that is no JSON.
bool Automaton::step_plain_character(Lex& lex, uint8_t byte, bool& at_boundary) {
  if (lex.sub == kBetween && (byte < 0x20 || byte == '\\')) return at_boundary = true, read(lex, byte);
  return step_character(lex, byte, at_boundary);
}

// One more byte of a string. False if nothing fits then.
bool Automaton::step_character(Lex& lex, uint8_t byte, bool& at_boundary) {
  at_boundary = false;
  const uint32_t kind = lex.sub & 15, count = lex.sub >> 4 & 15;
  const auto partial = [&](uint32_t sub, uint32_t more) {
    lex.sub = sub;
    lex.more = more;
    if (!partial_is_alive(lex)) return false;
    forget(lex);
    return true;
  };
  switch (kind) {
    case kBetween:
      if (byte < 0x20) return false;
      if (byte == '\\') return partial(kEscape, 0);
      if (byte < 0x80) return at_boundary = true, read(lex, byte);
      if (byte >= 0xC2 && byte <= 0xDF) return partial(kUtf8 | 1 << 4, byte & 0x1Fu);
      if (byte >= 0xE0 && byte <= 0xEF) return partial(kUtf8 | 2 << 4, byte & 0x0Fu);
      if (byte >= 0xF0 && byte <= 0xF4) return partial(kUtf8 | 3 << 4, byte & 0x07u);
      return false;
    case kUtf8: {
      if ((byte & 0xC0) != 0x80) return false;
      if (count == 2 && lex.more == 0 && byte < 0xA0) return false;
      if (count == 2 && lex.more == 0xD && byte > 0x9F) return false;
      if (count == 3 && lex.more == 0 && byte < 0x90) return false;
      if (count == 3 && lex.more == 4 && byte > 0x8F) return false;
      const uint32_t value = lex.more << 6 | (byte & 0x3Fu);
      if (count == 1) return at_boundary = true, read(lex, value);
      if (count == 3 && value == 0) return false;
      return partial(kUtf8 | (count - 1) << 4, value);
    }
    case kAnyUtf8:
      if ((byte & 0xC0) != 0x80) return false;
      lex.sub = count == 1 ? uint32_t{kBetween} : kAnyUtf8 | (count - 1) << 4;
      return true;
    case kAnyHex:
      if (hex_digit(byte) < 0) return false;
      lex.sub = count == 3 ? uint32_t{kBetween} : kAnyHex | (count + 1) << 4;
      return true;
    case kAnyHigh:
      lex.sub = kAnyHighEscape;
      return byte == '\\';
    case kAnyHighEscape:
      lex.sub = kAnyLowHex;
      return byte == 'u';
    case kAnyLowHex: {
      const int digit = hex_digit(byte);
      if (digit < 0 || (count == 0 && digit != 0xD) || (count == 1 && digit < 0xC)) return false;
      lex.sub = count == 3 ? uint32_t{kBetween} : kAnyLowHex | (count + 1) << 4;
      return true;
    }
    case kEscape:
      at_boundary = true;
      switch (byte) {
        case '"': case '\\': return read(lex, byte);
        case '/': return !lex.plain && read(lex, byte);
        case 'b': return read(lex, '\b');
        case 'f': return read(lex, '\f');
        case 'n': return read(lex, '\n');
        case 'r': return read(lex, '\r');
        case 't': return read(lex, '\t');
        case 'u': at_boundary = false; return partial(kHex, 0);
        default: return false;
      }
    case kHex: {
      const int digit = hex_digit(byte);
      if (digit < 0) return false;
      const uint32_t value = lex.more << 4 | static_cast<uint32_t>(digit);
      if (count < 3) return partial(kHex | (count + 1) << 4, value);
      if (lex.plain && (value > 0x1F || has_short_escape(value))) return false;
      if (value >= 0xDC00 && value <= 0xDFFF) return false;   // a low surrogate alone is no character
      if (value >= 0xD800 && value <= 0xDBFF) return partial(kHigh, value);
      return at_boundary = true, read(lex, value);
    }
    case kHigh: return byte == '\\' && partial(kHighEscape, lex.more);
    case kHighEscape: return byte == 'u' && partial(kLowHex, lex.more);
    case kLowHex: {
      const int digit = hex_digit(byte);
      if (digit < 0) return false;
      const uint32_t value = (lex.sub >> 8) << 4 | static_cast<uint32_t>(digit);
      if (count < 3) return partial(kLowHex | (count + 1) << 4 | value << 8, lex.more);
      if (value < 0xDC00 || value > 0xDFFF) return false;
      return at_boundary = true, read(lex, 0x10000 + ((lex.more - 0xD800) << 10) + (value - 0xDC00));
    }
    default: return false;
  }
}

void Automaton::advance(const Place& place, uint8_t byte) {
  bool at_boundary;
  switch (place.phase) {
    case Phase::kText: {
      Lex lex = lexes_[place.lex];
      if (!step_plain_character(lex, byte, at_boundary)) return;
      if (lex.sub == kBetween && pool_.nullable(lex.expression)) complete(0);
      put_lex(Phase::kText, lex, 0);
      return;
    }
    case Phase::kSuffix:
      if (static_cast<uint8_t>(options_.suffix[place.what]) != byte) return;
      if (place.what + 1 == options_.suffix.size()) accepts_next_ = true;
      else put({Phase::kSuffix, place.what + 1, 0, 0});
      return;
    case Phase::kScalar: {
      if (byte >= 0x80) return;
      Lex lex = lexes_[place.lex];
      if (!read(lex, byte)) return;
      if (pool_.nullable(lex.expression)) complete(place.frame);
      put_lex(Phase::kScalar, lex, place.frame);
      return;
    }
    case Phase::kString:
    case Phase::kKey: {
      Lex lex = lexes_[place.lex];
      if (byte == '"' && lex.sub == kBetween) {
        if (!pool_.nullable(lex.expression)) return;
        if (place.phase == Phase::kString) complete(place.frame);
        else close_key(place);
        return;
      }
      if (step_character(lex, byte, at_boundary)) put_lex(place.phase, lex, place.frame);
      return;
    }
    default: break;
  }
  if (options_.white_space == WhiteSpace::kFlexible && is_space(byte)) {
    if (place.lex >= kMostSpaces) return;
    Place same = place;
    ++same.lex;
    put(same);
    return;
  }
  const Frame frame = frames_[place.frame];
  switch (place.phase) {
    case Phase::kValue: open_value(place.what, place.frame, byte); return;
    case Phase::kObjectStart:
    case Phase::kAfterMember:
    case Phase::kNextKey: {
      const Progress& now = progress(frame.progress);
      if (byte == '}' && place.phase != Phase::kNextKey && now.may_close) complete(frame.parent);
      if (byte == ',' && place.phase == Phase::kAfterMember && now.keys != ExpressionPool::kNothing)
        put({Phase::kNextKey, 0, 0, place.frame});
      if (byte == '"' && place.phase != Phase::kAfterMember) {
        Lex lex{now.keys};
        lex.plain = writes_plainly();
        if (remembers_names(schema_.object(frame.shape))) lex.name = 1;
        put_lex(Phase::kKey, lex, place.frame);
      }
      return;
    }
    case Phase::kColon:
      if (byte == ':') put({Phase::kValue, place.what, 0, place.frame});
      return;
    case Phase::kArrayStart:
    case Phase::kAfterItem: {
      const ArrayShape& array = schema_.array(frame.shape);
      if (byte == ']' && frame.progress >= array.least) return complete(frame.parent);
      if (place.phase == Phase::kAfterItem && byte != ',') return;
      const size_t index = frame.progress;
      if (index >= array.most) return;
      const ShapeId shape = index < array.prefix.size() ? array.prefix[index] : array.rest;
      if (shape == kNoShape) return;
      // Items are counted as far as their number matters.
      uint32_t count = frame.progress + 1;
      if (array.most == kUnbounded) count = std::min(count, std::max(array.least, static_cast<uint32_t>(array.prefix.size())));
      const uint32_t with = intern_frame({false, frame.shape, count, frame.parent});
      if (byte == ',' && place.phase == Phase::kAfterItem) put({Phase::kValue, shape, 0, with});
      else open_value(shape, with, byte);
      return;
    }
    default: return;
  }
}

// ---- masks ----

void Automaton::walk(const TokenTree& tree, uint32_t first, uint32_t end, StateId state, TokenMask& mask) {
  const auto& nodes = tree.nodes;
  if (first == end) return;
  const uint32_t base = nodes[first].depth;   // the first node's parent is at `state`
  if (stack_.size() < TokenTrie::kLongest + 2) stack_.resize(TokenTrie::kLongest + 2);
  stack_[base - 1] = state;
  const bool plain = &tree == &trie_.plain();
  for (uint32_t i = first; i < end;) {
    const TokenTree::Node& node = nodes[i];
    const StateId next = step(stack_[node.depth - 1], node.byte);
    if (next == kDead) {
      i = node.end;
      continue;
    }
    if (plain && headers_[next].free >= node.height && headers_[next].free > 0) {
      const uint32_t behind = tree.tokens_behind(node.end);
      for (uint32_t t = node.first_token; t < behind; ++t) mask.set(tree.tokens[t]);
      i = node.end;
      continue;
    }
    for (uint32_t t = node.first_token; t < node.first_token + node.n_own; ++t) mask.set(tree.tokens[t]);
    stack_[node.depth] = next;
    ++i;
  }
}

void Automaton::walk_plain(StateId state, TokenMask& mask) {
  const TokenTree& tree = trie_.plain();
  const uint32_t n = static_cast<uint32_t>(tree.nodes.size());
  // Where most first bytes lead to where anything may follow, all is allowed first and the rest looked at.
  uint32_t n_free = 0;
  for (uint32_t i = 0; i < n; i = tree.nodes[i].end) {
    const StateId next = step(state, tree.nodes[i].byte);
    if (next != kDead && headers_[next].free >= tree.nodes[i].height && headers_[next].free > 0)
      n_free += tree.tokens_behind(tree.nodes[i].end) - tree.nodes[i].first_token;
  }
  if (n_free * 2 < tree.tokens.size()) return walk(tree, 0, n, state, mask);
  mask.add(trie_.plain_mask());
  for (uint32_t i = 0; i < n; i = tree.nodes[i].end) {
    const TokenTree::Node& node = tree.nodes[i];
    const StateId next = step(state, node.byte);
    if (next != kDead && headers_[next].free >= node.height && headers_[next].free > 0) continue;
    const uint32_t behind = tree.tokens_behind(node.end);
    for (uint32_t t = node.first_token; t < behind; ++t) mask.reset(tree.tokens[t]);
    if (next != kDead) walk(tree, i, node.end, state, mask);
  }
}

void Automaton::find_allowed(StateId state, TokenMask& mask) {
  mask.clear();
  if (headers_[state].free >= trie_.longest_plain() && headers_[state].free > 0) mask.add(trie_.plain_mask());
  else walk_plain(state, mask);
  walk(trie_.other(), 0, static_cast<uint32_t>(trie_.other().nodes.size()), state, mask);
}

void Automaton::allowed(StateId state, TokenMask& mask) { mask.copy(allowed(state)); }

const TokenMask& Automaton::allowed(StateId state) {
  if (const auto known = masks_.find(state); known != masks_.end()) return known_masks_[known->second].mask;
  const size_t most = std::max<size_t>(options_.most_mask_bytes / (trie_.n_tokens() / 8 + sizeof(KnownMask)), 16);
  uint32_t at;
  if (known_masks_.size() < most) {
    at = static_cast<uint32_t>(known_masks_.size());
    known_masks_.push_back({kDead, TokenMask(trie_.n_tokens())});
  } else {
    at = static_cast<uint32_t>(next_mask_++ % most);
    masks_.erase(known_masks_[at].state);
  }
  known_masks_[at].state = state;
  find_allowed(state, known_masks_[at].mask);
  if (!failed()) masks_.emplace(state, at);
  return known_masks_[at].mask;
}

size_t Automaton::bytes() const {
  constexpr size_t kEntry = 48;   // of a hash table
  return headers_.size() * (sizeof(Header) + 4 + 2 + kEntry) + places_.size() * sizeof(Place) + transitions_.size() * sizeof(StateId) +
         lexes_.size() * (sizeof(Lex) + kEntry) + frames_.size() * (sizeof(Frame) + kEntry) + progress_.size() * (sizeof(Progress) + kEntry + 32) +
         known_masks_.size() * (trie_.n_tokens() / 8 + sizeof(KnownMask) + kEntry);
}

}  // namespace monolith::grammar
