// Products for codebook types with one scale per 16 values: IQ1 and IQ2 (3-bit codes), IQ3 and NVFP4 (4-bit codes).
#include "backend/cuda/quant/product-inl.h"

namespace monolith::cuda {

void quant_product_expanded(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  if (product.layout.shape == QuantShape::kLevels3)
    return quant::launch_product<QuantShape::kLevels3, Numbers::kSigned16>(runtime, product, kernel);
  if (product.layout.numbers == Numbers::kScale16)
    return quant::launch_product<QuantShape::kLevels4By16, Numbers::kScale16>(runtime, product, kernel);
  quant::launch_product<QuantShape::kLevels4By16, Numbers::kSigned16>(runtime, product, kernel);
}

}  // namespace monolith::cuda
