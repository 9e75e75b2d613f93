#include "coordinator/planning/plan_answer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/amount_text.h"
#include "base/caught.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "coordinator/decisions/data_checks.h"
#include "coordinator/decisions/submissions.h"
#include "planner/checks/spec_check.h"
#include "planner/picture/plan_picture.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/plan_report.h"
#include "planner/plan/planner.h"
#include "planner/plan/program_requests.h"
#include "planner/spec/spec_parser.h"
#include "planner/time/cost_model.h"
#include "planner/time/step_time.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kMaxPlaces = 4096;
constexpr uint32_t kMostTimed = 4096;  // ranks: the traffic of more would be counted for as long as their plan takes

absl::StatusOr<ParsedSpec> Parse(const PlanQuestion& question) {
  if (!question.source().empty()) {
    return ParseSpec(question.source(), question.file().empty() ? "spec" : question.file());
  }
  const size_t bytes = question.spec().ByteSizeLong();
  if (bytes > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the spec has ", bytes, " bytes; at most ", kMaxSpecBytes, " are allowed"));
  }
  return ParsedSpec{question.spec(), SpecLocations()};
}

void AddPlace(const ParsedSpec& parsed, const std::string& path, PlanAnswer& answer) {
  if (answer.place_size() >= kMaxPlaces) return;
  SpecPlace& place = *answer.add_place();
  place.set_field(path);
  place.set_place(parsed.locations.At(path));
}

// Adds the places of all fields that are set in `message`, which is at `path`.
void AddPlacesWithin(const ParsedSpec& parsed, const Message& message, const std::string& path, PlanAnswer& answer) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string at = absl::StrCat(path, ".", field->name());
    const bool has_parts = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated()) {
      AddPlace(parsed, at, answer);
      if (has_parts) AddPlacesWithin(parsed, message.GetReflection()->GetMessage(message, field), at, answer);
      continue;
    }
    const int count = message.GetReflection()->FieldSize(message, field);
    for (int i = 0; i < count && answer.place_size() < kMaxPlaces; ++i) {
      const std::string element = absl::StrCat(at, "[", i, "]");
      AddPlace(parsed, element, answer);
      if (!has_parts) continue;
      AddPlacesWithin(parsed, message.GetReflection()->GetRepeatedMessage(message, field, i), element, answer);
    }
  }
}

void AddPlaces(const ParsedSpec& parsed, PlanAnswer& answer) {
  AddPlace(parsed, "", answer);
  AddPlace(parsed, "name", answer);
  AddPlace(parsed, "output_dir", answer);
  if (parsed.spec.has_weights()) {
    AddPlace(parsed, "weights", answer);
    AddPlacesWithin(parsed, parsed.spec.weights(), "weights", answer);
  }
  for (int i = 0; i < parsed.spec.dataset_size(); ++i) {
    const std::string at = absl::StrCat("dataset[", i, "]");
    AddPlace(parsed, at, answer);
    AddPlacesWithin(parsed, parsed.spec.dataset(i), at, answer);
  }
}

// ", in the backward pass of "conv1"": when the memory is at its most.
std::string During(const MemoryReport& memory) {
  return memory.during().empty() ? "" : absl::StrCat(", in the ", memory.during());
}

// What a file of weights has to hold.
void AddModel(const Plan& plan, PlanAnswer& answer) {
  for (const ParameterPlan& parameter : plan.parameter()) {
    ModelTensor& tensor = *answer.add_model();
    tensor.set_name(parameter.name());
    *tensor.mutable_shape() = parameter.stored_shape().empty() ? parameter.home().shape() : parameter.stored_shape();
    if (!parameter.stored_shape().empty()) *tensor.mutable_home_shape() = parameter.home().shape();
  }
}

// The plan tells the ranks a place, which is the same in all attempts, and not a job.
void PlaceWeights(const std::string& place, JobSpec& spec) {
  if (place.empty()) return;
  Weights& weights = *spec.mutable_weights();
  weights.clear_from_job();
  weights.clear_best();
  weights.clear_step();
  weights.set_from_output(place);
}

