#include "worker/session/session.h"

#include <optional>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/DeviceGuard.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/exact_arithmetic.h"
#include "primitives/libtorch_versions.h"
#include "primitives/status_exception.h"
#include "primitives/tensor_device.h"
#include "worker/session/out_of_memory.h"
#include "worker/session/session_environment.h"
#include "worker/session/session_evaluation.h"
#include "worker/session/session_output.h"
#include "worker/session/session_prediction.h"
#include "worker/session/session_progress.h"
#include "worker/session/session_training.h"
#include "worker/session/session_weights.h"

namespace adjoin {
namespace {

Communicator::Options OptionsOf(const SessionOptions& options) {
  return {.id = 0, .timeout = options.timeout, .compare_executions = options.plan.spec().compare_executions()};
}

// The parts of one session, and their order.
class Session {
 public:
  explicit Session(const SessionOptions& options)
      : communicator_(options.transport, options.memory != nullptr ? options.memory : &memory_, OptionsOf(options)),
        builtin_(BuiltinLayers()),
        environment_{.options = options,
                     .layers = options.layers != nullptr ? *options.layers : builtin_,
                     .communicator = &communicator_,
                     .activity = options.activity != nullptr ? options.activity : &own_activity_,
                     .planning = {.transport = options.transport,
                                  .memory = options.memory != nullptr ? options.memory : &memory_,
                                  .rules = options.rules != nullptr ? options.rules : &BuiltinLayerRules(),
                                  .options = OptionsOf(options)}},
        output_(environment_),
        progress_(environment_) {
    environment_.activity->Watch(&communicator_);
  }
  ~Session() {
    training_.reset();  // which may watch a communicator of its own
    environment_.activity->Watch(nullptr);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  absl::StatusOr<SessionResult> Run();

 private:
  absl::Status RunPhases();
  absl::Status Train();
  absl::Status Evaluate();
  MetricsWriter::Line Summary() const;

  HostMemory memory_;
  Communicator communicator_;
  const LayerRegistry builtin_;
  SessionActivity own_activity_;
  const SessionEnvironment environment_;
  SessionOutput output_;
  SessionProgress progress_;
  std::optional<Parameters> parameters_;
  std::optional<SessionTraining> training_;  // kept to the end: its last checkpoint may still be in flight
  Trainer::MeanTimes times_;
  SessionResult result_;
};

absl::Status Session::RunPhases() {
  const JobSpec& spec = environment_.spec();
  ADJOIN_ASSIGN_OR_RETURN(parameters_, Parameters::Create(environment_.plan(), communicator_.rank(),
                                                          TensorDeviceOf(communicator_.memory())));
  parameters_->Initialise(spec.seed());
  if (spec.kind() == TRAIN) {
    ADJOIN_RETURN_IF_ERROR(Train());
    if (result_.drained_step.has_value()) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(WriteModel(environment_, *parameters_, &output_, &progress_));
  } else {
    ADJOIN_RETURN_IF_ERROR(LoadWeights(environment_, &*parameters_));
  }
  if (spec.kind() == PREDICT) {
    ADJOIN_ASSIGN_OR_RETURN(result_.drained_step, RunPrediction(environment_, &*parameters_, &output_, &progress_));
    return absl::OkStatus();
  }
  return spec.has_evaluate() ? Evaluate() : absl::OkStatus();
}

absl::Status Session::Train() {
  training_.emplace(environment_, &*parameters_, &output_, &progress_);
  ADJOIN_ASSIGN_OR_RETURN(SessionTraining::Result trained, training_->Run());
  times_ = trained.times;
  result_.drained_step = trained.drained_step;
  result_.resumed_step = trained.resumed_step;
  result_.peak_elements = std::move(trained.peak_elements);
  result_.steps = std::move(trained.steps);
  result_.bytes_sent = std::move(trained.bytes_sent);
  return absl::OkStatus();
}

absl::Status Session::Evaluate() {
  const int64_t trained_steps = progress_.trained().step();
  ADJOIN_ASSIGN_OR_RETURN(result_.drained_step, RunEvaluation(environment_, &*parameters_, &output_, &progress_));
  if (result_.drained_step.has_value() && environment_.spec().kind() == TRAIN) result_.drained_step = trained_steps;
  return absl::OkStatus();
}

MetricsWriter::Line Session::Summary() const {
  return {{"type", "summary"},
          {"ranks", int64_t{communicator_.size()}},
          {"seconds", progress_.session_seconds()},
          {"t_comp", times_.compute_seconds},
          {"t_sync", times_.sync_seconds},
          {"bytes_sent", communicator_.BytesSent()}};
}

absl::StatusOr<SessionResult> Session::Run() {
  ADJOIN_RETURN_IF_ERROR(output_.Open());
  ADJOIN_RETURN_IF_ERROR(RunPhases());
  if (result_.drained_step.has_value()) {
    environment_.Log(absl::StrCat("asked to stop: all ranks did after step ", *result_.drained_step));
  } else {
    ADJOIN_RETURN_IF_ERROR(output_.Publish(Summary()));
    if (environment_.spec().kind() == TRAIN) progress_.ShowTraining();
    result_.artifacts = output_.artifacts();
  }
  result_.final = progress_.shown();
  return std::move(result_);
}

// OpenBLAS takes a buffer with its first product, and waits for it without end where no memory is left. So it gets the
// buffer before the session has any tensor; it is kept for all later products.
void ReserveBlasBuffer() {
  const at::Tensor number = at::ones({2, 2});
  at::mm(number, number);
}

absl::StatusOr<SessionResult> RunCaught(const SessionOptions& options) {
  try {
    at::set_num_threads(options.threads);
    RunBackwardInThisThread();
    UseExactArithmetic();
    ReserveBlasBuffer();
    // What names no device, as a library's own memory, is on this rank's.
    c10::OptionalDeviceGuard current;
    if (options.memory != nullptr && !TensorDeviceOf(*options.memory).is_cpu()) {
      current.reset_device(TensorDeviceOf(*options.memory));
    }
    return Session(options).Run();
  } catch (...) {
    return StatusFromCurrentException();
  }
}

}  // namespace

absl::StatusOr<SessionResult> RunSession(const SessionOptions& options) {
  if (options.transport == nullptr) return absl::InvalidArgumentError("a session needs a transport");
  absl::StatusOr<SessionResult> result = RunCaught(options);
  if (!IsOutOfMemory(result.status())) return result;
  // The session is gone, and with it what it held: there is memory for the message.
  return ExplainOutOfMemory(result.status(), options.plan, options.transport->rank(), MemoryLimitsNow());
}

}  // namespace adjoin
