#include "tests/adjoint/random_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include <ATen/ops/_neg_view.h>
#include <ATen/ops/conj.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/view_as_complex.h>

#include "primitives/geometry/box.h"
#include "primitives/torch_dtype.h"

namespace adjoin {
namespace {

at::Tensor Filled(const std::vector<int64_t>& shape, DType dtype, const std::function<double()>& number) {
  const c10::ScalarType type = ScalarTypeOf(dtype);
  const int64_t numbers = VolumeOf(shape) * (c10::isComplexType(type) ? 2 : 1);
  std::vector<double> values(numbers);
  for (double& value : values) value = number();
  at::Tensor t = at::from_blob(values.data(), {numbers}, at::kDouble);
  if (!c10::isComplexType(type)) return t.to(type, /*non_blocking=*/false, /*copy=*/true).reshape(shape);
  std::vector<int64_t> parts = shape;
  parts.push_back(2);
  return at::view_as_complex(t.clone().reshape(parts)).to(type);
}

// `t` inside a tensor that is larger in every dim.
at::Tensor Inside(const at::Tensor& t) {
  std::vector<int64_t> larger = t.sizes().vec();
  for (int64_t& extent : larger) extent += 3;
  at::Tensor part = at::ones(larger, t.options());
  for (int64_t dim = 0; dim < t.dim(); ++dim) part = part.narrow(dim, 1 + dim % 2, t.size(dim));
  return part.copy_(t);
}

// Every second cell of the last dim, from the second.
at::Tensor EverySecond(const at::Tensor& t) {
  std::vector<int64_t> larger = t.sizes().vec();
  larger.back() = 2 * larger.back() + 1;
  return at::ones(larger, t.options()).slice(-1, 1, larger.back(), 2).copy_(t);
}

template <typename Integer>
void ChangeBits(at::Tensor& t) {
  constexpr int kBits = 8 * sizeof(Integer);
  const Integer sign = static_cast<Integer>(Integer{1} << (kBits - 1));
  // As many exponent bits as the type has, or more: with all of them set a number is infinite or a NaN.
  constexpr int kFraction = kBits < 64 ? kBits - 9 : 52;
  const Integer infinite = static_cast<Integer>((Integer{1} << (kBits - 1)) - (Integer{1} << kFraction));
  Integer* const cells = static_cast<Integer*>(t.data_ptr());
  for (std::size_t i = 0; i < t.nbytes() / sizeof(Integer); ++i) {
    if (cells[i] == 0) continue;
    cells[i] = static_cast<Integer>(cells[i] * static_cast<Integer>(0x9e3779b97f4a7c15u));
    const int choice = static_cast<int>(cells[i] >> (kBits / 2)) & 15;
    if (choice == 1) cells[i] = static_cast<Integer>(cells[i] | infinite);
    if (choice == 2) cells[i] = sign;
    if (choice == 3) cells[i] = static_cast<Integer>(cells[i] & ~infinite);
    if (choice == 4) cells[i] = infinite;
  }
}

}  // namespace

at::Tensor RandomTensor(Draw& draw, const std::vector<int64_t>& shape, DType dtype) {
  if (dtype == DType::kBool) return Filled(shape, dtype, [&] { return draw.OneIn(2) ? 1.0 : 0.0; });
  if (RoundingOf(dtype) == 0) return Filled(shape, dtype, [&] { return static_cast<double>(draw.Between(1, 8)); });
  std::normal_distribution<double> normal;
  return Filled(shape, dtype, [&] { return normal(draw.engine()); });
}

at::Tensor RandomCells(Draw& draw, const std::vector<int64_t>& shape, DType dtype) {
  if (dtype != DType::kBool) return RandomTensor(draw, shape, dtype);
  const int64_t one_in = 1 + static_cast<int64_t>(2 * std::sqrt(static_cast<double>(VolumeOf(shape))));
  return Filled(shape, dtype, [&] { return draw.OneIn(one_in) ? 1.0 : 0.0; });
}

at::Tensor RandomIntegers(Draw& draw, const std::vector<int64_t>& shape, DType dtype) {
  return Filled(shape, dtype, [&] { return static_cast<double>(draw.Between(1, 3)); });
}

at::Tensor LaidOut(const at::Tensor& t, int64_t how) {
  switch (how % kLayoutsInMemory) {
    case 1: return t.dim() > 1 ? t.transpose(0, -1).contiguous().transpose(0, -1) : Inside(t);
    case 2: return t.dim() > 0 ? EverySecond(t) : t;
    case 3: return Inside(t);
    case 4: return t.is_complex() ? t.conj().resolve_conj().conj() : t;
    case 5: return t.is_floating_point() ? at::_neg_view(at::neg(t)) : t;
    default: return t;
  }
}

at::Tensor OtherBits(const at::Tensor& t) {
  at::Tensor changed = t.clone(at::MemoryFormat::Contiguous);
  switch (t.element_size() / (t.is_complex() ? 2 : 1)) {
    case 2: ChangeBits<uint16_t>(changed); break;
    case 4: ChangeBits<uint32_t>(changed); break;
    case 8: ChangeBits<uint64_t>(changed); break;
    default: break;  // a bool has no other
  }
  return changed;
}

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor left = a.detach().resolve_conj().resolve_neg().contiguous().to(at::kCPU);
  const at::Tensor right = b.detach().resolve_conj().resolve_neg().contiguous().to(at::kCPU);
  return left.nbytes() == 0 || std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

std::vector<std::complex<double>> CellsOf(const at::Tensor& t) {
  const at::Tensor wide = t.detach().to(at::kComplexDouble).contiguous();
  const auto* cells = static_cast<const std::complex<double>*>(wide.data_ptr());
  return std::vector<std::complex<double>>(cells, cells + wide.numel());
}

double RoundingOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128: return 2.220446049250313e-16;
    case DType::kFloat32:
    case DType::kComplex64: return 1.1920928955078125e-07;
    default: return 0;
  }
}

}  // namespace adjoin
