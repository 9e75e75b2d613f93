#include "worker/rank/gpu_lines.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr char kGpu[] = "gpu ", kUnusable[] = "unusable ", kNone[] = "none ", kEnd[] = "end";
constexpr char kBetween[] = ": ";  // the name of an unusable GPU, and why it is

absl::StatusOr<NodeGpu> ReadLine(absl::string_view line, bool usable) {
  NodeGpu gpu;
  const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 3));
  const bool right = parts.size() == 4 && absl::SimpleAtoi(parts[0], &gpu.index) && !parts[1].empty() &&
                     parts[1].size() <= kMaxNameBytes && absl::SimpleAtoi(parts[2], &gpu.memory_bytes);
  if (!right) {
    return absl::DataLossError(absl::StrCat("it printed '", PrintableText(line, kMaxNameBytes), "'; right would be ",
                                            "INDEX UUID BYTES NAME"));
  }
  gpu.uuid = PrintableText(parts[1], kMaxNameBytes);
  std::pair<std::string, std::string> name_and_why = absl::StrSplit(parts[3], absl::MaxSplits(kBetween, 1));
  gpu.name = PrintableText(usable ? parts[3] : name_and_why.first, kMaxNameBytes);
  if (!usable) gpu.unusable = PrintableText(name_and_why.second, kMaxErrorBytes);
  if (!usable && gpu.unusable.empty()) gpu.unusable = "it does not say why";
  return gpu;
}

}  // namespace

std::string GpuLines(const absl::StatusOr<std::vector<NodeGpu>>& gpus) {
  std::string text;
  if (!gpus.ok()) absl::StrAppend(&text, kNone, PrintableText(gpus.status().message(), kMaxErrorBytes), "\n");
  if (gpus.ok() && gpus->empty()) absl::StrAppend(&text, kNone, "the driver has no GPU\n");
  if (gpus.ok()) {
    for (const NodeGpu& gpu : *gpus) {
      absl::StrAppend(&text, gpu.unusable.empty() ? kGpu : kUnusable, gpu.index, " ", gpu.uuid, " ", gpu.memory_bytes,
                      " ", PrintableText(gpu.name, kMaxNameBytes));
      // A line of its own for each: errors of LibTorch have several.
      if (!gpu.unusable.empty()) absl::StrAppend(&text, kBetween, PrintableText(gpu.unusable, kMaxErrorBytes));
      absl::StrAppend(&text, "\n");
    }
  }
  return absl::StrCat(text, kEnd, "\n");
}

absl::StatusOr<std::vector<NodeGpu>> ReadGpuLines(absl::string_view text) {
  std::vector<NodeGpu> gpus;
  std::set<std::string> uuids;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line == kEnd) return gpus;
    const bool usable = absl::ConsumePrefix(&line, kGpu);
    if (absl::ConsumePrefix(&line, kNone)) return absl::NotFoundError(PrintableText(line, kMaxErrorBytes));
    if (!usable && !absl::ConsumePrefix(&line, kUnusable)) continue;
    ADJOIN_ASSIGN_OR_RETURN(NodeGpu gpu, ReadLine(line, usable));
    if (!uuids.insert(gpu.uuid).second) return absl::DataLossError(absl::StrCat("it names ", gpu.uuid, " twice"));
    gpus.push_back(std::move(gpu));
    if (gpus.size() > kMaxGpus) return absl::DataLossError(absl::StrCat("it names more than ", kMaxGpus, " GPUs"));
  }
  return absl::DataLossError("its list of GPUs has no end");
}

}  // namespace adjoin
