#include "formats/hf/rows.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace monolith::hf {
namespace {

size_t stored_bytes(TensorType type, int64_t values) {
  const TensorTypeTraits& traits = traits_of(type);
  return static_cast<size_t>(values / traits.block_values * traits.block_bytes);
}

bool is_plain(TensorType type) { return traits_of(type).block_values == 1; }

class PlainRows final : public RowMaker {
 public:
  PlainRows(TensorType type, int64_t cols, std::span<const std::byte> data)
      : type_(type), cols_(cols), row_bytes_(stored_bytes(type, cols)), data_(data) {}

  int64_t rows() const override { return static_cast<int64_t>(data_.size() / row_bytes_); }
  int64_t cols() const override { return cols_; }
  TensorType exact_type() const override { return type_; }
  void make(int64_t first, int64_t count, float* out) const override {
    dequantize(type_, data_.data() + static_cast<size_t>(first) * row_bytes_, count * cols_, out);
  }
  void store(int64_t first, int64_t count, std::byte* out) const override {
    std::memcpy(out, data_.data() + static_cast<size_t>(first) * row_bytes_, static_cast<size_t>(count) * row_bytes_);
  }
  void add_slots(std::vector<std::span<const std::byte>>& places) const override { places.push_back(data_); }

 private:
  TensorType type_;
  int64_t cols_;
  size_t row_bytes_;
  std::span<const std::byte> data_;
};

class JoinedRows final : public RowMaker {
 public:
  JoinedRows(std::vector<Run> runs, bool stacked)
      : runs_(std::move(runs)), factor_(stacked ? 1 : runs_.front().of->factor()) {
    type_ = runs_.front().of->exact_type();
    for (const Run& run : runs_) {
      ends_.push_back(rows() + run.count);
      if (!stacked && run.of->factor() != factor_) type_ = TensorType::kF32;
    }
    if (type_ == TensorType::kF32) factor_ = 1;
  }

  int64_t rows() const override { return ends_.empty() ? 0 : ends_.back(); }
  int64_t cols() const override { return runs_.front().of->cols(); }
  TensorType exact_type() const override { return type_; }
  TensorType float_type() const override {
    const TensorType first = runs_.front().of->float_type();
    const bool alike = std::ranges::all_of(runs_, [first](const Run& run) { return run.of->float_type() == first; });
    return alike ? first : TensorType::kF32;
  }
  float factor() const override { return factor_; }
  void make(int64_t first, int64_t count, float* out) const override {
    each(first, count, [&](const RowMaker& of, int64_t from, int64_t n) {
      of.make(from, n, out);
      out += n * cols();
    });
  }
  void store(int64_t first, int64_t count, std::byte* out) const override {
    if (type_ == TensorType::kF32) return make(first, count, reinterpret_cast<float*>(out));
    const size_t row = stored_bytes(exact_type(), cols());
    each(first, count, [&](const RowMaker& of, int64_t from, int64_t n) {
      of.store(from, n, out);
      out += static_cast<size_t>(n) * row;
    });
  }
  void add_slots(std::vector<std::span<const std::byte>>& places) const override {
    // All runs of a matrix are adjacent, so it is enough to compare each matrix with the previous one to avoid
    // duplicates.
    const RowMaker* last = nullptr;
    for (const Run& run : runs_) {
      if (run.of.get() != last) run.of->add_slots(places);
      last = run.of.get();
    }
  }

 private:
  template <typename Take>
  void each(int64_t first, int64_t count, const Take& take) const {
    size_t at = static_cast<size_t>(std::ranges::upper_bound(ends_, first) - ends_.begin());
    while (count > 0) {
      const Run& run = runs_[at];
      const int64_t within = first - (ends_[at] - run.count), n = std::min(count, run.count - within);
      take(*run.of, run.first + within, n);
      first += n;
      count -= n;
      ++at;
    }
  }

  std::vector<Run> runs_;
  std::vector<int64_t> ends_;
  float factor_;
  TensorType type_;
};

// Base class for row makers that transform another matrix.
class Derived : public RowMaker {
 public:
  explicit Derived(Rows of) : of_(std::move(of)) {}
  int64_t rows() const override { return of_->rows(); }
  int64_t cols() const override { return of_->cols(); }
  float factor() const override { return exact_type() == of_->exact_type() ? of_->factor() : 1; }
  void add_slots(std::vector<std::span<const std::byte>>& places) const override { of_->add_slots(places); }

 protected:
  const RowMaker& of() const { return *of_; }

 private:
  Rows of_;
};

class PickedRows final : public Derived {
 public:
  PickedRows(Rows of, std::vector<int32_t> order) : Derived(std::move(of)), order_(std::move(order)) {}
  TensorType float_type() const override { return of().float_type(); }

  int64_t rows() const override { return static_cast<int64_t>(order_.size()); }
  TensorType exact_type() const override { return of().exact_type(); }
  void make(int64_t first, int64_t count, float* out) const override {
    each(first, count, [&](int64_t from, int64_t n) {
      of().make(from, n, out);
      out += n * cols();
    });
  }
  void store(int64_t first, int64_t count, std::byte* out) const override {
    const size_t row = stored_bytes(exact_type(), cols());
    each(first, count, [&](int64_t from, int64_t n) {
      of().store(from, n, out);
      out += static_cast<size_t>(n) * row;
    });
  }

 private:
  // Calls take(first row, count) once for each sequence of consecutive source rows.
  template <typename Take>
  void each(int64_t first, int64_t count, const Take& take) const {
    for (int64_t at = first; at < first + count;) {
      const int64_t from = order_[static_cast<size_t>(at)];
      int64_t n = 1;
      while (at + n < first + count && order_[static_cast<size_t>(at + n)] == from + n) ++n;
      take(from, n);
      at += n;
    }
  }

