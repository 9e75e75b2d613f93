// Tensors that are made of numbers: arange, full, eye and so on.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "importer/constants/constant_ops.h"

namespace adjoin {
namespace {

// A tensor of one value, with the result's type and shape.
ConstantResults Filled(const ConstantCall& call, const ConstantOperand& value) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(dtype, shape));
  ADJOIN_RETURN_IF_ERROR(call.workspace.Copy(value.view, result));
  return OneResult(result);
}

ConstantResults Full(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantOperand value, call.Operand(call.node.Has("fill_value") ? "fill_value"
                                                                    : call.node.Has("s")        ? "s"
                                                                                                : "value"));
  return Filled(call, value);
}

ConstantResults OfNumber(const ConstantCall& call, int64_t number) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView view, call.workspace.OfWholes(DType::kInt64, {}, {number}));
  return Filled(call, {view, true});
}
ConstantResults Zeros(const ConstantCall& call) { return OfNumber(call, 0); }
ConstantResults Ones(const ConstantCall& call) { return OfNumber(call, 1); }

// start + i * step, which is computed in float64 or in whole numbers, and rounded once.
ConstantResults Arange(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  if (shape.size() != 1) return NotComputed("its result has ", shape.size(), " dims");
  for (const char* name : {"start", "step"}) {
    if (call.node.Has(name) && !call.IsNumber(name)) return NotComputed("its ", name, " is no number");
  }
  ADJOIN_RETURN_IF_ERROR(call.workspace.New(dtype, shape).status());
  const auto is_float = [&](const char* name) { return call.node.Has(name) && call.node.Ints(name).empty(); };
  if (!is_float("start") && !is_float("step")) {
    const uint64_t start = static_cast<uint64_t>(call.node.Int("start", 0));
    const uint64_t step = static_cast<uint64_t>(call.node.Int("step", 1));
    std::vector<int64_t> values;
    for (int64_t i = 0; i < shape[0]; ++i) {
      values.push_back(static_cast<int64_t>(start + static_cast<uint64_t>(i) * step));
    }
    return OneResult(call.workspace.OfWholes(dtype, shape, std::move(values)));
  }
  const double start = call.node.Float("start", 0), step = call.node.Float("step", 1);
  std::vector<double> values;
  for (int64_t i = 0; i < shape[0]; ++i) values.push_back(start + static_cast<double>(i) * step);
  return OneResult(call.workspace.OfReals(dtype, shape, std::move(values)));
}

// From both ends, so that the last element is `end`.
ConstantResults Linspace(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  if (shape.size() != 1 || !IsFloatingPoint(dtype) || !call.IsNumber("start") || !call.IsNumber("end")) {
    return NotComputed("right would be two numbers and a result of floating point");
  }
  ADJOIN_RETURN_IF_ERROR(call.workspace.New(dtype, shape).status());
  const double start = RoundedTo(dtype, call.node.Float("start", 0)), end = RoundedTo(dtype, call.node.Float("end", 0));
  const int64_t steps = shape[0];
  const double step = steps < 2 ? 0 : RoundedTo(dtype, RoundedTo(dtype, end - start) / static_cast<double>(steps - 1));
  std::vector<double> values;
  for (int64_t i = 0; i < steps; ++i) {
    const double value = i < steps / 2 || steps == 1 ? start + static_cast<double>(i) * step
                                                     : end - static_cast<double>(steps - 1 - i) * step;
    values.push_back(value);
  }
  return OneResult(call.workspace.OfReals(dtype, shape, std::move(values)));
}

ConstantResults Eye(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const DType dtype, call.Type());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, call.Shape());
  if (shape.size() != 2) return NotComputed("its result has ", shape.size(), " dims");
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.New(dtype, shape));
  ConstantView diagonal = result;
  diagonal.shape = {std::min(shape[0], shape[1])};
  diagonal.stride = {result.stride[0] + result.stride[1]};
  ADJOIN_RETURN_IF_ERROR(
      call.workspace.WriteWholes(diagonal, std::vector<int64_t>(static_cast<size_t>(diagonal.shape[0]), 1)));
  return OneResult(result);
}

// Zeros above, or below, a diagonal.
ConstantResults Triangle(const ConstantCall& call, bool lower) {
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView input, call.Tensor("self"));
  if (input.shape.size() < 2) return NotComputed("its input has ", input.shape.size(), " dims");
  ADJOIN_ASSIGN_OR_RETURN(const ConstantView result, call.workspace.Converted(input, input.dtype));
  const int64_t diagonal = call.node.Int("diagonal", 0);
  const int64_t rows = input.shape[input.shape.size() - 2], columns = input.shape.back();
  const int64_t elements = result.Elements();
  ADJOIN_RETURN_IF_ERROR(call.workspace.Count(elements));
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t row = i / columns % rows, column = i % columns;
    if (lower ? column - row <= diagonal : column - row >= diagonal) continue;
    if (result.real()) {
      result.storage->reals[static_cast<size_t>(i)] = 0;
    } else {
      result.storage->wholes[static_cast<size_t>(i)] = 0;
    }
  }
  return OneResult(result);
}
ConstantResults Tril(const ConstantCall& call) { return Triangle(call, true); }
ConstantResults Triu(const ConstantCall& call) { return Triangle(call, false); }

ConstantResults NotDefined(const ConstantCall&) {
  return NotComputed("what it returns has no defined values; right would be zeros or full");
}

// One tensor per argument, each along a dim of its own.
ConstantResults Meshgrid(const ConstantCall& call) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<ConstantView> inputs, call.Tensors("tensors"));
  const bool columns_first = call.node.Text("indexing", "ij") == "xy" && inputs.size() > 1;
  std::vector<ConstantView> results;
  std::vector<int64_t> shape;
  for (const ConstantView& input : inputs) {
    if (input.shape.size() > 1) return NotComputed("its arguments must have one dim");
    shape.push_back(input.Elements());
  }
  if (columns_first) std::swap(shape[0], shape[1]);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t dim = columns_first && i < 2 ? 1 - i : i;
    ConstantView along = inputs[i];
    along.shape.assign(shape.size(), 1);
    along.stride.assign(shape.size(), 0);
    along.shape[dim] = shape[dim];
    along.stride[dim] = inputs[i].stride.empty() ? 0 : inputs[i].stride[0];
    ADJOIN_ASSIGN_OR_RETURN(ConstantView whole, Broadcast(along, shape));
    results.push_back(std::move(whole));
  }
  return results;
}

}  // namespace

const ConstantOps& CreatingConstantOps() {
  static const auto* ops = new ConstantOps{
      {"arange", {Arange}},
      {"empty", {NotDefined}},
      {"empty_like", {NotDefined}},
      {"eye", {Eye}},
      {"fill", {Full}},
      {"full", {Full}},
      {"full_like", {Full}},
      {"linspace", {Linspace}},
      {"meshgrid", {Meshgrid, /*view=*/true}},
      {"new_empty", {NotDefined}},
      {"new_full", {Full}},
      {"new_ones", {Ones}},
      {"new_zeros", {Zeros}},
      {"ones", {Ones}},
      {"ones_like", {Ones}},
      {"scalar_tensor", {Full}},
      {"tril", {Tril}},
      {"triu", {Triu}},
      {"zero", {Zeros}},
      {"zeros", {Zeros}},
      {"zeros_like", {Zeros}},
  };
  return *ops;
}

}  // namespace adjoin
