// Products with 2-bit and 3-bit codes and one scale per 16 values: Q2_K, Q3_K, TQ1_0, TQ2_0.
#include "backend/cuda/quant/product-inl.h"

namespace monolith::cuda {

void quant_product_u3(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  if (product.layout.numbers == Numbers::kNibbles)
    return quant::launch_product<QuantShape::kU3, Numbers::kNibbles>(runtime, product, kernel);
  quant::launch_product<QuantShape::kU3, Numbers::kSigned16>(runtime, product, kernel);
}

}  // namespace monolith::cuda
