#include "worker/daemon/gpu_finder.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/deadline.h"
#include "base/logging.h"
#include "base/number_ranges.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "primitives/device/cuda_driver.h"
#include "proto/message_limits.h"
#include "worker/daemon/child_output.h"
#include "worker/rank/gpu_lines.h"

namespace adjoin {
namespace {

constexpr uint32_t kMaxIndex = 9999;
constexpr absl::Duration kDies = absl::Seconds(5);

absl::StatusOr<uint32_t> ReadIndex(absl::string_view text) {
  uint32_t index = 0;
  if (absl::SimpleAtoi(text, &index) && index <= kMaxIndex && absl::StrCat(index) == text) return index;
  return absl::InvalidArgumentError("");
}

absl::StatusOr<std::vector<NodeGpu>> AskRankProgram(const SpawnRequest& command, absl::Duration limit) {
  ADJOIN_ASSIGN_OR_RETURN(ChildProcess child, Spawn(command));
  const Deadline deadline = Deadline::After(limit);
  std::string out, err;
  while (child.out.get() >= 0 && !deadline.Expired()) {
    pollfd fds[] = {{child.out.get(), POLLIN, 0}, {child.err.get(), POLLIN, 0}};
    if (poll(fds, 2, PollMilliseconds(deadline)) <= 0) continue;
    if (fds[0].revents != 0 && !ReadSome(child.out, out)) child.out.reset();
    if (fds[1].revents != 0 && !ReadSome(child.err, err)) child.err.reset();
  }
  const bool late = child.out.get() >= 0;
  kill(-child.pid, SIGKILL);  // it has no more to say
  const bool dead = Reap(child, Deadline::After(kDies));
  if (late) {
    return absl::DeadlineExceededError(absl::StrCat(command.binary, " ", kListGpus, " did not answer in ",
                                                    absl::FormatDuration(limit), dead ? "" : ", and does not die"));
  }
  // Takes what is there of its last words.
  for (pollfd more = {child.err.get(), POLLIN, 0}; child.err.get() >= 0 && poll(&more, 1, 0) > 0;) {
    if (!ReadSome(child.err, err)) break;
  }
  absl::StatusOr<std::vector<NodeGpu>> gpus = ReadGpuLines(out);
  if (absl::IsDataLoss(gpus.status())) {
    return absl::DataLossError(
        absl::StrCat(command.binary, " ", kListGpus, ": ", std::string(gpus.status().message()), LastWords(err)));
  }
  if (!gpus.ok()) return gpus;
  std::sort(gpus->begin(), gpus->end(), [](const NodeGpu& a, const NodeGpu& b) { return a.index < b.index; });
  return gpus;
}

Gpu MessageOf(const NodeGpu& found) {
  Gpu gpu;
  gpu.set_index(found.index);
  gpu.set_uuid(found.uuid);
  gpu.set_name(found.name);
  gpu.set_memory_bytes(found.memory_bytes);
  return gpu;
}

absl::Status Wrong(const GpuChoice& choice, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("--gpus ", choice.text, ": ", why, "; --gpus none offers none, auto those that work"));
}

absl::StatusOr<std::vector<Gpu>> Choose(const GpuChoice& choice, const std::vector<NodeGpu>& found) {
  std::vector<Gpu> gpus;
  std::set<uint32_t> missing = choice.indices;
  std::vector<uint32_t> all;
  for (const NodeGpu& gpu : found) {
    all.push_back(gpu.index);
    if (choice.kind == GpuChoice::Kind::kThese && missing.erase(gpu.index) == 0) continue;
    const std::string name = absl::StrCat("GPU ", gpu.index, " (", gpu.name, ")");
    if (gpu.unusable.empty()) {
      gpus.push_back(MessageOf(gpu));
      LogInfo(absl::StrCat("offers ", name, ", ", gpu.uuid));
    } else if (choice.kind == GpuChoice::Kind::kAuto) {
      LogWarning(absl::StrCat(name, " is not offered: ", gpu.unusable));
    } else {
      return Wrong(choice, absl::StrCat(name, " cannot be used: ", gpu.unusable));
    }
  }
  if (!missing.empty()) {
    return Wrong(choice, absl::StrCat("there is no GPU ", NumberRanges(missing), "; this node has ",
                                      all.empty() ? "none" : NumberRanges(all)));
  }
  return gpus;
}

}  // namespace

absl::StatusOr<GpuChoice> ParseGpuChoice(const std::string& text) {
  GpuChoice choice;
  choice.text = text;
  if (text == "auto") return choice;
  choice.kind = text == "all"    ? GpuChoice::Kind::kAll
                : text == "none" ? GpuChoice::Kind::kNone
                                 : GpuChoice::Kind::kThese;
  if (choice.kind != GpuChoice::Kind::kThese) return choice;
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("--gpus '", PrintableText(text, kMaxNameBytes),
                   "' is not auto, all, none or a list of numbers as nvidia-smi counts them, such as 0,2 or 0-3"));
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> range = absl::StrSplit(part, absl::MaxSplits('-', 1));
    const bool one = range.first.size() == part.size();
    const absl::StatusOr<uint32_t> first = ReadIndex(range.first), last = ReadIndex(one ? range.first : range.second);
    if (!first.ok() || !last.ok() || *first > *last) return wrong;
    for (uint32_t index = *first; index <= *last; ++index) {
      if (!choice.indices.insert(index).second) return wrong;
    }
  }
  return choice;
}

SpawnRequest ListGpusCommand(const std::string& rank_binary, const std::optional<User>& user) {
  SpawnRequest command;
  command.binary = rank_binary;
  command.arguments = {kListGpus};
  command.environment = RankEnvironment(user.has_value() ? user->home : "");
  command.environment.push_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  if (const char* own = std::getenv("CUDA_VISIBLE_DEVICES"); own != nullptr) {
    command.environment.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", own));
  }
  command.user = user;
  return command;
}

absl::StatusOr<std::vector<Gpu>> FindGpus(const GpuChoice& choice, const SpawnRequest& command, absl::Duration limit) {
  return FindGpus(choice, command, limit, CudaDriver::kLibrary);
}

absl::StatusOr<std::vector<Gpu>> FindGpus(const GpuChoice& choice, const SpawnRequest& command, absl::Duration limit,
                                          const std::string& library) {
  if (choice.kind == GpuChoice::Kind::kNone) return std::vector<Gpu>();
  const bool automatic = choice.kind == GpuChoice::Kind::kAuto;
  // A node without the driver is the usual one: no process is started to find that out.
  if (automatic) {
    void* const driver = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (driver == nullptr) return std::vector<Gpu>();
    dlclose(driver);
  }
  const absl::StatusOr<std::vector<NodeGpu>> found = AskRankProgram(command, limit);
  if (found.ok()) return Choose(choice, *found);
  if (!automatic) return Wrong(choice, found.status().message());
  LogWarning(absl::StrCat("no GPUs are offered: ", std::string(found.status().message())));
  return std::vector<Gpu>();
}

}  // namespace adjoin
