#include "primitives/comm/shared_links.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "primitives/transport/transport.h"

namespace adjoin {
namespace {

constexpr int64_t kNoMemory = -1;  // an offer of none
// A rank that always finds its messages there still looks so often whether the job goes on.
constexpr int64_t kExecutionsPerCheck = 16;

Buffer BufferOf(const std::shared_ptr<int64_t>& number) {
  Buffer buffer;
  buffer.data = number.get();
  buffer.bytes = sizeof(*number);
  buffer.keepalive = number;
  return buffer;
}

// A message of the movement and where its route is written to.
struct Found {
  int slot = 0;
  int64_t bytes = 0;
  SharedRoute* route = nullptr;
};

// Gives routes to the messages of each peer, all of them or none.
void Assign(std::map<int, std::vector<Found>> found, const SharedPeers& shared, SharedRoutes::Way& way) {
  for (auto& [peer, messages] : found) {
    const int64_t bytes = std::accumulate(messages.begin(), messages.end(), int64_t{0},
                                          [](int64_t sum, const Found& message) { return sum + message.bytes; });
    if (!shared.With(peer) || bytes > SharedRoutes::kMostBytes || messages.size() > SharedRoutes::kMostMessages) {
      continue;
    }
    // A slot is used once by two ranks, but for that of listed messages, which match in their order.
    std::stable_sort(messages.begin(), messages.end(), [](const Found& a, const Found& b) { return a.slot < b.slot; });
    SharedRoutes::Pair pair{peer, {}};
    for (const Found& message : messages) {
      *message.route = {static_cast<int>(way.pairs.size()), static_cast<int>(pair.bytes.size())};
      pair.bytes.push_back(message.bytes);
    }
    way.pairs.push_back(std::move(pair));
  }
}

void FindWay(const CompiledMovement& compiled, const SharedPeers& shared, bool sends, SharedRoutes::Way& way) {
  const int64_t element_bytes = SizeOf(compiled.dtype);
  const std::vector<ListedMessage>& listed = sends ? compiled.sends : compiled.receives;
  std::map<int, std::vector<Found>> found;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    found[listed[i].peer].push_back({Channel::kDirectSlot, listed[i].elements * element_bytes, &way.listed[i]});
  }
  for (std::size_t c = 0; c < compiled.collectives.size(); ++c) {
    const std::vector<CompiledStep>& steps = compiled.collectives[c].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const int peer = sends ? steps[i].send_to : steps[i].recv_from;
      if (peer < 0) continue;
      const Interval cells = sends ? steps[i].send : steps[i].recv;
      found[peer].push_back({Channel::CollectiveSlot(steps[i].slot), cells.size() * element_bytes, &way.steps[c][i]});
    }
  }
  Assign(std::move(found), shared, way);
}

}  // namespace

SharedRoutes SharedRoutes::Find(const CompiledMovement& compiled, const SharedPeers* shared) {
  SharedRoutes routes;
  for (Way* way : {&routes.out, &routes.in}) {
    way->listed.resize(way == &routes.out ? compiled.sends.size() : compiled.receives.size());
    for (const CompiledCollective& collective : compiled.collectives) {
      way->steps.emplace_back(collective.steps.size());
    }
    if (shared != nullptr) FindWay(compiled, *shared, way == &routes.out, *way);
  }
  return routes;
}

SharedLink::~SharedLink() {
  if (transport_ != nullptr) {
    transport_->Wait(posted_.handle, Deadline::After(absl::ZeroDuration())).IgnoreError();  // cancels it
  }
  if (taken_at_ >= 0) shared_->arena().Give(taken_at_, BlockBytes());
}

int64_t SharedLink::BlockBytes() const {
  int64_t bytes = 0;
  for (int64_t message : pair_.bytes) bytes += SharedChannel::BytesFor(message);
  return bytes;
}

void SharedLink::Open(char* memory) {
  for (int64_t message : pair_.bytes) {
    channels_.emplace_back(memory, message);
    memory += SharedChannel::BytesFor(message);
  }
}

absl::Status SharedLink::Offer(Channel& channel) {
  const absl::StatusOr<int64_t> taken = shared_->arena().Take(BlockBytes());
  if (taken.ok()) {
    taken_at_ = *taken;
    Open(shared_->arena().At(taken_at_, BlockBytes()));
  }
  known_ = true;
  offer_ = std::make_shared<int64_t>(taken.ok() ? *taken : kNoMemory);
  ADJOIN_ASSIGN_OR_RETURN(posted_, channel.SendOffer(peer(), BufferOf(offer_)));
  transport_ = &channel.transport();
  shared_->CountAgreement(sizeof(*offer_));
  return absl::OkStatus();
}

