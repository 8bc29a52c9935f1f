// Products with 4-bit codes and minima: Q4_1, Q4_K.
#include "backend/cuda/quant/product-inl.h"

namespace monolith::cuda {

void quant_product_u4(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  if (product.layout.numbers == Numbers::kSix)
    return quant::launch_product<QuantShape::kU4, Numbers::kSix>(runtime, product, kernel);
  quant::launch_product<QuantShape::kU4, Numbers::kHalfMin>(runtime, product, kernel);
}

}  // namespace monolith::cuda
