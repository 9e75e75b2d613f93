// The rule of `attention`: torch.nn.MultiheadAttention, batch first, of one input, of two (queries; keys and values),
// or of three (queries; keys; values); a bias of the scores comes after these. Without projections the inputs are what
// the heads work with.
//
// Layer.w, a layout of [batch, length, features], cuts the batch by the axes that split its dim 0, the sequence by
// those of dim 1 and the heads by those of dim 2. Absent: x's own layout. Where the sequence is cut, there are
// movements of the roles of a ring (layers/attention/ring_attention.h). A rank reads of the bias what its samples,
// heads and queries need, for all keys. LayerPlan.reading holds the layouts of [batch, queries, heads], of the keys and
// of the values, which are cut alike.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/attention/attention_inputs.h"
#include "layers/attention/attention_roles.h"
#include "layers/attention/head_cut.h"
#include "layers/rules/layer_rule.h"
#include "layers/rules/layout_like.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/rotation.h"

namespace adjoin {
namespace {

constexpr int kLength = 1;            // dim of [batch, length, features]
constexpr int kTravellingLength = 4;  // dim of [copies, 2 or 1, batch, heads, length, width]

// `request` without the bias of the scores.
absl::Status CheckInputs(const LayerRequest& request) {
  if (request.input.size() > 3) {
    return AtField("input", InvalidSpec("it reads one input, or two: queries, and what they attend to, or three:"
                                        " queries, keys and values, and with score_bias one more; ",
                                        request.input.size(), " are named that attend or are attended to"));
  }
  if (request.input.size() == 1) {
    ADJOIN_RETURN_IF_ERROR(CheckOneFloatInput(request));
  } else {
    ADJOIN_RETURN_IF_ERROR(CheckFloatInputs(request));
  }
  for (size_t i = 0; i < request.input.size(); ++i) {
    const std::string field = absl::StrCat("input[", i, "]");
    const std::vector<int64_t>& shape = request.input[i].shape();
    if (shape.size() != 3) {
      return AtField(field, InvalidSpec("it reads [batch, length, features]; input ", i, " is ", ShapeText(shape)));
    }
    if (shape[2] < 1) return AtField(field, InvalidSpec("input ", i, " has no features"));
    if (shape[0] != request.input[0].shape()[0]) {
      return AtField(field,
                     InvalidSpec("the inputs' batches differ: ", request.input[0].shape()[0], " and ", shape[0]));
    }
  }
  if (request.input.size() == 3 && request.input[1].shape()[1] != request.input[2].shape()[1]) {
    return AtField("input[2]", InvalidSpec("there are ", request.input[1].shape()[1], " keys, but ",
                                           request.input[2].shape()[1], " values; each key needs one"));
  }
  return absl::OkStatus();
}

absl::Status CheckWithoutProjections(const LayerRequest& request) {
  const auto heads = static_cast<int64_t>(request.spec.attention().heads());
  if (request.spec.attention().has_bias()) {
    return AtField("attention.bias", InvalidSpec("attention.bias is of projections, and there are none; leave it out"));
  }
  Layer uncut = request.spec;
  uncut.clear_w();  // cuts what attends
  ADJOIN_RETURN_IF_ERROR(CheckNoParameters(uncut));
  const int64_t features = request.input[0].shape()[2];
  const int64_t of_keys = request.input[request.input.size() > 1 ? 1 : 0].shape()[2];
  if (of_keys != features) {
    return AtField("input[1]", InvalidSpec("the keys have ", of_keys, " features, but the queries ", features,
                                           "; without projections they must be as many"));
  }
  const int64_t of_values = request.input.back().shape()[2];
  if (of_values % heads == 0) return absl::OkStatus();
  return AtField("input[2]", InvalidSpec("the values have ", of_values, " features, which ", heads,
                                         " heads cannot share evenly; without projections attention.heads must divide"
                                         " them"));
}

absl::Status CheckScoreBias(const Layout& bias, size_t input, const LayerRequest& attended) {
  const std::string field = absl::StrCat("input[", input, "]");
  const Layout& x = attended.input[0];
  const std::vector<int64_t> scores = {x.shape()[0], static_cast<int64_t>(attended.spec.attention().heads()),
                                       x.shape()[1], attended.input[attended.input.size() > 1 ? 1 : 0].shape()[1]};
  bool fits = bias.dims() == static_cast<int>(scores.size());
  for (size_t dim = 0; fits && dim < scores.size(); ++dim) {
    fits = bias.shape()[dim] == 1 || bias.shape()[dim] == scores[dim];
  }
  if (!fits) {
    return AtField(field, InvalidSpec("the bias of the scores is ", ShapeText(bias.shape()),
                                      "; it must be [batch, heads, queries, keys], ", ShapeText(scores),
                                      ", with 1 where it is the same for all"));
  }
  if (IsFloatingPoint(bias.dtype()) ? bias.dtype() == x.dtype() : bias.dtype() != DType::kBool) {
    return absl::OkStatus();
  }
  return AtField(field, InvalidSpec("the bias of the scores has the type ", ToString(bias.dtype()),
                                    "; it is added to them: it must be ", ToString(x.dtype()),
                                    " or whole numbers, and a pair is masked by minus infinity"));
}

// `request`: without the bias of the scores.
absl::StatusOr<Layer> WithDefaults(const LayerRequest& request) {
  Layer spec = request.spec;
  Attention& attention = *spec.mutable_attention();
  const int64_t features = request.input[0].shape()[2];
  if (attention.heads() < 1 || features % attention.heads() != 0) {
    return AtField("attention.heads", InvalidSpec("attention.heads must be a divisor of the input's ", features,
                                                  " features, not ", attention.heads()));
  }
  if (!(attention.dropout() >= 0 && attention.dropout() <= 1)) {
    return AtField("attention.dropout",
                   InvalidSpec("attention.dropout is a probability, from 0 to 1, not ", attention.dropout()));
  }
  if (attention.has_scale() && !std::isfinite(attention.scale())) {
    return AtField("attention.scale",
                   InvalidSpec("attention.scale is ", attention.scale(), "; it must be a finite number"));
  }
  attention.set_causal(attention.causal());
  if (HasProjections(attention)) {
    attention.set_bias(attention.has_bias() ? attention.bias() : true);
    return spec;
  }
  ADJOIN_RETURN_IF_ERROR(CheckWithoutProjections(request));
  return spec;
}

// What the keys are made of: that of the second input, else of the first.
const Layout& KeysOf(const LayerRequest& request) { return request.input[request.input.size() > 1 ? 1 : 0]; }

// Parts of the batch and of its own length by the axes of `w`, whole in its features.
absl::StatusOr<Layout> MemoryLayout(const Layout& w, const HeadCut& cut, const Layout& memory) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout even, WithoutHeads(w, cut, memory.shape(), Placement::Broadcast()));
  if (memory.mesh() != w.mesh() || memory.AxesOf(kLength) != w.AxesOf(kLength) || w.AxesOf(kLength).empty())
    return even;
  Layout::Cuts cuts = {{kLength, PartSizes(memory, kLength)}};
  if (!even.AxesOf(0).empty()) cuts[0] = PartSizes(even, 0);
  return Layout::Create(even.shape(), even.dtype(), even.mesh(), even.placements(), std::move(cuts));
}

