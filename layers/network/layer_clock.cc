#include "layers/network/layer_clock.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include "layers/recompute.h"
#include "primitives/device/device.h"

namespace adjoin {
namespace {

LayerClock*& OfThisThread() {
  static thread_local LayerClock* clock = nullptr;
  return clock;
}

std::unique_ptr<at::ObserverContext> OnNode(const at::RecordFunction& node) {
  if (LayerClock* clock = OfThisThread(); clock != nullptr) clock->AtNode(node.seqNr());
  return nullptr;
}

}  // namespace

LayerClock::LayerClock(const Communicator* communicator, int layers)
    : communicator_(communicator), recorder_(communicator->recorder()), seconds_(static_cast<size_t>(layers)) {
  callback_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(OnNode).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  OfThisThread() = this;
  since_ = std::chrono::steady_clock::now();
  moving_ = communicator_->time_moving();
  waiting_ = communicator_->time_waiting();
}

LayerClock::~LayerClock() { Finish(); }

std::vector<LayerSeconds> LayerClock::Finish() {
  if (finished_) return seconds_;
  finished_ = true;
  Switch({kNone, false});
  OfThisThread() = nullptr;
  at::removeCallback(callback_);
  return seconds_;
}

void LayerClock::EndBackward() {
  if (LayerClock* clock = OfThisThread(); clock != nullptr) clock->Switch({kNone, false});
}

LayerClock::Place LayerClock::Switch(const Place& to) {
  if (to == now_) return now_;
  if (const std::shared_ptr<DeviceStream> stream = communicator_->memory().stream(); stream != nullptr) {
    stream->Synchronize().IgnoreError();  // the next movement or read tells of it
  }
  const auto now = std::chrono::steady_clock::now();
  const absl::Duration moving = communicator_->time_moving(), waiting = communicator_->time_waiting();
  if (now_.first != kNone) {
    LayerSeconds& of = seconds_[static_cast<size_t>(now_.first)];
    const double moved = absl::ToDoubleSeconds(moving - moving_);
    const double waited = std::min(moved, absl::ToDoubleSeconds(waiting - waiting_));
    const double taken = std::chrono::duration<double>(now - since_).count();
    (now_.second ? of.backward : of.forward) += std::max(0.0, taken - moved);
    of.movement += moved - waited;
    of.wait += waited;
  }
  if (recorder_ != nullptr) {
    recorder_->End(std::exchange(span_, {}));
    if (to.first != kNone) {
      span_ = recorder_->Begin({.kind = to.second ? SpanKind::kBackward : SpanKind::kForward, .index = to.first});
    }
  }
  since_ = now;
  moving_ = moving;
  waiting_ = waiting;
  return std::exchange(now_, to);
}

// LibTorch runs the newest of the nodes that have yet to run: layer after layer, the last one first.
void LayerClock::AtNode(int64_t number) {
  if (number < 0) return;  // adds to a parameter's gradient, as soon as that is there
  const auto next = nodes_.upper_bound(static_cast<uint64_t>(number));
  if (next == nodes_.begin() || static_cast<uint64_t>(number) >= std::prev(next)->second.first) {
    Switch({kNone, true});
  } else {
    Switch({std::prev(next)->second.second, true});
  }
}

LayerClock::Pass::Pass(int layer) : clock_(OfThisThread()), layer_(layer) {
  if (clock_ == nullptr || layer_ >= static_cast<int>(clock_->seconds_.size())) return;
  before_ = clock_->Switch({layer_, IsRecomputing()});
  first_node_ = at::sequence_number::peek();
}

LayerClock::Pass::~Pass() {
  if (clock_ == nullptr || layer_ >= static_cast<int>(clock_->seconds_.size())) return;
  const uint64_t end = at::sequence_number::peek();
  if (end > first_node_) clock_->nodes_[first_node_] = {end, layer_};
  clock_->Switch(before_);
}

}  // namespace adjoin
