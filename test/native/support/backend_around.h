// A backend that hands every operation on to another one: what tests meddle with.
#pragma once

#include "backend/backend.h"

namespace monolith::testing {

class BackendAround : public Backend {
 public:
  explicit BackendAround(Backend& inner) : inner_(inner) {}

  BackendInfo info() const override { return inner_.info(); }
  size_t matrix_bytes(TensorType type, int64_t rows, int64_t cols) const override { return inner_.matrix_bytes(type, rows, cols); }
  size_t kv_cache_bytes(const KvShape& shape) const override { return inner_.kv_cache_bytes(shape); }
  Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) override { return inner_.matrix(source); }
  Result<std::unique_ptr<KvCache>> kv_cache(const KvShape& shape) override { return inner_.kv_cache(shape); }
  Result<float*> allocate(int64_t count) override { return inner_.allocate(count); }
  void write_floats(float* to, const float* host_from, int64_t count) override { inner_.write_floats(to, host_from, count); }
  void read_floats(float* host_to, const float* from, int64_t count) override { inner_.read_floats(host_to, from, count); }
  bool is_host_memory() const override { return inner_.is_host_memory(); }
  size_t scratch_bytes(int max_rows, int64_t max_cols, int max_context, int max_head_dim, const MixtureShape& mixture) const override {
    return inner_.scratch_bytes(max_rows, max_cols, max_context, max_head_dim, mixture);
  }
  Status reserve(int max_rows, int64_t max_cols, int max_context, int max_head_dim, const MixtureShape& mixture) override {
    return inner_.reserve(max_rows, max_cols, max_context, max_head_dim, mixture);
  }
  bool begin_step(const StepInput& input) override { return inner_.begin_step(input); }
  void end_step() override { inner_.end_step(); }
  void embed(const Matrix& table, const int32_t* tokens, int n_rows, float* out) override { inner_.embed(table, tokens, n_rows, out); }
  void rms_norm(const float* x, const float* weight, float eps, int n_rows, int64_t dim, float* out) override {
    inner_.rms_norm(x, weight, eps, n_rows, dim, out);
  }
  void rms_norm_heads(float* x, int64_t row_stride, const float* weight, float eps, int n_rows, int n_heads, int head_dim) override {
    inner_.rms_norm_heads(x, row_stride, weight, eps, n_rows, n_heads, head_dim);
  }
  void matmul(std::span<const MatmulTarget> targets, const float* x, int n_rows, InputUse use) override {
    inner_.matmul(targets, x, n_rows, use);
  }
  void rope_and_store(const RopeParams& rope, std::span<const Segment> segments, float* q, int64_t q_stride, int n_heads, float* k,
                      int64_t k_stride, const float* v, int64_t v_stride, int layer, KvCache& cache) override {
    inner_.rope_and_store(rope, segments, q, q_stride, n_heads, k, k_stride, v, v_stride, layer, cache);
  }
  void attention(std::span<const Segment> segments, const float* q, int64_t q_stride, int n_heads, int layer, const KvCache& cache,
                 const AttentionParams& params, float* out, int64_t out_stride) override {
    inner_.attention(segments, q, q_stride, n_heads, layer, cache, params, out, out_stride);
  }
  void gated(Activation activation, const float* gate, const float* up, int n_rows, int64_t dim, float* out) override {
    inner_.gated(activation, gate, up, n_rows, dim, out);
  }
  void scale(float* x, int64_t count, float factor) override { inner_.scale(x, count, factor); }
  void soft_cap(float* x, int64_t count, float cap) override { inner_.soft_cap(x, count, cap); }
  void add_rows(float* x, const float* y, float factor, const float* gate, int n_rows, int64_t dim) override {
    inner_.add_rows(x, y, factor, gate, n_rows, dim);
  }
  void mixture(const Mixture& mixture, const float* router_logits, const float* x, int n_rows, float* out, bool add_to_out) override {
    inner_.mixture(mixture, router_logits, x, n_rows, out, add_to_out);
  }
  void gather_rows(const float* x, const int32_t* rows, int n_rows, int64_t dim, float* out) override {
    inner_.gather_rows(x, rows, n_rows, dim, out);
  }
  void copy_page(KvCache& cache, int32_t from, int32_t to) override { inner_.copy_page(cache, from, to); }
  int host_threads() const override { return inner_.host_threads(); }
  void run_on_host(int64_t n, HostWork work, const void* context) override { inner_.run_on_host(n, work, context); }

 protected:
  Backend& inner_;
};

}  // namespace monolith::testing
