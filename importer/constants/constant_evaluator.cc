#include "importer/constants/constant_evaluator.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/constants/constant_ops.h"
#include "importer/constants/constant_workspace.h"

namespace adjoin {
namespace {

constexpr size_t kMaxShown = 200;

std::vector<std::string> TensorsOf(const OpNode& node) {
  std::vector<std::string> values;
  for (const auto& [name, argument] : node.arguments) {
    for (const std::string& value : argument.tensors) {
      if (!value.empty()) values.push_back(value);
    }
  }
  return values;
}

// Elements as ModelArchive::Read passes them.
template <typename T>
T ElementAt(const std::string& bytes, size_t i) {
  T value;
  memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double RealAt(DType dtype, const std::string& bytes, size_t i) {
  switch (dtype) {
    case DType::kFloat64: return ElementAt<double>(bytes, i);
    case DType::kFloat32: return ElementAt<float>(bytes, i);
    case DType::kBFloat16: {
      const uint32_t bits = uint32_t{ElementAt<uint16_t>(bytes, i)} << 16;
      float value;
      memcpy(&value, &bits, sizeof(value));
      return value;
    }
    default: return Float16Value(ElementAt<uint16_t>(bytes, i));
  }
}

int64_t WholeAt(DType dtype, const std::string& bytes, size_t i) {
  switch (dtype) {
    case DType::kInt64: return ElementAt<int64_t>(bytes, i);
    case DType::kInt32: return ElementAt<int32_t>(bytes, i);
    case DType::kBool: return ElementAt<uint8_t>(bytes, i) != 0;
    default: return ElementAt<uint8_t>(bytes, i);
  }
}

}  // namespace

ConstantEvaluator::ConstantEvaluator(const ModelArchive& archive, const OpGraph& graph, const ConstantLimits& limits)
    : archive_(archive), graph_(graph), limits_(limits) {
  // A buffer that the program changes, or of which the archive has no elements, is not known.
  for (const std::string& value : graph.buffers) {
    const std::string& name = graph.parameters.at(value);
    if (graph.changed_buffers.count(name) == 0 && archive.Find(name) != nullptr) buffers_.insert(value);
  }
  FindConstants();
  FindChanges();
}

ConstantEvaluator::~ConstantEvaluator() = default;

// Everything is constant that is not computed from what is not: first the values that may have elements in common, then
// those that arguments of forward and parameters reach, until nothing more is found.
void ConstantEvaluator::FindConstants() {
  FindBases();
  const std::set<std::string> reached = ReachedBases();
  for (const std::string& buffer : buffers_) {
    if (reached.count(BaseOf(buffer)) == 0) constant_.insert(buffer);
  }
  for (const OpNode& node : graph_.nodes) {
    for (const std::string& output : node.outputs) {
      if (!output.empty() && reached.count(BaseOf(output)) == 0) constant_.insert(output);
    }
  }
}

const std::string& ConstantEvaluator::BaseOf(const std::string& value) const {
  const auto found = base_.find(value);
  return found == base_.end() ? value : found->second;
}

void ConstantEvaluator::FindBases() {
  // Follows the chain, and makes all of it point to its end, so that no chain is followed twice.
  const auto end_of = [&](const std::string& value) {
    std::string end = value;
    for (auto found = base_.find(end); found != base_.end(); found = base_.find(end)) end = found->second;
    for (std::string at = value; at != end;) {
      std::string& next = base_[at];
      at = std::exchange(next, end);
    }
    return end;
  };
  const auto join = [&](const std::string& a, const std::string& b) {
    if (a.empty() || b.empty()) return;
    const std::string first = end_of(a), second = end_of(b);
    if (first != second) base_[second] = first;
  };
  for (const OpNode& node : graph_.nodes) {
    const ConstantOp* op = FindConstantOp(node.op);
    const std::vector<std::string> changed = node.Changed();
    for (const std::string& output : node.outputs) {
      for (const std::string& value : changed) join(value, output);
      if (op == nullptr || !op->view) continue;
      for (const std::string& value : TensorsOf(node)) join(value, output);
    }
  }
  std::vector<std::string> values;
  for (const auto& [value, above] : base_) values.push_back(value);
  for (const std::string& value : values) end_of(value);
}

namespace {

// The tensors of whose elements the results depend: of zeros in the shape and type of another tensor, not on that one.
std::vector<std::string> ElementsReadBy(const OpNode& node) {
  static const auto* of_shape_alone = new std::set<std::string>{"empty_like", "full_like", "new_empty", "new_full",
                                                                "new_ones",   "new_zeros", "ones_like", "zeros_like"};
  std::vector<std::string> read = TensorsOf(node);
  if (of_shape_alone->count(node.op) > 0)
    read.erase(std::remove(read.begin(), read.end(), node.Tensor("self")), read.end());
  return read;
}

}  // namespace

std::set<std::string> ConstantEvaluator::ReachedBases() const {
  std::set<std::string> reached;
  std::vector<std::string> next;  // bases whose readers have not been visited
  const auto reach = [&](const std::string& value) {
    if (!value.empty() && reached.insert(BaseOf(value)).second) next.push_back(BaseOf(value));
  };
  std::map<std::string, std::vector<const OpNode*>> readers;  // by base
  const auto reach_results = [&](const OpNode& node) {
    for (const std::string& value : node.outputs) reach(value);
    for (const std::string& value : node.Changed()) reach(value);
  };
  for (const std::string& input : graph_.inputs) reach(input);
  for (const auto& [value, name] : graph_.parameters) {
    if (buffers_.count(value) == 0) reach(value);
  }
  std::set<std::string> of_buffers;
  for (const std::string& buffer : buffers_) of_buffers.insert(BaseOf(buffer));
  for (const OpNode& node : graph_.nodes) {
    const std::vector<std::string> read = ElementsReadBy(node);
    for (const std::string& value : read) readers[BaseOf(value)].push_back(&node);
    // A buffer that the program changes has another value at every step.
    for (const std::string& value : node.Changed()) {
      if (of_buffers.count(BaseOf(value)) > 0) reach(value);
    }
    // What cannot be read may be anything, such as a number that an argument's elements give. An operator that reads
    // nothing and draws numbers stays, to be refused by name.
    if (!node.UnreadArgument().empty() || (IsRandomOp(node.op) && !read.empty())) reach_results(node);
  }
  while (!next.empty()) {
    const std::string base = std::move(next.back());
    next.pop_back();
    for (const OpNode* node : readers[base]) reach_results(*node);
  }
  return reached;
}

void ConstantEvaluator::FindChanges() {
  std::set<std::string> read;  // bases that an operator has read whose result is not constant
  for (const OpNode& node : graph_.nodes) {
    const bool constant = std::all_of(node.outputs.begin(), node.outputs.end(),
                                      [&](const std::string& output) { return output.empty() || IsConstant(output); });
    for (const std::string& value : constant ? node.Changed() : TensorsOf(node)) {
      const std::string& base = BaseOf(value);
      if (!constant) {
        read.insert(base);
      } else if (read.count(base) > 0) {
        changed_late_.insert(base);
      }
    }
  }
}

const absl::Status* ConstantEvaluator::FailureOf(const std::string& value) const {
  const auto failed = failed_.find(value);
  if (failed != failed_.end()) return &failed->second;
  const auto changed = failed_changes_.find(BaseOf(value));
  return changed == failed_changes_.end() ? nullptr : &changed->second;
}

absl::StatusOr<ConstantTensor> ConstantEvaluator::Evaluate(const std::string& value) {
  const std::string shown = PrintableText(value, kMaxShown);
  if (!IsConstant(value)) return NotComputed(shown, " depends on an argument of forward or on a parameter");
  if (changed_late_.count(BaseOf(value)) > 0) {
    return NotComputed(shown, " is changed in place after an operator has read it");
  }
  if (!has_run_) Run();
  if (workspace_->Find(value) == nullptr && buffers_.count(value) > 0) ADJOIN_RETURN_IF_ERROR(LoadBuffer(value));
  if (const absl::Status* failure = FailureOf(value)) return *failure;
  const ConstantView* view = workspace_->Find(value);
  if (view == nullptr) return NotComputed(shown, " is not computed");
  ConstantTensor tensor;
  tensor.dtype = view->dtype;
  tensor.shape = view->shape;
  if (view->real()) {
    ADJOIN_ASSIGN_OR_RETURN(tensor.reals, workspace_->Reals(*view));
  } else {
    ADJOIN_ASSIGN_OR_RETURN(tensor.wholes, workspace_->Wholes(*view));
  }
  return tensor;
}

void ConstantEvaluator::Run() {
  has_run_ = true;
  workspace_ = std::make_unique<ConstantWorkspace>(limits_);
  int64_t nodes = 0;
  for (const OpNode& node : graph_.nodes) {
    if (node.outputs.empty() || std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& output) {
          return !output.empty() && !IsConstant(output);
        })) {
      continue;
    }
    absl::Status status;
    // What follows from a failure has the failure's message.
    for (const std::string& value : TensorsOf(node)) {
      if (workspace_->Find(value) == nullptr && buffers_.count(value) > 0) status.Update(LoadBuffer(value));
      if (const absl::Status* failure = FailureOf(value)) status.Update(*failure);
    }
    if (status.ok()) {
      status = ++nodes > limits_.nodes ? absl::ResourceExhaustedError(absl::StrCat(
                                             "more than ", limits_.nodes, " operators compute the program's constants"))
                                       : RunNode(node);
      if (!status.ok()) {
        status = absl::Status(
            status.code(),
            PrintableText(absl::StrCat(node.target, " in ",
                                       node.module.empty() ? "the model itself" : absl::StrCat("module ", node.module),
                                       ", which computes a constant: ", std::string(status.message())),
                          2 * kMaxShown));
      }
    }
    if (status.ok()) continue;
    for (const std::string& value : node.outputs) failed_.emplace(value, status);
    // All that would have seen a change that was not made.
    for (const std::string& changed : node.Changed()) failed_changes_.emplace(BaseOf(changed), status);
  }
}

