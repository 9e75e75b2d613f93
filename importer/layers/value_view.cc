#include "importer/layers/value_view.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "importer/graph/op_graph.h"

namespace adjoin {
namespace {

using Extents = std::vector<int64_t>;

constexpr size_t kBatch = 0;  // its factor

absl::Status Refused(const char* why) { return absl::InvalidArgumentError(why); }

}  // namespace

ValueView ValueView::Of(Extents base) {
  ValueView view;
  for (size_t i = 0; i < base.size(); ++i) {
    view.dims_.emplace_back();
    if (i > 0 && base[i] == 1) continue;
    view.dims_.back().push_back(view.factors_.size());
    view.factors_.push_back({base[i], static_cast<int>(i)});
  }
  view.base_ = std::move(base);
  return view;
}

ValueView ValueView::OfValue(Extents shape) {
  if (shape.size() != 1) return Of(std::move(shape));
  return Of({shape[0], 1}).WithoutDim(1);
}

ValueView ValueView::OfParameters(const Extents& shape) {
  Extents base = {1};
  base.insert(base.end(), shape.begin(), shape.end());
  if (shape.empty()) base.push_back(1);
  ValueView view = Of(std::move(base)).WithoutDim(0);
  return shape.empty() ? view.WithoutDim(0) : view;
}

ValueView ValueView::WithBatch(size_t dim) const {
  ValueView view = *this;
  view.dims_[dim] = {kBatch};
  return view;
}

bool ValueView::HasBatch() const { return BatchDim() != kNoDim; }

int64_t ValueView::ExtentOf(const std::vector<size_t>& factors) const {
  int64_t product = 1;
  for (size_t factor : factors) {
    const int64_t extent = factors_[factor].extent;
    if (extent < 0 || product < 0) {
      product = factors.size() == 1 ? kAnyExtent : kComputedExtent;
    } else {
      product = extent > 0 && product > INT64_MAX / extent ? INT64_MAX : product * extent;
    }
  }
  return product;
}

Extents ValueView::shape() const {
  Extents shape;
  for (const std::vector<size_t>& dim : dims_) shape.push_back(ExtentOf(dim));
  return shape;
}

bool ValueView::IsBase() const {
  size_t next = 0;
  if (dims_.size() != base_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i) {
    for (size_t factor : dims_[i]) {
      if (factor != next++ || factors_[factor].dim != static_cast<int>(i)) return false;
    }
  }
  return true;
}

size_t ValueView::BatchDim() const {
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (std::find(dims_[i].begin(), dims_[i].end(), kBatch) != dims_[i].end()) return i;
  }
  return kNoDim;
}

// Two factors in place of one.
void ValueView::Divide(size_t factor, int64_t first) {
  Factor second = factors_[factor];
  second.extent /= first;
  factors_[factor].extent = first;
  factors_.insert(factors_.begin() + static_cast<ptrdiff_t>(factor) + 1, second);
  for (std::vector<size_t>& dim : dims_) {
    for (size_t i = 0; i < dim.size(); ++i) {
      if (dim[i] > factor) ++dim[i];
    }
    const auto found = std::find(dim.begin(), dim.end(), factor);
    if (found != dim.end()) dim.insert(found + 1, factor + 1);
  }
}

