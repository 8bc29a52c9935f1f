// Products with signed 4-bit codes: Q4_0.
#include "backend/cuda/quant/product-inl.h"

namespace monolith::cuda {

void quant_product_s4(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  quant::launch_product<QuantShape::kS4, Numbers::kHalf>(runtime, product, kernel);
}

}  // namespace monolith::cuda