absl::StatusOr<Layout> HeadLayout(const Layout& w, const HeadCut& cut, int64_t heads) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout whole,
                          WithoutHeads(w, cut, {w.shape()[0], w.shape()[1], heads}, Placement::Split(2)));
  Layout::Cuts cuts;
  for (int dim = 0; dim < 2; ++dim) {
    if (!w.AxesOf(dim).empty()) cuts[dim] = PartSizes(w, dim);
  }
  if (cut.cut()) cuts[2] = cut.sizes;
  return Layout::Create(whole.shape(), w.dtype(), w.mesh(), whole.placements(), std::move(cuts));
}

// `whole`, which has whole features, with those of `width` of each head instead, one head after the other: cut between
// the heads.
absl::StatusOr<Layout> SideBySide(const Layout& whole, const HeadCut& cut, int64_t width) {
  const int last = whole.dims() - 1;
  std::vector<int64_t> shape = whole.shape();
  std::vector<int64_t> sizes = cut.sizes;
  shape[last] = 0;
  for (int64_t& size : sizes) shape[last] += size *= width;
  std::vector<Placement> placements = whole.placements();
  Layout::Cuts cuts;
  for (int dim = 0; dim < last; ++dim) {
    if (!whole.AxesOf(dim).empty()) cuts[dim] = PartSizes(whole, dim);
  }
  for (int axis = 0; axis < whole.mesh().axes(); ++axis) {
    if (cut.axis[axis]) placements[axis] = Placement::Split(last);
  }
  if (cut.cut()) cuts[last] = std::move(sizes);
  return Layout::Create(std::move(shape), whole.dtype(), whole.mesh(), std::move(placements), std::move(cuts));
}