absl::Status SharedLink::Ask(Channel& channel) {
  offer_ = std::make_shared<int64_t>(kNoMemory);
  ADJOIN_ASSIGN_OR_RETURN(posted_, channel.RecvOffer(peer(), BufferOf(offer_)));
  transport_ = &channel.transport();
  return absl::OkStatus();
}

absl::StatusOr<bool> SharedLink::Known(Channel& channel) {
  if (known_) return true;
  if (!channel.Over(posted_)) return false;
  transport_ = nullptr;
  ADJOIN_RETURN_IF_ERROR(channel.Wait(posted_, Deadline::After(absl::ZeroDuration())));
  known_ = true;
  if (*offer_ == kNoMemory) return true;
  char* const memory = shared_->OfPeer(peer(), *offer_, BlockBytes());
  if (memory == nullptr) {
    return channel.Annotate(absl::DataLossError(absl::StrCat("rank ", peer(), " offers ", BlockBytes(), " bytes at ",
                                                             *offer_, " of its shared memory, where it has none")),
                            absl::StrCat("waiting to send to rank ", peer()));
  }
  Open(memory);
  return true;
}

Channel::Posted SharedMessage::Arrival() const {
  Channel::Posted posted;
  posted.peer = peer;
  posted.word = {&channel->published(n), SharedChannel::Before(n), peer};
  posted.after = SharedChannel::After(n);
  return posted;
}

Channel::Posted SharedMessage::Room() const {
  Channel::Posted posted;
  posted.peer = peer;
  posted.send = true;
  posted.word = {&channel->released(n), SharedChannel::Before(n - 2), peer};
  posted.after = SharedChannel::After(n - 2);
  return posted;
}

absl::StatusOr<bool> HasRoom(Channel& channel, const SharedMessage& message) {
  if (message.MayWrite()) return true;
  const Channel::Posted room = message.Room();
  if (!channel.Over(room)) return false;
  ADJOIN_RETURN_IF_ERROR(channel.Wait(room, Deadline::After(absl::ZeroDuration())));
  return true;  // it was released meanwhile
}

void ExecutionLinks::Publish(const SharedMessage& message) const {
  message.channel->Publish(message.n);
  shared_->CountSent(message.channel->message_bytes());
  shared_->Touch(message.peer);
}

void ExecutionLinks::Release(const SharedMessage& message) const {
  message.channel->Release(message.n);
  shared_->Touch(message.peer);
}

absl::StatusOr<bool> ExecutionLinks::TakeOffers(Channel& channel) const {
  for (const Use& use : out_) {
    if (use.n < 0) continue;
    ADJOIN_ASSIGN_OR_RETURN(const bool known, use.link->Known(channel));
    if (!known) return false;
  }
  return true;
}

void ExecutionLinks::AppendBlockers(std::vector<Channel::Posted>& blockers) const {
  for (const Use& use : out_) {
    if (use.n >= 0 && !use.link->known()) blockers.push_back(use.link->asked());
  }
}

bool ExecutionLinks::ByTransport(const Uses& uses, int peer) {
  const auto use =
      std::find_if(uses.begin(), uses.end(), [&](const Use& candidate) { return candidate.link->peer() == peer; });
  return use == uses.end() || use->n < 0 || !use->link->open();
}

std::shared_ptr<SharedLink> OperatorLinks::LinkOf(SharedPeers* shared, Links& links, const SharedRoutes::Pair& pair) {
  auto found = std::find_if(links.begin(), links.end(), [&](const auto& link) { return link->bytes() == pair.bytes; });
  if (found == links.end()) {
    if (links.size() == kKept) links.pop_back();
    found = links.insert(links.end(), std::make_shared<SharedLink>(shared, pair));
  }
  std::rotate(links.begin(), found, found + 1);
  return links.front();
}

absl::StatusOr<ExecutionLinks> OperatorLinks::Begin(Channel& channel, const SharedRoutes& routes) {
  ExecutionLinks execution;
  if (routes.out.pairs.empty() && routes.in.pairs.empty()) return execution;
  SharedPeers* const shared = execution.shared_ = channel.transport().shared_peers();
  if (++begun_ % kExecutionsPerCheck == 0) {
    const int peer = (routes.in.pairs.empty() ? routes.out.pairs : routes.in.pairs).front().peer;
    ADJOIN_RETURN_IF_ERROR(channel.transport().Check(peer));
  }
  for (const bool sends : {false, true}) {
    for (const SharedRoutes::Pair& pair : sends ? routes.out.pairs : routes.in.pairs) {
      std::shared_ptr<SharedLink> link = LinkOf(shared, (sends ? out_ : in_)[pair.peer], pair);
      const int64_t use = link->NextUse();
      if (use == 1) ADJOIN_RETURN_IF_ERROR(sends ? link->Ask(channel) : link->Offer(channel));
      (sends ? execution.out_ : execution.in_).push_back({std::move(link), use - SharedLink::kByTransport});
    }
  }
  return execution;
}

}  // namespace adjoin