absl::Status ConstantEvaluator::RunNode(const OpNode& node) {
  const ConstantOp* op = FindConstantOp(node.op);
  if (IsRandomOp(node.op)) return NotComputed("it draws random numbers");
  if (op == nullptr) return NotComputed("it is none of the operators that are computed when a model is imported");
  if (node.Has("out")) return NotComputed("it writes to its argument out");
  if (const std::string unread = node.UnreadArgument(); !unread.empty()) {
    return NotComputed("its argument ", unread, " is computed, or of a kind that is not read");
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<ConstantView> results, op->compute({node, graph_, *workspace_}));
  if (results.size() != node.outputs.size()) return NotComputed("it has another number of results");
  if (node.in_place && node.op != "detach") {
    if (op->view || results.size() != 1) return NotComputed("it changes a tensor's shape or type in place");
    const ConstantView* changed = workspace_->Find(node.Tensor(node.Has("self") ? "self" : "input"));
    if (changed == nullptr) return NotComputed("what it changes is no constant");
    if (results[0].shape != changed->shape) return NotComputed("its shapes do not fit each other");
    ADJOIN_RETURN_IF_ERROR(workspace_->Copy(results[0], *changed));
    results[0] = *changed;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const auto known = graph_.tensors.find(node.outputs[i]);
    if (node.outputs[i].empty()) continue;
    if (known == graph_.tensors.end() || known->second.dtype != results[i].dtype ||
        known->second.shape != results[i].shape) {
      return NotComputed("its result is not of the type and shape that the program says");
    }
    workspace_->Bind(node.outputs[i], std::move(results[i]));
  }
  return absl::OkStatus();
}

absl::Status ConstantEvaluator::LoadBuffer(const std::string& value) {
  const std::string& name = graph_.parameters.at(value);
  const ArchivedTensor* tensor = archive_.Find(name);
  if (tensor == nullptr) return NotComputed("the archive has no tensor ", PrintableText(name, kMaxShown));
  ADJOIN_ASSIGN_OR_RETURN(ConstantView view, workspace_->New(tensor->dtype, tensor->shape));
  std::string bytes;
  ADJOIN_RETURN_IF_ERROR(archive_.Read(*tensor, [&](const char* data, int64_t count) {
    bytes.append(data, static_cast<size_t>(count));
    return absl::OkStatus();
  }));
  for (size_t i = 0; i < static_cast<size_t>(view.Elements()); ++i) {
    if (view.real()) {
      view.storage->reals[i] = RealAt(view.dtype, bytes, i);
    } else {
      view.storage->wholes[i] = WholeAt(view.dtype, bytes, i);
    }
  }
  workspace_->Bind(value, std::move(view));
  return absl::OkStatus();
}

}  // namespace adjoin
