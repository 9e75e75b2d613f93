// Every memory operator against its dense matrix, and its gradients of first and second order against the transpose.
#include "primitives/memory_operators.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/status_exception.h"

namespace adjoin {
namespace {

at::Tensor Identity(int64_t n) { return at::eye(n, at::kDouble); }

// The numbers, in row-major order of the tensor, of a block's cells.
at::Tensor CellNumbers(const std::vector<int64_t>& shape, const Region& block) {
  at::Tensor numbers = at::arange(VolumeOf(shape)).reshape(shape);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    numbers = numbers.narrow(static_cast<int64_t>(dim), block.at[dim], block.size[dim]);
  }
  return numbers.reshape({-1});
}

// K_b and S_{a->b} of the paper.
at::Tensor ClearMatrix(const std::vector<int64_t>& shape, const Region& b) {
  at::Tensor k = Identity(VolumeOf(shape));
  return k.index_fill(0, CellNumbers(shape, b), 0);
}
at::Tensor AddMatrix(const std::vector<int64_t>& shape, const Region& a, const Region& b) {
  at::Tensor s = Identity(VolumeOf(shape));
  s.index_put_({CellNumbers(shape, b), CellNumbers(shape, a)}, at::ones({}, at::kDouble));
  return s;
}

// A block inside `shape`, and one of the same size that it does not meet.
std::pair<Region, Region> RandomBlocks(Draw& draw, const std::vector<int64_t>& shape) {
  Region a, b;
  const int64_t apart = draw.Between(0, static_cast<int64_t>(shape.size()) - 1);  // the dim in which they are disjoint
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const bool disjoint = static_cast<int64_t>(dim) == apart;
    const int64_t size = draw.Between(0, disjoint ? shape[dim] / 2 : shape[dim]);
    const int64_t room = shape[dim] - size * (disjoint ? 2 : 1);
    const int64_t at = draw.Between(0, room);
    a.at.push_back(at);
    b.at.push_back(disjoint ? draw.Between(at, room) + size : draw.Between(0, room));
    a.size.push_back(size);
    b.size.push_back(size);
  }
  if (draw.OneIn(2)) std::swap(a, b);
  return {a, b};
}

at::Tensor RandomOf(Draw& draw, const std::vector<int64_t>& shape) {
  std::normal_distribution<double> normal;
  std::vector<double> values(VolumeOf(shape));
  for (double& value : values) value = normal(draw.engine());
  return at::tensor(values, at::kDouble).reshape(shape);
}

using Operator = std::function<at::Tensor(const at::Tensor&)>;

void ExpectMatrix(const std::string& what, Draw& draw, const std::vector<int64_t>& shape, const Operator& f,
                  const at::Tensor& matrix) {
  const int64_t n = VolumeOf(shape);
  for (int64_t i = 0; i < n; ++i) {
    const at::Tensor unit = Identity(n)[i].reshape(shape);
    ASSERT_TRUE(at::equal(f(unit).reshape({-1}), matrix.select(1, i))) << what << ", unit vector " << i;
  }
  const at::Tensor values = RandomOf(draw, shape);
  // The same values in another order of memory.
  at::Tensor x = values.transpose(0, -1).contiguous().transpose(0, -1).requires_grad_();
  const at::Tensor y = f(x);
  ASSERT_TRUE(at::equal(x.detach(), values)) << what << ": the input was modified";
  ASSERT_TRUE(y.is_contiguous() && y.data_ptr() != x.data_ptr()) << what;
  ASSERT_TRUE(at::allclose(y.reshape({-1}), matrix.mv(values.reshape({-1})), 1e-12, 1e-12)) << what;
  at::Tensor w = RandomOf(draw, y.sizes().vec()).requires_grad_();
  const at::Tensor g = torch::autograd::grad({y}, {x}, {w}, true, /*create_graph=*/true)[0];
  ASSERT_TRUE(at::allclose(g.reshape({-1}), matrix.t().mv(w.detach().reshape({-1})), 1e-12, 1e-12)) << what;
  const double difference = ((y * w).sum() - (x * g).sum()).abs().item<double>();
  ASSERT_LE(difference, 1e-12 * std::max(1.0, y.norm().item<double>() * w.norm().item<double>())) << what;
  // The gradient is linear in w, with the operator itself as its derivative's transpose.
  const at::Tensor v = RandomOf(draw, shape);
  const at::Tensor second = torch::autograd::grad({g}, {w}, {v})[0];
  ASSERT_TRUE(at::allclose(second.reshape({-1}), matrix.mv(v.reshape({-1})), 1e-12, 1e-12)) << what;
}

