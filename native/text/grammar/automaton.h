// The pushdown automaton of a schema over bytes, made deterministic as it is used: a state is the set of places
// a text so far may have led to, each with its stack of open objects and arrays; states are interned, so a
// transition and the tokens allowed at a state are computed once. Bounded: past its limits it fails, and what
// uses it has to begin with a new one, which recalls the states still in use (Grammar does). Out of fuel it stops, and
// with more of it goes on from what was found. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/schema.h"
#include "text/grammar/spelling.h"
#include "text/grammar/token_trie.h"

namespace monolith::grammar {

using StateId = uint32_t;

enum class PropertyOrder : uint8_t { kSchema, kAny };
// kWithin: in the value, none before it.
enum class WhiteSpace : uint8_t { kNone, kFlexible, kWithin };

struct AutomatonOptions {
  PropertyOrder order = PropertyOrder::kSchema;
  WhiteSpace white_space = WhiteSpace::kNone;
  std::string suffix;                // bytes that follow the value
  Lead lead;                         // and stand before it
  std::optional<Spelling> spelling;  // of the value, an object; its texts are bytes
  size_t most_states = 200'000;
  size_t most_places = 4'000'000;     // of all states together
  size_t most_rows = 200'000;         // states with transitions: 1 KiB each
  size_t most_mask_bytes = 64 << 20;  // beyond, the oldest masks go
};

class Automaton {
 public:
  static constexpr StateId kDead = 0;

  // `schema` and `trie` outlive it.
  Automaton(Schema& schema, const TokenTrie& trie, const AutomatonOptions& options);

  StateId start() const { return start_; }
  // The state after one more byte; kDead if no valid text begins so (or, failed(), a limit was met or the fuel is used up).
  StateId step(StateId state, uint8_t byte) {
    const uint32_t row = rows_[state];
    if (row != kNoRow) {
      const StateId next = transitions_[size_t{row} * 256 + byte];
      if (next != kUnknown) return next;
    }
    return compute(state, byte);
  }
  // Whether the text so far is complete, and whether nothing can follow.
  bool accepts(StateId state) const { return headers_[state].accepts; }
  bool ends(StateId state) const { return headers_[state].accepts && headers_[state].n_places == 0; }
  // The only byte that may come next; kNoByte where there are several or none, or where the text may end.
  static constexpr int kNoByte = -1;
  int only_byte(StateId state);
  // Whether some token begins with `text` and goes on with a byte that may come at `state`.
  bool goes_on_in_a_token(std::string_view text, StateId state);
  // The tokens whose bytes may come next. `mask` has one bit per token of the trie.
  void allowed(StateId state, TokenMask& mask);
  // The same, kept until a later call needs the room.
  const TokenMask& allowed(StateId state);
  // Whether that is there already.
  bool knows_allowed(StateId state) const { return masks_.contains(state); }
  bool knows_step(StateId state, uint8_t byte) const {
    return rows_[state] != kNoRow && transitions_[size_t{rows_[state]} * 256 + byte] != kUnknown;
  }
  bool knows_only_byte(StateId state) const { return only_bytes_[state] != kUnknownByte; }
  int known_only_byte(StateId state) const { return only_bytes_[state]; }
  // The states of an automaton that has grown to its limits, without its transitions.
  struct Past;
  std::unique_ptr<Past> into_past(std::unique_ptr<ExpressionPool::Past> expressions);  // it is empty from then on
  // The same state in this automaton, of the same schema and options; kDead when failed().
  StateId recall(Past& past, StateId state);
  size_t bytes() const;
  bool failed() const { return failed_ || schema_.expressions().failed(); }
  bool spent() const { return !failed_ && schema_.expressions().spent(); }

 private:
  static constexpr uint32_t kNoRow = UINT32_MAX, kUnknown = UINT32_MAX;
  static constexpr int16_t kUnknownByte = -2;
  enum class Phase : uint8_t {
    kText,
    kSuffix,
    kValue,
    kScalar,
    kString,
    kKey,
    kObjectStart,
    kColon,
    kAfterMember,
    kNextKey,
    kArrayStart,
    kAfterItem,
    // automaton_spelling.cc's
    kLead,
    kLeadClose,
    kNameOpen,
    kName,
    kTextOpen,
    kJsonOpen,
    kBare,
    kMarked,
    kStringOpen,
    kStringClose,
    kValueClose,
    kSeparator,
    kBraceClose,
    // automaton_tags.cc's
    kItemOpen,
    kTagClose,
    kCloseName,
    kTagEnd
  };

