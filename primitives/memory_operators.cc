#include "primitives/memory_operators.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "primitives/status_exception.h"

namespace adjoin {
namespace memory {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// kGiveBack is the adjoint of a copy: a += b; b = 0.
enum class OperatorKind { kAllocate, kDeallocate, kClear, kAdd, kCopy, kGiveBack, kMove };

// One operator. Allocate and deallocate have `dim`, `at` and `size`, the others one block or two.
struct Operation {
  OperatorKind kind = OperatorKind::kClear;
  Region a;
  Region b;
  int64_t dim = 0;
  int64_t at = 0;
  int64_t size = 0;
};

const char* NameOf(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::kAllocate: return "allocate";
    case OperatorKind::kDeallocate: return "deallocate";
    case OperatorKind::kClear: return "clear";
    case OperatorKind::kAdd: return "add";
    case OperatorKind::kCopy: return "copy";
    case OperatorKind::kGiveBack: return "adjoint of copy";
    case OperatorKind::kMove: return "move";
  }
  return "";
}

[[noreturn]] void Refuse(OperatorKind kind, const std::string& why) {
  throw StatusException(absl::InvalidArgumentError(absl::StrCat(NameOf(kind), ": ", why)));
}

std::string Text(const Region& block) {
  return absl::StrCat("the block of size (", absl::StrJoin(block.size, ", "), ") at (", absl::StrJoin(block.at, ", "),
                      ")");
}

void CheckBlock(OperatorKind kind, const at::Tensor& x, const Region& block) {
  const std::size_t dims = static_cast<std::size_t>(x.dim());
  bool inside = block.at.size() == dims && block.size.size() == dims;
  for (std::size_t dim = 0; inside && dim < dims; ++dim) {
    const int64_t extent = x.size(static_cast<int64_t>(dim));
    inside = block.at[dim] >= 0 && block.size[dim] >= 0 && block.size[dim] <= extent &&
             block.at[dim] <= extent - block.size[dim];
  }
  if (inside) return;
  Refuse(kind, absl::StrCat(Text(block), " is not inside a tensor of shape (", absl::StrJoin(x.sizes(), ", "), ")"));
}

bool Meet(const Region& a, const Region& b) {
  for (std::size_t dim = 0; dim < a.at.size(); ++dim) {
    if (std::max(a.at[dim], b.at[dim]) >= std::min(a.at[dim] + a.size[dim], b.at[dim] + b.size[dim])) return false;
  }
  return true;
}

// An allocation cuts `x` at any index from 0 to its extent, a deallocation at a range of its indices.
void CheckRange(const at::Tensor& x, const Operation& op) {
  if (op.dim < 0 || op.dim >= x.dim()) {
    Refuse(op.kind, absl::StrCat("dim ", op.dim, " of a tensor of shape (", absl::StrJoin(x.sizes(), ", "), ")"));
  }
  const int64_t last = op.kind == OperatorKind::kAllocate ? x.size(op.dim) : x.size(op.dim) - op.size;
  if (op.size >= 0 && op.at >= 0 && op.at <= last) return;
  Refuse(op.kind, absl::StrCat(op.size, " indices at ", op.at, " of dim ", op.dim, " of a tensor of shape (",
                               absl::StrJoin(x.sizes(), ", "), ")"));
}

void Check(const at::Tensor& x, const Operation& op) {
  if (!x.defined()) Refuse(op.kind, "the tensor is undefined");
  if (op.kind == OperatorKind::kAllocate || op.kind == OperatorKind::kDeallocate) return CheckRange(x, op);
  CheckBlock(op.kind, x, op.a);
  if (op.kind == OperatorKind::kClear) return;
  CheckBlock(op.kind, x, op.b);
  if (op.a.size != op.b.size) Refuse(op.kind, absl::StrCat(Text(op.a), " and ", Text(op.b), " differ in size"));
  if (Meet(op.a, op.b)) Refuse(op.kind, absl::StrCat(Text(op.a), " and ", Text(op.b), " have cells in common"));
}

at::Tensor Cells(at::Tensor x, const Region& block) {
  for (std::size_t dim = 0; dim < block.at.size(); ++dim) {
    x = x.narrow(static_cast<int64_t>(dim), block.at[dim], block.size[dim]);
  }
  return x;
}

// The operators that keep the shape, on x's own memory.
void RunInPlace(const at::Tensor& x, const Operation& op) {
  at::Tensor a = Cells(x, op.a);
  if (op.kind == OperatorKind::kClear) {
    a.zero_();
    return;
  }
  at::Tensor b = Cells(x, op.b);
  switch (op.kind) {
    case OperatorKind::kAdd: b.add_(a); break;
    case OperatorKind::kCopy: b.copy_(a); break;
    case OperatorKind::kGiveBack:
      a.add_(b);
      b.zero_();
      break;
    case OperatorKind::kMove:
      b.copy_(a);
      a.zero_();
      break;
    default: break;
  }
}

at::Tensor Run(const at::Tensor& x, const Operation& op) {
  const int64_t end = op.at + op.size;
  if (op.kind == OperatorKind::kAllocate) {
    std::vector<int64_t> shape = x.sizes().vec();
    shape[op.dim] += op.size;
    at::Tensor result = at::empty(shape, x.options());
    result.narrow(op.dim, 0, op.at).copy_(x.narrow(op.dim, 0, op.at));
    result.narrow(op.dim, op.at, op.size).zero_();
    result.narrow(op.dim, end, x.size(op.dim) - op.at).copy_(x.narrow(op.dim, op.at, x.size(op.dim) - op.at));
    return result;
  }
  if (op.kind == OperatorKind::kDeallocate) {
    return at::cat({x.narrow(op.dim, 0, op.at), x.narrow(op.dim, end, x.size(op.dim) - end)}, op.dim);
  }
  at::Tensor result = x.clone(at::MemoryFormat::Contiguous);
  RunInPlace(result, op);
  return result;
}

Operation AdjointOf(const Operation& op) {
  Operation adjoint = op;
  switch (op.kind) {
    case OperatorKind::kAllocate: adjoint.kind = OperatorKind::kDeallocate; break;
    case OperatorKind::kDeallocate: adjoint.kind = OperatorKind::kAllocate; break;
    case OperatorKind::kClear: break;
    case OperatorKind::kCopy: adjoint.kind = OperatorKind::kGiveBack; break;
    case OperatorKind::kGiveBack: adjoint.kind = OperatorKind::kCopy; break;
    case OperatorKind::kAdd:
    case OperatorKind::kMove: std::swap(adjoint.a, adjoint.b); break;
  }
  return adjoint;
}

// Lets a node of the graph hold an operation.
struct OperationHolder : torch::CustomClassHolder {
  explicit OperationHolder(Operation held) : operation(std::move(held)) {}
  Operation operation;
};

// Its backward is the same function with the adjoint operation, recorded again where a graph of the gradient is wanted.
struct MemoryFunction : torch::autograd::Function<MemoryFunction> {
  static at::Tensor forward(AutogradContext* context, at::Tensor x, Operation op) {
    at::Tensor y = Run(x, op);
    context->saved_data["operation"] = c10::IValue::make_capsule(c10::make_intrusive<OperationHolder>(std::move(op)));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const c10::intrusive_ptr<torch::CustomClassHolder> capsule = context->saved_data["operation"].toCapsule();
    const Operation& op = static_cast<OperationHolder*>(capsule.get())->operation;
    return {apply(grads[0], AdjointOf(op)), at::Tensor()};
  }
};

at::Tensor Apply(const at::Tensor& x, Operation op) {
  Check(x, op);
  return MemoryFunction::apply(x, std::move(op));
}

void ApplyInPlace(at::Tensor& x, const Operation& op) {
  Check(x, op);
  if (at::GradMode::is_enabled() && x.requires_grad()) {
    Refuse(op.kind, "in place on a tensor that autograd records; use the operator that returns a new tensor");
  }
  const at::NoGradGuard no_grad;
  RunInPlace(x, op);
}

}  // namespace

