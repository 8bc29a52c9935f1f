// What fake_cublaslt.cc does wrong when it is asked to, and what it counts. Found by name, as the library's functions.
#pragma once

namespace fake_cublaslt {

struct Control {
  bool finds_nothing = false;  // the heuristic has no algorithm
  int fails_after = -1;        // products that succeed before one fails; below 0: none fails
  bool is_wrong = false;       // products are off by one
  int heuristics = 0, products = 0;
  int layouts = 0;  // that exist
  int handles = 0;
};
using GetControl = Control* (*)();  // "fake_cublaslt_control"

}  // namespace fake_cublaslt
