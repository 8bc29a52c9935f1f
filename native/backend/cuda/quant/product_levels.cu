// Products for codebook types with one scale per 32 values: IQ4_NL, MXFP4, IQ4_XS.
#include "backend/cuda/quant/product-inl.h"

namespace monolith::cuda {

void quant_product_levels(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  if (product.layout.numbers == Numbers::kPower)
    return quant::launch_product<QuantShape::kLevels4, Numbers::kPower>(runtime, product, kernel);
  if (product.layout.numbers == Numbers::kSigned32)
    return quant::launch_product<QuantShape::kLevels4, Numbers::kSigned32>(runtime, product, kernel);
  quant::launch_product<QuantShape::kLevels4, Numbers::kHalf>(runtime, product, kernel);
}

}  // namespace monolith::cuda
