#include "layers/rules/windowed.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

// What pad_lo and pad_hi hold.
constexpr int64_t kMaxPadding = std::numeric_limits<int32_t>::max();

// One value per spatial dim: what is written, or `absent` in each dim.
template <typename List>
absl::StatusOr<std::vector<int64_t>> PerDim(const char* name, const List& list, const std::vector<int64_t>& absent) {
  if (list.empty()) return absent;
  if (list.size() == 1) return std::vector<int64_t>(absent.size(), list.Get(0));
  if (list.size() != static_cast<int>(absent.size())) {
    return AtField(name, InvalidSpec(name, " has ", list.size(), " values; write one, or one for each of the ",
                                     absent.size(), " spatial dims"));
  }
  return std::vector<int64_t>(list.begin(), list.end());
}

// The lists of a WindowSpec, one value per spatial dim, checked as far as they do not depend on the input's extents.
struct Lists {
  std::vector<int64_t> kernel, stride, dilation, pad_lo, pad_hi;
  Boundary boundary = Boundary::kZeros;
};

absl::Status CheckPadding(const Lists& lists) {
  for (size_t i = 0; i < lists.kernel.size(); ++i) {
    if (lists.pad_lo[i] >= 0 && lists.pad_hi[i] >= 0) continue;
    return AtField(lists.pad_lo[i] < 0 ? "pad_lo" : "pad_hi",
                   InvalidSpec("padding ", std::min(lists.pad_lo[i], lists.pad_hi[i]),
                               " is negative; to leave out elements, put a crop layer before this one"));
  }
  return absl::OkStatus();
}

