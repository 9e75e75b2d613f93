// The algorithms behind StepsOf: binomial trees, recursive doubling, pairwise exchange; and which is the cheapest.
#include <algorithm>
#include <string>
#include <vector>

#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {
namespace {

constexpr int64_t kTreeSegmentBytes = 128 << 10;
constexpr int64_t kPairwiseSegmentBytes = 256 << 10;
constexpr int kSlots = 4095;  // a tag's 4096 slots, less the one of the plain list
// A rank can be in a broadcast and in a sum-reduce of one execution: each has its half of the slots.
constexpr int kTreeSlots = kSlots / 2;
// More than the depth of any tree: positions have 31 bits.
constexpr int kMaxDepth = 32;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Elements per segment: `bytes`, or more where there would be more than `most` segments.
int64_t SegmentLength(int64_t elements, int64_t bytes, int64_t most, DType dtype) {
  return std::max(bytes / SizeOf(dtype), CeilDiv(elements, most));
}

Interval SegmentOf(Interval whole, int64_t segment, int64_t length) {
  const int64_t lo = std::min(whole.lo + segment * length, whole.hi);
  return {lo, std::min(lo + length, whole.hi)};
}

void Send(int to, Interval what, CollectiveStep& step) {
  if (what.empty()) return;
  step.send_to = to;
  step.send = what;
}

void Receive(int from, Interval what, CollectiveStep& step) {
  if (what.empty()) return;
  step.recv_from = from;
  step.recv = what;
}

void Append(const CollectiveStep& step, std::vector<CollectiveStep>& steps) {
  if (step.send_to >= 0 || step.recv_from >= 0) steps.push_back(step);
}

// A position's parent and children in the binomial tree with root 0: the parent clears the lowest set bit.
struct TreePlace {
  TreePlace(int position, int size) : parent(position == 0 ? -1 : position & (position - 1)) {
    for (int rest = position; rest != 0; rest &= rest - 1) ++depth;
    for (int64_t bit = 1; bit < size && (position & bit) == 0; bit *= 2) {
      if (position + bit < size) children.push_back(static_cast<int>(position + bit));
    }
  }
  int parent;
  int depth = 0;
  std::vector<int> children;  // the smallest subtree first
};

// Segment after segment down the tree: the next one arrives while this one goes to the first child, the one with the
// longest way before it. A message's slot is its segment plus the sender's depth, so that both halves of a step agree.
std::vector<CollectiveStep> BroadcastSteps(const TreePlace& place, int64_t elements, int64_t length) {
  const int64_t count = CeilDiv(elements, length);
  const Interval whole{0, elements};
  std::vector<CollectiveStep> steps;
  for (int64_t segment = -1; segment < count; ++segment) {
    CollectiveStep step;
    step.slot = static_cast<int>(segment + place.depth);
    if (place.parent >= 0) Receive(place.parent, SegmentOf(whole, segment + 1, length), step);
    if (segment >= 0) {
      for (auto child = place.children.rbegin(); child != place.children.rend(); ++child) {
        Send(*child, SegmentOf(whole, segment, length), step);
        Append(step, steps);
        step.recv_from = step.send_to = -1;
        step.recv = {};
      }
    }
    Append(step, steps);
  }
  return steps;
}

// The same tree upwards: a segment gathers its children's sums, the nearest first, while the one before goes to the
// parent.
std::vector<CollectiveStep> SumReduceSteps(const TreePlace& place, int64_t elements, int64_t length) {
  const int64_t count = CeilDiv(elements, length);
  const Interval whole{0, elements};
  std::vector<CollectiveStep> steps;
  for (int64_t segment = 0; segment <= count; ++segment) {
    CollectiveStep step;
    step.add = true;
    step.slot = static_cast<int>(kTreeSlots + segment + kMaxDepth - place.depth);
    if (place.parent >= 0 && segment > 0) Send(place.parent, SegmentOf(whole, segment - 1, length), step);
    for (int child : place.children) {
      Receive(child, SegmentOf(whole, segment, length), step);
      Append(step, steps);
      step.recv_from = step.send_to = -1;
      step.send = step.recv = {};
    }
    Append(step, steps);
  }
  return steps;
}

// Beyond a power of two, the first positions go in pairs: the even one gives its part to the odd one and gets the
// result back. Partners add the same two numbers, so every rank has the same bits.
std::vector<CollectiveStep> DoublingSteps(int position, int size, int64_t elements) {
  int power = 1;
  while (power <= size / 2) power *= 2;
  const int pairs = size - power;
  const Interval whole{0, elements};
  const bool paired = position < 2 * pairs;
  std::vector<CollectiveStep> steps;
  CollectiveStep fold;
  fold.add = true;
  if (paired && position % 2 == 0) {
    Send(position + 1, whole, fold);
    CollectiveStep result;
    Receive(position + 1, whole, result);
    return {fold, result};
  }
  if (paired) {
    Receive(position - 1, whole, fold);
    steps.push_back(fold);
  }
  const int number = paired ? position / 2 : position - pairs;
  for (int bit = 1; bit < power; bit *= 2) {
    const int partner = number ^ bit;
    const int peer = partner < pairs ? 2 * partner + 1 : partner + pairs;
    CollectiveStep step;
    step.add = true;
    Send(peer, whole, step);
    Receive(peer, whole, step);
    steps.push_back(step);
  }
  if (paired) {
    CollectiveStep result;
    Send(position - 1, whole, result);
    steps.push_back(result);
  }
  return steps;
}

// Reduce-scatter, then all-gather, each between all pairs: in round k a position sends to the one k after it and
// receives from the one k before it. Position p sums chunk p, whose bits the others copy.
std::vector<CollectiveStep> PairwiseSteps(int position, int size, int64_t elements, DType dtype) {
  std::vector<Interval> chunks;
  int64_t begin = 0;
  for (int64_t chunk : BalancedSizes(elements, size)) {
    chunks.push_back({begin, begin + chunk});
    begin += chunk;
  }
  const int64_t longest = chunks[0].size();
  const int64_t length = SegmentLength(longest, kPairwiseSegmentBytes, kSlots / 2, dtype);
  const int64_t segments = CeilDiv(longest, length);
  std::vector<CollectiveStep> steps;
  for (const bool scatter : {true, false}) {
    for (int round = 1; round < size; ++round) {
      const int to = (position + round) % size;
      const int from = (position + size - round) % size;
      for (int64_t segment = 0; segment < segments; ++segment) {
        CollectiveStep step;
        step.add = scatter;
        step.slot = static_cast<int>((scatter ? 0 : segments) + segment);
        Send(to, SegmentOf(chunks[scatter ? to : position], segment, length), step);
        Receive(from, SegmentOf(chunks[scatter ? position : from], segment, length), step);
        Append(step, steps);
      }
    }
  }
  return steps;
}

void SetMessages(int64_t sent, int64_t received, StepTotals& totals) {
  totals.messages_sent = sent;
  totals.messages_received = received;
}

// `down`: a broadcast; else a sum-reduce.
StepTotals TreeTotals(const TreePlace& place, int64_t elements, int64_t length, bool down) {
  const int64_t segments = CeilDiv(elements, length);
  const int64_t children = static_cast<int64_t>(place.children.size());
  const int64_t parents = place.parent >= 0 ? 1 : 0;
  StepTotals totals;
  totals.elements_sent = (down ? children : parents) * elements;
  totals.elements_received = (down ? parents : children) * elements;
  totals.elements_added = down ? 0 : totals.elements_received;
  SetMessages((down ? children : parents) * segments, (down ? parents : children) * segments, totals);
  return totals;
}

StepTotals DoublingTotals(int position, int size, int64_t elements) {
  int power = 1, rounds = 0;
  for (; power <= size / 2; power *= 2) ++rounds;
  const bool paired = position < 2 * (size - power);
  const bool folded = paired && position % 2 == 0;
  StepTotals totals;
  const int64_t sent = folded ? 1 : rounds + (paired ? 1 : 0);
  SetMessages(sent, sent, totals);
  totals.elements_sent = totals.elements_received = sent * elements;
  totals.elements_added = folded ? 0 : sent * elements;
  return totals;
}

StepTotals PairwiseTotals(int position, int size, int64_t elements, DType dtype) {
  const int64_t longest = CeilDiv(elements, size);
  const int64_t length = SegmentLength(longest, kPairwiseSegmentBytes, kSlots / 2, dtype);
  // The chunks of the first positions have one element more.
  const int64_t longer = elements % size, shorter = elements / size;
  const int64_t own = shorter + (position < longer ? 1 : 0);
  const int64_t all = longer * CeilDiv(shorter + 1, length) + (size - longer) * CeilDiv(shorter, length);
  const int64_t messages = all + (size - 2) * CeilDiv(own, length);
  StepTotals totals;
  SetMessages(messages, messages, totals);
  totals.elements_sent = totals.elements_received = elements + (size - 2) * own;
  totals.elements_added = (size - 1) * own;
  return totals;
}

// What an algorithm costs the rank that is busiest, in microseconds: orders of magnitude of shared memory and fast
// networks, good enough to choose by. They are part of the plan, never measured: every rank must choose the same.
constexpr double kRound = 5;            // until a message that depends on another can arrive
constexpr double kMessage = 0.5;        // to handle a message
constexpr double kByte = 1.0 / 5000.0;  // to send or receive a byte
constexpr double kAdd = 0.5 * kByte;    // to add a byte

double MessageCost(double bytes) { return kMessage + bytes * kByte; }

int Log2Ceil(int size) {
  int log = 0;
  while ((int64_t{1} << log) < size) ++log;
  return log;
}

// Every rank that gives anything sends it straight to every one that needs it; where they are added, the rank's own,
// too.
double PlainListCost(int size, double bytes, bool adds) {
  return kRound + (size - 1) * MessageCost(bytes) + (adds ? size * bytes * kAdd : 0);
}

double TreeCost(int size, double bytes, bool adds) {
  const int depth = Log2Ceil(size);
  const double filling = kRound + MessageCost(std::min<double>(bytes, kTreeSegmentBytes));
  return depth * (filling + bytes * kByte + (adds ? bytes * kAdd : 0));
}

double DoublingCost(int size, double bytes) {
  const bool power_of_two = (size & (size - 1)) == 0;
  return (Log2Ceil(size) + (power_of_two ? 0 : 1)) * (kRound + MessageCost(bytes) + bytes * kAdd);
}

double PairwiseCost(int size, double bytes) {
  return 2 * kRound + (size - 1) * (2 * MessageCost(bytes / size) + bytes / size * kAdd);
}

bool UsesDoubling(const CollectiveGroup& group, DType dtype) {
  const int size = static_cast<int>(group.ranks.size());
  const double bytes = static_cast<double>(group.elements) * static_cast<double>(SizeOf(dtype));
  return DoublingCost(size, bytes) < PairwiseCost(size, bytes);
}

}  // namespace

