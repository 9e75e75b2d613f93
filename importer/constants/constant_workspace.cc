#include "importer/constants/constant_workspace.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr int64_t kKeptBytes = 8;  // of an element

// False where the product does not fit 64 bits.
bool Volume(const std::vector<int64_t>& shape, int64_t& elements) {
  elements = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) return false;
  }
  return true;
}

}  // namespace

int64_t ConstantView::Elements() const {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> stride(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * std::max<int64_t>(shape[i], 1);
  return stride;
}

PositionWalk::PositionWalk(const ConstantView& view) : view_(view), at_(view.shape.size(), 0), position_(view.offset) {}

void PositionWalk::Next() {
  for (size_t d = at_.size(); d-- > 0;) {
    position_ += view_.stride[d];
    if (++at_[d] < view_.shape[d]) return;
    position_ -= view_.stride[d] * view_.shape[d];
    at_[d] = 0;
  }
}

absl::Status ConstantWorkspace::Count(int64_t elements) {
  if (elements < 0 || elements > limits_.work - work_) {
    return absl::ResourceExhaustedError(absl::StrCat("its constants take more than ", limits_.work,
                                                     " steps to compute; right would be a buffer of the "
                                                     "module that holds them"));
  }
  work_ += elements;
  return absl::OkStatus();
}

absl::StatusOr<ConstantView> ConstantWorkspace::New(DType dtype, const std::vector<int64_t>& shape) {
  int64_t elements = 0;
  if (!Volume(shape, elements) || elements > limits_.elements) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it is a constant of more than ", limits_.elements, " elements, or of a negative number"));
  }
  if (elements * kKeptBytes > limits_.bytes - bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the program's constants have more than ", limits_.bytes / kKeptBytes, " elements together"));
  }
  ADJOIN_RETURN_IF_ERROR(Count(elements + 1));
  bytes_ += elements * kKeptBytes;
  storages_.push_back(std::make_unique<ConstantStorage>());
  ConstantStorage* storage = storages_.back().get();
  if (IsFloatingPoint(dtype)) {
    storage->reals.resize(static_cast<size_t>(elements));
  } else {
    storage->wholes.resize(static_cast<size_t>(elements));
  }
  return ConstantView{storage, dtype, shape, RowMajorStrides(shape), 0};
}

absl::StatusOr<ConstantView> ConstantWorkspace::OfReals(DType dtype, const std::vector<int64_t>& shape,
                                                        std::vector<double> values) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView view, New(dtype, shape));
  ADJOIN_RETURN_IF_ERROR(WriteReals(view, values));
  return view;
}

absl::StatusOr<ConstantView> ConstantWorkspace::OfWholes(DType dtype, const std::vector<int64_t>& shape,
                                                         std::vector<int64_t> values) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView view, New(dtype, shape));
  ADJOIN_RETURN_IF_ERROR(WriteWholes(view, values));
  return view;
}

absl::StatusOr<std::vector<double>> ConstantWorkspace::Reals(const ConstantView& view) {
  const int64_t elements = view.Elements();
  if (elements > limits_.elements) return New(view.dtype, view.shape).status();
  ADJOIN_RETURN_IF_ERROR(Count(elements));
  std::vector<double> values;
  values.reserve(static_cast<size_t>(elements));
  PositionWalk walk(view);
  for (int64_t i = 0; i < elements; ++i, walk.Next()) {
    const size_t at = static_cast<size_t>(walk.position());
    values.push_back(view.real() ? view.storage->reals[at] : static_cast<double>(view.storage->wholes[at]));
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> ConstantWorkspace::Wholes(const ConstantView& view) {
  const int64_t elements = view.Elements();
  if (elements > limits_.elements) return New(view.dtype, view.shape).status();
  ADJOIN_RETURN_IF_ERROR(Count(elements));
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(elements));
  PositionWalk walk(view);
  for (int64_t i = 0; i < elements; ++i, walk.Next()) {
    const size_t at = static_cast<size_t>(walk.position());
    values.push_back(view.real() ? Truncated(view.storage->reals[at]) : view.storage->wholes[at]);
  }
  return values;
}

absl::Status ConstantWorkspace::WriteReals(const ConstantView& view, const std::vector<double>& values) {
  if (static_cast<int64_t>(values.size()) != view.Elements()) return NotComputed("its shapes do not fit each other");
  ADJOIN_RETURN_IF_ERROR(Count(view.Elements()));
  PositionWalk walk(view);
  for (const double value : values) {
    const size_t at = static_cast<size_t>(walk.position());
    if (view.real()) {
      view.storage->reals[at] = RoundedTo(view.dtype, value);
    } else if (view.dtype == DType::kBool) {
      view.storage->wholes[at] = value != 0;  // one half, and a NaN, too
    } else {
      view.storage->wholes[at] = WrappedTo(view.dtype, Truncated(value));
    }
    walk.Next();
  }
  return absl::OkStatus();
}

absl::Status ConstantWorkspace::WriteWholes(const ConstantView& view, const std::vector<int64_t>& values) {
  if (static_cast<int64_t>(values.size()) != view.Elements()) return NotComputed("its shapes do not fit each other");
  ADJOIN_RETURN_IF_ERROR(Count(view.Elements()));
  PositionWalk walk(view);
  for (const int64_t value : values) {
    const size_t at = static_cast<size_t>(walk.position());
    if (view.real()) {
      view.storage->reals[at] = RoundedTo(view.dtype, static_cast<double>(value));
    } else {
      view.storage->wholes[at] = WrappedTo(view.dtype, value);
    }
    walk.Next();
  }
  return absl::OkStatus();
}

absl::StatusOr<ConstantView> ConstantWorkspace::Converted(const ConstantView& view, DType dtype) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, New(dtype, view.shape));
  ADJOIN_RETURN_IF_ERROR(Copy(view, result));
  return result;
}

absl::Status ConstantWorkspace::Copy(const ConstantView& from, const ConstantView& to) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView source, Broadcast(from, to.shape));
  if (source.real()) {
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> values, Reals(source));
    return WriteReals(to, values);
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, Wholes(source));
  return WriteWholes(to, values);
}

const ConstantView* ConstantWorkspace::Find(const std::string& value) const {
  const auto found = views_.find(value);
  return found == views_.end() ? nullptr : &found->second;
}

absl::StatusOr<ConstantView> Broadcast(const ConstantView& view, const std::vector<int64_t>& shape) {
  ConstantView result = view;
  result.shape = shape;
  result.stride.assign(shape.size(), 0);
  const size_t added = shape.size() - view.shape.size();
  int64_t elements = 0;
  if (view.shape.size() > shape.size() || !Volume(shape, elements)) {
    return NotComputed("its shapes do not fit each other");
  }
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == shape[i + added]) {
      result.stride[i + added] = view.stride[i];
    } else if (view.shape[i] != 1) {
      return NotComputed("its shapes do not fit each other");
    }
  }
  return result;
}

absl::StatusOr<std::vector<int64_t>> BroadcastShape(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t from_last = shape.size() - i;
    const int64_t first = from_last <= a.size() ? a[a.size() - from_last] : 1;
    const int64_t second = from_last <= b.size() ? b[b.size() - from_last] : 1;
    if (first != second && first != 1 && second != 1) return NotComputed("its shapes do not fit each other");
    shape[i] = first == 1 ? second : first;
  }
  return shape;
}

}  // namespace adjoin
