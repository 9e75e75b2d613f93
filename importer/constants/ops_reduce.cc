// Sums over dims, and products of matrices.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "importer/constants/constant_ops.h"

namespace adjoin {
namespace {

// The input with the dims that stay first, and behind them those that are reduced.
struct Reduction {
  ConstantView ordered;
  int64_t reduced = 1;  // elements for each of the result
};

absl::StatusOr<Reduction> ReductionOf(const ConstantCall& call, const ConstantView& input) {
  std::vector<bool> reduced(input.shape.size(), !call.node.Has("dim"));
  for (int64_t dim : call.node.Ints("dim")) {
    dim += dim < 0 ? input.dims() : 0;
    if (dim < 0 || dim >= input.dims()) return NotComputed("its dims are not those of its input");
    reduced[static_cast<size_t>(dim)] = true;
  }
  // An empty list means all of them.
  if (call.node.Has("dim") && call.node.Ints("dim").empty()) reduced.assign(input.shape.size(), true);
  Reduction result{input};
  result.ordered.shape.clear();
  result.ordered.stride.clear();
  for (const bool last : {false, true}) {
    for (size_t d = 0; d < input.shape.size(); ++d) {
      if (reduced[d] != last) continue;
      result.ordered.shape.push_back(input.shape[d]);
      result.ordered.stride.push_back(input.stride[d]);
      if (last) result.reduced *= input.shape[d];
    }
  }
  return result;
}

// Sums are made in float64, and rounded once.
template <typename Fold>
ConstantResults Reduced(const ConstantCall& call, double first, Fold fold, bool mean = false) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  ADJOIN_ASSIGN_OR_RETURN(const Reduction reduction, ReductionOf(call, input));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(dtype, shape));
  if (input.Elements() == 0 || result.Elements() * reduction.reduced != input.Elements()) {
    return NotComputed("its input is empty, or its shapes do not fit each other");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> values, call.workspace.Reals(reduction.ordered));
  std::vector<double> results;
  for (size_t i = 0; i < values.size();) {
    double value = first;
    for (int64_t n = 0; n < reduction.reduced; ++n) value = fold(value, values[i++]);
    results.push_back(mean ? value / static_cast<double>(reduction.reduced) : value);
  }
  ADJOIN_RETURN_IF_ERROR(call.workspace.WriteReals(result, results));
  return OneResult(result);
}

// Whole numbers stay whole, also beyond 2^53.
ConstantResults Summed(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  if (input.real()) return Reduced(call, 0, [](double a, double b) { return a + b; });
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  ADJOIN_ASSIGN_OR_RETURN(const Reduction reduction, ReductionOf(call, input));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(dtype, shape));
  if (result.Elements() * reduction.reduced != input.Elements() || input.Elements() == 0) {
    return NotComputed("its input is empty, or its shapes do not fit each other");
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, call.workspace.Wholes(reduction.ordered));
  std::vector<int64_t> results;
  for (size_t i = 0; i < values.size();) {
    uint64_t sum = 0;
    for (int64_t n = 0; n < reduction.reduced; ++n) sum += static_cast<uint64_t>(values[i++]);
    results.push_back(static_cast<int64_t>(sum));
  }
  ADJOIN_RETURN_IF_ERROR(call.workspace.WriteWholes(result, results));
  return OneResult(result);
}
ConstantResults Mean(const ConstantCall& call) {
  return Reduced(
      call, 0, [](double a, double b) { return a + b; }, /*mean=*/true);
}
// max and min also come with positions, and of two tensors.
absl::Status CheckOneResult(const ConstantCall& call) {
  if (call.node.outputs.size() == 1 && !call.node.Has("other")) return absl::OkStatus();
  return NotComputed("it is one of two tensors, or returns positions; right would be amax, amin, maximum or minimum");
}
ConstantResults Largest(const ConstantCall& call) {
  ADJOIN_RETURN_IF_ERROR(CheckOneResult(call));
  return Reduced(call, -std::numeric_limits<double>::infinity(),
                 [](double a, double b) { return std::isnan(a) || a > b ? a : b; });
}
ConstantResults Smallest(const ConstantCall& call) {
  ADJOIN_RETURN_IF_ERROR(CheckOneResult(call));
  return Reduced(call, std::numeric_limits<double>::infinity(),
                 [](double a, double b) { return std::isnan(a) || a < b ? a : b; });
}
ConstantResults Any(const ConstantCall& call) {
  return Reduced(call, 0, [](double a, double b) { return double(a != 0 || b != 0); });
}
ConstantResults All(const ConstantCall& call) {
  return Reduced(call, 1, [](double a, double b) { return double(a != 0 && b != 0); });
}

