#include "support/recurrence_cases.h"

namespace monolith::testing {

void check_near(const std::vector<float>& got, const std::vector<double>& expected, double tolerance,
                const std::string& what) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance))
      return check::fail(__FILE__, __LINE__,
                         what + ": value " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " +
                             std::to_string(expected[i]));
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Segment> pieces(int n_rows, std::vector<int> cuts, bool apart, const int32_t* pages) {
  std::vector<Segment> segments;
  int begin = 0;
  int32_t from = kNoSlot;
  cuts.push_back(n_rows);
  for (const int end : cuts) {
    const int32_t to = apart && from == 0 ? 1 : 0;
    segments.push_back({begin, end - begin, begin, pages, from, to});
    from = to;
    begin = end;
  }
  return segments;
}

DeltaCase::DeltaCase(const DeltaShape& shape, int rows, uint32_t seed) : n_rows(rows) {
  rule = {.n_key_heads = shape.key_heads,
          .n_value_heads = shape.value_heads,
          .key_dim = shape.key_dim,
          .value_dim = shape.value_dim,
          .tiled = shape.tiled,
          .channel_decay = shape.channels,
          .norm_eps = 1e-6f};
  keys = shape.key_heads * shape.key_dim;
  stride = 2 * keys + shape.value_heads * shape.value_dim + 3;
  x = random_floats(static_cast<size_t>(n_rows * stride), seed);
  decay = random_floats(static_cast<size_t>(n_rows * rule.decays()), seed + 1, 2.0f);
  beta = random_floats(static_cast<size_t>(n_rows) * static_cast<size_t>(shape.value_heads), seed + 2, 2.0f);
  bias = random_floats(static_cast<size_t>(rule.decays()), seed + 3);
  rate = random_floats(static_cast<size_t>(shape.value_heads), seed + 4);
  for (float& r : rate) r = -std::abs(r);
  rule.rate = rate.data();
  rule.decay_bias = bias.data();
}

std::vector<double> DeltaCase::expected() const {
  std::vector<double> out;
  const int dk = rule.key_dim, dv = rule.value_dim;
  std::vector<std::vector<double>> states(static_cast<size_t>(rule.n_value_heads),
                                          std::vector<double>(static_cast<size_t>(dk * dv)));
  for (int row = 0; row < n_rows; ++row) {
    for (int head = 0; head < rule.n_value_heads; ++head) {
      const int key_head = rule.tiled ? head % rule.n_key_heads : head / (rule.n_value_heads / rule.n_key_heads);
      const float* const q = &x[static_cast<size_t>(row * stride + key_head * dk)];
      const float* const k = q + keys;
      const float* const v = &x[static_cast<size_t>(row * stride + 2 * keys + head * dv)];
      double qq = 0, kk = 0;
      for (int i = 0; i < dk; ++i) qq += double(q[i]) * q[i], kk += double(k[i]) * k[i];
      const auto decay_of = [&](int i) {
        const auto at = static_cast<size_t>(rule.channel_decay ? head * dk + i : head);
        const double input = double(decay[static_cast<size_t>(row * rule.decays()) + at]) + bias[at];
        return std::exp(rate[static_cast<size_t>(head)] * std::log1p(std::exp(input)));
      };
      const double b = sigmoid(beta[static_cast<size_t>(row * rule.n_value_heads + head)]);
      std::vector<double>& s = states[static_cast<size_t>(head)];
      for (int i = 0; i < dk; ++i)
        for (int j = 0; j < dv; ++j) s[static_cast<size_t>(i * dv + j)] *= decay_of(i);
      for (int j = 0; j < dv; ++j) {
        double seen = 0, result = 0;
        for (int i = 0; i < dk; ++i) seen += s[static_cast<size_t>(i * dv + j)] * k[i] / std::sqrt(kk);
        for (int i = 0; i < dk; ++i) {
          double& at = s[static_cast<size_t>(i * dv + j)];
          at += k[i] / std::sqrt(kk) * b * (v[j] - seen);
          result += at * q[i] / std::sqrt(qq) / std::sqrt(double(dk));
        }
        out.push_back(result);
      }
    }
  }
  return out;
}