// What a job may lack of what it is predicted to take, since the prediction may be too high.
constexpr double kLeastShare = 0.9;

// A job that limits itself to clearly less than it takes would only fail later, on all its ranks.
absl::Status CheckLimit(const JobSpec& spec, const MemoryReport& memory, const SpecLocations& locations) {
  const uint64_t limit = spec.resources().memory_bytes();
  if (limit == 0 || spec.resources().gpus() > 0) return absl::OkStatus();  // with a GPU: of the host's memory only
  if (static_cast<double>(limit) >= kLeastShare * static_cast<double>(memory.bytes())) return absl::OkStatus();
  MemoryReport tensors = memory;
  tensors.clear_process();
  return absl::InvalidArgumentError(
      absl::StrCat(locations.At("resources.memory_bytes"), ": resources.memory_bytes allows ",
                   BytesText(static_cast<int64_t>(std::min<uint64_t>(limit, std::numeric_limits<int64_t>::max()))),
                   " for tensors, and rank ", memory.rank(), " needs about ", BytesText(memory.bytes()), " (",
                   MemoryPartsText(tensors), ")", During(memory),
                   "; raise the limit to that, or use more ranks, micro-batches or recompute"));
}

// The job runs without a prediction as well. `rates`: measured on nodes, or empty.
void AddTime(const Plan& plan, const RateTable& rates, PlanAnswer& answer) {
  if (plan.spec().ranks() > kMostTimed || plan.spec().resources().gpus() > 0) return;  // the tables are of CPUs
  const absl::StatusOr<CostModel> measured = CostModel::Create(rates);
  const CostModel& model = measured.ok() ? *measured : CostModel::Default();
  const absl::StatusOr<StepTime> time = PredictStepTime(plan, model);
  if (!time.ok()) return;
  StepPrediction& predicted = *answer.mutable_predicted();
  predicted.set_step_seconds(time->step());
  predicted.set_compute_seconds(time->compute);
  predicted.set_movement_seconds(time->movement);
  predicted.set_wait_seconds(time->wait);
  predicted.set_rates(PrintableText(model.machine(), kMaxNameBytes));
}

// What a rank takes, where the plan tells.
absl::Status AddPrediction(const Plan& plan, const RateTable& rates, const SpecLocations& locations,
                           PlanAnswer& answer) {
  AddTime(plan, rates, answer);
  if (!KnowsMemory(plan)) return absl::OkStatus();
  const absl::StatusOr<MemoryReport> memory = MakeMemoryReport(plan);
  if (!memory.ok()) return absl::OkStatus();  // the job runs without a prediction as well
  ADJOIN_RETURN_IF_ERROR(CheckLimit(plan.spec(), *memory, locations));
  StepPrediction& predicted = *answer.mutable_predicted();
  predicted.set_rank(memory->rank());
  predicted.set_tensor_bytes(memory->bytes());
  predicted.set_resident_bytes(memory->resident());
  answer.set_memory(absl::StrCat("(", MemoryPartsText(*memory), ")", During(*memory)));
  return absl::OkStatus();
}

// What a plan costs is predicted as `adjoin plan` does.
absl::Status Draw(const PlanQuestion& question, PlanAnswer& answer) {
  Plan plan;
  if (!plan.ParseFromString(question.picture_of())) return absl::InternalError("the stored plan cannot be read");
  const absl::StatusOr<CostModel> own = CostModel::Create(question.rates());
  const PlanReport report = MakePlanReport(plan, own.ok() ? *own : CostModel::Default());
  ADJOIN_ASSIGN_OR_RETURN(const std::string picture, PlanHtml(plan, report));
  if (picture.size() > kMaxMessageBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the picture of this plan has ", picture.size(),
                                                     " bytes, of which a page shows ", kMaxMessageBytes,
                                                     " at most: `adjoin plan --html FILE` writes it"));
  }
  answer.set_picture(picture);
  return absl::OkStatus();
}