  struct Place {
    Phase phase;
    // kValue, kColon, kJsonOpen: shape; kTextOpen, kStringOpen: see text_of(); kSuffix: bytes read
    uint32_t what = 0;
    uint32_t lex = 0;  // has_lex(): into lexes_; a literal: bytes read; others: spaces read
    uint32_t frame = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Header {
    uint32_t first_place, n_places;
    bool accepts;
    uint32_t free;  // so many characters of a string may follow, whatever they are
  };
  struct Lex {
    ExprId expression;
    uint32_t sub = 0;  // within a character: see automaton_characters.cc
    uint32_t more = 0;
    bool between() const { return sub == 0; }  // characters
    uint32_t name = 0;                         // of the names tree, where names are remembered
    bool plain = false;  // escapes only where a character cannot stand as it is, in their short form if there is one
    auto operator<=>(const Lex&) const = default;
  };
  struct Frame {
    bool is_object;
    uint32_t shape;     // into the schema's objects or arrays
    uint32_t progress;  // object: into progress_; array: items so far
    uint32_t parent;
    // in tags: the member or item whose value is being written, its tag and one more; 0: between them
    uint32_t open = 0;
    auto operator<=>(const Frame&) const = default;
  };
  // How far an object is.
  struct Progress {
    uint32_t object;
    std::vector<uint64_t> seen;
    uint32_t next = 0;            // kSchema: first property that may still come
    uint32_t others = 0;          // members that are no properties
    std::vector<uint32_t> names;  // of the others, sorted, where names are remembered
    // Found on first use.
    bool known = false, may_close = false;
    ExprId keys = ExpressionPool::kNothing;
  };

  static bool has_lex(Phase phase) {
    return phase == Phase::kText || phase == Phase::kScalar || phase == Phase::kString || phase == Phase::kKey ||
           phase == Phase::kName || phase == Phase::kBare || phase == Phase::kMarked || phase == Phase::kCloseName;
  }
  // Names, and strings of which few fit, as JSON writers spell them: where texts are read that others wrote, any spelling.
  bool writes_plainly() const { return options_.order == PropertyOrder::kSchema; }
  StateId compute(StateId state, uint8_t byte);
  StateId intern(bool accepts);
  void advance(const Place& place, uint8_t byte);
  void complete(uint32_t frame);  // a value in it has ended
  void put(Place place) { next_.push_back(place); }
  void put_lex(Phase phase, const Lex& lex, uint32_t frame);
  bool step_character(Lex& lex, uint8_t byte, bool& at_boundary);
  bool step_plain_character(Lex& lex, uint8_t byte, bool& at_boundary);
  void find_allowed(StateId state, TokenMask& mask);
  bool partial_is_alive(const Lex& lex);
  bool read(Lex& lex, uint32_t code_point);
  uint32_t recall_frame(Past& past, uint32_t frame);
  uint32_t recall_name(Past& past, uint32_t name);
  uint32_t longer_name(uint32_t name, uint32_t code_point);
  void know_taken(uint32_t progress_id);
  uint32_t n_taken_behind(uint32_t name, uint32_t first, uint32_t last) const;
  uint32_t intern_lex(const Lex& lex);
  uint32_t intern_frame(const Frame& frame);
  uint32_t intern_progress(Progress progress);
  void open_value(uint32_t shape, uint32_t frame, uint8_t byte);
  const Progress& progress(uint32_t id);
  bool feasible(const ObjectShape& object, const Progress& progress);
  static uint64_t others_left(const ObjectShape& object, const Progress& progress);
  static bool remembers_names(const ObjectShape& object);
  void add_next_in_order(const ObjectShape& object, const Progress& now, const std::vector<ExprId>& names,
                         std::vector<ExprId>& ways);
  void close_key(const Place& place);
  bool is_spelled(uint32_t frame) const;
  bool in_tags() const { return options_.spelling && options_.spelling->in_tags(); }
  const std::string& literal(Phase phase, uint32_t frame);
  void begin_literal(Phase phase, uint32_t what, uint32_t frame);
  void advance_literal(Place place, uint8_t byte);
  void end_literal(const Place& place);
  void begin_members(uint32_t object, uint32_t parent);
  void end_members(uint32_t frame);
  void end_member(uint32_t frame);
  void end_name(uint32_t frame, const Lex& lex);
  ExprId other_name(uint32_t object, uint32_t index);
  ExprId text_of(uint32_t what);
  ExprId json_string_of(ShapeId shape);
  ExprId without_end(ExprId text);
  const std::string& closing_tag(uint32_t frame, bool opens_item);
  void close_tag(uint32_t frame);
  bool is_nullable(const Shape& shape);
  ExprId tagged_text(ShapeId shape);
  void begin_tagged_value(ShapeId shape, uint32_t frame);
  void begin_item(uint32_t frame);
  void end_tag(uint32_t frame);
  void begin_text(Phase phase, ExprId text, uint32_t frame);
  void end_text(Phase phase, uint32_t frame);
  void advance_text(const Place& place, uint8_t byte);
  ExprId python_scalar(ExprId scalar);
  void advance_lead(Place place, uint8_t byte);
  void begin_lead_close(uint32_t read);
  void begin_whole();
  uint32_t with_member(uint32_t progress_id, uint32_t property);
  bool any_alive(const Lex& lex, uint32_t first, uint32_t last);
  ExprId uniform(ExprId e, uint32_t first, uint32_t last);
  void forget(Lex& lex);
  void walk(const TokenTree& tree, uint32_t first, uint32_t end, StateId state, TokenMask& mask);
  bool mostly_free(StateId state);