at::Tensor Allocate(const at::Tensor& x, int64_t dim, int64_t at, int64_t size) {
  return Apply(x, {OperatorKind::kAllocate, {}, {}, dim, at, size});
}
at::Tensor Deallocate(const at::Tensor& x, int64_t dim, int64_t at, int64_t size) {
  return Apply(x, {OperatorKind::kDeallocate, {}, {}, dim, at, size});
}
at::Tensor Clear(const at::Tensor& x, const Region& block) {
  return Apply(x, {OperatorKind::kClear, block, {}, 0, 0, 0});
}
at::Tensor Add(const at::Tensor& x, const Region& a, const Region& b) {
  return Apply(x, {OperatorKind::kAdd, a, b, 0, 0, 0});
}
at::Tensor Copy(const at::Tensor& x, const Region& a, const Region& b) {
  return Apply(x, {OperatorKind::kCopy, a, b, 0, 0, 0});
}
at::Tensor Move(const at::Tensor& x, const Region& a, const Region& b) {
  return Apply(x, {OperatorKind::kMove, a, b, 0, 0, 0});
}

void ClearInPlace(at::Tensor& x, const Region& block) { ApplyInPlace(x, {OperatorKind::kClear, block, {}, 0, 0, 0}); }
void AddInPlace(at::Tensor& x, const Region& a, const Region& b) {
  ApplyInPlace(x, {OperatorKind::kAdd, a, b, 0, 0, 0});
}
void CopyInPlace(at::Tensor& x, const Region& a, const Region& b) {
  ApplyInPlace(x, {OperatorKind::kCopy, a, b, 0, 0, 0});
}
void MoveInPlace(at::Tensor& x, const Region& a, const Region& b) {
  ApplyInPlace(x, {OperatorKind::kMove, a, b, 0, 0, 0});
}

}  // namespace memory
}  // namespace adjoin
