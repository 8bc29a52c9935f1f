// Products with 8-bit codes: Q8_0.
#include "backend/cuda/quant/product-inl.h"

namespace monolith::cuda {

void quant_product_s8(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  quant::launch_product<QuantShape::kS8, Numbers::kHalf>(runtime, product, kernel);
}

}  // namespace monolith::cuda