ConstantResults CumulativeSum(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const int64_t dim, call.Dim("dim", 0, input.dims()));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.Converted(input, dtype));
  const size_t d = static_cast<size_t>(dim);
  const int64_t step = input.shape.empty() ? 1 : result.stride[d], extent = input.shape.empty() ? 1 : input.shape[d];
  ADJOIN_RETURN_IF_ERROR(call.workspace.Count(result.Elements()));
  for (int64_t i = 0; i < result.Elements(); ++i) {
    if (i / step % extent == 0) continue;
    const size_t at = static_cast<size_t>(i), before = static_cast<size_t>(i - step);
    if (result.real()) {
      result.storage->reals[at] = RoundedTo(dtype, result.storage->reals[before] + result.storage->reals[at]);
    } else {
      result.storage->wholes[at] =
          WrappedTo(dtype, static_cast<int64_t>(static_cast<uint64_t>(result.storage->wholes[before]) +
                                                static_cast<uint64_t>(result.storage->wholes[at])));
    }
  }
  return OneResult(result);
}

// -- Products of tensors, each of whose dims has a letter, as in torch.einsum: "bij,bjk->bik".

absl::Status CheckLetters(const std::vector<ConstantView>& inputs, const std::vector<std::string>& letters,
                          const std::string& result, std::map<char, int64_t>& extents) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (letters[i].size() != inputs[i].shape.size()) return NotComputed("its equation does not fit its arguments");
    for (size_t d = 0; d < letters[i].size(); ++d) {
      const char letter = letters[i][d];
      if (!std::isalpha(static_cast<unsigned char>(letter))) return NotComputed("its equation has more than letters");
      const auto known = extents.emplace(letter, inputs[i].shape[d]).first;
      if (known->second == 1) known->second = inputs[i].shape[d];
      if (inputs[i].shape[d] != known->second && inputs[i].shape[d] != 1) {
        return NotComputed("its shapes do not fit each other");
      }
    }
  }
  for (const char letter : result) {
    if (extents.count(letter) == 0 || std::count(result.begin(), result.end(), letter) > 1) {
      return NotComputed("its equation has a result that its arguments do not have");
    }
  }
  return absl::OkStatus();
}

// A view with a dim for each letter of `all`; those that it lacks have a stride of 0.
ConstantView WithLetters(const ConstantView& view, const std::string& letters, const std::string& all,
                         const std::map<char, int64_t>& extents) {
  ConstantView result = view;
  result.shape.clear();
  result.stride.clear();
  for (const char letter : all) {
    int64_t stride = 0;
    for (size_t d = 0; d < letters.size(); ++d) {
      if (letters[d] == letter && view.shape[d] != 1) stride += view.stride[d];
    }
    result.shape.push_back(extents.at(letter));
    result.stride.push_back(stride);
  }
  return result;
}

