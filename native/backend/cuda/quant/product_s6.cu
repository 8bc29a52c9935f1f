// Products with 6-bit codes and one scale per 16 values: Q6_K.
#include "backend/cuda/quant/product-inl.h"

namespace monolith::cuda {

void quant_product_s6(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  quant::launch_product<QuantShape::kS6, Numbers::kSigned16>(runtime, product, kernel);
}

}  // namespace monolith::cuda
