#include "verify/one_rank_layer.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/zeros.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "planner/plan/planner.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/status_exception.h"
#include "primitives/transport/in_memory_transport.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

constexpr char kOther[] = "verify.other";  // a layer and field that make the layer's job a whole one
constexpr char kLabel[] = "verify.label";
constexpr char kTrainProgram[] = "train";

std::string FieldName(size_t input) { return absl::StrCat("verify.input.", input); }

Field* AddField(const std::string& name, at::IntArrayRef shape, bool whole_numbers, Dataset& dataset) {
  Field* field = dataset.add_field();
  field->set_name(name);
  field->mutable_idx()->add_path(name);
  for (size_t dim = 1; dim < shape.size(); ++dim) field->add_shape(shape[dim]);
  if (whole_numbers) field->set_dtype("int64");
  return field;
}

// The layer as a job on one rank. Beside it stands a linear layer with a loss, which a job needs; it is not used.
JobSpec JobOf(const SerialCall& call) {
  JobSpec job;
  job.set_kind(TRAIN);
  job.set_ranks(1);
  job.mutable_precision()->set_compute("float64");
  Dataset* dataset = job.add_dataset();
  dataset->set_name("verify.data");
  Layer* layer = job.add_layer();
  *layer = call.spec();
  layer->clear_input();
  layer->clear_x();
  layer->clear_w();
  layer->clear_y();
  layer->clear_home();
  layer->clear_owner();
  for (size_t i = 0; i < call.inputs().size(); ++i) {
    layer->add_input(FieldName(i));
    AddField(FieldName(i), call.inputs()[i].sizes(), !call.inputs()[i].is_floating_point(), *dataset);
  }
  AddField(kOther, {1, 1}, false, *dataset);
  AddField(kLabel, {1}, true, *dataset);
  Layer* other = job.add_layer();
  other->set_name(kOther + std::string(".layer"));
  other->add_input(kOther);
  other->mutable_linear()->set_out_features(2);
  Loss* loss = job.add_loss();
  loss->set_kind("cross_entropy");
  loss->set_input(other->name());
  loss->set_target(kLabel);
  Train* train = job.mutable_train();
  train->set_dataset(dataset->name());
  train->set_batch(static_cast<uint32_t>(call.input().size(0)));
  train->set_steps(1);
  train->mutable_optimizer()->mutable_sgd()->set_lr(1);
  return job;
}

// Gradients shall reach the fields, which stand for other layers' outputs.
void MakeFieldsDifferentiable(Plan& plan) {
  for (ProgramPlan& program : *plan.mutable_program()) {
    for (ValuePlan& value : *program.mutable_value()) {
      if (value.layout().dtype() != "int64") value.set_needs_grad(true);
    }
    for (int i = 0; i < program.op_size(); ++i) {
      if (i != static_cast<int>(program.report_op())) program.mutable_op(i)->set_differentiable(true);
    }
  }
}

class OneRank {
 public:
  static absl::StatusOr<std::shared_ptr<OneRank>> Create(SerialCall& call, const LayerRules& rules,
                                                         const LayerRegistry& layers) {
    auto made = std::make_shared<OneRank>();
    ADJOIN_ASSIGN_OR_RETURN(made->plan_, Planner::Build(JobOf(call), {}, rules));
    MakeFieldsDifferentiable(made->plan_);
    ADJOIN_ASSIGN_OR_RETURN(auto fabric, InMemoryFabric::Create(1, {}));
    ADJOIN_ASSIGN_OR_RETURN(made->transport_, fabric->CreateTransport(0));
    made->communicator_ =
        std::make_unique<Communicator>(made->transport_.get(), &made->memory_, Communicator::Options{});
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(made->plan_, 0));
    made->parameters_ = std::make_unique<Parameters>(std::move(parameters));
    ADJOIN_RETURN_IF_ERROR(made->Share(call));
    ADJOIN_ASSIGN_OR_RETURN(made->network_, Network::Create(made->plan_, kTrainProgram, made->communicator_.get(),
                                                            made->parameters_.get(), layers));
    return made;
  }

  absl::StatusOr<at::Tensor> Run(SerialCall& call) {
    NamedFields fields;
    for (size_t i = 0; i < call.inputs().size(); ++i) fields[FieldName(i)] = call.inputs()[i];
    fields[kOther] = at::zeros({call.input().size(0), 1}, at::kDouble);
    fields[kLabel] = at::zeros({call.input().size(0)}, at::kLong);
    ADJOIN_ASSIGN_OR_RETURN(Network::Result result, network_->Forward(fields, call.tape(), /*keep_values=*/true));
    return result.values.at(call.spec().name());
  }

 private:
  using NamedFields = std::map<std::string, at::Tensor>;

  // The layer's parameters become the serial model's.
  absl::Status Share(SerialCall& call) {
    for (int i = 0; i < plan_.parameter_size(); ++i) {
      const ParameterPlan& parameter = plan_.parameter(i);
      if (parameter.name().rfind(kOther, 0) == 0) continue;
      const std::vector<int64_t> shape(parameter.home().shape().begin(), parameter.home().shape().end());
      const double spread = parameter.fan_in() > 0 ? 1 / std::sqrt(static_cast<double>(parameter.fan_in())) : 0.5;
      const double centre = parameter.has_init() ? parameter.init().value() : 0;
      ADJOIN_RETURN_IF_ERROR(parameters_->SetFromGlobal(i, call.parameters().Draw(shape, centre, spread)));
      call.parameters().Add(parameter.name(), parameters_->tensor(i), !parameter.frozen());
    }
    return absl::OkStatus();
  }

  Plan plan_;
  HostMemory memory_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Network> network_;
};

}  // namespace

SerialFunction OneRankLayer(const LayerRules& rules, const LayerRegistry& layers) {
  // A function is copied; the layer is not.
  auto layer = std::make_shared<std::shared_ptr<OneRank>>();
  return [layer, &rules, &layers](SerialCall& call) {
    if (*layer == nullptr) {
      auto made = OneRank::Create(call, rules, layers);
      if (!made.ok()) throw StatusException(made.status());
      *layer = *std::move(made);
    }
    auto output = (*layer)->Run(call);
    if (!output.ok()) throw StatusException(output.status());
    // The layer may return its input as it is.
    return output->view_as(*output);
  };
}

}  // namespace adjoin