// What the ranks of `heads` read of a bias of the scores: where it is the same for all, they all read the same.
absl::StatusOr<Layout> BiasLayout(const Layout& bias, const Layout& heads) {
  constexpr int kOf[] = {0, 2, 1};  // batch, queries, heads
  std::vector<Placement> placements;
  Layout::Cuts cuts;
  for (const Placement& placement : heads.placements()) {
    const bool splits = placement.kind == Placement::Kind::kSplit;
    const int dim = splits ? kOf[placement.dim] : 0;
    if (!splits || bias.shape()[dim] != heads.shape()[placement.dim]) {
      placements.push_back(Placement::Broadcast());
      continue;
    }
    placements.push_back(Placement::Split(dim));
    cuts[dim] = PartSizes(heads, placement.dim);
  }
  return Layout::Create(bias.shape(), bias.dtype(), heads.mesh(), std::move(placements), std::move(cuts));
}

// Keys and values as they travel: one after the other, or side by side where a head has other widths of them. Along
// axes that hold copies each copy has a ring of its own: a dim counts them.
absl::StatusOr<Layout> Travelling(const Layout& memory, const Layout& heads, int64_t width, int64_t value_width) {
  Layout::Cuts cuts;
  int64_t copies = 1;
  std::vector<Placement> placements;
  for (int axis = 0; axis < heads.mesh().axes(); ++axis) {
    const Placement& placement = heads.placements()[axis];
    if (placement == Placement::Broadcast()) {
      copies *= heads.mesh().shape()[axis];
      placements.push_back(Placement::Split(0));
    } else {
      constexpr int kOf[] = {2, kTravellingLength, 3};  // batch, length, heads
      const int dim = kOf[placement.dim];
      placements.push_back(Placement::Split(dim));
      cuts[dim] = placement.dim == kLength ? PartSizes(memory, kLength) : PartSizes(heads, placement.dim);
    }
  }
  const bool alike = width == value_width;
  return Layout::Create({copies, alike ? 2 : 1, memory.shape()[0], heads.shape()[2], memory.shape()[1],
                         alike ? width : width + value_width},
                        memory.dtype(), memory.mesh(), std::move(placements), std::move(cuts));
}

// A plan holds one number per movement and rank, the bytes sent; one attention has at most so many of them.
constexpr int64_t kMostRingNumbers = int64_t{1} << 22;

absl::Status AddRing(const LayerRequest& request, const Layout& travelling, std::vector<MovementNeed>& movements) {
  const int64_t parts = travelling.Parts(kTravellingLength);
  const auto ranks = static_cast<int64_t>(travelling.mesh().ranks().size());
  if (3 * parts * ranks > kMostRingNumbers) {
    return InvalidSpec("the sequence is cut into ", parts, " parts on ", ranks,
                       " ranks, around which keys and values would"
                       " travel; ",
                       kMostRingNumbers / (3 * ranks),
                       " parts are possible on so many: cut the heads or the"
                       " batch as well");
  }
  std::vector<Layout> after;  // so many steps
  for (int64_t step = 0; step < parts; ++step) {
    ADJOIN_ASSIGN_OR_RETURN(Layout rotated, RotatedParts(travelling, kTravellingLength, step));
    after.push_back(std::move(rotated));
  }
  const auto add = [&](std::string role, const Layout& from, const Layout& to, bool backward) {
    movements.push_back({.role = std::move(role), .from = from, .to = to, .constant = true, .backward = backward});
  };
  for (int64_t step = 1; step < parts; ++step) add(RingRole(step), after[step - 1], after[step], false);
  if (!request.training) return absl::OkStatus();
  // Sums of few bits would lose what the later parts give.
  const bool short_type = SizeOf(travelling.dtype()) < SizeOf(DType::kFloat32);
  const DType sums = short_type ? DType::kFloat32 : travelling.dtype();
  for (int64_t step = parts - 1; step >= 1; --step) {
    if (step > 1) add(RingBackRole(step), after[step], after[step - 1], true);
    add(RingGradientRole(step), after[step].WithDType(sums), after[step - 1].WithDType(sums), true);
  }
  return absl::OkStatus();
}

class Parameters {
 public:
  Parameters(const LayerRequest& request, const Layer& spec, const HeadCut& cut)
      : dtype_(request.parameter_dtype),
        spec_(spec),
        cut_(cut),
        heads_(spec.attention().heads()),
        features_(request.input[0].shape()[2]),
        key_features_(KeysOf(request).shape()[2]),
        value_features_(request.input.back().shape()[2]) {}

