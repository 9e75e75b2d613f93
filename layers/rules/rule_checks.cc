#include "layers/rules/rule_checks.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

absl::Status CheckDims(int64_t dims) {
  if (dims <= kMaxDims) return absl::OkStatus();
  return InvalidSpec("a tensor of ", dims, " dims; at most ", kMaxDims, " are possible");
}

absl::StatusOr<int64_t> CheckedVolume(const std::vector<int64_t>& shape) {
  int64_t volume = 1;
  // A zero extent does not excuse the others: parts of the product are computed elsewhere.
  for (int64_t extent : shape) {
    const int64_t factor = extent > 0 ? extent : 1;
    if (factor > kMaxElements / volume) {
      return InvalidSpec("a tensor of shape ", ShapeText(shape), " is too large: at most 2^46 elements are possible");
    }
    volume *= factor;
  }
  for (int64_t extent : shape) {
    if (extent == 0) return 0;
  }
  return volume;
}

absl::Status CheckOneInput(const LayerRequest& request) {
  if (request.input.size() == 1) return absl::OkStatus();
  return AtField("input", InvalidSpec("it reads one input, but ", request.input.size(), " are named"));
}

absl::Status CheckOneFloatInput(const LayerRequest& request) {
  ADJOIN_RETURN_IF_ERROR(CheckOneInput(request));
  if (!IsFloatingPoint(request.input[0].dtype())) {
    return AtField("input", InvalidSpec("its input has the type ", ToString(request.input[0].dtype()),
                                        "; it reads floating-point numbers"));
  }
  return absl::OkStatus();
}

absl::Status CheckFloatInputs(const LayerRequest& request) {
  if (request.input.size() < 2) {
    return AtField("input", InvalidSpec("it reads two inputs or more; name them: input: \"a\" input: \"b\""));
  }
  for (size_t i = 0; i < request.input.size(); ++i) {
    const DType dtype = request.input[i].dtype();
    if (IsFloatingPoint(dtype) && dtype == request.input[0].dtype()) continue;
    return AtField(absl::StrCat("input[", i, "]"), InvalidSpec("input ", i, " has the type ", ToString(dtype),
                                                               "; it reads floating-point numbers of one type"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> CheckedDim(absl::string_view field, int64_t dim, int dims) {
  if (dim >= -dims && dim < dims) return static_cast<int>(dim < 0 ? dim + dims : dim);
  return AtField(
      field, InvalidSpec("dim ", dim, " of an input of ", dims, " dims; ", -dims, " to ", dims - 1, " are possible"));
}

absl::Status CheckNoParameters(const Layer& spec) {
  const char* field = !spec.w().empty()             ? "w"
                      : spec.home() != HOME_DEFAULT ? "home"
                      : spec.owner() != 0           ? "owner"
                      : spec.frozen()               ? "frozen"
                                                    : nullptr;
  if (field == nullptr) return absl::OkStatus();
  return AtField(field, InvalidSpec(field, " is for a layer's parameters, and it has none; leave it out"));
}

absl::StatusOr<Layout> OutputLayout(const LayerRequest& request, const std::vector<int64_t>& shape,
                                    const Layout& otherwise) {
  if (request.spec.y().empty()) return otherwise;
  auto layout = request.layouts.Resolve(request.spec.y(), shape, otherwise.dtype());
  if (!layout.ok()) return AtField("y", layout.status());
  return layout;
}

absl::StatusOr<Layout> HomeOf(const Layer& spec, const Layout& needed, const Layout& by_default,
                              const std::vector<int>& ranks) {
  if (spec.home() != OWNER && spec.owner() != 0) {
    return AtField("owner", InvalidSpec("owner is for home: OWNER; leave it out or write that"));
  }
  const std::vector<int>& users = needed.mesh().ranks();
  switch (spec.home()) {
    case OWNER: {
      // 0 is the same as absent: the first rank of the layer. The planner has checked that the job has the rank.
      const int owner = spec.owner() == 0 ? ranks.front() : static_cast<int>(spec.owner());
      return Layout::Owner(needed.shape(), needed.dtype(), owner);
    }
    case REPLICATED: return Layout::Replicated(needed.shape(), needed.dtype(), users);
    case SHARDED: {
      std::vector<int64_t> partition(needed.dims(), 1);
      partition[0] = static_cast<int64_t>(users.size());
      return Layout::Partition(needed.shape(), needed.dtype(), partition, users);
    }
    case HOME_DEFAULT: return by_default;
    default:
      return AtField("home", InvalidSpec("home ", static_cast<int>(spec.home()),
                                         " is not known; these are OWNER, REPLICATED, SHARDED"));
  }
}

}  // namespace adjoin
