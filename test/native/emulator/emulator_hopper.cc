// Emulation of device/wgmma.h: barriers with byte counts, bulk copies and warpgroup matrix products (Hopper).
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cuda/device/wgmma.h"

namespace monolith::cuda::emulator {
namespace {

// The 64 bits of a barrier: the number of expected arrivals, the number of outstanding arrivals, the number of
// outstanding bytes, and the parity of the current phase.
struct State {
  uint16_t arrivals;
  uint16_t to_come;
  int32_t bytes_and_parity;  // Outstanding bytes * 2 + parity of the current phase.

  static State of(uint64_t bits) { return std::bit_cast<State>(bits); }
  int parity() const { return bytes_and_parity & 1; }
  int bytes() const { return bytes_and_parity >> 1; }
};

// Updates the arrivals and bytes of the barrier. Completes the phase if nothing is outstanding.
void settle(uint64_t& bits, State state, int bytes) {
  int parity = state.parity();
  if (state.to_come == 0 && bytes == 0) {
    state.to_come = state.arrivals;
    parity ^= 1;
    note_progress();
  }
  state.bytes_and_parity = bytes * 2 + parity;
  bits = std::bit_cast<uint64_t>(state);
}

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  uint64_t* barrier;
};
std::vector<Copy> copies;  // Bulk copies that have started but not arrived.

// A matrix product that a thread has issued but whose completion it has not awaited yet.
struct Product {
  float* sums;
  int quads;
  const Words4* a;  // Address of this lane's registers for A; `words` is their content when the product was issued.
  Words4 words;
  uint16_t rows[2][16];  // The two rows of A that this lane computes.
  const std::byte* b;
  int k_bytes, column_bytes;
  bool add;
  float (*decode)(uint16_t);
};
struct Pending {
  std::vector<Product> products;  // Matrix products issued but not waited for, oldest first.
  std::vector<size_t> batches;    // Number of products in each committed batch.
  size_t open = 0;                // Number of products in the batch that is not yet committed.
  bool fenced = false;
};
std::vector<Pending> pending(1024);

void compute(const Product& p) {
  const unsigned t = where.thread.x % 4;
  float a[2][16];
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < 16; ++k) a[half][k] = p.decode(p.rows[half][k]);
  for (int quad = 0; quad < p.quads; ++quad)
    for (unsigned c = 0; c < 2; ++c) {
      uint16_t bits[16];
      for (int half = 0; half < 2; ++half)
        std::memcpy(bits + 8 * half, p.b + quad * p.column_bytes + half * p.k_bytes + (2 * t + c) * 16, 16);
      float b[16];
      for (int k = 0; k < 16; ++k) b[k] = p.decode(bits[k]);
      for (int half = 0; half < 2; ++half) {
        float sum = 0;
        for (int k = 0; k < 16; ++k) sum += a[half][k] * b[k];
        float& to = p.sums[quad * 4 + half * 2 + static_cast<int>(c)];
        to = (p.add ? to : 0.0f) + sum;
      }
    }
}

}  // namespace

void barrier_init(uint64_t& state, int arrivals) {
  const auto n = static_cast<uint16_t>(arrivals);
  state = std::bit_cast<uint64_t>(State{n, n, 0});
}

void barrier_arrive(uint64_t& bits, int bytes) {
  State state = State::of(bits);
  if (state.to_come == 0 || state.to_come > state.arrivals)
    stop("more threads arrive at a barrier than it was made for");
  --state.to_come;
  note_progress();
  settle(bits, state, state.bytes() + bytes);
}

void barrier_wait(uint64_t& bits, int parity) {
  while (State::of(bits).parity() == parity) {
    // Bulk copies arrive as late as possible: only when the bytes are the only thing for which the barrier still waits.
    size_t kept = 0;
    const bool late = State::of(bits).to_come == 0;
    for (size_t i = 0; i < copies.size(); ++i) {
      const Copy copy = copies[i];
      if (!late || copy.barrier != &bits) {
        copies[kept++] = copy;
        continue;
      }
      std::memcpy(copy.to, copy.from, copy.bytes);
      const State state = State::of(bits);
      settle(bits, state, state.bytes() - static_cast<int>(copy.bytes));
    }
    copies.resize(kept);
    if (State::of(bits).parity() == parity) pause_thread();
  }
}

