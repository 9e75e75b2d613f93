// Layers that only give elements other positions, on whole tensors, as PyTorch defines them. Each returns a tensor of
// its own, so that the layer's output has a gradient of its own.

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/pixel_shuffle.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>

#include "layers/serial_functions.h"

namespace adjoin {
namespace {

using at::Tensor;

std::vector<int64_t> Arguments(const Shape& spec) { return {spec.arg().begin(), spec.arg().end()}; }

int64_t Factor(const Shape& spec) {
  TORCH_CHECK(spec.arg_size() == 1, "a factor is needed");
  return spec.arg(0);
}

// The last spatial dim first, one by one: where a channel's number holds a digit per dim, the last dim's is the lowest.
Tensor Shuffled(Tensor x, int64_t factor) {
  for (int64_t dim = x.dim() - 1; dim >= 2; --dim) {
    // [n, c, r, ..., s, ...] -> [n, c, ..., s, r, ...]
    x = x.unflatten(1, {x.size(1) / factor, factor}).movedim(2, dim + 1).flatten(dim, dim + 1);
  }
  return x.clone();
}

Tensor Unshuffled(Tensor x, int64_t factor) {
  for (int64_t dim = 2; dim < x.dim(); ++dim) {
    x = x.unflatten(dim, {x.size(dim) / factor, factor}).movedim(dim + 1, 2).flatten(1, 2);
  }
  return x.clone();
}

}  // namespace

Tensor SerialExpand(SerialCall& call) { return call.input().expand(Arguments(call.spec().expand())).clone(); }

Tensor SerialFlatten(SerialCall& call) {
  const Shape& spec = call.spec().flatten();
  return at::flatten(call.input(), spec.arg_size() > 0 ? spec.arg(0) : 1, spec.arg_size() > 1 ? spec.arg(1) : -1)
      .clone();
}

Tensor SerialFlip(SerialCall& call) { return at::flip(call.input(), Arguments(call.spec().flip())); }

Tensor SerialIndexSelect(SerialCall& call) {
  const std::vector<int64_t> arguments = Arguments(call.spec().index_select());
  TORCH_CHECK(arguments.size() > 1, "index_select needs a dim and indices");
  const Tensor indices = at::tensor(std::vector<int64_t>(arguments.begin() + 1, arguments.end()), at::kLong);
  return at::index_select(call.input(), arguments[0], indices);
}

Tensor SerialPermute(SerialCall& call) { return call.input().permute(Arguments(call.spec().permute())).clone(); }

Tensor SerialPixelShuffle(SerialCall& call) {
  const int64_t factor = Factor(call.spec().pixel_shuffle());
  return call.input().dim() == 4 ? at::pixel_shuffle(call.input(), factor) : Shuffled(call.input(), factor);
}

Tensor SerialPixelUnshuffle(SerialCall& call) {
  const int64_t factor = Factor(call.spec().pixel_unshuffle());
  return call.input().dim() == 4 ? at::pixel_unshuffle(call.input(), factor) : Unshuffled(call.input(), factor);
}

Tensor SerialRepeat(SerialCall& call) { return call.input().repeat(Arguments(call.spec().repeat())); }

Tensor SerialReshape(SerialCall& call) {
  std::vector<int64_t> shape = Arguments(call.spec().reshape());
  shape.insert(shape.begin(), call.input().size(0));
  return call.input().reshape(shape).clone();
}

Tensor SerialRoll(SerialCall& call) {
  const Shape& spec = call.spec().roll();
  std::vector<int64_t> dims, shifts;
  for (int i = 0; i + 1 < spec.arg_size(); i += 2) {
    dims.push_back(spec.arg(i));
    shifts.push_back(spec.arg(i + 1));
  }
  return at::roll(call.input(), shifts, dims);
}

Tensor SerialConcat(SerialCall& call) {
  TORCH_CHECK(call.spec().concat().arg_size() == 1, "concat needs one dim");
  return at::cat(call.inputs(), call.spec().concat().arg(0));
}

Tensor SerialPad(SerialCall& call) {
  const Shape& spec = call.spec().pad();
  return at::constant_pad_nd(call.input(), Arguments(spec));
}

Tensor SerialCrop(SerialCall& call) {
  std::vector<int64_t> less;
  for (int64_t cells : call.spec().crop().arg()) less.push_back(-cells);
  return at::constant_pad_nd(call.input(), less);
}

// Returns a view, so that the layer's output has a gradient of its own.
Tensor SerialRepartition(SerialCall& call) { return call.input().view_as(call.input()); }

}  // namespace adjoin