ConstantResults Contracted(const ConstantCall& call, const std::vector<ConstantView>& inputs,
                           const std::vector<std::string>& letters, const std::string& result_letters) {
  std::map<char, int64_t> extents;
  ADJOIN_RETURN_IF_ERROR(CheckLetters(inputs, letters, result_letters, extents));
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  std::string all = result_letters;
  std::vector<int64_t> shape;
  double steps = 1;
  for (const char letter : result_letters) shape.push_back(extents.at(letter));
  for (const auto& [letter, extent] : extents) {
    steps *= static_cast<double>(extent);
    if (result_letters.find(letter) == std::string::npos) all += letter;
  }
  ADJOIN_RETURN_IF_ERROR(call.workspace.Count(steps < 9e18 ? static_cast<int64_t>(steps) : -1));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(dtype, shape));
  std::vector<ConstantView> views;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const ConstantView typed, call.workspace.Converted(inputs[i], dtype));
    views.push_back(WithLetters(typed, letters[i], all, extents));
  }
  std::vector<PositionWalk> walks;
  for (const ConstantView& view : views) walks.emplace_back(view);
  const int64_t results = result.Elements(), each = results == 0 ? 0 : static_cast<int64_t>(steps) / results;
  for (int64_t i = 0; i < results; ++i) {
    double sum = 0;
    uint64_t whole_sum = 0;
    for (int64_t n = 0; n < each; ++n) {
      double product = 1;
      uint64_t whole = 1;
      for (size_t v = 0; v < views.size(); ++v) {
        const size_t at = static_cast<size_t>(walks[v].position());
        if (result.real()) {
          product *= views[v].storage->reals[at];
        } else {
          whole *= static_cast<uint64_t>(views[v].storage->wholes[at]);
        }
        walks[v].Next();
      }
      sum += product;
      whole_sum += whole;
    }
    if (result.real()) {
      result.storage->reals[static_cast<size_t>(i)] = RoundedTo(dtype, sum);
    } else {
      result.storage->wholes[static_cast<size_t>(i)] = WrappedTo(dtype, static_cast<int64_t>(whole_sum));
    }
  }
  return OneResult(result);
}

ConstantResults Einsum(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<ConstantView> inputs, call.Tensors("tensors"));
  std::string equation = call.node.Text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  if (arrow == std::string::npos) return NotComputed("its equation has no ->");
  const std::vector<std::string> letters = absl::StrSplit(absl::string_view(equation).substr(0, arrow), ',');
  if (letters.size() != inputs.size()) return NotComputed("its equation does not fit its arguments");
  return Contracted(call, inputs, letters, equation.substr(arrow + 2));
}

ConstantResults Outer(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView a, call.Tensor("self"));
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView b, call.Tensor("vec2"));
  return Contracted(call, {a, b}, {"i", "j"}, "ij");
}

// The last two dims are multiplied; those before them are broadcast.
ConstantResults Product(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView a, call.Tensor("self"));
  std::string second = "other";
  for (const char* name : {"mat2", "vec", "tensor"}) second = call.node.Has(name) ? name : second;
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView b, call.Tensor(second));
  constexpr char kBatch[] = "abcdefghijklmnopqrstuv";
  constexpr size_t kMost = sizeof(kBatch) - 1;
  const size_t of_a = a.shape.size(), of_b = b.shape.size();
  if (of_a == 0 || of_b == 0 || of_a > kMost || of_b > kMost) return NotComputed("its arguments have too few dims");
  const auto batch = [&](size_t dims) { return dims < 3 ? std::string() : std::string(kBatch + kMost - (dims - 2)); };
  const std::string longest = batch(std::max(of_a, of_b));
  return Contracted(call, {a, b}, {batch(of_a) + (of_a > 1 ? "xy" : "y"), batch(of_b) + (of_b > 1 ? "yz" : "y")},
                    longest + (of_a > 1 ? "x" : "") + (of_b > 1 ? "z" : ""));
}

}  // namespace

const ConstantOps& ReducingConstantOps() {
  static const auto* ops = new ConstantOps{
      {"all", {All}},      {"amax", {Largest}},         {"amin", {Smallest}}, {"any", {Any}},
      {"bmm", {Product}},  {"cumsum", {CumulativeSum}}, {"dot", {Product}},   {"einsum", {Einsum}},
      {"ger", {Outer}},    {"matmul", {Product}},       {"max", {Largest}},   {"mean", {Mean}},
      {"min", {Smallest}}, {"mm", {Product}},           {"mv", {Product}},    {"outer", {Outer}},
      {"sum", {Summed}},
  };
  return *ops;
}

}  // namespace adjoin
