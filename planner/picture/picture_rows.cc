#include "planner/picture/picture_rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/amount_text.h"
#include "base/number_ranges.h"
#include "base/status_macros.h"
#include "layers/conv/edge_roles.h"
#include "layers/loss/loss_roles.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "planner/plan/gradient_buckets.h"
#include "planner/plan/layout_text.h"
#include "primitives/geometry/shape_text.h"

namespace adjoin {
namespace {

// Returns the layer's kind as a user says it: "relu", "batch norm", "max pool".
std::string KindText(const Layer& layer) {
  const std::string kind = KindOf(layer);
  switch (layer.op_case()) {
    case Layer::kActivation: return layer.activation().fn();
    case Layer::kNorm: return absl::StrCat(layer.norm().kind(), " norm");
    case Layer::kPool: return absl::StrCat(layer.pool().mode(), " pool");
    case Layer::kUpsample: return absl::StrCat(layer.upsample().mode(), " upsample");
    default: return absl::StrJoin(absl::StrSplit(kind, '_'), " ");
  }
}

// True for "x", "x1", ... and "edges2", ...: what brings the layer's inputs.
bool IsInputRole(const std::string& role) {
  const auto number_after = [&](absl::string_view prefix) {
    if (!absl::StartsWith(role, prefix)) return false;
    const absl::string_view rest = absl::string_view(role).substr(prefix.size());
    return std::all_of(rest.begin(), rest.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return number_after(kRoleInput) || number_after(kEdgeRolePrefix);
}

// Returns "B on ranks 0-3" where each of them has all of it; else as LayoutText.
std::string HomeText(const LayoutPlan& home) {
  const absl::StatusOr<Layout> layout = LayoutFromProto(home);
  if (!layout.ok() || layout->mesh().size() == 1) return LayoutText(home);
  for (int dim = 0; dim < layout->dims(); ++dim) {
    if (layout->Parts(dim) > 1) return LayoutText(home);
  }
  return absl::StrCat("B on ranks ", NumberRanges(layout->mesh().ranks()));
}

// Which input a role of IsInputRole is for.
int InputOf(const std::string& role) {
  int input = 0;
  if (role[0] != 'x') return 0;
  for (const char c : absl::string_view(role).substr(1)) input = std::min(input * 10 + (c - '0'), 1000000);
  return input;
}

// What decides what a movement does: all of it but its name, its id and its numbers.
std::string GeometryOf(const OperatorPlan& op) {
  OperatorPlan geometry;
  *geometry.mutable_from() = op.from();
  *geometry.mutable_to() = op.to();
  *geometry.mutable_reading() = op.reading();
  if (op.has_read()) *geometry.mutable_read() = op.read();
  *geometry.mutable_source() = op.source();
  geometry.set_differentiable(op.differentiable());
  return geometry.SerializeAsString();
}

class RowMaker {
 public:
  RowMaker(const Plan& plan, const PlanReport& report)
      : plan_(plan), program_(plan.program(0)), report_(report.program(0)), whole_(report) {}

  absl::StatusOr<std::vector<PictureRow>> Make();

 private:
  struct Reader {
    int layer = 0, input = 0;
  };

  absl::Status Prepare();
  absl::StatusOr<std::shared_ptr<const TensorCut>> CutOf(uint32_t value);
  TensorView ViewOf(const LayerPlan& layer) const;
  bool Follows(int layer) const;
  absl::Status AddField(uint32_t value);
  absl::Status AddLayer(int index);
  absl::Status AddLosses();
  absl::Status AddOutputs();
  absl::Status AddMovement(const OperatorUse& use, std::vector<MovementRow>& list);
  absl::StatusOr<MovementFacts> KnownFactsOf(const OperatorPlan& op);
  absl::Status AddParameters(const LayerPlan& layer, PictureRow& row);
  absl::Status AddGradient(int parameter, ParameterRow& shown);
  void SetTensorTexts(uint32_t value, PictureRow& row) const;
  void AddTimes(int layer, PictureRow& row) const;
  static void AddInputs(const std::vector<int>& rows, int own, PictureRow& row);

  const Plan& plan_;
  const ProgramPlan& program_;
  const ProgramReport& report_;
  const PlanReport& whole_;
  std::vector<std::vector<Reader>> readers_;  // by value
  std::vector<int> uses_;                     // by value: of layers, losses and outputs
  std::vector<TensorView> views_;             // by value
  std::vector<int> row_of_;                   // by value; -1: none yet
  std::set<uint32_t> shown_parameters_;
  std::vector<GradientSum> sums_;
  std::map<int, const GradientSum*> sum_of_;  // by parameter
  // Blocks that come again have the same cuts and movements: by what decides them.
  std::map<std::string, std::shared_ptr<const TensorCut>> cuts_;
  std::map<std::string, MovementFacts> facts_;
  std::vector<PictureRow> rows_;
};

absl::Status RowMaker::Prepare() {
  const int values = program_.value_size();
  readers_.resize(values);
  uses_.assign(values, 0);
  row_of_.assign(values, -1);
  for (int layer = 0; layer < program_.layer_size(); ++layer) {
    for (int input = 0; input < program_.layer(layer).input_size(); ++input) {
      readers_[program_.layer(layer).input(input)].push_back({layer, input});
      ++uses_[program_.layer(layer).input(input)];
    }
  }
  for (const OutputPlan& output : program_.output()) ++uses_[output.value()];
  for (const ValuePlan& value : program_.value()) views_.push_back(TensorView::ForDims(value.layout().shape_size()));
  for (const LossPlan& loss : program_.loss()) {
    const int dims = program_.value(loss.target()).layout().shape_size();
    if (dims + 1 == program_.value(loss.input()).layout().shape_size()) {
      views_[loss.target()] = TensorView::WithoutChannels(dims);
    }
  }
  if (!program_.training()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(sums_, GradientSums(plan_));
  for (const GradientSum& sum : sums_) {
    for (const int parameter : sum.parameters) sum_of_[parameter] = &sum;
  }
  return absl::OkStatus();
}

// The value's cut with the halos that its readers fetch.
absl::StatusOr<std::shared_ptr<const TensorCut>> RowMaker::CutOf(uint32_t value) {
  const ValuePlan& plan = program_.value(value);
  std::vector<const OperatorPlan*> fetches;
  if (plan.has_read()) fetches.push_back(&plan.read());
  for (const Reader& reader : readers_[value]) {
    for (const OperatorUse& use : program_.layer(reader.layer).op()) {
      if (!IsInputRole(use.role()) || InputOf(use.role()) != reader.input) continue;
      if (!program_.op(use.index()).reading().empty()) fetches.push_back(&program_.op(use.index()));
    }
  }
  std::string key = plan.layout().SerializeAsString();
  for (const OperatorPlan* op : fetches) absl::StrAppend(&key, "|", GeometryOf(*op));
  std::shared_ptr<const TensorCut>& known = cuts_[key];
  if (known != nullptr) return known;
  ADJOIN_ASSIGN_OR_RETURN(TensorCut cut, TensorCut::Of(plan.layout()));
  for (const OperatorPlan* op : fetches) ADJOIN_RETURN_IF_ERROR(cut.AddHalos(*op));
  known = std::make_shared<const TensorCut>(std::move(cut));
  return known;
}

TensorView RowMaker::ViewOf(const LayerPlan& layer) const {
  const int dims = program_.value(layer.output()).layout().shape_size();
  if (layer.input().empty()) return TensorView::ForDims(dims);
  const TensorView& input = views_[layer.input(0)];
  if (static_cast<int>(input.roles.size()) != dims) return TensorView::ForDims(dims);
  if (!layer.spec().has_permute()) return input;
  return input.Permuted({layer.spec().permute().arg().begin(), layer.spec().permute().arg().end()});
}

// True where the layer belongs into the row of the layer before it.
bool RowMaker::Follows(int index) const {
  if (index == 0) return false;
  const LayerPlan &layer = program_.layer(index), &before = program_.layer(index - 1);
  if (layer.input_size() != 1 || layer.input(0) != before.output() || uses_[before.output()] != 1) return false;
  for (const OperatorUse& use : layer.op()) {
    if (IsInputRole(use.role()) || use.role() == kRoleOutput) return false;
  }
  if (!layer.reading().empty() && !layer.reading(0).dim().empty()) return false;
  const LayoutPlan &x = program_.value(before.output()).layout(), &y = program_.value(layer.output()).layout();
  return x.SerializeAsString() == y.SerializeAsString() && !layer.spec().has_permute();
}

absl::StatusOr<MovementFacts> RowMaker::KnownFactsOf(const OperatorPlan& op) {
  const std::string key = GeometryOf(op);
  const auto known = facts_.find(key);
  if (known != facts_.end()) return known->second;
  ADJOIN_ASSIGN_OR_RETURN(const MovementFacts facts, FactsOf(op));
  facts_.emplace(key, facts);
  return facts;
}

absl::Status RowMaker::AddMovement(const OperatorUse& use, std::vector<MovementRow>& list) {
  const OperatorPlan& op = program_.op(use.index());
  ADJOIN_ASSIGN_OR_RETURN(MovementFacts facts, KnownFactsOf(op));
  list.push_back({op.name(), use.role(), std::move(facts)});
  return absl::OkStatus();
}

void RowMaker::SetTensorTexts(uint32_t value, PictureRow& row) const {
  const LayoutPlan& layout = program_.value(value).layout();
  row.shape = absl::StrCat(ShapeText(layout.shape()), " ", layout.dtype());
  row.layout = LayoutText(layout);
  row.view = views_[value];
}

void RowMaker::AddTimes(int layer, PictureRow& row) const {
  if (!program_.training() || whole_.time().layer_size() != program_.layer_size()) return;
  const LayerTimeReport& time = whole_.time().layer(layer);
  row.forward += time.forward_seconds();
  row.backward += time.backward_seconds();
  row.movement += time.movement_seconds();
}

void RowMaker::AddInputs(const std::vector<int>& rows, int own, PictureRow& row) {
  std::set<int> inputs(row.inputs.begin(), row.inputs.end());
  for (const int input : rows) {
    if (input >= 0 && input != own) inputs.insert(input);
  }
  row.inputs.assign(inputs.begin(), inputs.end());
}

absl::Status RowMaker::AddGradient(int parameter, ParameterRow& shown) {
  shown.gradient = "gradient stays at home";
  const auto found = sum_of_.find(parameter);
  if (found == sum_of_.end()) return absl::OkStatus();
  const GradientSum& sum = *found->second;
  ADJOIN_ASSIGN_OR_RETURN(const MovementFacts facts, KnownFactsOf(sum.movement));
  if (sum.parameters.size() == 1) {
    shown.gradient = absl::StrCat("gradient ", FactsText(facts));
    shown.bytes = facts.bytes;
    return absl::OkStatus();
  }
  // A bucket has the algorithm that the gradient alone would have, and so the bytes but for what fills it up.
  ADJOIN_ASSIGN_OR_RETURN(const MovementFacts own, KnownFactsOf(plan_.parameter(parameter).sync()));
  shown.bytes = own.bytes;
  shown.gradient =
      absl::StrCat("gradient ", facts.kind, " with ", sum.parameters.size() - 1,
                   sum.parameters.size() == 2 ? " other" : " others", " · ", BytesText(own.bytes), " of ",
                   BytesText(facts.bytes), " in ", facts.messages, facts.messages == 1 ? " message" : " messages");
  return absl::OkStatus();
}

absl::Status RowMaker::AddParameters(const LayerPlan& layer, PictureRow& row) {
  for (const ParameterUse& use : layer.parameter()) {
    const ParameterPlan& parameter = plan_.parameter(use.index());
    if (!shown_parameters_.insert(use.index()).second) {
      row.notes.push_back(absl::StrCat("shares ", parameter.name()));
      continue;
    }
    ParameterRow shown;
    shown.name = parameter.name();
    shown.shape = ShapeText(parameter.home().shape());
    shown.home = HomeText(parameter.home());
    shown.trained = !parameter.buffer() && !parameter.frozen();
    if (shown.trained && program_.training()) {
      ADJOIN_RETURN_IF_ERROR(AddGradient(static_cast<int>(use.index()), shown));
    }
    row.parameters.push_back(std::move(shown));
  }
  return absl::OkStatus();
}

absl::Status RowMaker::AddField(uint32_t value) {
  const ValuePlan& plan = program_.value(value);
  PictureRow row;
  row.kind = PictureRow::Kind::kField;
  row.title = plan.field();
  row.what = "a field of the data set, read from files";
  ADJOIN_ASSIGN_OR_RETURN(row.tensor, CutOf(value));
  SetTensorTexts(value, row);
  if (plan.has_read()) row.notes.push_back("each rank reads its halo from the files as well");
  row_of_[value] = static_cast<int>(rows_.size());
  rows_.push_back(std::move(row));
  return absl::OkStatus();
}

absl::Status RowMaker::AddLayer(int index) {
  const LayerPlan& layer = program_.layer(index);
  for (const uint32_t input : layer.input()) {
    if (row_of_[input] < 0 && !program_.value(input).field().empty()) ADJOIN_RETURN_IF_ERROR(AddField(input));
  }
  const bool follows = Follows(index);
  views_[layer.output()] = ViewOf(layer);
  if (!follows) rows_.emplace_back();
  PictureRow& row = rows_.back();
  const int own = static_cast<int>(rows_.size()) - 1;
  std::vector<int> inputs;
  for (const uint32_t input : layer.input()) inputs.push_back(row_of_[input]);
  if (!follows) {
    AddInputs(inputs, own, row);
    const bool only_before = row.inputs.size() == 1 && row.inputs[0] == own - 1;
    for (int i = 0; !only_before && i < layer.input_size(); ++i) {
      row.input_names.push_back(program_.value(layer.input(i)).name());
    }
  }
  row.layers.push_back(layer.name());
  row.title = absl::StrJoin(row.layers, ", ");
  const std::string window = index < report_.layer_size() ? report_.layer(index).window() : "";
  absl::StrAppend(&row.what, row.what.empty() ? "" : "; ", KindText(layer.spec()), window.empty() ? "" : ", ", window,
                  layer.spec().recompute() ? ", computed again backward" : "");
  for (const OperatorUse& use : layer.op()) {
    const bool input = IsInputRole(use.role());
    ADJOIN_RETURN_IF_ERROR(AddMovement(use, input ? row.before : use.role() == kRoleOutput ? row.after : row.inside));
  }
  ADJOIN_RETURN_IF_ERROR(AddParameters(layer, row));
  row.flops += layer.flops();
  AddTimes(index, row);
  for (const char* pass : {"forward", "backward"}) {
    row.peak = row.peak || (whole_.memory().program() == program_.name() &&
                            whole_.memory().during() == absl::StrCat(pass, " pass of \"", layer.name(), "\""));
  }
  ADJOIN_ASSIGN_OR_RETURN(row.tensor, CutOf(layer.output()));
  SetTensorTexts(layer.output(), row);
  row_of_[layer.output()] = own;
  return absl::OkStatus();
}

absl::Status RowMaker::AddLosses() {
  for (const LossPlan& loss : program_.loss()) {
    PictureRow row;
    row.kind = PictureRow::Kind::kLoss;
    row.title = absl::StrCat("loss ", loss.spec().kind());
    const ValuePlan& target = program_.value(loss.target());
    row.what = absl::StrCat("of ", program_.value(loss.input()).name(), " and the field ", target.field(), ", ",
                            ShapeText(target.layout().shape()), " ", target.layout().dtype(), ", ",
                            LayoutText(target.layout()));
    std::vector<int> inputs = {row_of_[loss.input()]};
    if (loss.has_variance()) inputs.push_back(row_of_[loss.variance()]);
    const int own = static_cast<int>(rows_.size());
    AddInputs(inputs, own, row);
    if (row.inputs != std::vector<int>{own - 1}) row.input_names.push_back(program_.value(loss.input()).name());
    for (const OperatorUse& use : loss.op()) {
      ADJOIN_RETURN_IF_ERROR(AddMovement(use, use.role() == kRolePrediction ? row.before : row.inside));
    }
    for (const char* pass : {"forward", "backward"}) {
      row.peak = row.peak || whole_.memory().during() == absl::StrCat(pass, " pass of \"", loss.spec().kind(), " of ",
                                                                      program_.value(loss.input()).name(), "\"");
    }
    rows_.push_back(std::move(row));
  }
  return absl::OkStatus();
}

absl::Status RowMaker::AddOutputs() {
  for (const OutputPlan& output : program_.output()) {
    PictureRow row;
    row.kind = PictureRow::Kind::kOutput;
    const ValuePlan& value = program_.value(output.value());
    row.title = absl::StrCat("written: ", value.name());
    row.what = "each element by one rank";
    const int own = static_cast<int>(rows_.size());
    AddInputs({row_of_[output.value()]}, own, row);
    if (row.inputs != std::vector<int>{own - 1}) row.input_names.push_back(value.name());
    if (output.has_op()) ADJOIN_RETURN_IF_ERROR(AddMovement(output.op(), row.before));
    ADJOIN_ASSIGN_OR_RETURN(TensorCut cut, TensorCut::Of(output.layout()));
    row.tensor = std::make_shared<TensorCut>(std::move(cut));
    row.view = views_[output.value()];
    row.shape = absl::StrCat(ShapeText(output.layout().shape()), " ", output.layout().dtype());
    row.layout = LayoutText(output.layout());
    rows_.push_back(std::move(row));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PictureRow>> RowMaker::Make() {
  ADJOIN_RETURN_IF_ERROR(Prepare());
  for (int layer = 0; layer < program_.layer_size(); ++layer) ADJOIN_RETURN_IF_ERROR(AddLayer(layer));
  ADJOIN_RETURN_IF_ERROR(AddLosses());
  ADJOIN_RETURN_IF_ERROR(AddOutputs());
  return std::move(rows_);
}

void AddTotals(const Plan& plan, const PlanReport& report, PicturePage& page) {
  const ProgramReport& program = report.program(0);
  page.totals.emplace_back(
      "parameters", absl::StrCat(CountText(report.parameters()), " trained, ", BytesText(report.parameter_bytes())));
  const auto most = std::max_element(program.bytes_sent().begin(), program.bytes_sent().end());
  if (most != program.bytes_sent().end()) {
    page.totals.emplace_back("sent per step",
                             *most == 0 ? "nothing"
                                        : absl::StrCat("at most ", BytesText(*most), " by a rank (rank ",
                                                       most - program.bytes_sent().begin(), "), ",
                                                       BytesText(program.bytes_sent_by_all()), " by all together"));
  }
  page.totals.emplace_back("forward pass", absl::StrCat(FlopsText(program.flops_forward()), " by all ranks together"));
  if (report.memory().bytes() > 0) {
    page.totals.emplace_back(
        "memory",
        absl::StrCat("about ", BytesText(report.memory().bytes()), " of tensors on rank ", report.memory().rank(),
                     report.memory().during().empty() ? "" : absl::StrCat(", most in the ", report.memory().during())));
  }
  if (report.time().step_seconds() > 0) {
    page.totals.emplace_back("step", absl::StrCat("about ", SecondsText(report.time().step_seconds()),
                                                  " by the rates of ", report.time().rates()));
  }
  const uint32_t microbatches = plan.spec().train().microbatches();
  if (program.training() && microbatches > 1) {
    page.totals.emplace_back("micro-batches", absl::StrCat(microbatches, " in a step; bytes are those of one of them"));
  }
}

void AddMeshes(const ProgramPlan& program, PicturePage& page) {
  std::set<std::string> known;
  for (const ValuePlan& value : program.value()) {
    const absl::StatusOr<Layout> layout = LayoutFromProto(value.layout());
    if (!layout.ok()) continue;
    std::string text =
        absl::StrCat(ShapeText(layout->mesh().shape()), layout->mesh().size() == 1 ? ": rank " : ": ranks ",
                     NumberRanges(layout->mesh().ranks()));
    if (known.insert(text).second) page.meshes.push_back(std::move(text));
  }
}

}  // namespace

std::string SecondsText(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.3g s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g us", seconds * 1e6);
}

int64_t PictureRow::bytes() const {
  int64_t sum = 0;
  const auto add = [&sum](int64_t bytes) { sum = bytes > INT64_MAX - sum ? INT64_MAX : sum + bytes; };
  for (const auto* list : {&before, &inside, &after}) {
    for (const MovementRow& movement : *list) add(movement.facts.bytes);
  }
  for (const ParameterRow& parameter : parameters) add(parameter.bytes);
  return sum;
}

absl::StatusOr<PicturePage> PicturePageOf(const Plan& plan, const PlanReport& report) {
  if (plan.program().empty() || report.program().empty()) {
    return absl::InvalidArgumentError("a plan without programs has nothing to draw");
  }
  PicturePage page;
  page.name = report.name();
  page.ranks = report.ranks();
  const ProgramReport& program = report.program(0);
  page.subtitle = absl::StrCat(report.kind(), " on ", report.ranks(), report.ranks() == 1 ? " rank" : " ranks",
                               " · program ", program.name(), ": batch of ", program.batch(), " samples of data set ",
                               program.dataset(), program.training() ? ", forward and backward" : ", forward only");
  page.plan = report.plan();
  AddTotals(plan, report, page);
  AddMeshes(plan.program(0), page);
  page.warnings.assign(report.warning().begin(), report.warning().end());
  ADJOIN_ASSIGN_OR_RETURN(page.rows, RowMaker(plan, report).Make());
  for (const PictureRow& row : page.rows) {
    page.most_seconds = std::max(page.most_seconds, row.seconds());
    if (row.tensor == nullptr) continue;
    page.has_copies = page.has_copies || row.tensor->layout().HasKind(Placement::Kind::kBroadcast);
    page.has_partial = page.has_partial || row.tensor->layout().HasKind(Placement::Kind::kPartial);
    page.has_halos = page.has_halos || !row.tensor->halos().empty();
    page.has_slices = page.has_slices || !row.view.Bars().empty();
  }
  return page;
}

}  // namespace adjoin