absl::StatusOr<ValueView> ValueView::Reshaped(const Extents& to) const {
  ValueView view = *this;
  const auto flat = [&] {
    std::vector<size_t> all;
    for (const std::vector<size_t>& dim : view.dims_) all.insert(all.end(), dim.begin(), dim.end());
    return all;
  };
  const auto is_open = [](int64_t extent) { return extent < 0; };
  if (std::count_if(to.begin(), to.end(), is_open) > 1) return Refused("several extents are not fixed");
  const auto is_empty = [](const Factor& factor) { return factor.extent == 0; };
  if (std::count(to.begin(), to.end(), 0) > 0 || std::any_of(factors_.begin(), factors_.end(), is_empty)) {
    return Refused("it has no elements");
  }
  const bool one_sample = HasBatch() && factors_[kBatch].extent == 1;
  if (one_sample && to != shape()) {
    // Which of several extents of 1 is the batch?
    const Extents from = shape();
    const size_t batch = BatchDim();
    const bool stays =
        batch < to.size() && BatchIsAlone() && to[batch] == 1 &&
        std::equal(from.begin(), from.begin() + static_cast<ptrdiff_t>(batch), to.begin()) &&
        (batch + 1 >= to.size() || to[batch + 1] != 1 || (batch + 1 < from.size() && from[batch + 1] == 1));
    if (!stays)
      return Refused("it changes the dims beside a batch of one sample; right would be an export of two or more");
  }
  // From the first dim up to one that is open, and from the last one.
  const size_t open = static_cast<size_t>(std::find_if(to.begin(), to.end(), is_open) - to.begin());
  std::vector<std::vector<size_t>> front, back;
  size_t begin = 0, end = flat().size();  // of those that are left
  for (size_t i = 0; i < open; ++i) {
    front.emplace_back();
    int64_t need = to[i];
    // A batch of one sample is where its dim was.
    const bool takes_one = one_sample && i == BatchDim();
    while (need > 1 || (takes_one && front.back().empty())) {
      if (begin == end) return Refused("it has more elements than its input");
      const size_t factor = flat()[begin];
      const int64_t extent = view.factors_[factor].extent;
      if (extent < 0) return Refused("it moves elements from one sample to another: the batch is not a dim of its own");
      if (need % extent != 0) {
        if (factor == kBatch) return Refused("it moves elements from one sample to another: it divides the batch");
        if (extent % need != 0) return Refused("its extents do not divide those of its input");
        view.Divide(factor, need);
        ++end;
        for (std::vector<size_t>& dim : front) {
          for (size_t& taken : dim) taken += taken > factor;
        }
      }
      front.back().push_back(factor);
      need /= view.factors_[factor].extent;
      ++begin;
    }
  }
  for (size_t i = to.size(); i-- > open + 1;) {
    back.insert(back.begin(), std::vector<size_t>());
    int64_t need = to[i];
    while (need > 1) {
      if (begin == end) return Refused("it has more elements than its input");
      size_t factor = flat()[end - 1];
      const int64_t extent = view.factors_[factor].extent;
      if (extent < 0) return Refused("it moves elements from one sample to another: the batch is not a dim of its own");
      if (need % extent != 0) {
        if (factor == kBatch) return Refused("it moves elements from one sample to another: it divides the batch");
        if (extent % need != 0) return Refused("its extents do not divide those of its input");
        view.Divide(factor, extent / need);
        ++end;
        for (std::vector<std::vector<size_t>>* side : {&front, &back}) {
          for (std::vector<size_t>& dim : *side) {
            for (size_t& taken : dim) taken += taken > factor;
          }
        }
        ++factor;
      }
      back.front().insert(back.front().begin(), factor);
      need /= view.factors_[factor].extent;
      --end;
    }
  }
  std::vector<size_t> rest = flat();
  rest = std::vector<size_t>(rest.begin() + static_cast<ptrdiff_t>(begin), rest.begin() + static_cast<ptrdiff_t>(end));
  if (open < to.size()) {
    if (to[open] == kAnyExtent && rest != std::vector<size_t>{kBatch}) {
      return Refused("it moves elements from one sample to another: the batch is not a dim of its own");
    }
    front.push_back(std::move(rest));
  } else if (!rest.empty()) {
    return Refused("it has fewer elements than its input");
  }
  front.insert(front.end(), back.begin(), back.end());
  view.dims_ = std::move(front);
  return view;
}

ValueView ValueView::Permuted(const Extents& order) const {
  ValueView view = *this;
  for (size_t i = 0; i < order.size(); ++i) view.dims_[i] = dims_[static_cast<size_t>(order[i])];
  return view;
}

ValueView ValueView::WithoutDim(size_t dim) const {
  ValueView view = *this;
  view.dims_.erase(view.dims_.begin() + static_cast<ptrdiff_t>(dim));
  return view;
}

ValueView ValueView::WithDim(size_t dim) const {
  ValueView view = *this;
  view.dims_.insert(view.dims_.begin() + static_cast<ptrdiff_t>(dim), std::vector<size_t>());
  return view;
}

std::pair<int64_t, int64_t> ValueView::BesideBatch() const {
  if (!HasBatch()) return {1, 1};
  const std::vector<size_t>& dim = dims_[BatchDim()];
  const auto at = std::find(dim.begin(), dim.end(), kBatch);
  if (at == dim.end()) return {1, 1};
  return {ExtentOf({dim.begin(), at}), ExtentOf({at + 1, dim.end()})};
}

ValueView ValueView::BatchFirst() const {
  if (!HasBatch()) return *this;
  ValueView view = *this;
  const std::vector<size_t> dim = dims_[BatchDim()];
  const auto at = std::find(dim.begin(), dim.end(), kBatch);
  std::vector<std::vector<size_t>> dims = {{kBatch}};
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (i != BatchDim()) {
      dims.push_back(dims_[i]);
      continue;
    }
    if (at != dim.begin()) dims.emplace_back(dim.begin(), at);
    if (at + 1 != dim.end()) dims.emplace_back(at + 1, dim.end());
  }
  view.dims_ = std::move(dims);
  return view;
}

std::optional<DimInBase> ValueView::FindInBase(size_t dim) const {
  const std::vector<size_t>& factors = dims_[dim];
  if (factors.empty() || factors[0] == kBatch) return std::nullopt;
  DimInBase found;
  found.dim = factors_[factors[0]].dim;
  found.first = factors[0];
  found.count = factors.size();
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] != factors[0] + i || factors_[factors[i]].dim != found.dim) return std::nullopt;
  }
  for (size_t i = 0; i < factors_.size(); ++i) {
    if (factors_[i].dim != found.dim) continue;
    if (i < found.first) found.outer *= factors_[i].extent;
    if (i >= found.first + found.count) found.inner *= factors_[i].extent;
  }
  return found;
}

