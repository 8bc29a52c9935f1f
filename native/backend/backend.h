// HOW the forward pass computes: what the CPU and CUDA backends implement, in five roles. Who needs one of them
// takes that one; a kernel never sees a request.
//
//   role             header               what                          used by
//   Loading          loading.h            memory, matrices, caches      whoever loads a model or plans its memory
//   StepControl      steps.h              begin, end, wait              the model, the engine's loop
//   Operations       operations.h         the forward pass              the model's layers
//   HostThreads      host_threads.h       threads for the host's work   the sampler of the host
//   DeviceSampling   device_sampling.h    tokens chosen on the device   the sampler
//
// A sixth some have besides: TowerOperations (tower_operations.h), for what looks at images.
//
// Pointers named `float*` point into memory the backend allocated (Loading::allocate): host memory on
// CPU, device memory on CUDA. Only read_floats() and the arguments marked "host" cross that line.
//
// Batch invariance is part of this contract: every output row of every operation is computed by an
// order of floating-point operations that depends on that row's own inputs (and, for attention, on its
// absolute position) and never on which other rows share the call, on how a sequence was cut into
// segments, or on the number of threads.
//
// Threads: one thread (the engine's) calls a backend at a time. After construction nothing allocates
// except the functions that say so.
#pragma once

#include <string>

#include "backend/device_sampling.h"
#include "backend/host_threads.h"
#include "backend/loading.h"
#include "backend/operations.h"
#include "backend/steps.h"

namespace monolith {

class TowerOperations;

struct BackendInfo {
  std::string name;  // "cpu", "cuda"
  std::string isa;   // "plain", "avx2", "avx512", ...: the kernels that really run
  int threads;
};

class Backend : public Loading, public StepControl, public Operations, public HostThreads, public DeviceSampling {
 public:
  virtual ~Backend() = default;
  virtual BackendInfo info() const = 0;
  // What an operator should know of how it runs by now; empty: nothing. May be asked by any thread at any time.
  virtual std::string note() const { return {}; }
  // Null: it computes no towers.
  virtual TowerOperations* towers() { return nullptr; }
};

}  // namespace monolith
