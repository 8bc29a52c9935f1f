// Products with codes of levels: IQ4_NL, MXFP4, IQ4_XS.
#include "backend/cuda/quant_product-inl.h"

namespace monolith::cuda {

void quant_product_levels(Runtime& runtime, const QuantProduct& product, QuantKernel kernel) {
  launch_product<QuantShape::kLevels4>(runtime, product, kernel);
}

}  // namespace monolith::cuda
