// Tensors of more than 2^31 bytes and more than 2^31 elements through the operators, every cell checked. Takes up to
// 12 GiB of memory.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/movement.h"
#include "primitives/redistribute.h"
#include "primitives/status_exception.h"
#include "primitives/torch_dtype.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

// A cell of the global tensor: an integer below 64 that depends on every bit of the flat index.
int PatternAt(int64_t i) { return static_cast<int>((static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u) >> 58); }

// Calls `fn` with the rows of the local tensor of `box`, a box of a tensor of one or two dims: where a row begins in
// the local tensor, and in the global one.
void ForEachRow(const std::vector<int64_t>& shape, const Box& box,
                const std::function<void(int64_t local, int64_t global, int64_t length)>& fn) {
  const int64_t rows = shape.size() == 2 ? box[0].size() : 1;
  const Interval columns = box[box.dims() - 1];
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t global = shape.size() == 2 ? (box[0].lo + row) * shape[1] + columns.lo : columns.lo;
    fn(row * columns.size(), global, columns.size());
  }
}

template <typename Cell>
void Fill(const Layout& layout, int rank, at::Tensor& t) {
  Cell values[64];
  for (int i = 0; i < 64; ++i) values[i] = static_cast<Cell>(static_cast<float>(i));
  Cell* const cells = t.data_ptr<Cell>();
  ForEachRow(layout.shape(), layout.BoxOf(rank), [&](int64_t local, int64_t global, int64_t length) {
    for (int64_t i = 0; i < length; ++i) cells[local + i] = values[PatternAt(global + i)];
  });
}

// The first local cell that is not `factor` times what Fill gives, or -1.
template <typename Cell>
int64_t FirstWrong(const Layout& layout, int rank, const at::Tensor& t, int factor) {
  Cell values[64];
  for (int i = 0; i < 64; ++i) values[i] = static_cast<Cell>(static_cast<float>(i * factor));
  const Cell* const cells = t.data_ptr<Cell>();
  int64_t wrong = -1;
  ForEachRow(layout.shape(), layout.BoxOf(rank), [&](int64_t local, int64_t global, int64_t length) {
    for (int64_t i = 0; wrong < 0 && i < length; ++i) {
      if (cells[local + i] != values[PatternAt(global + i)]) wrong = local + i;
    }
  });
  return wrong;
}

at::Tensor Local(const Layout& layout, int rank) {
  at::Tensor t = at::empty(layout.LocalShape(rank), ScalarTypeOf(layout.dtype()));
  if (!layout.mesh().Has(rank)) return t;
  layout.dtype() == DType::kUInt8 ? Fill<uint8_t>(layout, rank, t) : Fill<c10::BFloat16>(layout, rank, t);
  return t;
}

// True where `t` is `factor` times what Local gives.
absl::Status Expect(const char* what, const at::Tensor& t, const Layout& layout, int rank, int factor) {
  if (t.sizes() != at::IntArrayRef(layout.LocalShape(rank))) return absl::InternalError("another shape");
  if (!layout.mesh().Has(rank)) return absl::OkStatus();
  const int64_t wrong = layout.dtype() == DType::kUInt8 ? FirstWrong<uint8_t>(layout, rank, t, factor)
                                                        : FirstWrong<c10::BFloat16>(layout, rank, t, factor);
  if (wrong < 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": cell ", wrong, " of ", t.numel(), " is wrong"));
}

struct LargeCase {
  std::string name;
  Layout from;
  Layout to;
  // How often F x, of the same x on every rank, has each cell of the global tensor; and F* of that.
  int forward_factor;
  int adjoint_factor;
};

class LargeTensorTest : public testing::TestWithParam<TransportKind> {
 protected:
  void Run(const LargeCase& c) {
    const absl::Status status = RunRanks(
        2, GetParam(), 0,
        [&](Transport& transport) -> absl::Status {
          HostMemory memory;
          Communicator communicator(&transport, &memory, {0, absl::Minutes(4)});
          const int rank = transport.rank();
          ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<Movement> f,
                                  Redistribute::Create(&communicator, c.from, c.to, {1, c.name, 0, false}));
          try {
            at::Tensor y;
            {
              const at::Tensor x = Local(c.from, rank);
              y = f->Forward(x);
            }
            ADJOIN_RETURN_IF_ERROR(Expect("F x", y, c.to, rank, c.forward_factor));
            return Expect("F* F x", f->Adjoint(y), c.from, rank, c.adjoint_factor);
          } catch (...) {
            return StatusFromCurrentException();
          }
        },
        absl::Minutes(8));
    EXPECT_TRUE(status.ok()) << c.name << ": " << status;
  }

  void SetUp() override { at::set_num_threads(1); }
};

// 2.5 GiB, one byte each.
TEST_P(LargeTensorTest, Broadcast) {
  const std::vector<int64_t> shape = {(int64_t{5} << 29) + 12345};
  Run({"broadcast", Layout::Owner(shape, DType::kUInt8, 0), *Layout::Replicated(shape, DType::kUInt8, {0, 1}), 1, 2});
}

// Five rows, so that the last begins beyond 2^31; every rank sends and receives columns.
TEST_P(LargeTensorTest, RepartitionOfColumns) {
  const std::vector<int64_t> shape = {5, 550000001};
  Run({"repartition", Layout::Owner(shape, DType::kUInt8, 0),
       *Layout::Partition(shape, DType::kUInt8, {1, 2}, {0, 1}, {{1, {100000007, 449999994}}}), 1, 1});
}

// 2.2 GiB of two bytes each, summed on both ranks.
TEST_P(LargeTensorTest, AllSumReduce) {
  const std::vector<int64_t> shape = {1181116007};
  const Layout copies = *Layout::Replicated(shape, DType::kBFloat16, {0, 1});
  Run({"all-sum-reduce", *copies.Dual(), copies, 2, 4});
}

// More than 2 GiB in one message of a plain list.
TEST_P(LargeTensorTest, SendReceive) {
  const std::vector<int64_t> shape = {1181116007};
  Run({"send-receive", Layout::Owner(shape, DType::kBFloat16, 1), Layout::Owner(shape, DType::kBFloat16, 0), 1, 1});
}

INSTANTIATE_TEST_SUITE_P(All, LargeTensorTest,
                         testing::Values(TransportKind::kInMemory, TransportKind::kUcxSharedMemory,
                                         TransportKind::kUcxTcp),
                         [](const auto& info) { return ToString(info.param); });

}  // namespace
}  // namespace adjoin