  absl::StatusOr<std::vector<ParameterNeed>> All() {
    if (key_features_ == features_ && value_features_ == features_) {
      ADJOIN_RETURN_IF_ERROR(In(kRoleInProjWeight, {3, heads_, cut_.width, features_}, 1, {3 * features_, features_}));
    } else {
      ADJOIN_RETURN_IF_ERROR(In(kRoleQProjWeight, {heads_, cut_.width, features_}, 0, {features_, features_}));
      ADJOIN_RETURN_IF_ERROR(In(kRoleKProjWeight, {heads_, cut_.width, key_features_}, 0, {features_, key_features_}));
      ADJOIN_RETURN_IF_ERROR(
          In(kRoleVProjWeight, {heads_, cut_.width, value_features_}, 0, {features_, value_features_}));
    }
    if (spec_.attention().bias()) {
      ADJOIN_RETURN_IF_ERROR(In(kRoleInProjBias, {3, heads_, cut_.width}, 1, {3 * features_}));
    }
    ADJOIN_ASSIGN_OR_RETURN(ParameterNeed out,
                            HeadParameter(spec_, cut_, dtype_, kRoleOutProjWeight, {features_, heads_, cut_.width}, 1));
    out.fan_in = features_;
    out.stored_shape = {features_, features_};
    found_.push_back(std::move(out));
    if (spec_.attention().bias()) {
      ADJOIN_ASSIGN_OR_RETURN(ParameterNeed bias, BiasOverHeads(spec_, cut_, dtype_, kRoleOutProjBias, features_));
      found_.push_back(std::move(bias));
    }
    return std::move(found_);
  }

 private:
  // Weights as torch.nn.init.xavier_uniform_, the bias 0.
  absl::Status In(const char* role, std::vector<int64_t> shape, int dim, std::vector<int64_t> stored) {
    ADJOIN_ASSIGN_OR_RETURN(ParameterNeed need, HeadParameter(spec_, cut_, dtype_, role, std::move(shape), dim));
    if (stored.size() > 1) {
      need.init.emplace().set_kind("xavier_uniform");
    } else {
      need.initial = 0.0;
    }
    need.stored_shape = std::move(stored);
    found_.push_back(std::move(need));
    return absl::OkStatus();
  }

  const DType dtype_;
  const Layer& spec_;
  const HeadCut& cut_;
  const int64_t heads_;
  const int64_t features_;
  const int64_t key_features_;
  const int64_t value_features_;
  std::vector<ParameterNeed> found_;
};

// Projections, scores and weighted sums of all pairs that see each other, and about 5 operations for each weight, one
// more where a bias is added.
double Flops(const LayerRequest& request, const Attention& attention) {
  const Layout& x = request.input[0];
  const Layout& memory = KeysOf(request);
  const auto n = static_cast<double>(x.shape()[0]), queries = static_cast<double>(x.shape()[1]);
  const auto keys = static_cast<double>(memory.shape()[1]), features = static_cast<double>(x.shape()[2]);
  const double read = static_cast<double>(memory.shape()[2]) + static_cast<double>(request.input.back().shape()[2]);
  const double seen = std::min(queries, keys);
  const double pairs = attention.causal() ? seen * (seen + 1) / 2 + (queries - seen) * keys : queries * keys;
  const double weights = (attention.score_bias() ? 6 : 5) * static_cast<double>(attention.heads());
  if (!HasProjections(attention)) return n * pairs * (2 * read + weights);
  return n * (4 * queries * features * features + 2 * keys * read * features + pairs * (4 * features + weights));
}

// Weights are never held, but those that are dropped are counted. The volume without keys has been checked.
absl::Status CheckDroppedWeights(const Attention& attention, const Layout& x, const Layout& memory) {
  constexpr int64_t kMostWeights = int64_t{1} << 62;
  const int64_t rows = x.shape()[0] * attention.heads() * x.shape()[1], keys = memory.shape()[1];
  if (attention.dropout() == 0 || rows == 0 || keys <= kMostWeights / rows) return absl::OkStatus();
  return AtField("attention.dropout", InvalidSpec("there are more than 2^62 weights, ", rows, " times ", keys,
                                                  ", too many to say which are dropped"));
}

}  // namespace

