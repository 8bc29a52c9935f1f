// Products with 5-bit codes: Q5_0, Q5_1, Q5_K.
#include "backend/cuda/quant_product-inl.h"

namespace monolith::cuda {

void quant_product_u5(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  launch_product<QuantShape::kU5>(runtime, product, kernel);
}

}  // namespace monolith::cuda
