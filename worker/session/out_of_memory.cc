#include "worker/session/out_of_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/amount_text.h"
#include "base/printable_text.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"

namespace adjoin {
namespace {

constexpr size_t kLargest = 5;
constexpr size_t kMostNameBytes = 60;
constexpr size_t kMostContextBytes = 200;

// How errors begin that tell of missing memory: LibTorch's, primitives/tensor_memory.cc's,
// StatusFromCurrentException's.
constexpr absl::string_view kBeginnings[] = {"[enforce fail at alloc_cpu", "DefaultCPUAllocator",
                                             "no memory for a tensor", "out of memory"};
constexpr absl::string_view kWanted[] = {"you tried to allocate ", "no memory for a tensor of "};
constexpr absl::string_view kInUse = "the process uses ";
constexpr absl::string_view kHelps = "; what helps: ";

// Where the error itself begins, behind what says where it happened: "layer \"conv1\" on rank 0: ". A name may hold
// the same words.
size_t BeginningOf(absl::string_view message) {
  size_t first = absl::string_view::npos;
  for (const absl::string_view beginning : kBeginnings) {
    for (size_t at = message.find(beginning); at < first; at = message.find(beginning, at + 1)) {
      const absl::string_view before = message.substr(0, at);
      if (before.empty() || absl::EndsWith(before, ": ")) first = at;
    }
  }
  return first;
}

// The message without the layer, whose name is the user's.
absl::string_view BehindLayer(absl::string_view message) {
  const size_t rank = message.find("\" on rank ");
  const size_t end = rank == absl::string_view::npos ? rank : message.find(": ", rank);
  return end == absl::string_view::npos ? message : message.substr(end);
}

// The number behind `words`; 0 where there is none.
int64_t NumberBehind(absl::string_view message, absl::string_view words) {
  const size_t at = message.find(words);
  if (at == absl::string_view::npos) return 0;
  message.remove_prefix(at + words.size());
  const size_t end = std::min(message.find_first_not_of("0123456789"), message.size());
  int64_t number = 0;
  return absl::SimpleAtoi(message.substr(0, end), &number) ? number : 0;
}

// "layer \"conv1\"" of "layer \"conv1\" on rank 0: [enforce fail ..."
std::string WhatRan(absl::string_view message, int rank) {
  absl::string_view what = message.substr(0, BeginningOf(message));
  while (absl::ConsumeSuffix(&what, " ") || absl::ConsumeSuffix(&what, ":")) {
  }
  absl::ConsumeSuffix(&what, absl::StrCat(" on rank ", rank));
  return what.empty() ? "the rank, outside of the layers," : PrintableText(what, kMostContextBytes);
}

std::string LimitText(const JobSpec& spec, const MemoryLimits& memory) {
  const auto wanted = static_cast<int64_t>(spec.resources().memory_bytes());
  if (memory.limit > 0) {
    const bool own = wanted > 0 && wanted <= memory.limit;
    return absl::StrCat("limit: ", BytesText(memory.limit),
                        !own ? ""
                             : absl::StrCat(" (resources.memory_bytes: ", BytesText(wanted), ", and ",
                                            BytesText(memory.limit - wanted), " for the program itself)"));
  }
  return absl::StrCat("limit: none; the machine has ", BytesText(memory.machine.total), ", of which ",
                      BytesText(memory.machine.available), " are free now");
}

// The largest layers by the bytes of their outputs on this rank, in any program.
std::string LargestText(const Plan& plan, int rank) {
  std::map<std::string, int64_t> bytes_of;
  for (const ProgramPlan& program : plan.program()) {
    for (const LayerPlan& layer : program.layer()) {
      const absl::StatusOr<Layout> layout = LayoutFromProto(program.value(static_cast<int>(layer.output())).layout());
      if (!layout.ok() || !layout->mesh().Has(rank)) continue;
      int64_t& bytes = bytes_of[layer.name()];
      bytes = std::max(bytes, layout->BoxOf(rank).Volume() * SizeOf(layout->dtype()));
    }
  }
  std::vector<std::pair<int64_t, std::string>> largest;
  for (const auto& [name, bytes] : bytes_of) largest.emplace_back(-bytes, name);
  std::sort(largest.begin(), largest.end());
  std::string text;
  for (size_t i = 0; i < largest.size() && i < kLargest && largest[i].first < 0; ++i) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", PrintableText(largest[i].second, kMostNameBytes), "\" ",
                    BytesText(-largest[i].first));
  }
  return text;
}

}  // namespace

MemoryLimits MemoryLimitsNow() {
  MemoryLimits now = {.limit = 0, .process = ProcessMemoryInUse(), .machine = MachineMemoryNow()};
  rlimit data = {};
  if (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY) {
    now.limit = static_cast<int64_t>(data.rlim_cur);
  }
  return now;
}

bool IsOutOfMemory(const absl::Status& status) {
  if (!absl::IsInternal(status) && !absl::IsResourceExhausted(status)) return false;
  const absl::string_view message = status.message();
  if (absl::StrContains(BehindLayer(message), "CUDA") || absl::StrContains(message, kHelps)) return false;
  return BeginningOf(message) != absl::string_view::npos;
}

absl::Status ExplainOutOfMemory(const absl::Status& status, const Plan& plan, int rank, const MemoryLimits& memory) {
  const absl::string_view message = status.message();
  int64_t wanted = 0;
  for (const absl::string_view words : kWanted) wanted = std::max(wanted, NumberBehind(message, words));
  const int64_t used = NumberBehind(message, kInUse);
  const std::string largest = LargestText(plan, rank);
  const bool training = plan.spec().kind() == TRAIN;
  return absl::ResourceExhaustedError(absl::StrCat(
      "out of memory: ", WhatRan(message, rank), " asked for ",
      wanted > 0 ? absl::StrCat(BytesText(wanted), " more") : "more", " than there is; ",
      LimitText(plan.spec(), memory), "; in use: ",
      used > 0 ? BytesText(used) : absl::StrCat(BytesText(memory.process.most_resident), " at the most so far"),
      largest.empty() ? "" : absl::StrCat("; the largest outputs of layers on this rank: ", largest), kHelps,
      training ? "train.microbatches, recompute: true in large layers" : "a smaller batch",
      ", more ranks or finer cuts (`adjoin plan` shows each rank's parts)",
      memory.limit > 0 ? ", or a larger resources.memory_bytes" : ", or a machine with more memory"));
}

}  // namespace adjoin
