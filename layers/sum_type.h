// The type in which layers add up and LibTorch's kernels compute: float32 where tensors are bfloat16.
//
//   const at::Tensor x = Input(inputs, 0, tape);                            // halos travel as they are
//   return Output(Average(InSumType(x)).to(x.scalar_type()), tape);         // rounded once
//
// A sum in bfloat16 loses what is less than 1/256 of it, and LibTorch 1 lacks some kernels of bfloat16 altogether.
#ifndef ADJOIN_LAYERS_SUM_TYPE_H_
#define ADJOIN_LAYERS_SUM_TYPE_H_

#include <ATen/core/Tensor.h>

namespace adjoin {

// float32 for bfloat16 and float16; else the type itself.
inline at::ScalarType SumType(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type;
}

// `x` in SumType: itself where it has that type. Its gradient comes back in the type of `x`.
inline at::Tensor InSumType(const at::Tensor& x) { return x.to(SumType(x.scalar_type())); }

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_SUM_TYPE_H_