  std::vector<int32_t> order_;
};

class MovedColumns final : public Derived {
 public:
  MovedColumns(Rows of, int64_t width, std::vector<int32_t> order)
      : Derived(std::move(of)), width_(width), order_(std::move(order)) {}

  // Quantized blocks can be moved without decoding if the column width is a multiple of the block size. Otherwise,
  // values are decoded and moved one by one.
  TensorType exact_type() const override {
    const TensorType type = of().exact_type();
    return width_ % traits_of(type).block_values == 0 ? type
           : type == TensorType::kF8Scaled            ? of().float_type()
                                                      : TensorType::kF32;
  }
  TensorType float_type() const override { return of().float_type(); }
  void make(int64_t first, int64_t count, float* out) const override {
    std::vector<float> values(static_cast<size_t>(count * cols()));
    of().make(first, count, values.data());
    move(values.data(), count, static_cast<size_t>(width_), out);
  }
  void store(int64_t first, int64_t count, std::byte* out) const override {
    const TensorType type = exact_type();
    if (type != of().exact_type()) return RowMaker::store(first, count, out);
    std::vector<std::byte> stored(static_cast<size_t>(count) * stored_bytes(type, cols()));
    of().store(first, count, stored.data());
    move(stored.data(), count, stored_bytes(type, width_), out);
  }

 private:
  template <typename T>
  void move(const T* from, int64_t count, size_t width, T* out) const {
    const size_t row = width * order_.size();
    for (int64_t i = 0; i < count; ++i, from += row, out += row)
      for (size_t at = 0; at < order_.size(); ++at)
        std::memcpy(out + at * width, from + static_cast<size_t>(order_[at]) * width, width * sizeof(T));
  }

  int64_t width_;
  std::vector<int32_t> order_;
};

class TransposedHeads final : public Derived {
 public:
  TransposedHeads(Rows of, int64_t heads, int64_t first, int64_t count)
      : Derived(std::move(of)), heads_(heads), of_rows_(Derived::rows() / heads), first_(first), count_(count) {}

  int64_t rows() const override { return heads_ * of().cols(); }
  int64_t cols() const override { return count_; }
  TensorType exact_type() const override {
    const TensorType type = of().exact_type();
    return is_plain(type) ? type : type == TensorType::kF8Scaled ? of().float_type() : TensorType::kF32;
  }
  void make(int64_t first, int64_t count, float* out) const override {
    const int64_t columns = of().cols();
    std::vector<float> head(static_cast<size_t>(count_ * columns));
    int64_t made = -1;
    for (int64_t row = first; row < first + count; ++row) {
      if (row / columns != made) {
        made = row / columns;
        of().make(made * of_rows_ + first_, count_, head.data());
      }
      for (int64_t i = 0; i < count_; ++i) *out++ = head[static_cast<size_t>(i * columns + row % columns)];
    }
  }

 private:
  int64_t heads_, of_rows_, first_, count_;
};

class MappedRows final : public Derived {
 public:
  MappedRows(Rows of, float (*function)(float)) : Derived(std::move(of)), function_(function) {}
  void make(int64_t first, int64_t count, float* out) const override {
    of().make(first, count, out);
    std::transform(out, out + count * cols(), out, function_);
  }

 private:
  float (*function_)(float);
};

class ScaledRows final : public Derived {
 public:
  ScaledRows(Rows of, std::vector<float> factors) : Derived(std::move(of)), factors_(std::move(factors)) {}
  void make(int64_t first, int64_t count, float* out) const override {
    of().make(first, count, out);
    for (int64_t row = first; row < first + count; ++row)
      for (int64_t i = 0; i < cols(); ++i) *out++ *= factors_[static_cast<size_t>(row)];
  }

 private:
  std::vector<float> factors_;
};

}  // namespace

Rows plain_rows(TensorType type, int64_t cols, std::span<const std::byte> data) {
  assert(is_plain(type) && cols > 0);
  return std::make_shared<PlainRows>(type, cols, data);
}

Rows joined_rows(std::vector<Run> runs) {
  assert(!runs.empty());
  return std::make_shared<JoinedRows>(std::move(runs), false);
}

Rows stacked_rows(std::vector<Run> runs) {
  assert(!runs.empty());
  return std::make_shared<JoinedRows>(std::move(runs), true);
}

Rows picked_rows(const Rows& of, std::vector<int32_t> order) {
  return std::make_shared<PickedRows>(of, std::move(order));
}

std::vector<int32_t> dealt_order(int64_t groups, int64_t count, int64_t width) {
  std::vector<int32_t> order;
  const int64_t each = count / groups;
  for (int64_t i = 0; i < each; ++i)
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t row = 0; row < width; ++row) order.push_back(static_cast<int32_t>((group * each + i) * width + row));
  return order;
}

Rows moved_columns(const Rows& of, int64_t width, std::vector<int32_t> order) {
  assert(width * static_cast<int64_t>(order.size()) == of->cols());
  return std::make_shared<MovedColumns>(of, width, std::move(order));
}

Rows transposed_heads(const Rows& of, int64_t heads, int64_t first, int64_t count) {
  assert(of->rows() % heads == 0 && first + count <= of->rows() / heads);
  return std::make_shared<TransposedHeads>(of, heads, first, count);
}

Rows mapped_rows(const Rows& of, float (*function)(float)) { return std::make_shared<MappedRows>(of, function); }

Rows scaled_rows(const Rows& of, std::vector<float> factors) {
  assert(static_cast<int64_t>(factors.size()) == of->rows());
  return std::make_shared<ScaledRows>(of, std::move(factors));
}

}  // namespace monolith::hf
