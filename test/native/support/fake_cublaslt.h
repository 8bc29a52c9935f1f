// Controls which errors fake_cublaslt.cc injects, and exposes its counters. Tests get the Control through a function
// that they look up by name, as with the functions of the real library.
#pragma once

namespace fake_cublaslt {

struct Control {
  bool finds_nothing = false;  // The heuristic returns no algorithm.
  int fails_after = -1;        // Number of matrix products before one fails. Negative: none fails.
  bool is_wrong = false;       // The results of matrix products are off by one.
  int heuristics = 0, products = 0;
  int layouts = 0;  // Number of layouts that exist.
  int handles = 0;
};
using GetControl = Control* (*)();  // The type of "fake_cublaslt_control".

}  // namespace fake_cublaslt