bool PlainListIsCheaper(const CollectiveGroup& group, DType dtype) {
  const int size = static_cast<int>(group.ranks.size());
  if (size < 2) return true;
  const double bytes = static_cast<double>(group.elements) * static_cast<double>(SizeOf(dtype));
  const bool adds = group.kind != CollectiveGroup::Kind::kBroadcast;
  const double plain = PlainListCost(size, bytes, adds);
  if (group.kind != CollectiveGroup::Kind::kAllSumReduce) return plain <= TreeCost(size, bytes, adds);
  return plain <= std::min(DoublingCost(size, bytes), PairwiseCost(size, bytes));
}

std::string AlgorithmOf(const CollectiveGroup& group, DType dtype) {
  if (group.kind != CollectiveGroup::Kind::kAllSumReduce) return "binomial tree";
  return UsesDoubling(group, dtype) ? "recursive doubling" : "pairwise exchange";
}

int64_t SegmentElements(const CollectiveGroup& group, DType dtype) {
  return SegmentLength(group.elements, kTreeSegmentBytes, kTreeSlots - 2 * kMaxDepth, dtype);
}

StepTotals TotalsOf(const CollectiveGroup& group, int position, DType dtype) {
  const int size = static_cast<int>(group.ranks.size());
  StepTotals totals;
  if (group.elements == 0 || size < 2) return totals;
  if (group.kind != CollectiveGroup::Kind::kAllSumReduce) {
    const bool down = group.kind == CollectiveGroup::Kind::kBroadcast;
    totals = TreeTotals(TreePlace(position, size), group.elements, SegmentElements(group, dtype), down);
    totals.rounds = Log2Ceil(size);
  } else if (UsesDoubling(group, dtype)) {
    totals = DoublingTotals(position, size, group.elements);
    totals.rounds = Log2Ceil(size) + ((size & (size - 1)) == 0 ? 0 : 1);
  } else {
    totals = PairwiseTotals(position, size, group.elements, dtype);
    totals.rounds = 2;
  }
  return totals;
}

std::vector<CollectiveStep> StepsOf(const CollectiveGroup& group, int position, DType dtype) {
  const int size = static_cast<int>(group.ranks.size());
  if (group.elements == 0 || size < 2) return {};
  if (group.kind == CollectiveGroup::Kind::kAllSumReduce) {
    if (UsesDoubling(group, dtype)) return DoublingSteps(position, size, group.elements);
    return PairwiseSteps(position, size, group.elements, dtype);
  }
  const TreePlace place(position, size);
  const int64_t length = SegmentElements(group, dtype);
  if (group.kind == CollectiveGroup::Kind::kBroadcast) return BroadcastSteps(place, group.elements, length);
  return SumReduceSteps(place, group.elements, length);
}

}  // namespace adjoin
