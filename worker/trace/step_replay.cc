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

}  // namespace

StepGraph::StepGraph(const std::vector<RecordedStep>& steps) : ops_(steps.size()), begins_(steps.size(), 0) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const RecordedStep& step : steps) first = std::min(first, step.begin);
  struct Ends {
    const StepOp* send = nullptr;
    const StepOp* receive = nullptr;
    int64_t message = -1;
  };
  absl::flat_hash_map<uint64_t, Ends> flows;
  for (const RecordedStep& step : steps) {
    for (const StepOp& op : step.ops) {
      if (op.kind == StepOp::Kind::kSend) flows[op.flow].send = &op;
      if (op.kind == StepOp::Kind::kReceive) flows[op.flow].receive = &op;
    }
  }
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    begins_[rank] = Seconds(steps[rank].begin - first);
    for (const StepOp& op : steps[rank].ops) {
      if (op.kind == StepOp::Kind::kWork) {
        ops_[rank].push_back({.part = op.part, .work = Seconds(op.ns)});
        continue;
      }
      Ends& ends = flows[op.flow];
      if (ends.send == nullptr || ends.receive == nullptr) continue;
      if (ends.message < 0) {
        ends.message = static_cast<int64_t>(messages_.size());
        messages_.push_back({.from = ends.receive->peer,
                             .to = ends.send->peer,
                             .bytes = ends.send->bytes,
                             .seconds = std::max(0.0, Seconds(ends.receive->ns - ends.send->ns)),
                             .waited = ends.receive->waited != 0});
      }
      ops_[rank].push_back({.message = ends.message, .receive = op.kind == StepOp::Kind::kReceive});
    }
  }
  ReplaceUnknown(messages_);
}

double StepGraph::Replay(const Change& change) const {
  constexpr double kNotPosted = -1;
  std::vector<double> posted(messages_.size(), kNotPosted);
  std::vector<int> waiting(messages_.size(), -1);  // the rank that waits for it
  std::vector<double> now = begins_;
  std::vector<std::size_t> next(ops_.size(), 0);
  std::vector<int> ready(ops_.size());
  for (std::size_t rank = 0; rank < ready.size(); ++rank) ready[rank] = static_cast<int>(rank);
  double end = 0;
  while (!ready.empty()) {
    const int rank = ready.back();
    ready.pop_back();
    const std::size_t at = static_cast<std::size_t>(rank);
    const std::vector<Op>& ops = ops_[at];
    for (; next[at] < ops.size(); ++next[at]) {
      const Op& op = ops[next[at]];
      if (op.message < 0) {
        now[at] += at < change.work.size() && !change.work[at].empty() ? change.work[at][next[at]] : op.work;
        continue;
      }
      const std::size_t message = static_cast<std::size_t>(op.message);
      if (!op.receive) {
        posted[message] = now[at];
        if (waiting[message] >= 0) ready.push_back(std::exchange(waiting[message], -1));
        continue;
      }
      if (posted[message] == kNotPosted) {
        waiting[message] = rank;
        break;
      }
      const double took = !change.moves.empty() ? change.moves[message] : messages_[message].seconds;
      now[at] = std::max(now[at], posted[message] + took);
    }
    end = std::max(end, now[at]);
  }
  return end;
}

}  // namespace adjoin
