#include "tests/adjoint/case_checks.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <sstream>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "tests/adjoint/random_tensors.h"

namespace adjoin {
namespace {

using Number = std::complex<double>;

// Every rank's cells, one after the other.
std::vector<Number> AllCells(const std::vector<at::Tensor>& tensors) {
  std::vector<Number> all;
  for (const at::Tensor& t : tensors) {
    const std::vector<Number> cells = CellsOf(t);
    all.insert(all.end(), cells.begin(), cells.end());
  }
  return all;
}

double Norm(const std::vector<Number>& cells) {
  double sum = 0;
  for (const Number& cell : cells) sum += std::norm(cell);
  return std::sqrt(sum);
}

Number Inner(const std::vector<Number>& a, const std::vector<Number>& b) {
  Number sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::conj(a[i]) * b[i];
  return sum;
}

bool Close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const std::vector<Number> left = CellsOf(a);
  const std::vector<Number> right = CellsOf(b);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!(std::abs(left[i] - right[i]) <= tolerance * (1 + std::abs(right[i])))) return false;
  }
  return true;
}

std::string Shown(const at::Tensor& t) {
  std::ostringstream text;
  text << t.scalar_type() << " " << t.sizes();
  if (t.numel() <= 64) text << " " << t;
  return text.str();
}

at::Tensor Padded(const MovementCase& c, std::size_t rank, at::Tensor fetched) {
  for (std::size_t dim = 0; dim < c.index_map[rank].size(); ++dim) {
    if (c.index_map[rank][dim].empty()) continue;
    fetched = fetched.index_select(static_cast<int64_t>(dim), at::tensor(c.index_map[rank][dim]));
  }
  return fetched;
}

absl::Status Differs(const MovementCase& c, std::size_t rank, const at::Tensor& expected, const at::Tensor& got) {
  return absl::InternalError(absl::StrCat(c.what, ": rank ", rank, " expected ", Shown(expected), " got ", Shown(got)));
}

absl::Status Match(const MovementCase& c, const std::vector<at::Tensor>& all_expected,
                   const std::vector<at::Tensor>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    const at::Tensor& expected = all_expected[rank];
    if (c.sums_with[rank].empty()) {
      if (results[rank].sizes() == expected.sizes()) continue;
      return absl::InternalError(absl::StrCat(c.what, ": rank ", rank, " outside the mesh got something"));
    }
    at::Tensor sum;
    for (int other : c.sums_with[rank]) sum = sum.defined() ? sum + results[other] : results[other];
    sum = Padded(c, rank, sum);
    if (!Close(sum, expected, c.exact ? 0 : 64 * RoundingOf(c.dtype))) return Differs(c, rank, expected, sum);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValuesMatch(const MovementCase& c, const std::vector<at::Tensor>& results) {
  return Match(c, c.expected, results);
}

absl::Status LinearValuesMatch(const MovementCase& c, const std::vector<at::Tensor>& results) {
  return Match(c, c.expected_linear, results);
}

absl::Status BitsMatch(const MovementCase& c, const std::vector<at::Tensor>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    const at::Tensor expected = OtherBits(c.expected[rank]);
    const at::Tensor got = Padded(c, rank, results[rank]);
    if (!SameBits(got, expected)) return Differs(c, rank, expected, got);
  }
  return absl::OkStatus();
}

absl::Status AdjointHolds(const MovementCase& c, const std::vector<at::Tensor>& x, const std::vector<at::Tensor>& fx,
                          const std::vector<at::Tensor>& y, const std::vector<at::Tensor>& fy) {
  for (std::size_t rank = 0; rank < x.size(); ++rank) {
    if (fx[rank].sizes() != y[rank].sizes() || fy[rank].sizes() != x[rank].sizes()) {
      return absl::InternalError(absl::StrCat(c.what, ": rank ", rank, " got results of a wrong shape"));
    }
  }
  const std::vector<Number> x_cells = AllCells(x);
  const std::vector<Number> fx_cells = AllCells(fx);
  const std::vector<Number> y_cells = AllCells(y);
  const std::vector<Number> fy_cells = AllCells(fy);
  const Number left = Inner(fx_cells, y_cells);
  const Number right = Inner(x_cells, fy_cells);
  if (c.dtype == DType::kBool) {
    if ((left != 0.0) == (right != 0.0)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(c.what, ": <Fx, y> is ", left != 0.0, ", <x, F*y> is ", right != 0.0));
  }
  const double error = std::abs(left - right);
  const double scale = std::max(Norm(fx_cells) * Norm(y_cells), Norm(x_cells) * Norm(fy_cells));
  const double relative = 1e-12 * std::max(1.0, RoundingOf(c.dtype) / RoundingOf(DType::kFloat64));
  if (!(error <= relative * scale)) {
    return absl::InternalError(
        absl::StrCat(c.what, ": <Fx, y> - <x, F*y> is ", error, ", where ", relative * scale, " is allowed"));
  }
  if (Norm(AllCells(c.linear ? c.expected : c.expected_linear)) > 0 && (Norm(x_cells) == 0 || Norm(fx_cells) == 0)) {
    return absl::InternalError(absl::StrCat(c.what, ": F is zero"));
  }
  return absl::OkStatus();
}

}  // namespace adjoin
