// Records which requests were submitted and what they received. Every record of every request is compared with the
// response that the request would get alone, and with the actions that affect the request.
#pragma once

#include <bitset>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "simulation/alone.h"
#include "simulation/scenario.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith::simulation {

class Witness {
 public:
  Witness(const Setup& setup, const Tokenizer& tokenizer, int max_context)
      : setup_(setup), tokenizer_(tokenizer), max_context_(max_context) {}

  struct Choice {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;  // The network's log probabilities for `tokens`.
    std::string text;
    size_t n_entries = 0;  // Number of logprobs received.
    int n_closing = 0;     // Number of closing-sequence tokens received.
    bool finished = false;
    std::unique_ptr<Alone> alone;
  };
  struct Known {
    const Ask* ask;
    int channel;
    int64_t submitted_ns, deadline_ns;  // Time of submission, and the deadline in the queue (0: none).
    int64_t submitted_step = 0;
    bool started = false, failed = false;
    bool forgotten = false;  // The request was cancelled, or its reader is gone.
    bool retired = false;    // The engine has reported the end of the request.
    bool spoilt = false;     // The simulation made the request's logits non-finite.
    std::bitset<kMaxChoices> finishing;
    int64_t started_ns = 0;
    size_t n_scores = 0;
    std::unique_ptr<Alone> prompt;
    std::map<int, Choice> choices;
    int n_finished = 0;
    bool over() const { return failed || n_finished == ask->n; }
  };

  void submitted(RequestId id, const Ask& ask, int64_t step);
  Known* find(RequestId id);
  std::map<RequestId, Known>& all() { return known_; }
  void forget(RequestId id);
  void retired(RequestId id);
  // Reads a channel's records and checks each of them. Throws Violation if a record is malformed or unexpected.
  void read(std::span<const std::byte> records);
  // After this call, requests in progress may time out, and other requests may be rejected because the engine is
  // shutting down.
  void shutting_down(bool in_order) { shuts_ = true, in_order_ = in_order; }
  void running_again() { shuts_ = false; }
  // Forgets the requests that have ended and whose records have all been read.
  void drop_finished();
  uint64_t trace() const { return trace_; }
  int64_t tokens() const { return n_tokens_; }

 private:
  class Record;
  void read_started(RequestId id, Known& known, Record& record);
  void read_text(RequestId id, Known& known, int choice, bool has_logprobs, Record& record);
  void read_tokens(RequestId id, Known& known, int choice, Record& record);
  void read_prompt(RequestId id, Known& known, Record& record);
  void read_finished(RequestId id, Known& known, int choice, FinishReason reason, Record& record);
  void read_failed(RequestId id, Known& known, FailureCode code);
  void take(RequestId id, Known& known, int choice, TokenId token);
  void check_text(RequestId id, const Known& known, const Choice& choice, FinishReason reason) const;
  Alone& prompt_of_known(Known& known);

  const Setup& setup_;
  const Tokenizer& tokenizer_;
  const int max_context_;
  std::map<RequestId, Known> known_;
  bool shuts_ = false, in_order_ = false;
  uint64_t trace_ = 0;
  int64_t n_tokens_ = 0;
};

// Returns the tokens that close a request's reasoning when its budget is used up.
std::vector<TokenId> closing_of(const Ask& ask);
std::string stop_of(const Ask& ask);

}  // namespace monolith::simulation