// WindowSpec.padding instead of the lists, as PyTorch's. Leaves the lists as they are where it is absent.
absl::Status ApplyPadding(const WindowSpec& spec, bool pooling, Lists& lists) {
  const std::string& padding = spec.padding();
  if (padding.empty()) return absl::OkStatus();
  if (pooling) {
    return AtField("padding", InvalidSpec("padding \"", padding,
                                          "\" is for convolutions; a pooling has pad_lo and"
                                          " pad_hi, at most half of its kernel"));
  }
  if (padding != "same" && padding != "valid") {
    return AtField("padding", InvalidSpec("padding \"", padding,
                                          "\" is not known; write \"same\" or \"valid\", or numbers"
                                          " in pad_lo and pad_hi"));
  }
  if (!spec.pad_lo().empty() || !spec.pad_hi().empty()) {
    const char* list = spec.pad_lo().empty() ? "pad_hi" : "pad_lo";
    return AtField(list,
                   InvalidSpec(list, " and padding: \"", padding, "\" both say how much is added; leave one out"));
  }
  for (size_t i = 0; i < lists.kernel.size() && padding == "same"; ++i) {
    const int64_t kernel = std::max<int64_t>(lists.kernel[i], 1), dilation = std::max<int64_t>(lists.dilation[i], 1);
    if (lists.stride[i] != 1) {
      return AtField("stride", InvalidSpec("padding \"same\" is for stride 1, not ", lists.stride[i],
                                           "; write the padding in pad_lo and pad_hi"));
    }
    if (kernel - 1 > kMaxPadding / dilation) {
      return AtField("kernel", InvalidSpec("padding \"same\" of a kernel of ", kernel, " with dilation ", dilation,
                                           " is more than ", kMaxPadding, " elements"));
    }
    const int64_t total = dilation * (kernel - 1);
    lists.pad_lo[i] = total / 2;
    lists.pad_hi[i] = total - lists.pad_lo[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<Lists> ListsOf(const WindowSpec& spec, const std::vector<int64_t>& input, bool pooling) {
  if (input.size() < 3 || input.size() > 5) {
    return AtField("", InvalidSpec("it reads [batch, channel, 1 to 3 spatial dims]; its input, ", ShapeText(input),
                                   ", has ", input.size(), " dims"));
  }
  const std::vector<int64_t> zeros(input.size() - 2, 0), ones(input.size() - 2, 1);
  if (spec.kernel().empty()) return AtField("kernel", InvalidSpec("window.kernel is missing; write kernel: 3, say"));
  Lists lists;
  ADJOIN_ASSIGN_OR_RETURN(lists.kernel, PerDim("kernel", spec.kernel(), zeros));
  ADJOIN_ASSIGN_OR_RETURN(lists.stride, PerDim("stride", spec.stride(), pooling ? lists.kernel : ones));
  ADJOIN_ASSIGN_OR_RETURN(lists.dilation, PerDim("dilation", spec.dilation(), ones));
  ADJOIN_ASSIGN_OR_RETURN(lists.pad_lo, PerDim("pad_lo", spec.pad_lo(), zeros));
  ADJOIN_ASSIGN_OR_RETURN(lists.pad_hi, PerDim("pad_hi", spec.pad_hi(), lists.pad_lo));
  ADJOIN_RETURN_IF_ERROR(ApplyPadding(spec, pooling, lists));
  auto boundary = ParseBoundary(spec.boundary());
  if (!boundary.ok()) return AtField("boundary", boundary.status());
  lists.boundary = *boundary;
  ADJOIN_RETURN_IF_ERROR(CheckPadding(lists));
  return lists;
}

void FillIn(const Lists& lists, WindowSpec& spec) {
  spec.set_boundary(ToString(lists.boundary));
  for (size_t i = 0; i < lists.kernel.size(); ++i) {
    spec.add_kernel(lists.kernel[i]);
    spec.add_stride(lists.stride[i]);
    spec.add_dilation(lists.dilation[i]);
    spec.add_pad_lo(lists.pad_lo[i]);
    spec.add_pad_hi(lists.pad_hi[i]);
  }
}

}  // namespace

absl::StatusOr<WindowedDims> WindowsOf(const WindowSpec& spec, const std::vector<int64_t>& input, bool pooling,
                                       bool ceil_mode) {
  ADJOIN_ASSIGN_OR_RETURN(const Lists lists, ListsOf(spec, input, pooling));
  WindowedDims result;
  FillIn(lists, result.filled);
  for (size_t i = 0; i < lists.kernel.size(); ++i) {
    const int64_t kernel = lists.kernel[i], dilation = lists.dilation[i], n = input[i + 2];
    const int64_t pad_lo = lists.pad_lo[i], pad_hi = lists.pad_hi[i];
    Window::Options options{kernel, lists.stride[i], dilation, pad_lo, pad_hi, lists.boundary, ceil_mode};
    ADJOIN_ASSIGN_OR_RETURN(const Window window, Window::Create(options));
    if (pooling && 2 * std::max(pad_lo, pad_hi) > kernel) {
      return AtField(2 * pad_lo > kernel ? "pad_lo" : "pad_hi",
                     InvalidSpec("padding ", std::max(pad_lo, pad_hi),
                                 " of a pooling is more than half of its kernel,"
                                 " ",
                                 kernel, ", so that some outputs would see padding only"));
    }
    const int64_t reach = dilation * (kernel - 1) + 1;
    // In ceil_mode, LibTorch lets the last window, which may be the only one, reach past the padding.
    if (reach > n + pad_lo + pad_hi && !(ceil_mode && window.OutputSize(n).ok())) {
      return AtField("kernel",
                     InvalidSpec("kernel ", kernel, dilation > 1 ? absl::StrCat(" with dilation ", dilation) : "", " (",
                                 reach, " elements) is larger than the padded input in dim ", i + 2, ": ", n, " + ",
                                 pad_lo, " + ", pad_hi, " = ", n + pad_lo + pad_hi));
    }
    auto outputs = window.OutputSize(n);
    // What is left to refuse: more padding than a mirrored or wrapped boundary has cells for.
    if (!outputs.ok()) return AtField(pad_lo >= pad_hi ? "pad_lo" : "pad_hi", outputs.status());
    result.windows.emplace(static_cast<int>(i) + 2, window);
    result.outputs.push_back(*outputs);
  }
  return result;
}

absl::StatusOr<WindowedDims> TransposedWindowsOf(const Conv& spec, const std::vector<int64_t>& input) {
  if (!spec.window().padding().empty()) {
    return AtField("window.padding", InvalidSpec("padding \"", spec.window().padding(),
                                                 "\" is not for a transposed"
                                                 " convolution, as in PyTorch; write numbers in pad_lo and pad_hi"));
  }
  auto lists = ListsOf(spec.window(), input, /*pooling=*/false);
  if (!lists.ok()) return AtField("window", lists.status());
  if (lists->boundary != Boundary::kZeros) {
    return AtField("window.boundary", InvalidSpec("boundary \"", spec.window().boundary(),
                                                  "\" is not for a transposed convolution; it has \"zeros\" only, as"
                                                  " in PyTorch"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const auto output_padding, PerDim("output_padding", spec.output_padding(),
                                                            std::vector<int64_t>(lists->kernel.size(), 0)));
  WindowedDims result;
  FillIn(*lists, result.filled);
  for (size_t i = 0; i < lists->kernel.size(); ++i) {
    TransposedWindow::Options options{lists->kernel[i], lists->stride[i], lists->dilation[i], lists->pad_lo[i],
                                      lists->pad_hi[i]};
    auto plain = TransposedWindow::Create(options);
    if (!plain.ok()) return AtField("window", plain.status());
    options.output_padding = output_padding[i];
    auto window = TransposedWindow::Create(options);
    if (!window.ok()) return AtField("output_padding", window.status());
    auto outputs = window->OutputSize(input[i + 2]);
    if (!outputs.ok()) return AtField("window", outputs.status());
    result.windows.emplace(static_cast<int>(i) + 2, *window);
    result.outputs.push_back(*outputs);
  }
  return result;
}

}  // namespace adjoin
