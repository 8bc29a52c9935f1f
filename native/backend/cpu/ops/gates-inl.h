// Row kernels for feed-forward networks and the residual stream: gated activations, scaling, soft caps. Compiled once
// per instruction set, inside an unnamed namespace, after ops/rows-inl.h.

void silu_multiply(const float* gate, const float* up, int64_t count, float* out) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec g = load_up_to(gate + at, n);
    const Vec denominator = add(splat(1.0f), exponential(sub(splat(0.0f), g)));
    store_up_to(out + at, mul(div(g, denominator), load_up_to(up + at, n)), n);
  });
}

// GELU as 0.5 x (1 + tanh(u)) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016,
// arXiv:1606.08415). This form avoids cancellation and overflow.
void gelu_multiply(const float* gate, const float* up, int64_t count, float* out) {
  const Vec linear = splat(-0x1.988454p+0f);  // -2 sqrt(2 / pi).
  const Vec cubic = splat(-0x1.2444f2p-4f);   // -2 sqrt(2 / pi) times 0.044715.
  for_vectors(count, [&](int64_t at, int n) {
    const Vec g = load_up_to(gate + at, n);
    const Vec minus_2u = mul(g, fma(mul(g, g), cubic, linear));
    const Vec denominator = add(splat(1.0f), exponential(minus_2u));
    store_up_to(out + at, mul(div(g, denominator), load_up_to(up + at, n)), n);
  });
}

// CLIP's approximation of GELU.
void quick_gelu_multiply(const float* gate, const float* up, int64_t count, float* out) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec g = load_up_to(gate + at, n);
    const Vec denominator = add(splat(1.0f), exponential(mul(g, splat(-1.702f))));
    store_up_to(out + at, mul(div(g, denominator), load_up_to(up + at, n)), n);
  });
}

void sigmoid_multiply(const float* gate, const float* up, int64_t count, float* out) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec denominator = add(splat(1.0f), exponential(sub(splat(0.0f), load_up_to(gate + at, n))));
    store_up_to(out + at, div(load_up_to(up + at, n), denominator), n);
  });
}

// Computes activation(gate) * up, with the gate clamped before or after the activation. Works one vector at a time, so
// the bits do not depend on how the row is split.
void limited_multiply(OpKernels::Gate activation, const float* gate, const float* up, int64_t count, float limit,
                      bool of_input, float* out) {
  const Vec high = splat(limit), low = splat(-limit);
  alignas(64) float ones[kLanes], activated[kLanes], cut[kLanes];
  store(ones, splat(1.0f));
  for_vectors(count, [&](int64_t at, int n) {
    if (of_input) {
      const Vec g = load_up_to(gate + at, n);
      store(cut, if_less(high, g, high, g));
    }
    activation(of_input ? cut : gate + at, ones, n, activated);
    const Vec g = load_up_to(activated, n);
    Vec u = load_up_to(up + at, n);
    u = if_less(high, u, high, u);
    u = if_less(u, low, low, u);
    store_up_to(out + at, mul(of_input ? g : if_less(high, g, high, g), u), n);
  });
}

// Activations without a gate, in place.
void silu(float* x, int64_t count) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec v = load_up_to(x + at, n);
    store_up_to(x + at, div(v, add(splat(1.0f), exponential(sub(splat(0.0f), v)))), n);
  });
}

void gelu(float* x, int64_t count) {
  const Vec linear = splat(-0x1.988454p+0f), cubic = splat(-0x1.2444f2p-4f);  // As in gelu_multiply().
  for_vectors(count, [&](int64_t at, int n) {
    const Vec v = load_up_to(x + at, n);
    const Vec minus_2u = mul(v, fma(mul(v, v), cubic, linear));
    store_up_to(x + at, div(v, add(splat(1.0f), exponential(minus_2u))), n);
  });
}

void quick_gelu(float* x, int64_t count) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec v = load_up_to(x + at, n);
    store_up_to(x + at, div(v, add(splat(1.0f), exponential(mul(v, splat(-1.702f))))), n);
  });
}

void relu_squared(float* x, int64_t count) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec v = load_up_to(x + at, n);
    const Vec positive = if_less(v, splat(0.0f), splat(0.0f), v);  // NaN stays NaN.
    store_up_to(x + at, mul(positive, positive), n);
  });
}

void relu_multiply(const float* gate, const float* up, int64_t count, float* out) {
  for_vectors(count, [&](int64_t at, int n) {
    const Vec g = load_up_to(gate + at, n);
    store_up_to(out + at, mul(if_less(g, splat(0.0f), splat(0.0f), g), load_up_to(up + at, n)), n);
  });
}

void identity_multiply(const float* gate, const float* up, int64_t count, float* out) {
  for_vectors(count, [&](int64_t at, int n) {
    store_up_to(out + at, mul(load_up_to(gate + at, n), load_up_to(up + at, n)), n);
  });
}

void xielu(const Xielu& params, float* x, int64_t count) {
  const Vec zero = splat(0.0f), one = splat(1.0f), linear = splat(params.linear);
  for_vectors(count, [&](int64_t at, int n) {
    const Vec v = load_up_to(x + at, n);
    const Vec least = if_less(splat(params.least), v, splat(params.least), v);
    // e^x - 1 = 2^n (e^r - 1) + (2^n - 1). Below -40, it is -1.
    const Exponent parts = exponent_of(if_less(least, splat(-40.0f), splat(-40.0f), least));
    const Vec half = half_power_of_two(parts.shifted), power = add(half, half);
    const Vec less = mul(sub(fma(power, parts.fraction, sub(power, one)), v), splat(params.negative));
    const Vec more = mul(mul(v, v), splat(params.positive));
    store_up_to(x + at, fma(linear, v, if_less(zero, v, more, less)), n);
  });
}

// See Activation::kClampedSilu.
void clamped_silu_multiply(const float* gate, const float* up, int64_t count, float* out) {
  const Vec high = splat(7.0f), low = splat(-7.0f);
  for_vectors(count, [&](int64_t at, int n) {
    Vec g = load_up_to(gate + at, n), u = load_up_to(up + at, n);
    g = if_less(high, g, high, g);
    u = if_less(high, u, high, u);
    u = if_less(u, low, low, u);
    const Vec denominator = add(splat(1.0f), exponential(mul(g, splat(-1.702f))));
    store_up_to(out + at, mul(div(g, denominator), add(u, splat(1.0f))), n);
  });
}

void scale(float* x, int64_t count, float factor) {
  for_vectors(count, [&](int64_t at, int n) { store_up_to(x + at, mul(load_up_to(x + at, n), splat(factor)), n); });
}

void soft_cap(float* x, int64_t count, float cap) {
  const Vec inverse = splat(1.0f / cap);
  for_vectors(count, [&](int64_t at, int n) {
    const Vec share = mul(load_up_to(x + at, n), inverse);
    store_up_to(x + at, mul(hyperbolic_tangent(share), splat(cap)), n);
  });
}

// x += factor * y * g, where g is 1 / (1 + exp(-*gate)), or 1 if gate is null.
void add_scaled(float* x, const float* y, float factor, const float* gate, int64_t count) {
  Vec share = splat(factor);
  if (gate != nullptr) share = div(share, add(splat(1.0f), exponential(splat(-*gate))));
  for_vectors(count, [&](int64_t at, int n) {
    store_up_to(x + at, fma(load_up_to(y + at, n), share, load_up_to(x + at, n)), n);
  });
}
