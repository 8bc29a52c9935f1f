#include "text/grammar/automaton.h"

#include <algorithm>

#include "text/grammar/mix.h"

namespace monolith::grammar {
namespace {

bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Maximum number of consecutive whitespace characters. Without a limit, a model that cannot decide what comes next may
// emit whitespace forever.
constexpr uint32_t kMaxSpaces = 20;

// First character of the names that represent an array's scalar items. It cannot occur in a string, so a scalar's name
// never equals a string's name.
constexpr uint32_t kScalarName = 0x1FFFFF;

}  // namespace

Automaton::Automaton(Schema& schema, const TokenTrie& trie, const AutomatonOptions& options)
    : schema_(schema), pool_(schema.expressions()), trie_(trie), options_(options) {
  frames_.push_back({false, 0, 0, 0});  // Frame 0 means no frame: the value is the whole text.
  lexes_.push_back({ExpressionPool::kNothing});
  intern(false);  // State 0 is kDead.
  bool accepts = false;
  if (options_.lead.most > 0) {
    put({Phase::kLead, 0, 0, 0});
  } else if (schema.text() == ExpressionPool::kNothing) {
    begin_whole();
    accepts = accepts_next_;
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
  if (!pool_.fuel().spend(1 + header.n_places)) pool_.run_dry();
  for (uint32_t i = 0; i < header.n_places && !failed(); ++i) {
    const Place place = places_[header.first_place + i];  // A copy because places_ may be reallocated.
    advance(place, byte);
  }
  if (failed()) return kDead;
  const StateId next = intern(accepts_next_);
  if (failed()) return kDead;
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
    hash = mix(mix(hash, uint64_t{static_cast<uint8_t>(place.phase)} << 32 | place.what),
               uint64_t{place.lex} << 32 | place.frame);
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
    if (!has_lex(place.phase) || place.phase == Phase::kScalar) continue;
    const Lex& lex = lexes_[place.lex];
    if (!lex.between()) continue;
    uint32_t here = pool_.free_before(lex.expression);
    // Counts one free character less than is possible. The number of possible names is then greater than the number of
    // members that an object can have, so at least one of the names is not in use yet.
    if (lex.name != 0 && here != kUnbounded && here > 0) --here;
    free = std::max(free, here);
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
  // A state with more configurations than this hardly ever allows only a single next byte.
  constexpr uint32_t kMaxPlaces = 64;
  if (only_bytes_[state] != kUnknownByte) return only_bytes_[state];
  const Header header = headers_[state];
  int only = kNoByte;
  if (!header.accepts && header.free == 0 && header.n_places > 0 && header.n_places <= kMaxPlaces) {
    for (int i = 0; i < 256; ++i) {
      const int byte = (i + 0x20) & 0xFF;  // Printable bytes first, to find a second possible byte sooner.
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
  const uint64_t hash =
      mix(mix(lex.expression, uint64_t{lex.sub} << 32 | lex.more), uint64_t{lex.name} << 1 | lex.plain);
  const auto [first, last] = lexes_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (lexes_[at->second] == lex) return at->second;
  lexes_.push_back(lex);
  lexes_by_hash_.emplace(hash, static_cast<uint32_t>(lexes_.size() - 1));
  return static_cast<uint32_t>(lexes_.size() - 1);
}

uint32_t Automaton::intern_frame(const Frame& frame) {
  const uint64_t hash = mix(mix(frame.is_object, uint64_t{frame.shape} << 32 | frame.progress),
                            uint64_t{frame.open} << 32 | frame.parent) +
                        frame.n_matches;
  const auto [first, last] = frames_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (frames_[at->second] == frame) return at->second;
  frames_.push_back(frame);
  frames_by_hash_.emplace(hash, static_cast<uint32_t>(frames_.size() - 1));
  return static_cast<uint32_t>(frames_.size() - 1);
}

uint32_t Automaton::intern_progress(Progress progress) {
  uint64_t hash = mix(mix(progress.object, progress.next), uint64_t{progress.marks} << 32 | progress.others);
  for (const uint64_t word : progress.seen) hash = mix(hash, word);
  for (const uint32_t name : progress.names) hash = mix(hash, name);
  const auto [first, last] = progress_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Progress& known = progress_[at->second];
    if (known.object == progress.object && known.next == progress.next && known.others == progress.others &&
        known.marks == progress.marks && known.seen == progress.seen && known.names == progress.names)
      return at->second;
  }
  progress_.push_back(std::move(progress));
  progress_by_hash_.emplace(hash, static_cast<uint32_t>(progress_.size() - 1));
  return static_cast<uint32_t>(progress_.size() - 1);
}

void Automaton::complete(uint32_t frame) {
  if (frame == 0 && options_.suffix.empty())
    accepts_next_ = true;
  else if (frame == 0)
    put({Phase::kSuffix, 0, 0, 0});
  else if (frames_[frame].open != 0)
    begin_literal(Phase::kTagClose, 0, frame);
  else if (is_spelled(frame))
    begin_literal(Phase::kValueClose, 0, frame);
  else
    put({frames_[frame].is_object ? Phase::kAfterMember : Phase::kAfterItem, 0, 0, frame});
}

// Returns the array that `frame` represents if the array's items must be distinct, otherwise null.
const ArrayShape* Automaton::unique_array(uint32_t frame) const {
  if (frame == 0 || frames_[frame].is_object) return nullptr;
  const ArrayShape& array = schema_.array(frames_[frame].shape);
  return array.unique ? &array : nullptr;
}

uint32_t Automaton::begin_array(uint32_t array, uint32_t parent) {
  if (!schema_.array(array).unique) return intern_frame({false, array, 0, parent});
  Progress fresh;
  fresh.object = array;
  fresh.next = UINT32_MAX;  // Keeps array progress distinct from object progress.
  return intern_frame({false, array, intern_progress(std::move(fresh)), parent});
}

// Called at the end of a string or scalar whose text is `name`. Rejects the item if the array already contains it.
void Automaton::complete_item(uint32_t frame_id, uint32_t name) {
  if (unique_array(frame_id) == nullptr) return complete(frame_id);
  Frame frame = frames_[frame_id];
  Progress now = progress_[frame.progress];
  const auto at = std::lower_bound(now.names.begin(), now.names.end(), name);
  if (at != now.names.end() && *at == name) return;
  now.names.insert(at, name);
  frame.progress = intern_progress(std::move(now));
  complete(intern_frame(frame));
}

// Advances by one byte within an array of distinct items, before or after an item.
void Automaton::advance_unique(const Place& place, uint8_t byte) {
  const Frame frame = frames_[place.frame];
  const ArrayShape& array = schema_.array(frame.shape);
  const size_t n = progress_[frame.progress].names.size();
  if (byte == ']' && n >= array.least) return complete(frame.parent);
  if (n >= array.most || n >= array.n_values || array.rest == kNoShape) return;
  if (place.phase == Phase::kArrayStart)
    open_value(array.rest, place.frame, byte);
  else if (byte == ',')
    put({Phase::kValue, array.rest, 0, place.frame});
}

void Automaton::open_value(uint32_t shape_id, uint32_t frame, uint8_t byte) {
  const Shape& shape = schema_.shape(shape_id);
  const bool nested = options_.spelling && options_.spelling->nested;
  if (options_.spelling && !options_.spelling->string_mark.empty() && shape.string != ExpressionPool::kNothing)
    advance_literal({Phase::kStringOpen, shape_id * 2, 0, frame}, byte);
  switch (byte) {
    case '"': {
      if (options_.spelling && !options_.spelling->string_mark.empty()) return;
      Lex lex{json_string_of(shape_id)};
      lex.plain = writes_plainly() && pool_.free_characters(shape.string) == 0;
      if (unique_array(frame) != nullptr) {
        const auto& names = progress_[frames_[frame].progress].names;
        know_taken(frames_[frame].progress);
        const uint64_t n_strings = names.size() - n_taken_behind(1, kScalarName, kScalarName);
        if (n_strings > 0 && pool_.count(lex.expression, n_strings + 1) <= n_strings) return;
        lex.name = 1;
      }
      put_lex(Phase::kString, lex, frame);
      return;
    }
    case '{':
      for (const uint32_t id : shape.objects) {
        if (nested) {
          begin_members(id, frame);
          continue;
        }
        Progress fresh;
        fresh.object = id;
        fresh.seen.resize((schema_.object(id).properties.size() + 63) / 64);
        put({Phase::kObjectStart, 0, 0, intern_frame({true, id, intern_progress(std::move(fresh)), frame})});
      }
      return;
    case '[':
      for (const uint32_t id : shape.arrays) put({Phase::kArrayStart, 0, 0, begin_array(id, frame)});
      return;
    default: {
      if (byte >= 0x80 || shape.scalar == ExpressionPool::kNothing) return;
      const bool python = options_.spelling && options_.spelling->python && is_spelled(frame);
      Lex lex{python ? python_scalar(shape.scalar) : shape.scalar};
      if (const ArrayShape* array = unique_array(frame)) {
        lex.expression = array->scalar;
        lex.name = longer_name(1, kScalarName);
        know_taken(frames_[frame].progress);
      }
      if (!read(lex, byte)) return;
      if (pool_.nullable(lex.expression)) complete_item(frame, lex.name);
      put_lex(Phase::kScalar, lex, frame);
    }
  }
}

void Automaton::put_lex(Phase phase, const Lex& lex, uint32_t frame) {
  if (lex.expression == ExpressionPool::kNothing) return;
  if (lex.expression == ExpressionPool::kEmpty && (phase == Phase::kScalar || (phase == Phase::kText && lex.between())))
    return;
  put({phase, 0, intern_lex(lex), frame});
}

void Automaton::advance(const Place& place, uint8_t byte) {
  bool at_boundary;
  switch (place.phase) {
    case Phase::kText: {
      Lex lex = lexes_[place.lex];
      if (!step_plain_character(lex, byte, at_boundary)) return;
      if (lex.between() && pool_.nullable(lex.expression)) complete(0);
      put_lex(Phase::kText, lex, 0);
      return;
    }
    case Phase::kSuffix:
      if (static_cast<uint8_t>(options_.suffix[place.what]) != byte) return;
      if (place.what + 1 == options_.suffix.size())
        accepts_next_ = true;
      else
        put({Phase::kSuffix, place.what + 1, 0, 0});
      return;
    case Phase::kScalar: {
      if (byte >= 0x80) return;
      Lex lex = lexes_[place.lex];
      if (lex.name != 0) know_taken(frames_[place.frame].progress);
      if (!read(lex, byte)) return;
      if (pool_.nullable(lex.expression)) complete_item(place.frame, lex.name);
      put_lex(Phase::kScalar, lex, place.frame);
      return;
    }
    case Phase::kString:
    case Phase::kKey: {
      Lex lex = lexes_[place.lex];
      if (lex.name != 0) know_taken(frames_[place.frame].progress);
      if (byte == '"' && lex.between()) {
        if (!pool_.nullable(lex.expression)) return;
        if (place.phase == Phase::kString)
          complete_item(place.frame, lex.name);
        else
          close_key(place);
        return;
      }
      if (step_character(lex, byte, at_boundary)) put_lex(place.phase, lex, place.frame);
      return;
    }
    case Phase::kLead:
    case Phase::kLeadClose: return advance_lead(place, byte);
    case Phase::kName:
    case Phase::kCloseName:
    case Phase::kBare:
    case Phase::kMarked: return advance_text(place, byte);
    case Phase::kNameOpen:
    case Phase::kTextOpen:
    case Phase::kJsonOpen:
    case Phase::kStringOpen:
    case Phase::kStringClose:
    case Phase::kValueClose:
    case Phase::kItemOpen:
    case Phase::kTagClose:
    case Phase::kTagEnd:
    case Phase::kSeparator: return advance_literal(place, byte);
    case Phase::kBraceClose:
      if (byte == '}') complete(frames_[place.frame].parent);
      return;
    default: break;
  }
  if (options_.white_space != WhiteSpace::kNone && is_space(byte)) {
    const bool before_all = place.phase == Phase::kValue && place.frame == 0;
    if (place.lex >= kMaxSpaces || (before_all && options_.white_space == WhiteSpace::kWithin)) return;
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
      if (array.unique) return advance_unique(place, byte);
      if (byte == ']' && array.may_end(frame.progress, frame.n_matches)) return complete(frame.parent);
      if (place.phase == Phase::kAfterItem && byte != ',') return;
      const size_t index = frame.progress;
      if (index >= array.most) return;
      // Items are counted only as far as the count matters. For an array without a maximum, that is up to the minimum
      // or the length of the prefix, whichever is larger.
      uint32_t count = frame.progress + 1;
      if (array.most == kUnbounded)
        count = std::min(count, std::max(array.least, static_cast<uint32_t>(array.prefix.size())));
      const auto open = [&](ShapeId shape, uint32_t n_matches) {
        const uint32_t with = intern_frame({false, frame.shape, count, frame.parent, 0, n_matches});
        if (byte == ',' && place.phase == Phase::kAfterItem)
          put({Phase::kValue, shape, 0, with});
        else
          open_value(shape, with, byte);
      };
      const ShapeId shape = index < array.prefix.size() ? array.prefix[index] : array.rest;
      if (!array.counts_matches) {
        if (shape != kNoShape) open(shape, 0);
        return;
      }
      const auto leads = [&](uint32_t n_matches) {
        return array.can_be_completed(frame.progress + 1, n_matches, array.rest != kNoShape,
                                      array.matching != kNoShape);
      };
      if (shape != kNoShape && leads(frame.n_matches)) open(shape, frame.n_matches);
      // Matches are also counted only as far as the count matters.
      const bool enough = array.most_matches == kUnbounded && frame.n_matches >= array.least_matches;
      if (array.matching != kNoShape && !enough && leads(frame.n_matches + 1))
        open(array.matching, frame.n_matches + 1);
      return;
    }
    default: return;
  }
}

size_t Automaton::bytes() const {
  constexpr size_t kEntry = 48;  // Estimated bytes per hash table entry.
  return headers_.size() * (sizeof(Header) + 4 + 2 + kEntry) + places_.size() * sizeof(Place) +
         transitions_.size() * sizeof(StateId) + lexes_.size() * (sizeof(Lex) + kEntry) +
         frames_.size() * (sizeof(Frame) + kEntry) + progress_.size() * (sizeof(Progress) + kEntry + 32) +
         known_masks_.size() * (trie_.n_tokens() / 8 + sizeof(KnownMask) + kEntry);
}

// ---- Importing states of the previous automaton ----

std::unique_ptr<Automaton::Past> Automaton::into_past(std::unique_ptr<ExpressionPool::Past> expressions) {
  auto past = std::make_unique<Past>();
  past->headers = std::move(headers_);
  past->places = std::move(places_);
  past->lexes = std::move(lexes_);
  past->frames = std::move(frames_);
  past->progress = std::move(progress_);
  past->expressions = std::move(expressions);
  past->name_origins = std::move(name_origins_);
  return past;
}

StateId Automaton::recall(Past& past, StateId state) {
  if (const auto known = past.states.find(state); known != past.states.end()) return known->second;
  const Header header = past.headers[state];
  std::vector<Place> places(past.places.begin() + header.first_place,
                            past.places.begin() + header.first_place + header.n_places);
  for (Place& place : places) {
    if (has_lex(place.phase)) {
      Lex lex = past.lexes[place.lex];
      lex.expression = pool_.recall(*past.expressions, lex.expression);
      if (lex.name != 0) lex.name = recall_name(past, lex.name);
      if (failed()) return kDead;
      place.lex = intern_lex(lex);
    }
    place.frame = recall_frame(past, place.frame);
  }
  next_ = std::move(places);
  const StateId now = intern(header.accepts);
  if (failed()) return kDead;
  past.states.emplace(state, now);
  return now;
}

// Imports frames from the outermost to the innermost. The function is not recursive, because frames may be nested as
// deeply as the text.
uint32_t Automaton::recall_frame(Past& past, uint32_t frame) {
  std::vector<uint32_t> open;
  for (; frame != 0 && !past.recalled_frames.contains(frame); frame = past.frames[frame].parent) open.push_back(frame);
  uint32_t now = frame == 0 ? 0 : past.recalled_frames.at(frame);
  for (auto at = open.rbegin(); at != open.rend(); ++at) {
    Frame inner = past.frames[*at];
    if (inner.is_object || schema_.array(inner.shape).unique) {
      Progress progress = past.progress[inner.progress];
      progress.known = progress.may_close = false;
      progress.keys = ExpressionPool::kNothing;
      for (uint32_t& name : progress.names) name = recall_name(past, name);
      std::sort(progress.names.begin(), progress.names.end());
      inner.progress = intern_progress(std::move(progress));
    }
    inner.parent = now;
    now = intern_frame(inner);
    past.recalled_frames.emplace(*at, now);
  }
  return now;
}

uint32_t Automaton::recall_name(Past& past, uint32_t name) {
  std::vector<uint32_t> characters;
  for (; name != 1; name = static_cast<uint32_t>(past.name_origins[name] >> 21))
    characters.push_back(static_cast<uint32_t>(past.name_origins[name] & 0x1FFFFF));
  uint32_t now = 1;
  for (auto at = characters.rbegin(); at != characters.rend(); ++at) now = longer_name(now, *at);
  return now;
}

uint32_t Automaton::longer_name(uint32_t name, uint32_t code_point) {
  const uint64_t origin = uint64_t{name} << 21 | code_point;
  const auto [found, is_new] = name_children_.try_emplace(origin, static_cast<uint32_t>(name_origins_.size()));
  if (is_new) name_origins_.push_back(origin);
  return found->second;
}

size_t Automaton::Past::bytes() const {
  constexpr size_t kEntry = 48;  // Estimated bytes per hash table entry.
  return headers.size() * sizeof(Header) + places.size() * sizeof(Place) + lexes.size() * sizeof(Lex) +
         frames.size() * sizeof(Frame) + progress.size() * (sizeof(Progress) + 32) +
         (states.size() + recalled_frames.size()) * kEntry + name_origins.size() * 8 + expressions->bytes();
}

}  // namespace monolith::grammar
