// The algorithms behind StepsOf: binomial trees, recursive doubling, ring.
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
constexpr int64_t kRingSegmentBytes = 256 << 10;
constexpr int64_t kDoublingMaxBytes = 8 << 10;
constexpr int kSlots = 4095;  // of a tag's 4096, less the one of the plain list
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

// A position's place in the binomial tree with root 0: the parent clears the lowest set bit.
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

// Reduce-scatter, then all-gather. A chunk is summed in the order of the ring and ends on one rank, whose bits the
// others copy.
std::vector<CollectiveStep> RingSteps(int position, int size, int64_t elements, DType dtype) {
  std::vector<Interval> chunks;
  int64_t begin = 0;
  for (int64_t chunk : BalancedSizes(elements, size)) {
    chunks.push_back({begin, begin + chunk});
    begin += chunk;
  }
  const int64_t rounds = 2 * (size - 1);
  const int64_t longest = chunks[0].size();
  const int64_t length = SegmentLength(longest, kRingSegmentBytes, std::max<int64_t>(1, kSlots / rounds), dtype);
  const int64_t segments = CeilDiv(longest, length);
  std::vector<CollectiveStep> steps;
  for (int64_t round = 0; round < rounds; ++round) {
    const bool scatter = round < size - 1;
    // The second half starts with the chunk that this position has finished: the one after its own.
    const int64_t sent = (position - round + 2 * size) % size;
    const int64_t received = (position - round - 1 + 2 * size) % size;
    for (int64_t segment = 0; segment < segments; ++segment) {
      CollectiveStep step;
      step.add = scatter;
      // Beyond 2,048 ranks slots repeat; equal ones match in order.
      step.slot = static_cast<int>((round * segments + segment) % kSlots);
      Send((position + 1) % size, SegmentOf(chunks[sent], segment, length), step);
      Receive((position + size - 1) % size, SegmentOf(chunks[received], segment, length), step);
      Append(step, steps);
    }
  }
  return steps;
}

bool UsesDoubling(const CollectiveGroup& group, DType dtype) {
  return group.elements <= kDoublingMaxBytes / SizeOf(dtype);
}

}  // namespace

std::string AlgorithmOf(const CollectiveGroup& group, DType dtype) {
  if (group.kind != CollectiveGroup::Kind::kAllSumReduce) return "binomial tree";
  return UsesDoubling(group, dtype) ? "recursive doubling" : "ring";
}

std::vector<CollectiveStep> StepsOf(const CollectiveGroup& group, int position, DType dtype) {
  const int size = static_cast<int>(group.ranks.size());
  if (group.elements == 0 || size < 2) return {};
  if (group.kind == CollectiveGroup::Kind::kAllSumReduce) {
    if (UsesDoubling(group, dtype)) return DoublingSteps(position, size, group.elements);
    return RingSteps(position, size, group.elements, dtype);
  }
  const TreePlace place(position, size);
  const int64_t length = SegmentLength(group.elements, kTreeSegmentBytes, kTreeSlots - 2 * kMaxDepth, dtype);
  if (group.kind == CollectiveGroup::Kind::kBroadcast) return BroadcastSteps(place, group.elements, length);
  return SumReduceSteps(place, group.elements, length);
}

}  // namespace adjoin
