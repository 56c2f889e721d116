// Which instruction sets the tokenizers' loops are compiled for: AVX-512, AVX2, and Highway's baseline for the rest.
// Included before any Highway header.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