DatasetSizes ByName(const std::vector<DatasetSize>& sizes) {
  DatasetSizes by_name;
  for (const DatasetSize& size : sizes) by_name[size.name()] = {size.samples(), size.extents()};
  return by_name;
}

// Makes the plan. With `sizes` it is put into the answer; without, that is the check of the spec.
absl::Status MakePlan(const PlanQuestion& question, const ParsedSpec& parsed, const LayerRules& rules,
                      const std::optional<std::vector<DatasetSize>>& sizes, PlanAnswer& answer) {
  const DatasetSizes known = ByName(sizes.value_or(std::vector<DatasetSize>()));
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, known, rules, &parsed.locations));
  // It is only handed on: errors tell of the spec as it was written.
  if (plan.spec().output_dir().empty()) plan.mutable_spec()->set_output_dir(question.output_dir());
  ReadHalosFromFiles(&plan);
  if (question.has_weights_file()) *plan.mutable_weights_file() = question.weights_file();
  ADJOIN_RETURN_IF_ERROR(CheckPlanSize(plan.ByteSizeLong(), parsed.spec));
  if (sizes.has_value()) {
    ADJOIN_RETURN_IF_ERROR(AddPrediction(plan, question.rates(), parsed.locations, answer));
    answer.set_hash(Planner::Hash(plan));
    plan.SerializeToString(answer.mutable_plan());
  }
  if (!question.sized() && parsed.spec.has_weights()) AddModel(plan, answer);
  return absl::OkStatus();
}

// Above this work, bytes of the spec once for each rank, a job whose files are not looked at yet is only checked: a
// wrong guess, and a refusal, would take twice the time.
constexpr double kMostExpectedWork = 1 << 20;

// The sizes that the job's files are expected to have, where its plan can be made with them.
std::optional<std::vector<DatasetSize>> ExpectedSizes(const JobSpec& spec, const SeenSizes* seen) {
  const double work = static_cast<double>(spec.ByteSizeLong()) * spec.ranks();
  if (seen == nullptr || spec.has_weights() || work > kMostExpectedWork) return std::nullopt;
  return seen->Of(spec.dataset());
}

// True where the plan with sizes has every program of the plan without; then a spec that passes with sizes also passes
// without. The spec has passed CheckSpec.
bool HasAllPrograms(const JobSpec& spec, const std::vector<DatasetSize>& sizes) {
  const auto without = ProgramRequests(spec, {}), with = ProgramRequests(spec, ByName(sizes));
  if (!without.ok() || !with.ok()) return false;
  return std::all_of(without->begin(), without->end(), [&](const ProgramRequest& program) {
    return std::any_of(with->begin(), with->end(), [&](const ProgramRequest& other) {
      return other.name == program.name && other.batch == program.batch;
    });
  });
}

// Plans the job as if its files had these sizes, and checks it by that. Returns false where that shows nothing: then
// the spec is to be checked as it is, so that it is accepted or refused, and with the same words, whatever was seen.
bool PlanAhead(const PlanQuestion& question, const ParsedSpec& parsed, const LayerRules& rules,
               const std::vector<DatasetSize>& sizes, PlanAnswer& answer) {
  PlanAnswer ahead;
  const absl::Status made = Caught("the planner", [&]() -> absl::Status {
    ADJOIN_RETURN_IF_ERROR(CheckSpec(parsed.spec, rules, Planner::kMaxRanks));
    // A plan is much more work than its list of programs.
    if (!HasAllPrograms(parsed.spec, sizes)) return absl::FailedPreconditionError("the plan would lack a program");
    return MakePlan(question, parsed, rules, sizes, ahead);
  });
  if (!made.ok()) return false;
  if (ahead.plan().size() > kMaxExpectedPlanBytes) return true;
  answer = std::move(ahead);
  *answer.mutable_expected_size() = {sizes.begin(), sizes.end()};
  return true;
}