TEST(MemoryOperatorsTest, BlocksEqualDenseMatrices) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const std::vector<int64_t> shape = draw.Integers(draw.Between(1, 3), 1, 5);
    const auto [a, b] = RandomBlocks(draw, shape);
    const Region from = a, to = b;
    const at::Tensor clear_from = ClearMatrix(shape, a);
    const at::Tensor clear_to = ClearMatrix(shape, b);
    const at::Tensor add = AddMatrix(shape, a, b);
    const at::Tensor copy = add.mm(clear_to);
    const at::Tensor move = clear_from.mm(copy);
    ExpectMatrix(
        "clear", draw, shape, [&](const at::Tensor& x) { return memory::Clear(x, from); }, clear_from);
    ExpectMatrix(
        "add", draw, shape, [&](const at::Tensor& x) { return memory::Add(x, from, to); }, add);
    ExpectMatrix(
        "copy", draw, shape, [&](const at::Tensor& x) { return memory::Copy(x, from, to); }, copy);
    ExpectMatrix(
        "move", draw, shape, [&](const at::Tensor& x) { return memory::Move(x, from, to); }, move);

    // In place: the same matrices on x's own memory.
    using InPlace = std::function<void(at::Tensor&)>;
    const std::vector<std::pair<InPlace, at::Tensor>> in_place = {
        {[&](at::Tensor& x) { memory::ClearInPlace(x, from); }, clear_from},
        {[&](at::Tensor& x) { memory::AddInPlace(x, from, to); }, add},
        {[&](at::Tensor& x) { memory::CopyInPlace(x, from, to); }, copy},
        {[&](at::Tensor& x) { memory::MoveInPlace(x, from, to); }, move}};
    for (const auto& [f, matrix] : in_place) {
      at::Tensor x = RandomOf(draw, shape);
      const at::Tensor expected = matrix.mv(x.reshape({-1}));
      const void* data = x.data_ptr();
      f(x);
      ASSERT_TRUE(at::allclose(x.reshape({-1}), expected, 1e-12, 1e-12) && x.data_ptr() == data);
    }
  }
}

TEST(MemoryOperatorsTest, AllocateAndDeallocateEqualDenseMatrices) {
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const std::vector<int64_t> shape = draw.Integers(draw.Between(1, 3), 1, 5);
    const int64_t dim = draw.Between(0, static_cast<int64_t>(shape.size()) - 1);
    const int64_t at = draw.Between(0, shape[dim]);
    const int64_t size = draw.Between(0, 3);
    // D picks the rows of the identity of the larger space that are not in the block.
    std::vector<int64_t> larger = shape;
    larger[dim] += size;
    Region before{std::vector<int64_t>(shape.size(), 0), larger};
    Region after = before;
    before.size[dim] = at;
    after.at[dim] = at + size;
    after.size[dim] = shape[dim] - at;
    const at::Tensor cells = std::get<0>(at::cat({CellNumbers(larger, before), CellNumbers(larger, after)}).sort());
    const at::Tensor drop = Identity(VolumeOf(larger)).index_select(0, cells);
    ExpectMatrix(
        "allocate", draw, shape, [&](const at::Tensor& x) { return memory::Allocate(x, dim, at, size); }, drop.t());
    ExpectMatrix(
        "deallocate", draw, larger, [&](const at::Tensor& x) { return memory::Deallocate(x, dim, at, size); }, drop);
  }
}

TEST(MemoryOperatorsTest, WorksOnOtherTypes) {
  const Region a{{0}, {2}}, b{{2}, {2}};
  const auto complex = at::tensor(std::vector<double>{1, 2, 3, 4}).to(at::kComplexDouble) * c10::complex<double>(0, 1);
  EXPECT_TRUE(at::equal(memory::Add(complex, a, b)[2], complex[0] + complex[2]));
  // A conjugate that LibTorch has not computed yet.
  EXPECT_TRUE(at::equal(memory::Copy(complex.conj(), a, b)[2].resolve_conj(), -complex[0]));
  EXPECT_TRUE(at::equal(memory::Move(at::arange(4), a, b), at::tensor({0, 0, 0, 1}, at::kLong)));
  EXPECT_TRUE(at::equal(memory::Clear(at::ones({4}, at::kBool), a), at::tensor({0, 0, 1, 1}, at::kLong).to(at::kBool)));
}

std::string MessageOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const StatusException& error) {
    EXPECT_EQ(error.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(error.status().message());
  }
  return "nothing was thrown";
}

TEST(MemoryOperatorsTest, SaysWhatIsWrong) {
  at::Tensor x = at::zeros({4, 3});
  const Region top{{0, 0}, {2, 3}}, middle{{1, 0}, {2, 3}}, row{{3, 0}, {1, 3}}, below{{3, 0}, {2, 3}};
  EXPECT_EQ(MessageOf([&] { memory::Clear(x, below); }),
            "clear: the block of size (2, 3) at (3, 0) is not inside a tensor of shape (4, 3)");
  EXPECT_EQ(MessageOf([&] {
              memory::Clear(x, {{0}, {1}});
            }),
            "clear: the block of size (1) at (0) is not inside a tensor of shape (4, 3)");
  EXPECT_EQ(MessageOf([&] { memory::Copy(x, top, middle); }),
            "copy: the block of size (2, 3) at (0, 0) and the block of size (2, 3) at (1, 0) have cells in common");
  EXPECT_EQ(MessageOf([&] { memory::MoveInPlace(x, top, row); }),
            "move: the block of size (2, 3) at (0, 0) and the block of size (1, 3) at (3, 0) differ in size");
  EXPECT_EQ(MessageOf([&] { memory::Allocate(x, 2, 0, 1); }), "allocate: dim 2 of a tensor of shape (4, 3)");
  EXPECT_EQ(MessageOf([&] { memory::Deallocate(x, 0, 3, 2); }),
            "deallocate: 2 indices at 3 of dim 0 of a tensor of shape (4, 3)");
  EXPECT_EQ(MessageOf([&] { memory::Add(at::Tensor(), top, top); }), "add: the tensor is undefined");
  at::Tensor leaf = at::zeros({4, 3}).requires_grad_();
  EXPECT_TRUE(absl::StrContains(MessageOf([&] { memory::ClearInPlace(leaf, row); }), "that autograd records"));
}

}  // namespace
}  // namespace adjoin
