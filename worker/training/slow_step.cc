#include "worker/training/slow_step.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "layers/rules/find_program.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "worker/trace/step_ops.h"
#include "worker/trace/step_trace.h"

namespace adjoin {
namespace {

// A rank may read slow files for long. A failure of another one ends the wait.
constexpr absl::Duration kTimeout = absl::Hours(6);

// Before a rank's ops.
struct Head {
  int64_t begin = 0, end = 0;
  uint64_t ops = 0;
  uint64_t dropped = 0;
};

// The cells of what a layer computes on each rank; none where the plan does not tell.
absl::StatusOr<std::vector<double>> CellsOf(const LayerPlan& layer, int ranks) {
  std::vector<double> cells(static_cast<std::size_t>(ranks), 1);
  if (!layer.has_compute()) return cells;
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(layer.compute()));
  for (int rank = 0; rank < ranks; ++rank) {
    cells[static_cast<std::size_t>(rank)] = static_cast<double>(VolumeOf(layout.LocalShape(rank)));
  }
  return cells;
}

}  // namespace

SlowStep::SlowStep(Communicator* communicator, SpanRecorder* recorder)
    : communicator_(communicator), recorder_(recorder), messages_(communicator->transport(), kTimeout) {}

absl::StatusOr<std::unique_ptr<SlowStep>> SlowStep::Create(const Plan& plan, Communicator* communicator,
                                                           SpanRecorder* recorder) {
  const ProgramPlan* program = FindProgram(plan, "train");
  if (program == nullptr) program = FindProgram(plan, "train_tail");
  const int ranks = communicator->size();
  if (plan.spec().train().measure_layers_every() == 0 || program == nullptr || ranks < 2 || ranks > kMostRanks) {
    return nullptr;
  }
  std::unique_ptr<SlowStep> slow(new SlowStep(communicator, recorder));
  if (communicator->rank() != 0) return slow;
  for (const LayerPlan& layer : program->layer()) {
    ADJOIN_ASSIGN_OR_RETURN(std::vector<double> cells, CellsOf(layer, ranks));
    slow->cells_.push_back(std::move(cells));
  }
  return slow;
}

void SlowStep::BeforeStep() {
  own_ = !recorder_->recording();
  if (own_) {
    recorder_->Start(StepTrace::SpansOf(messages_.size()));
    communicator_->set_recorder(recorder_);
  }
  first_ = recorder_->recorded().spans.size();
}

absl::StatusOr<std::optional<SlowParts>> SlowStep::AfterStep() {
  SpanRecorder::Recorded recorded;
  if (own_) {
    communicator_->set_recorder(nullptr);
    recorded = recorder_->Stop();
  } else {
    const std::vector<Span>& spans = recorder_->recorded().spans;
    recorded.spans.assign(spans.begin() + static_cast<std::ptrdiff_t>(first_), spans.end());
    recorded.dropped = recorder_->recorded().dropped;
  }
  ADJOIN_ASSIGN_OR_RETURN(const ClockReading reading, ReadClocks(messages_, clock_));
  RecordedStep mine = StepOf(recorded.spans, messages_.rank(), ClockAlignment(reading, reading));
  if (messages_.rank() != 0) {
    const Head head = {mine.begin, mine.end, mine.ops.size(), recorded.dropped};
    ADJOIN_RETURN_IF_ERROR(messages_.Send(0, &head, sizeof(head)));
    static_assert(std::has_unique_object_representations_v<StepOp>, "it is sent as it lies in memory, without gaps");
    ADJOIN_RETURN_IF_ERROR(messages_.Send(0, mine.ops.data(), mine.ops.size() * sizeof(StepOp)));
    return std::nullopt;
  }
  std::vector<RecordedStep> steps;
  steps.push_back(std::move(mine));
  uint64_t dropped = recorded.dropped;
  for (int rank = 1; rank < messages_.size(); ++rank) {
    Head head;
    ADJOIN_RETURN_IF_ERROR(messages_.Recv(rank, &head, sizeof(head)));
    // Each span makes at most a few ops.
    if (head.ops > 4 * StepTrace::kMostSpans) return absl::InternalError("a rank's step has too many parts");
    RecordedStep step;
    step.begin = head.begin;
    step.end = head.end;
    step.ops.resize(head.ops);
    ADJOIN_RETURN_IF_ERROR(messages_.Recv(rank, step.ops.data(), step.ops.size() * sizeof(StepOp)));
    dropped += head.dropped;
    steps.push_back(std::move(step));
  }
  if (dropped > 0) return std::nullopt;
  return FindSlowParts(steps, [this](int rank, int layer) {
    return static_cast<std::size_t>(layer) < cells_.size()
               ? cells_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(rank)]
               : 0.0;
  });
}

}  // namespace adjoin
