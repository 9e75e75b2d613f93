// Makes LibTorch compute on a GPU what it computes on the CPU, as far as it can.
//
//   UseExactArithmetic();   // once, before the first kernel on a device
#ifndef ADJOIN_PRIMITIVES_EXACT_ARITHMETIC_H_
#define ADJOIN_PRIMITIVES_EXACT_ARITHMETIC_H_

namespace adjoin {

// For the rest of the process: float32 is float32, not TF32 with its 10 bits (LibTorch's own choice for convolutions),
// and cuDNN's kernels give the same bits in every run. Nothing changes on the CPU. Any thread.
void UseExactArithmetic();

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_EXACT_ARITHMETIC_H_
