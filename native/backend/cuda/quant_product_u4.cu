// Products with 4-bit codes with minima: Q4_1, Q4_K.
#include "backend/cuda/quant_product-inl.h"

namespace monolith::cuda {

void quant_product_u4(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  launch_product<QuantShape::kU4>(runtime, product, kernel);
}

}  // namespace monolith::cuda
