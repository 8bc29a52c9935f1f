// Pushdown automaton over bytes for a compiled schema, made deterministic lazily. A state is the set of configurations
// that the text read so far can lead to; each configuration has its own stack of open objects and arrays. States are
// interned, so each transition and each token mask is computed only once.
//
// The automaton is bounded. When it reaches a size limit, it fails, and the caller must build a new automaton, which
// can import the states still in use with recall() (`Grammar` does this). When the automaton runs out of fuel, it
// stops. Once it is refueled, the same call resumes where it stopped. An automaton may be used by only one thread at a
// time.
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
// kWithin: whitespace is allowed inside the value but not before it.
enum class WhiteSpace : uint8_t { kNone, kFlexible, kWithin };

struct AutomatonOptions {
  PropertyOrder order = PropertyOrder::kSchema;
  WhiteSpace white_space = WhiteSpace::kNone;
  std::string suffix;  // Bytes that must follow the value.
  Lead lead;           // Prefix before the value: characters that the model generates, then a fixed text.
  // The value's syntax if it is not JSON; in that case, the value must be an object. In the spelling's literals,
  // special tokens appear as the symbols of GrammarVocabulary.
  std::optional<Spelling> spelling;
  size_t most_states = 200'000;
  size_t most_places = 4'000'000;  // Maximum number of configurations across all states.
  size_t most_rows = 200'000;      // Maximum number of states with a transition table (1 KiB each).
  // Maximum total size of the cached token masks, in bytes. When this limit is reached, the oldest mask is overwritten.
  size_t most_mask_bytes = 64 << 20;
};

class Automaton {
 public:
  static constexpr StateId kDead = 0;

  // `schema` and `trie` must outlive the automaton.
  Automaton(Schema& schema, const TokenTrie& trie, const AutomatonOptions& options);

