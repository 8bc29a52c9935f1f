// The number of rows that an operation computes.
#pragma once

namespace monolith {

struct StepInput;

// A backend may capture the operations of a decode step once and replay them for steps with more tokens (CUDA graphs).
// An operation that computes all rows of the step must then compute the rows of the replayed step, and an operation
// over any other number of rows cannot be replayed. A plain integer does not distinguish these two cases, so the origin
// of a row count is part of its type: only StepInput::rows() creates a count of the first kind.
//
// There is no arithmetic on row counts. An operation that treats each row as several vectors takes the number of rows
// and the number of vectors per row separately.
class RowCount {
 public:
  // A number of rows that is independent of the step's number of tokens. Operations on such a number of rows must not
  // be part of a step that may be captured (StepInput::recordable).
  static constexpr RowCount fixed(int n) { return {n, false}; }

  constexpr int value() const { return n_; }
  constexpr bool is_whole_step() const { return whole_step_; }

 private:
  friend struct StepInput;
  constexpr RowCount(int n, bool whole_step) : n_(n), whole_step_(whole_step) {}

  int n_;
  bool whole_step_;
};

}  // namespace monolith