  Schema& schema_;
  ExpressionPool& pool_;
  const TokenTrie& trie_;
  const AutomatonOptions options_;
  StateId start_ = kDead;
  bool failed_ = false;
  bool accepts_next_ = false;
  std::vector<Place> next_;     // scratch
  std::vector<uint32_t> tags_;  // scratch
  std::vector<Header> headers_;
  std::vector<Place> places_;
  std::vector<uint32_t> rows_;       // state -> row of transitions_
  std::vector<int16_t> only_bytes_;  // of states: only_byte(), or kUnknownByte
  std::vector<StateId> transitions_;
  std::unordered_multimap<uint64_t, StateId> states_by_hash_;
  std::vector<Lex> lexes_;
  std::unordered_multimap<uint64_t, uint32_t> lexes_by_hash_;
  std::vector<Frame> frames_;
  std::unordered_multimap<uint64_t, uint32_t> frames_by_hash_;
  std::vector<Progress> progress_;
  std::unordered_multimap<uint64_t, uint32_t> progress_by_hash_;
  std::unordered_map<uint64_t, uint32_t> name_children_;  // name << 21 | code point -> name
  std::vector<uint64_t> name_origins_{0, 0};              // and back. 1: of no characters
  // The names that an object has taken, by what they begin with: each next character, and how many go on with it.
  std::unordered_map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> taken_;
  uint32_t taken_of_ = UINT32_MAX;                          // into progress_
  std::vector<std::vector<ExprId>> name_expressions_;       // by object: each property's name with its tag
  std::unordered_map<uint32_t, ExprId> texts_;              // of text_of()
  std::unordered_map<uint32_t, ExprId> tagged_texts_;       // of tagged_text()
  std::unordered_map<uint64_t, std::string> closing_tags_;  // object << 32 | property
  std::unordered_map<ExprId, ExprId> python_;               // of python_scalar()
  std::vector<StateId> stack_;                              // scratch of walks
  struct KnownMask {
    StateId state;
    TokenMask mask;
  };
  std::vector<KnownMask> known_masks_;  // a ring
  struct Walk {
    StateId state;
    bool subtracts;  // begins with all plain tokens and removes those that may not come
    uint32_t tree, node;
  };
  Walk unfinished_{kDead, false, 0, 0};          // of the mask that is found next
  size_t next_mask_ = 0;                         // to be overwritten
  std::unordered_map<StateId, uint32_t> masks_;  // into the ring
};

struct Automaton::Past {
  std::vector<Header> headers;
  std::vector<Place> places;
  std::vector<Lex> lexes;
  std::vector<Frame> frames;
  std::vector<Progress> progress;
  std::vector<uint64_t> name_origins;
  std::unique_ptr<ExpressionPool::Past> expressions;
  std::unordered_map<StateId, StateId> states;  // recalled
  std::unordered_map<uint32_t, uint32_t> recalled_frames;
  size_t bytes() const;
};

}  // namespace monolith::grammar