  StateId start() const { return start_; }
  // Returns the state after one more byte. Returns kDead if no valid text starts with these bytes. Also returns kDead
  // if a limit was reached (failed()) or the fuel has run out (spent()).
  StateId step(StateId state, uint8_t byte) {
    const uint32_t row = rows_[state];
    if (row != kNoRow) {
      const StateId next = transitions_[size_t{row} * 256 + byte];
      if (next != kUnknown) return next;
    }
    return compute(state, byte);
  }
  // accepts(): the text so far is complete. ends(): the text is complete and nothing can follow.
  bool accepts(StateId state) const { return headers_[state].accepts; }
  bool ends(StateId state) const { return headers_[state].accepts && headers_[state].n_places == 0; }
  // Returns the only byte that may come next. Returns kNoByte if several bytes or none may come next, or if the text
  // may end here.
  static constexpr int kNoByte = -1;
  int only_byte(StateId state);
  // Returns whether any token starts with `text` and continues with a byte that is allowed at `state`.
  bool goes_on_in_a_token(std::string_view text, StateId state);
  // Computes the set of tokens that may come next. `mask` has one bit per token of the trie.
  void allowed(StateId state, TokenMask& mask);
  // Like the overload above, but returns a cached mask. The reference is valid until a later call overwrites this cache
  // entry.
  const TokenMask& allowed(StateId state);
  // Whether the token mask of `state` is cached.
  bool knows_allowed(StateId state) const { return masks_.contains(state); }
  bool knows_step(StateId state, uint8_t byte) const {
    return rows_[state] != kNoRow && transitions_[size_t{rows_[state]} * 256 + byte] != kUnknown;
  }
  bool knows_only_byte(StateId state) const { return only_bytes_[state] != kUnknownByte; }
  int known_only_byte(StateId state) const { return only_bytes_[state]; }
  // The states of an automaton that has reached its limits, without its transitions.
  struct Past;
  // Moves the states out of the automaton and leaves it empty.
  std::unique_ptr<Past> into_past(std::unique_ptr<ExpressionPool::Past> expressions);
  // Imports a state of an earlier automaton with the same schema and options, and returns its ID in this automaton.
  // Returns kDead if failed().
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
    // Handlers for the phases in automaton_spelling.cc.
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
    // Handlers for the phases in automaton_tags.cc.
    kItemOpen,
    kTagClose,
    kCloseName,
    kTagEnd
  };

  struct Place {
    Phase phase;
    // Depends on the phase. kValue, kColon, kJsonOpen: the shape. kTextOpen, kStringOpen: the argument of text_of().
    // kSuffix: number of bytes read.
    uint32_t what = 0;
    uint32_t lex = 0;  // If has_lex(): index into lexes_. Literals: bytes read. Other phases: spaces read.
    uint32_t frame = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Header {
    uint32_t first_place, n_places;
    bool accepts;
    uint32_t free;  // Number of arbitrary string characters that may come next without leaving the grammar.
  };
  struct Lex {
    ExprId expression;
    uint32_t sub = 0;  // State within a character (see automaton_characters.cc).
    uint32_t more = 0;
    bool between() const { return sub == 0; }  // Between two characters.
    uint32_t name = 0;  // Node in the name tree, if the object's member names are remembered; otherwise 0.
    // Only characters that require an escape may be escaped, and only in the short form if the character has one.
    bool plain = false;
    auto operator<=>(const Lex&) const = default;
  };
  struct Frame {
    bool is_object;
    uint32_t shape;  // Index into the schema's objects or arrays.
    // For objects and arrays of distinct items: index into progress_. For other arrays: number of items so far.
    uint32_t progress;
    uint32_t parent;
    // Tag syntax: 1 + the tag number of the member or item whose value is being written; 0 between members.
    uint32_t open = 0;
    uint32_t n_matches = 0;  // Array that counts matches: counted items so far.
    auto operator<=>(const Frame&) const = default;
  };
  // The members that an object already has, or the items that an array of distinct items already has.
  struct Progress {
    uint32_t object;
    std::vector<uint64_t> seen;
    uint32_t next = 0;    // PropertyOrder::kSchema: index of the first property that may still come.
    uint32_t others = 0;  // Number of members that are not declared properties.
    // The names of the members counted in `others`, sorted. Empty if the object's names are not remembered.
    std::vector<uint32_t> names;
    uint32_t marks = 0;  // Marks of the object that its members carry so far.
    // Computed on first use by progress().
    bool known = false, may_close = false;
    ExprId keys = ExpressionPool::kNothing;
  };

  static bool has_lex(Phase phase) {
    return phase == Phase::kText || phase == Phase::kScalar || phase == Phase::kString || phase == Phase::kKey ||
           phase == Phase::kName || phase == Phase::kBare || phase == Phase::kMarked || phase == Phase::kCloseName;
  }
  // Whether member names and schema-restricted strings must be escaped as JSON encoders escape them. Input that the
  // model did not generate in schema order (`kAny`) may use any valid escape.
  bool writes_plainly() const { return options_.order == PropertyOrder::kSchema; }
  StateId compute(StateId state, uint8_t byte);
  StateId intern(bool accepts);
  void advance(const Place& place, uint8_t byte);
  void complete(uint32_t frame);  // Called at the end of a value inside `frame`.
  const ArrayShape* unique_array(uint32_t frame) const;
  void complete_item(uint32_t frame, uint32_t name);
  void advance_unique(const Place& place, uint8_t byte);
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
  uint32_t begin_array(uint32_t array, uint32_t parent);
  void open_value(uint32_t shape, uint32_t frame, uint8_t byte);
  const Progress& progress(uint32_t id);
  bool feasible(const ObjectShape& object, const Progress& progress);
  uint64_t names_left(const ObjectShape::OtherNames& group, const Progress& progress);
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
  // Returns whether all tokens below `node` are allowed because the next characters may be anything, for at least as
  // many characters as the longest of these tokens has.
  bool is_free(StateId state, const TokenTree::Node& node) const {
    return headers_[state].free >= node.height && headers_[state].free > 0;
  }
  void walk(const TokenTree& tree, uint32_t root, StateId state, TokenMask& mask, bool subtracts);
  bool allows_most_beginnings(StateId state);

  Schema& schema_;
  ExpressionPool& pool_;
  const TokenTrie& trie_;
  const AutomatonOptions options_;
  StateId start_ = kDead;
  bool failed_ = false;
  bool accepts_next_ = false;
  std::vector<Place> next_;     // Scratch memory.
  std::vector<uint32_t> tags_;  // Scratch memory.
  std::vector<Header> headers_;
  std::vector<Place> places_;
  std::vector<uint32_t> rows_;       // Index of each state's row in transitions_, or kNoRow.
  std::vector<int16_t> only_bytes_;  // Cached only_byte() of each state, or kUnknownByte.
  std::vector<StateId> transitions_;
  std::unordered_multimap<uint64_t, StateId> states_by_hash_;
  std::vector<Lex> lexes_;
  std::unordered_multimap<uint64_t, uint32_t> lexes_by_hash_;
  std::vector<Frame> frames_;
  std::unordered_multimap<uint64_t, uint32_t> frames_by_hash_;
  std::vector<Progress> progress_;
  std::unordered_multimap<uint64_t, uint32_t> progress_by_hash_;
  std::unordered_map<uint64_t, uint32_t> name_children_;  // Key: name << 21 | code point. Value: the child name.
  std::vector<uint64_t> name_origins_{0, 0};              // Inverse of name_children_. Name 1 is the empty name.
  // Counts, by prefix, of the names that one object already has. For each prefix, this maps each possible next
  // character to the number of names that continue with it.
  std::unordered_map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> taken_;
  uint32_t taken_of_ = UINT32_MAX;  // Index into progress_ of the object that taken_ describes.
  // For each object shape: the expressions for the names of its properties, each with the property's tag.
  std::vector<std::vector<ExprId>> name_expressions_;
  std::unordered_map<uint32_t, ExprId> texts_;              // Cache of text_of().
  std::unordered_map<uint32_t, ExprId> tagged_texts_;       // Cache of tagged_text().
  std::unordered_map<uint64_t, std::string> closing_tags_;  // Key: object << 32 | property.
  std::unordered_map<ExprId, ExprId> python_;               // Cache of python_scalar().
  std::vector<StateId> stack_;                              // Scratch for walk(): the state at each trie depth.
  struct KnownMask {
    StateId state;
    TokenMask mask;
  };
  std::vector<KnownMask> known_masks_;  // Ring buffer.
  struct Walk {
    StateId state;
    bool subtracts;  // The walk starts with all plain tokens allowed and removes the tokens that are not.
    uint32_t tree, node;
  };
  Walk unfinished_{kDead, false, 0, 0};          // Progress of the mask being computed, to resume after refueling.
  size_t next_mask_ = 0;                         // Index in known_masks_ of the next entry to overwrite.
  std::unordered_map<StateId, uint32_t> masks_;  // Maps a state to its index in known_masks_.
};

struct Automaton::Past {
  std::vector<Header> headers;
  std::vector<Place> places;
  std::vector<Lex> lexes;
  std::vector<Frame> frames;
  std::vector<Progress> progress;
  std::vector<uint64_t> name_origins;
  std::unique_ptr<ExpressionPool::Past> expressions;
  std::unordered_map<StateId, StateId> states;  // Old state to imported state.
  std::unordered_map<uint32_t, uint32_t> recalled_frames;
  size_t bytes() const;
};

}  // namespace monolith::grammar