absl::Status AnswerSized(const PlanQuestion& question, const ParsedSpec& parsed, const LayerRules& rules,
                         SeenSizes* seen, PlanAnswer& answer) {
  if (seen != nullptr) seen->Add(parsed.spec.dataset(), question.size());
  return MakePlan(question, parsed, rules, std::vector<DatasetSize>(question.size().begin(), question.size().end()),
                  answer);
}

absl::Status AnswerFirst(const PlanQuestion& question, const ParsedSpec& parsed, const LayerRules& rules,
                         const SeenSizes* seen, const std::function<void()>& on_guess, PlanAnswer& answer) {
  // A plan names the folder.
  const bool has_folder = !parsed.spec.output_dir().empty() || !question.output_dir().empty();
  if (const auto sizes = SizesWithoutFiles(parsed.spec); sizes.has_value()) {
    PlanAnswer without_folder;  // only checks that a plan can be made
    return MakePlan(question, parsed, rules, sizes, has_folder ? answer : without_folder);
  }
  const bool may_guess = has_folder && !question.as_if_unseen();
  if (const auto expected = may_guess ? ExpectedSizes(parsed.spec, seen) : std::nullopt; expected.has_value()) {
    if (on_guess) on_guess();
    if (PlanAhead(question, parsed, rules, *expected, answer)) return absl::OkStatus();
  }
  return MakePlan(question, parsed, rules, std::nullopt, answer);
}

absl::Status Answer(const PlanQuestion& question, const LayerRules& rules, SeenSizes* seen,
                    const std::function<void()>& on_guess, PlanAnswer& answer) {
  if (!question.picture_of().empty()) return Draw(question, answer);
  ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, Parse(question));
  PlaceWeights(question.weights(), parsed.spec);
  if (question.sized()) return AnswerSized(question, parsed, rules, seen, answer);
  ADJOIN_RETURN_IF_ERROR(AnswerFirst(question, parsed, rules, seen, on_guess, answer));
  if (!question.source().empty()) {
    AddPlaces(parsed, answer);
    *answer.mutable_spec() = std::move(parsed.spec);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlanSize(size_t bytes, const JobSpec& spec) {
  if (bytes <= kMaxPlanBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the job's plan has ", bytes, " bytes, for ", spec.layer_size(),
                                                 " layers on ", spec.ranks(), " ranks; at most ", kMaxPlanBytes,
                                                 " are possible: take fewer ranks, or fewer layers"));
}

PlanAnswer AnswerPlanQuestion(const PlanQuestion& question, const LayerRules& rules, SeenSizes* seen,
                              const std::function<void()>& on_guess) {
  PlanAnswer answer;
  const absl::Status status = Caught("the planner", [&] { return Answer(question, rules, seen, on_guess, answer); });
  if (!status.ok()) {
    answer.Clear();
    answer.set_error(static_cast<int>(status.code()));
    answer.set_message(std::string(status.message()));
  }
  return answer;
}

PlannedJob PlannedJobOf(PlanAnswer& answer) {
  PlannedJob job;
  job.plan = std::move(*answer.mutable_plan());
  job.hash = std::move(*answer.mutable_hash());
  job.predicted = std::move(*answer.mutable_predicted());
  job.memory = std::move(*answer.mutable_memory());
  answer.clear_plan();
  return job;
}

std::string PlaceOf(const PlanAnswer& answer, const std::string& field) {
  std::map<std::string, std::string> places;
  for (const SpecPlace& place : answer.place()) places[place.field()] = place.place();
  std::string path = field;
  while (true) {
    if (auto it = places.find(path); it != places.end()) return it->second;
    if (path.empty()) return "";
    const size_t step = path.find_last_of(".[");
    path.resize(step == std::string::npos ? 0 : step);
  }
}

}  // namespace adjoin
