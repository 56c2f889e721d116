// Selects the instruction sets for the tokenizers' loops: AVX-512, AVX2, and Highway's baseline. Include before any
// Highway header.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