StateSpaceCase::StateSpaceCase(int heads, int groups, int head_dim, int state_dim, int rows, bool channel_steps)
    : n_rows(rows) {
  space = {.n_heads = heads,
           .n_groups = groups,
           .head_dim = head_dim,
           .state_dim = state_dim,
           .channel_steps = channel_steps};
  const auto steps = static_cast<size_t>(space.steps());
  stride = space.width() + 2 * space.group_width() + 3;
  x = random_floats(static_cast<size_t>(n_rows * stride), 1);
  step = random_floats(static_cast<size_t>(n_rows) * steps, 2, 3.0f);
  step[0] = 60;  // So large that 1 + e^x equals e^x in floating point.
  bias = random_floats(steps, 3);
  rate = random_floats(steps * static_cast<size_t>(channel_steps ? state_dim : 1), 4);
  skip = random_floats(steps, 5);
  for (float& r : rate) r = -std::abs(r);
  space.rate = rate.data();
  space.step_bias = bias.data();
  space.skip = skip.data();
}

std::vector<double> StateSpaceCase::expected() const {
  const int dim = space.head_dim, n = space.state_dim;
  std::vector<double> out, h(static_cast<size_t>(space.n_heads * dim * n));
  for (int row = 0; row < n_rows; ++row) {
    for (int head = 0; head < space.n_heads; ++head) {
      const float* const own = &x[static_cast<size_t>(row * stride)];
      const float* const b = own + space.width() + space.group(head) * n;
      const float* const c = b + space.group_width();
      for (int d = 0; d < dim; ++d) {
        const auto at_step = static_cast<size_t>(space.channel_steps ? d : head);
        const double input = double(step[static_cast<size_t>(row * space.steps()) + at_step]) + bias[at_step];
        const double dt = input > 30 ? input : std::log1p(std::exp(input));
        const double value = own[head * dim + d];
        double sum = skip[at_step] * value;
        for (int i = 0; i < n; ++i) {
          double& s = h[static_cast<size_t>((head * dim + d) * n + i)];
          const double own_rate = rate[space.channel_steps ? static_cast<size_t>(i * dim + d) : at_step];
          s = s * std::exp(dt * own_rate) + dt * value * b[i];
          sum += s * c[i];
        }
        out.push_back(sum);
      }
    }
  }
  return out;
}

TimeMixCase::TimeMixCase(bool delta, int heads, int head_dim, int rows, bool first) : n_rows(rows), first_layer(first) {
  mix = {.delta = delta, .n_heads = heads, .head_dim = head_dim, .norm_eps = 64e-5f};
  const auto width = static_cast<size_t>(mix.width()), all = width * static_cast<size_t>(rows);
  uint32_t seed = 0;
  for (std::vector<float>* input : {&r, &k, &v, &decay, &gate, &rate, &first_v, &value_mix})
    *input = random_floats(all, ++seed);
  for (std::vector<float>* weight :
       {&decay_bias, &bonus, &norm_weight, &norm_bias, &rate_bias, &value_bias, &key_scale, &key_rate})
    *weight = random_floats(width, ++seed);
  decay[0] = 60;  // So large that the factor is 0 in RWKV 6.
  mix.decay_bias = decay_bias.data();
  mix.bonus = bonus.data();
  mix.norm_weight = norm_weight.data();
  mix.norm_bias = norm_bias.data();
  if (!delta) return;
  mix.rate_bias = rate_bias.data();
  mix.value_bias = value_bias.data();
  mix.key_scale = key_scale.data();
  mix.key_rate = key_rate.data();
}