absl::StatusOr<LayerOutcome> AttentionRule(const LayerRequest& whole) {
  const int attended = AttendedInputs(whole.spec.attention(), static_cast<int>(whole.input.size()));
  if (attended < 1) {
    return AtField("input", InvalidSpec("with attention.score_bias the last input is what is added to the scores, and"
                                        " the others attend; one more is missing"));
  }
  const std::vector<Layout> attending(whole.input.begin(), whole.input.begin() + attended);
  const LayerRequest request = {.spec = whole.spec,
                                .input = attending,
                                .layouts = whole.layouts,
                                .parameter_dtype = whole.parameter_dtype,
                                .training = whole.training,
                                .compute_dtype = whole.compute_dtype};
  ADJOIN_RETURN_IF_ERROR(CheckInputs(request));
  ADJOIN_ASSIGN_OR_RETURN(Layer spec, WithDefaults(request));
  const Layout& x = request.input[0];
  const Layout& memory = KeysOf(request);
  const Layout& values = request.input.back();
  const bool projects = HasProjections(spec.attention());
  const int64_t heads = spec.attention().heads();
  const int64_t batch = x.shape()[0], features = x.shape()[2];
  const std::vector<std::vector<int64_t>> shapes = {
      x.shape(),
      memory.shape(),
      values.shape(),
      {batch, heads, x.shape()[1]},
      {batch, memory.shape()[1], features},      // keys and values
      {batch, x.shape()[1], values.shape()[2]},  // the result, without projections
      {3 * features, std::max({features, memory.shape()[2], values.shape()[2]})}};
  for (const std::vector<int64_t>& shape : shapes) {
    ADJOIN_RETURN_IF_ERROR(CheckedVolume(shape).status());
  }
  ADJOIN_RETURN_IF_ERROR(CheckDroppedWeights(spec.attention(), x, memory));
  if (spec.attention().score_bias()) {
    ADJOIN_RETURN_IF_ERROR(CheckScoreBias(whole.input[attended], attended, request));
  }
  auto named = spec.w().empty() ? absl::StatusOr<Layout>(x) : request.layouts.Resolve(spec.w(), x.shape(), x.dtype());
  if (!named.ok()) return AtField("w", named.status());
  const Layout& w = *named;
  ADJOIN_ASSIGN_OR_RETURN(const HeadCut cut, HeadCutOf(w, heads));
  const int64_t value_width = projects ? cut.width : values.shape()[2] / heads;
  // The layout of all features, or, without projections, of those of this rank's heads.
  const auto read = [&](const Layout& all, int64_t width) {
    return projects ? absl::StatusOr<Layout>(all) : SideBySide(all, cut, width);
  };
  ADJOIN_ASSIGN_OR_RETURN(const Layout rows, WithoutHeads(w, cut, x.shape(), Placement::Broadcast()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout queries, read(rows, cut.width));
  ADJOIN_ASSIGN_OR_RETURN(const Layout by_head, HeadLayout(w, cut, heads));
  Layout remembered = rows;
  std::vector<InputNeed> inputs = {InputNeed{.layout = queries, .reader = by_head}};
  if (attended > 1) {
    ADJOIN_ASSIGN_OR_RETURN(remembered, MemoryLayout(w, cut, memory));
    ADJOIN_ASSIGN_OR_RETURN(const Layout keys, read(remembered, cut.width));
    inputs.push_back(InputNeed{.layout = keys, .reader = keys});
  }
  if (attended > 2) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout all, LayoutLike(remembered, values.shape(), /*even=*/{}));
    ADJOIN_ASSIGN_OR_RETURN(const Layout beside, read(all, value_width));
    inputs.push_back(InputNeed{.layout = beside, .reader = beside});
  }
  if (spec.attention().score_bias()) {
    ADJOIN_ASSIGN_OR_RETURN(Layout bias, BiasLayout(whole.input[attended], by_head));
    inputs.push_back(InputNeed{.layout = std::move(bias)});
  }
  ADJOIN_ASSIGN_OR_RETURN(const Layout travelling, Travelling(remembered, by_head, cut.width, value_width));
  std::vector<MovementNeed> movements;
  ADJOIN_RETURN_IF_ERROR(AddRing(request, travelling, movements));
  std::vector<ParameterNeed> parameters;
  if (projects) {
    ADJOIN_ASSIGN_OR_RETURN(parameters, Parameters(request, spec, cut).All());
  }
  ADJOIN_ASSIGN_OR_RETURN(Layout compute, projects ? WithoutHeads(w, cut, x.shape(), Placement::Partial())
                                                   : SideBySide(rows, cut, value_width));
  ADJOIN_ASSIGN_OR_RETURN(Layout output, OutputLayout(request, compute.shape(), projects ? x : compute));
  const double flops = Flops(request, spec.attention());
  return LayerOutcome{.spec = std::move(spec),
                      .input = std::move(inputs),
                      .parameter = std::move(parameters),
                      .compute = std::move(compute),
                      .output = std::move(output),
                      .flops = flops,
                      .movement = std::move(movements)};
}

}  // namespace adjoin
