// Products with 5-bit codes: Q5_0, Q5_1, Q5_K.
#include "backend/cuda/quant/product-inl.h"

namespace monolith::cuda {

void quant_product_u5(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  if (product.layout.numbers == Numbers::kSix)
    return quant::launch_product<QuantShape::kU5, Numbers::kSix>(runtime, product, kernel);
  if (product.layout.numbers == Numbers::kHalfMin)
    return quant::launch_product<QuantShape::kU5, Numbers::kHalfMin>(runtime, product, kernel);
  quant::launch_product<QuantShape::kU5, Numbers::kHalf>(runtime, product, kernel);
}

}  // namespace monolith::cuda