void copy_bulk(void* to_shared, const void* from, int bytes, uint64_t& state) {
  if (bytes <= 0 || bytes % 16 != 0 || reinterpret_cast<uintptr_t>(to_shared) % 16 != 0 ||
      reinterpret_cast<uintptr_t>(from) % 16 != 0)
    stop("a bulk copy must be aligned to 16 bytes and a multiple of 16 bytes long");
  std::memset(to_shared, 0xff, static_cast<size_t>(bytes));
  copies.push_back({to_shared, from, static_cast<size_t>(bytes), &state});
}

uint64_t operand_at(const void* shared, int k_bytes, int column_bytes) {
  const auto at =
      static_cast<uint64_t>(static_cast<const std::byte*>(shared) - static_cast<const std::byte*>(shared_memory(0)));
  if (at % 16 != 0 || k_bytes % 16 != 0 || column_bytes % 16 != 0)
    stop("operands of matrix products must be aligned to 16 bytes");
  return (at & 0x3ffffu) >> 4 | static_cast<uint64_t>(k_bytes >> 4) << 16 |
         static_cast<uint64_t>(column_bytes >> 4) << 32;
}

void product(float* sums, int quads, const Words4& a, uint64_t operand, bool add, float (*decode)(uint16_t)) {
  const unsigned lane = where.thread.x % 32;
  const auto* all = reinterpret_cast<const Words4*>(exchange(&a, sizeof a));
  Product p{sums, quads, &a, a, {}, nullptr, 0, 0, add, decode};
  for (unsigned t = 0; t < 4; ++t) {
    const Words4& words = all[lane / 4 * 4 + t];
    std::memcpy(&p.rows[0][2 * t], &words.x, 4);
    std::memcpy(&p.rows[1][2 * t], &words.y, 4);
    std::memcpy(&p.rows[0][2 * t + 8], &words.z, 4);
    std::memcpy(&p.rows[1][2 * t + 8], &words.w, 4);
  }
  p.b = static_cast<const std::byte*>(shared_memory(0)) + ((operand & 0x3fff) << 4);
  p.k_bytes = static_cast<int>(operand >> 16 & 0x3fff) << 4;
  p.column_bytes = static_cast<int>(operand >> 32 & 0x3fff) << 4;
  Pending& own = pending[where.thread.x];
  if (!own.fenced) stop("a matrix product without products_fence()");
  own.products.push_back(p);
  ++own.open;
}

void products_fence() { pending[where.thread.x].fenced = true; }

// After the commit, a thread may write to its registers again, so the next batch of products needs another fence.
void products_commit() {
  Pending& own = pending[where.thread.x];
  own.batches.push_back(std::exchange(own.open, 0));
  own.fenced = false;
}

void products_wait(int left) {
  Pending& own = pending[where.thread.x];
  if (own.open > 0) stop("products_wait() was called before products_commit()");
  while (own.batches.size() > static_cast<size_t>(left)) {
    const auto n = static_cast<ptrdiff_t>(own.batches.front());
    for (ptrdiff_t i = 0; i < n; ++i) {
      const Product& p = own.products[static_cast<size_t>(i)];
      if (std::memcmp(p.a, &p.words, sizeof p.words) != 0)
        stop("registers of an unfinished matrix product were written");
      compute(p);
    }
    own.products.erase(own.products.begin(), own.products.begin() + n);
    own.batches.erase(own.batches.begin());
  }
  wait_warp();  // As on the GPU, B may be overwritten only after all lanes have read it.
}

}  // namespace monolith::cuda::emulator
