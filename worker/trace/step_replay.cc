#include "worker/trace/step_replay.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "worker/trace/medians.h"

namespace adjoin {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// A message that a rank did not wait for was there when it was taken in, since when is not known: it is taken to have
// been as fast as those between the same ranks that were waited for.
void ReplaceUnknown(std::vector<StepGraph::Message>& messages) {
  std::map<std::pair<std::pair<int, int>, int>, std::vector<double>> of_pair;
  std::map<int, std::vector<double>> of_all;
  for (const StepGraph::Message& message : messages) {
    if (!message.waited) continue;
    of_pair[{{message.from, message.to}, SizeBucket(message.bytes)}].push_back(message.seconds);
    of_all[SizeBucket(message.bytes)].push_back(message.seconds);
  }
  for (StepGraph::Message& message : messages) {
    if (message.waited) continue;
    const auto pair = of_pair.find({{message.from, message.to}, SizeBucket(message.bytes)});
    const auto all = of_all.find(SizeBucket(message.bytes));
    const double like = pair != of_pair.end() ? LowerMedian(pair->second)
                        : all != of_all.end() ? LowerMedian(all->second)
                                              : 0;
    message.seconds = std::min(message.seconds, like);
  }
}

// What is known of a message's two ends.
struct Ends {
  const StepOp* send = nullptr;
  const StepOp* ready = nullptr;
  const StepOp* receive = nullptr;
  int64_t message = -1;
};

// Seconds between what is awaited of the receiver and the end of the wait; below 0 where the wait was for something
// else: it had not yet happened then, or before the wait.
double AfterAwaited(const StepOp& wait, const Ends& ends) {
  const StepOp* awaited = wait.kind == StepOp::Kind::kAwaitTaken ? ends.receive : ends.ready;
  if (awaited == nullptr || awaited->ns < wait.ns - wait.waited) return -1;
  return Seconds(wait.ns - awaited->ns);
}

}  // namespace

StepGraph::StepGraph(const std::vector<RecordedStep>& steps) : ops_(steps.size()), begins_(steps.size(), 0) {
  using Kind = StepOp::Kind;
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const RecordedStep& step : steps) first = std::min(first, step.begin);
  absl::flat_hash_map<uint64_t, Ends> flows;
  for (const RecordedStep& step : steps) {
    for (const StepOp& op : step.ops) {
      if (op.kind == Kind::kSend) flows[op.flow].send = &op;
      if (op.kind == Kind::kReady) flows[op.flow].ready = &op;
      if (op.kind == Kind::kReceive) flows[op.flow].receive = &op;
    }
  }
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    begins_[rank] = Seconds(steps[rank].begin - first);
    for (const StepOp& op : steps[rank].ops) {
      if (op.kind == Kind::kWork) {
        ops_[rank].push_back({.part = op.part, .work = Seconds(op.ns)});
        continue;
      }
      Ends& ends = flows[op.flow];
      const bool awaits = op.kind == Kind::kAwaitReady || op.kind == Kind::kAwaitTaken;
      const bool whole = ends.send != nullptr && ends.receive != nullptr;
      const double after = awaits && whole ? AfterAwaited(op, ends) : awaits ? -1 : 0;
      if (after < 0) ops_[rank].push_back({.work = Seconds(op.waited)});
      if (after < 0 || !whole) continue;
      if (ends.message < 0) {
        ends.message = static_cast<int64_t>(messages_.size());
        messages_.push_back({.from = ends.receive->peer,
                             .to = ends.send->peer,
                             .bytes = ends.send->bytes,
                             .seconds = std::max(0.0, Seconds(ends.receive->ns - ends.send->ns)),
                             .waited = ends.receive->waited != 0});
      }
      ops_[rank].push_back(
          {.kind = op.kind, .message = ends.message, .after = after, .waited = awaits ? Seconds(op.waited) : 0});
    }
  }
  ReplaceUnknown(messages_);
  std::vector<Place> passed_by;
  Run(Change(), passed_by);
  for (const auto& [rank, index] : passed_by) ops_[rank][index] = {.work = ops_[rank][index].waited};
}

double StepGraph::Replay(const Change& change) const {
  std::vector<Place> none;
  return Run(change, none);
}

double StepGraph::Run(const Change& change, std::vector<Place>& passed_by) const {
  using Kind = StepOp::Kind;
  constexpr double kNotYet = -1;
  struct Event {
    double at = kNotYet;
    int waiting = -1;  // the rank that waits for it
  };
  struct MessageEvents {
    Event posted, ready, taken;
  };
  std::vector<MessageEvents> events(messages_.size());
  std::vector<double> now = begins_;
  std::vector<std::size_t> next(ops_.size(), 0);
  std::vector<int> ready(ops_.size());
  for (std::size_t rank = 0; rank < ready.size(); ++rank) ready[rank] = static_cast<int>(rank);
  const auto happens = [&ready](Event& event, double at) {
    event.at = at;
    if (event.waiting >= 0) ready.push_back(std::exchange(event.waiting, -1));
  };
  const auto pass_by = [&] {
    std::size_t first = ops_.size();
    for (std::size_t rank = 0; rank < ops_.size(); ++rank) {
      if (next[rank] == ops_[rank].size()) continue;
      const Kind kind = ops_[rank][next[rank]].kind;
      const bool awaits = kind == Kind::kAwaitReady || kind == Kind::kAwaitTaken;
      if (awaits && (first == ops_.size() || now[rank] < now[first])) first = rank;
    }
    if (first == ops_.size()) return;
    const Op& op = ops_[first][next[first]];
    MessageEvents& of = events[static_cast<std::size_t>(op.message)];
    (op.kind == Kind::kAwaitReady ? of.ready : of.taken).waiting = -1;
    now[first] += op.waited;
    passed_by.emplace_back(first, next[first]++);
    ready.push_back(static_cast<int>(first));
  };
  double end = 0;
  while (!ready.empty()) {
    const int rank = ready.back();
    ready.pop_back();
    const std::size_t at = static_cast<std::size_t>(rank);
    const std::vector<Op>& ops = ops_[at];
    for (; next[at] < ops.size(); ++next[at]) {
      const Op& op = ops[next[at]];
      if (op.kind == Kind::kWork) {
        now[at] += at < change.work.size() && !change.work[at].empty() ? change.work[at][next[at]] : op.work;
        continue;
      }
      const std::size_t message = static_cast<std::size_t>(op.message);
      MessageEvents& of = events[message];
      if (op.kind == Kind::kSend || op.kind == Kind::kReady) {
        happens(op.kind == Kind::kSend ? of.posted : of.ready, now[at]);
        continue;
      }
      const bool receive = op.kind == Kind::kReceive;
      Event& awaited = receive ? of.posted : op.kind == Kind::kAwaitReady ? of.ready : of.taken;
      if (awaited.at == kNotYet) {
        awaited.waiting = rank;
        break;
      }
      const double moves = !change.moves.empty() ? change.moves[message] : messages_[message].seconds;
      now[at] = std::max(now[at], awaited.at + (receive ? moves : op.after));
      if (receive) happens(of.taken, now[at]);
    }
    end = std::max(end, now[at]);
    if (ready.empty()) pass_by();
  }
  return end;
}

}  // namespace adjoin
