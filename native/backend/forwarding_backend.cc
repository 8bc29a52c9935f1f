#include "backend/forwarding_backend.h"

namespace monolith {
namespace {

// Attention work of a list of segments: the number of (token, position) pairs in which the token attends to the
// position, and the number of distinct positions.
struct Reach {
  int64_t pairs = 0, positions = 0;
};

Reach reach_of(std::span<const Segment> segments, int window) {
  Reach reach;
  for (const Segment& segment : segments) {
    const int64_t first = segment.first_position, n = segment.n_tokens, end = first + n;
    const auto seen = [&](int64_t position) {
      const int64_t before = window > 0 && position + 1 > window ? int64_t{window} : position + 1;
      return before + segment.seen_by(static_cast<int>(position)) - 1 - position;
    };
    if (window > 0 || segment.seen_end > 0)
      for (int64_t position = first; position < end; ++position) reach.pairs += seen(position);
    else
      reach.pairs += n * (first + 1) + n * (n - 1) / 2;
    reach.positions += n - 1 + seen(first);
  }
  return reach;
}

}  // namespace

OperationWork ForwardingBackend::work_of(std::span<const MatmulTarget> targets, RowCount rows) {
  OperationWork work;
  for (const MatmulTarget& target : targets) {
    work.inputs = target.weight->cols;
    work.outputs += target.weight->rows;
    work.bytes += target.weight->bytes;
  }
  work.operations = 2 * static_cast<uint64_t>(work.inputs * work.outputs) * static_cast<uint64_t>(rows.value());
  return work;
}

OperationWork ForwardingBackend::work_of(std::span<const AdapterTarget> targets) {
  OperationWork work;
  for (const AdapterTarget& target : targets) {
    work.bytes += target.matrix->bytes;
    work.operations += 2 * target.rows.size() * static_cast<uint64_t>(target.matrix->rank) *
                       static_cast<uint64_t>(target.matrix->rows + target.matrix->cols);
  }
  return work;
}

OperationWork ForwardingBackend::work_of(const BatchedMatmul& products, RowCount rows) {
  const Matrix& weight = *products.weight;
  OperationWork work{.inputs = weight.cols, .outputs = weight.rows, .bytes = weight.bytes};
  work.operations =
      2 * static_cast<uint64_t>(weight.cols * products.rows * products.n_heads) * static_cast<uint64_t>(rows.value());
  return work;
}

OperationWork ForwardingBackend::work_of(const AttentionCall& call) {
  const Reach reach = reach_of(call.segments, call.params.window);
  const KvShape& shape = call.cache.shape;
  const LayerState& own = shape.layers[static_cast<size_t>(call.layer)];
  // A page contains the keys and values of all layers that use its page table. bytes_per_position is one layer's share
  // of a page, per position.
  const auto bytes_per_position =
      call.cache.bytes / static_cast<size_t>(shape.n_pages) / static_cast<size_t>(shape.n_slots()) / kPageTokens;
  OperationWork work;
  work.bytes = static_cast<uint64_t>(reach.positions) * bytes_per_position;
  work.operations = 4 * static_cast<uint64_t>(reach.pairs) * static_cast<uint64_t>(call.n_heads * own.key_dim);
  return work;
}

OperationWork ForwardingBackend::work_of(const SparseIndexer& index, std::span<const Segment> segments,
                                         const KvCache& cache) {
  const Reach reach = reach_of(segments, 0);
  const LayerState& layer = cache.shape.layers[static_cast<size_t>(index.layer)];
  OperationWork work;
  work.operations = 2 * static_cast<uint64_t>(reach.pairs) * static_cast<uint64_t>(index.n_heads) *
                    static_cast<uint64_t>(layer.key_dim);
  return work;
}

OperationWork ForwardingBackend::work_of(const Mixture& mixture, RowCount rows) {
  // The number of bytes is only a lower bound, because it is not known how many distinct experts the tokens select.
  const MixtureShape& shape = mixture.shape;
  const uint64_t of_one =
      ((mixture.gate != nullptr ? mixture.gate->bytes : 0) + mixture.up->bytes + mixture.down->bytes) /
      static_cast<size_t>(shape.n_experts);
  OperationWork work;
  work.bytes = of_one * static_cast<uint64_t>(shape.n_used);
  work.operations = (mixture.gate ? 6u : 4u) * static_cast<uint64_t>(shape.n_embd) * static_cast<uint64_t>(shape.n_ff) *
                    static_cast<uint64_t>(shape.n_used) * static_cast<uint64_t>(rows.value());
  return work;
}

OperationWork ForwardingBackend::work_of(const Convolution& convolution, std::span<const Segment> segments) {
  OperationWork work;
  for (const Segment& segment : segments) {
    work.bytes += 2 * static_cast<uint64_t>(convolution.state_floats()) * sizeof(float);
    work.operations += 2 * static_cast<uint64_t>(segment.n_tokens) *
                       static_cast<uint64_t>(convolution.conv_kernel_size) *
                       static_cast<uint64_t>(convolution.n_channels);
  }
  return work;
}

OperationWork ForwardingBackend::work_of(const DeltaRule& rule, std::span<const Segment> segments) {
  // The state is read from and written to memory once per segment. Each token decays the state, reads it twice and adds
  // to it.
  OperationWork work;
  const auto of_state = static_cast<uint64_t>(rule.state_floats());
  for (const Segment& segment : segments) {
    work.bytes += 2 * of_state * sizeof(float);
    work.operations += 7 * static_cast<uint64_t>(segment.n_tokens) * of_state;
  }
  return work;
}

OperationWork ForwardingBackend::work_of(const TimeMix& mix, std::span<const Segment> segments) {
  OperationWork work;
  const auto of_state = static_cast<uint64_t>(mix.state_floats());
  for (const Segment& segment : segments) {
    work.bytes += 2 * of_state * sizeof(float);
    work.operations += (mix.delta ? 9 : 5) * static_cast<uint64_t>(segment.n_tokens) * of_state;
  }
  return work;
}

OperationWork ForwardingBackend::work_of(const StateSpace& space, std::span<const Segment> segments) {
  OperationWork work;
  const auto of_state = static_cast<uint64_t>(space.state_floats());
  for (const Segment& segment : segments) {
    work.bytes += 2 * of_state * sizeof(float);
    work.operations += 5 * static_cast<uint64_t>(segment.n_tokens) * of_state;
  }
  return work;
}

}  // namespace monolith
