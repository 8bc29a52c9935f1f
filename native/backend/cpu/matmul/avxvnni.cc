// Table of the matmul kernels with AVX-VNNI, the 8-bit dot product in 256-bit vectors of client processors without
// AVX-512. The table contains the AVX2 kernels for quantized weights, compiled to use that instruction
// (quants_avx2-inl.h). This file must not emit functions that are shared with other files.
#if defined(__AVXVNNI__)

#include "backend/cpu/matmul/quants.h"

namespace monolith {

constinit const PanelKernel kAvxVnniPanels[kPanelTypes] = {
    nullptr,          nullptr,         nullptr,        avxvnni::q8_0,  avxvnni::q4_0,    avxvnni::q4_1,  avxvnni::q5_0,
    avxvnni::q5_1,    avxvnni::iq4_nl, avxvnni::mxfp4, avxvnni::q2_k,  avxvnni::q3_k,    avxvnni::q4_k,  avxvnni::q5_k,
    avxvnni::q6_k,    avxvnni::iq4_xs, avxvnni::iq1_s, avxvnni::iq1_m, avxvnni::iq2_xxs, avxvnni::iq2_s, avxvnni::iq2_s,
    avxvnni::iq3_xxs, avxvnni::iq3_s,  avxvnni::tq2_0, avxvnni::tq2_0, avxvnni::nvfp4,   nullptr,
};

}  // namespace monolith

#endif
