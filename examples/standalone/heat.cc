// The heat equation on a 2x2 grid of ranks, with a field that stays padded: each step refreshes the ring around every
// rank's part, and computes from it. The field after all steps is the serial program's, bit for bit.
#include <cstdio>

#include <torch/torch.h>

#include "base/status_macros.h"
#include "examples/standalone/launch.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/kept_halo.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_refresh.h"

using namespace adjoin;

namespace {

constexpr int kSteps = 200;
constexpr int64_t kRows = 31, kColumns = 22;

torch::Tensor Cells(const torch::Tensor& field, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return field.narrow(0, row, rows).narrow(1, column, columns);
}

// The inner cells after one step, by the stencil of nine points. Without a factor in an addition every operation is
// rounded by itself, however the processor does them.
torch::Tensor Next(const torch::Tensor& padded) {
  const int64_t rows = padded.size(0) - 2, columns = padded.size(1) - 2;
  const auto at = [&](int64_t row, int64_t column) { return Cells(padded, row, rows, column, columns); };
  const torch::Tensor beside = at(0, 1) + at(2, 1) + at(1, 0) + at(1, 2);
  const torch::Tensor corners = at(0, 0) + at(0, 2) + at(2, 0) + at(2, 2);
  const torch::Tensor inner = at(1, 1);
  return inner + (beside * 4 + corners - inner * 20) * 0.02;
}

// A pipe, heated at its lower end and cooled at its upper end: the columns are a ring, the rows end. Padded.
torch::Tensor Beginning() {
  torch::Tensor field = torch::randn({kRows + 2, kColumns + 2}, torch::kDouble);
  field[0] = 3;
  field[kRows + 1] = -1;
  return field;
}

torch::Tensor SerialAfterAllSteps(torch::Tensor field) {
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor rows = field.narrow(0, 1, kRows);
    rows.select(1, 0).copy_(rows.select(1, kColumns));
    rows.select(1, kColumns + 1).copy_(rows.select(1, 1));
    Cells(field, 1, kRows, 1, kColumns).copy_(Next(field));
  }
  return field;
}

absl::Status Heat(Communicator& communicator) {
  torch::set_num_threads(1);
  torch::manual_seed(1);  // every rank makes the same field, keeps its part, and has the whole to compare with
  const torch::NoGradGuard no_grad;
  const int rank = communicator.rank();
  ADJOIN_ASSIGN_OR_RETURN(const Layout grid,
                          Layout::Partition({kRows, kColumns}, DType::kFloat64, {2, 2}, {0, 1, 2, 3}));
  const HaloWidth ends{1, 1, Boundary::kZeros}, around{1, 1, Boundary::kCircular};
  ADJOIN_ASSIGN_OR_RETURN(
      const auto halo, HaloRefresh::Create(&communicator, grid, {{0, ends}, {1, around}}, {.id = 1, .name = "field"}));
  const Box part = grid.BoxOf(rank);
  torch::Tensor whole = Beginning();
  // The rows beyond the pipe's ends are no rank's: they stay as they are set here.
  const torch::Tensor padded = halo->NewPadded();
  padded.copy_(Cells(whole, part[0].lo, part[0].size() + 2, part[1].lo, part[1].size() + 2));
  const torch::Tensor inner = halo->InteriorOf(padded);
  for (int step = 0; step < kSteps; ++step) {
    halo->Refresh(padded);
    inner.copy_(Next(padded));
  }

  whole = SerialAfterAllSteps(whole);
  const torch::Tensor serial = Cells(whole, part[0].lo + 1, part[0].size(), part[1].lo + 1, part[1].size());
  const torch::Tensor different = (inner != serial).sum().to(torch::kDouble);
  ADJOIN_ASSIGN_OR_RETURN(const Layout everywhere, Layout::Replicated({2}, DType::kFloat64, grid.mesh().ranks()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout parts, everywhere.Dual());
  ADJOIN_ASSIGN_OR_RETURN(const auto sum, AllSumReduce::Create(&communicator, parts, {.id = 2, .name = "sum"}));
  const torch::Tensor sums = sum->Forward(torch::stack({inner.sum(), different}));
  if (rank == 0)
    std::printf("mean temperature %.12f after %d steps\n", sums[0].item<double>() / grid.shape()[0] / grid.shape()[1],
                kSteps);
  if (sums[1].item<double>() != 0) return absl::InternalError("the field differs from the serial program's");
  if (rank == 0) std::printf("every cell has the bits of the serial program's\n");
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) { return Launch(argc, argv, /*ranks=*/4, Heat); }
