#include "worker/training/extent_networks.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/plan/extent_plan.h"
#include "primitives/geometry/shape_text.h"
#include "primitives/transport/reserved_ids.h"

namespace adjoin {
namespace {

// Operators of different programs may have the same id, and other peers for it, so each group has a communicator of its
// own. Ids are used again after all others of the session were: by then no rank has a message of the first one to come,
// but for the last credits of senders, which have no payload and at most let one more execution be in flight.
int CommunicatorOf(int begun, int main) {
  const int id = begun % static_cast<int>(kTransportCommunicator - 1);
  return id < main ? id : id + 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExtentNetworks>> ExtentNetworks::Create(
    const Plan& plan, const std::string& program, const ExtentPlanning& planning, Communicator* communicator,
    Parameters* parameters, const LayerRegistry& registry, ShardReader* data, SessionActivity* activity) {
  if (planning.transport == nullptr || planning.memory == nullptr || planning.rules == nullptr) {
    return absl::InvalidArgumentError(
        "volumes of different extents need a transport, its memory and the layers' rules");
  }
  // Without its programs: of a large job they are most of it.
  Plan needed;
  *needed.mutable_spec() = plan.spec();
  *needed.mutable_parameter() = plan.parameter();
  std::unique_ptr<ExtentNetworks> networks(
      new ExtentNetworks(std::move(needed), program, planning, communicator, parameters, registry, data, activity));
  networks->Order();
  return networks;
}

void ExtentNetworks::Order() {
  std::map<std::vector<int64_t>, size_t> known;
  for (int64_t sample = 0; sample < data_->samples(); ++sample) {
    const auto [group, fresh] = known.emplace(data_->extents()[sample], groups_.size());
    if (fresh) groups_.emplace_back();
    groups_[group->second].push_back(sample);
  }
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (int64_t sample : groups_[group]) at_.emplace_back(group, sample);
  }
}

void ExtentNetworks::End() {
  if (activity_ != nullptr && communicator_ != nullptr) activity_->Watch(main_);
  network_.reset();
  communicator_.reset();
}

ExtentNetworks::~ExtentNetworks() { End(); }

absl::Status ExtentNetworks::Begin(size_t group) {
  End();
  const int64_t first = groups_[group].front();
  const std::vector<int64_t>& extents = data_->extents()[first];
  const absl::StatusOr<Plan> plan = PlanForExtents(plan_, program_, extents, *planning_.rules);
  if (!plan.ok()) {
    return absl::Status(plan.status().code(),
                        absl::StrCat(data_->extents().FileOf(first), " has the extents ", ShapeText(extents),
                                     ", which the network does not take: ", plan.status().message()));
  }
  Communicator::Options options = planning_.options;
  options.id = CommunicatorOf((*planning_.begun)++, options.id);
  communicator_ = std::make_unique<Communicator>(planning_.transport, planning_.memory, options);
  ADJOIN_ASSIGN_OR_RETURN(network_, Network::Create(*plan, program_, communicator_.get(), parameters_, registry_));
  group_ = group;
  if (activity_ != nullptr) activity_->Watch(communicator_.get());
  const SessionActivity::Files files(activity_);
  return data_->UseFor(network_->program(), extents, groups_[group]);
}

absl::StatusOr<ExtentNetworks::Step> ExtentNetworks::At(int64_t step) {
  const auto [group, sample] = at_.at(step);
  if (network_ == nullptr || group != group_) {
    const absl::Status begun = Begin(group);
    if (!begun.ok()) {
      End();
      return begun;
    }
  }
  return Step{sample, network_.get()};
}

}  // namespace adjoin