ValueView ValueView::Narrowed(size_t dim, const DimInBase& found, int64_t extent) const {
  ValueView view = *this;
  view.base_[static_cast<size_t>(found.dim)] = found.outer * extent * found.inner;
  const size_t removed = found.count - (extent == 1 ? 0 : 1);
  view.factors_.erase(view.factors_.begin() + static_cast<ptrdiff_t>(found.first),
                      view.factors_.begin() + static_cast<ptrdiff_t>(found.first + removed));
  view.dims_[dim].clear();
  if (extent != 1) {
    view.factors_[found.first] = {extent, found.dim};
    view.dims_[dim].push_back(found.first);
  }
  for (size_t i = 0; i < view.dims_.size(); ++i) {
    if (i == dim) continue;
    for (size_t& factor : view.dims_[i]) {
      if (factor > found.first) factor -= removed;
    }
  }
  return view;
}

ValueView ValueView::OfBase(Extents base) const {
  ValueView view = *this;
  size_t dim = 0;
  int64_t left = base.empty() ? 1 : base[0];  // of the dim, for further factors
  for (size_t i = 0; i < view.factors_.size(); ++i) {
    while (i > 0 && left == 1 && dim + 1 < base.size()) left = base[++dim];
    view.factors_[i].dim = static_cast<int>(dim);
    left = i == kBatch ? 1 : left / std::max<int64_t>(view.factors_[i].extent, 1);
  }
  view.base_ = std::move(base);
  return view;
}

// The base's dims in the value's order, where each dim of the value is a whole one of the base; else empty.
Extents ValueView::PurePermutation() const {
  if (dims_.size() != base_.size()) return {};
  std::vector<size_t> whole(base_.size(), 0);  // factors of each dim of the base
  for (const Factor& factor : factors_) ++whole[static_cast<size_t>(factor.dim)];
  std::vector<int64_t> ones;
  for (size_t i = 0; i < base_.size(); ++i) {
    if (whole[i] == 0) ones.push_back(static_cast<int64_t>(i));
  }
  Extents order;
  size_t next_one = 0;
  for (const std::vector<size_t>& dim : dims_) {
    if (dim.empty()) {
      if (next_one == ones.size()) return {};
      order.push_back(ones[next_one++]);
      continue;
    }
    const int of = factors_[dim[0]].dim;
    if (dim.size() != whole[static_cast<size_t>(of)]) return {};
    for (size_t i = 0; i < dim.size(); ++i) {
      if (factors_[dim[i]].dim != of || dim[i] != dim[0] + i) return {};
    }
    order.push_back(of);
  }
  return next_one == ones.size() ? order : Extents();
}

absl::StatusOr<ViewSteps> ValueView::Steps() const {
  ViewSteps steps;
  if (IsBase()) return steps;
  if (dims_.empty() || dims_[0] != std::vector<size_t>{kBatch}) {
    const size_t at = HasBatch() ? BatchDim() : 0;
    return absl::InvalidArgumentError(absl::StrCat("its batch is in dim ", at,
                                                   BatchIsAlone() ? "" : ", together with others",
                                                   "; right would be a batch that is dim 0, by itself"));
  }
  const Extents to = shape();
  std::vector<size_t> flat;
  for (const std::vector<size_t>& dim : dims_) flat.insert(flat.end(), dim.begin(), dim.end());
  const Extents permutation = PurePermutation();
  if (!permutation.empty()) {
    if (!std::is_sorted(permutation.begin(), permutation.end())) steps.order = permutation;
    return steps;
  }
  if (std::is_sorted(flat.begin(), flat.end())) {
    if (to != base_) steps.split = to;
    return steps;
  }
  // Groups of factors that stay beside each other: of the base's dims where these are enough, else as long as can be.
  const auto groups = [&](bool at_dims) {
    std::vector<std::vector<size_t>> all;
    for (size_t i = 0; i < flat.size(); ++i) {
      const bool joins =
          i > 1 && flat[i] == flat[i - 1] + 1 && !(at_dims && factors_[flat[i]].dim != factors_[flat[i - 1]].dim);
      if (!joins) all.emplace_back();
      all.back().push_back(flat[i]);
    }
    return all;
  };
  const auto split_of = [&](std::vector<std::vector<size_t>> all) {
    std::sort(all.begin(), all.end());
    Extents extents;
    for (const std::vector<size_t>& group : all) extents.push_back(ExtentOf(group));
    return extents;
  };
  std::vector<std::vector<size_t>> chosen = groups(/*at_dims=*/true);
  if (split_of(chosen) != base_) chosen = groups(/*at_dims=*/false);
  std::vector<std::vector<size_t>> sorted = chosen;
  std::sort(sorted.begin(), sorted.end());
  const Extents split = split_of(chosen);
  if (split != base_) steps.split = split;
  Extents permuted;
  for (const std::vector<size_t>& group : chosen) {
    steps.order.push_back(std::find(sorted.begin(), sorted.end(), group) - sorted.begin());
    permuted.push_back(ExtentOf(group));
  }
  if (permuted != to) steps.merged = to;
  return steps;
}

}  // namespace adjoin