std::vector<double> TimeMixCase::expected() const {
  const auto dim = static_cast<size_t>(mix.head_dim), width = static_cast<size_t>(mix.width());
  std::vector<double> out, states(width * dim);  // Rows of v.
  for (size_t row = 0; row < static_cast<size_t>(n_rows); ++row) {
    for (size_t head = 0; head < static_cast<size_t>(mix.n_heads); ++head) {
      std::vector<double> w, keys, values, normed, rates, result(dim);
      double length = 0, share = 0;
      for (size_t i = head * dim; i < (head + 1) * dim; ++i) {
        const size_t at = row * width + i;
        const double x = double(decay[at]) + decay_bias[i], a = sigmoid(double(rate[at]) + rate_bias[i]);
        w.push_back(mix.delta ? std::exp(-0.606531 * sigmoid(x)) : std::exp(-std::exp(x)));
        normed.push_back(double(k[at]) * key_scale[i]);
        rates.push_back(a);
        keys.push_back(k[at] * (mix.delta ? 1 + (a - 1) * key_rate[i] : 1.0));
        const double mixed = sigmoid(double(value_mix[at]) + value_bias[i]);
        values.push_back(v[at] + (mix.delta && !first_layer ? (first_v[at] - double(v[at])) * mixed : 0.0));
        length += normed.back() * normed.back();
        share += r[at] * double(bonus[i]) * keys.back();
      }
      double sum = 0, squares = 0;
      for (size_t j = 0; j < dim; ++j) {
        double* const s = &states[(head * dim + j) * dim];
        double removed = 0;
        for (size_t i = 0; mix.delta && i < dim; ++i) removed += s[i] * normed[i] / std::sqrt(length);
        for (size_t i = 0; i < dim; ++i) {
          const double before = s[i], factor = r[row * width + head * dim + i];
          s[i] = before * w[i] + values[j] * keys[i] - removed * normed[i] / std::sqrt(length) * rates[i];
          result[j] += (mix.delta ? s[i] : before) * factor;
        }
        if (!mix.delta) result[j] += share * values[j];
        sum += result[j];
      }
      for (const double x : result) squares += (x - sum / double(dim)) * (x - sum / double(dim));
      for (size_t j = 0; j < dim; ++j) {
        const size_t i = head * dim + j;
        double y = (result[j] - sum / double(dim)) / std::sqrt(squares / double(dim) + mix.norm_eps);
        y = y * norm_weight[i] + norm_bias[i] + (mix.delta ? share * values[j] : 0.0);
        const double g = gate[row * width + i];
        out.push_back(y * (mix.delta ? g : g * sigmoid(g)));
      }
    }
  }
  return out;
}

ConvolutionCase::ConvolutionCase(int n_channels, int conv_kernel_size, bool plain, int rows)
    : n_rows(rows),
      stride(n_channels + 5),
      x(random_floats(static_cast<size_t>(rows * stride), 3)),
      weight(random_floats(static_cast<size_t>(n_channels * conv_kernel_size), 4)),
      bias(random_floats(static_cast<size_t>(n_channels), 5)) {
  convolution = {.n_channels = n_channels,
                 .conv_kernel_size = conv_kernel_size,
                 .weight = weight.data(),
                 .bias = plain ? nullptr : bias.data(),
                 .silu = !plain};
}

std::vector<double> ConvolutionCase::expected() const {
  std::vector<double> out(x.begin(), x.end());
  const int conv_kernel_size = convolution.conv_kernel_size;
  for (int row = 0; row < n_rows; ++row) {
    for (int c = 0; c < convolution.n_channels; ++c) {
      double sum = convolution.bias ? bias[static_cast<size_t>(c)] : 0.0;
      for (int j = 0; j < conv_kernel_size; ++j)
        if (const int at = row - conv_kernel_size + 1 + j; at >= 0)
          sum +=
              double(weight[static_cast<size_t>(c * conv_kernel_size + j)]) * x[static_cast<size_t>(at * stride + c)];
      out[static_cast<size_t>(row * stride + c)] = convolution.silu ? sum * sigmoid(sum) : sum;
    }
  }
  return out;
}

}  // namespace monolith::testing
