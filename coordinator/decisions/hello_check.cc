#include "coordinator/decisions/hello_check.h"

#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr uint32_t kMaxSlots = 100000;              // as adjoin-worker's --slots: sums of all workers' fit an int
constexpr uint64_t kMaxMemory = uint64_t{1} << 50;  // bytes: sums of all workers' fit 63 bits
constexpr size_t kShown = 60;                       // bytes of a refused text, in the error

absl::Status CheckText(absl::string_view what, const std::string& text, absl::string_view advice) {
  if (text.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the worker's ", what, " has ", text.size(), " bytes; at most ",
                                                   kMaxNameBytes, " are possible: ", advice));
  }
  if (IsPrintableText(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the worker's ", what, " '", PrintableText(text, kShown),
                                                 "' has characters that cannot be shown: ", advice));
}

absl::Status CheckCount(absl::string_view what, int count, int most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the worker has ", count, " ", what, "; at most ", most, " are possible"));
}

}  // namespace

absl::Status CheckHello(const WorkerHello& hello) {
  if (hello.name().empty()) return absl::InvalidArgumentError("the worker gives no name");
  ADJOIN_RETURN_IF_ERROR(CheckText("name", hello.name(), "give it another --name"));
  if (hello.slots() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(hello.name(), " offers no slots; --slots has to be at least 1"));
  }
  if (hello.slots() > kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat(hello.name(), " offers ", hello.slots(), " slots; at most ",
                                                   kMaxSlots, " are possible: give it another --slots"));
  }
  if (hello.memory_bytes() > kMaxMemory) {
    return absl::InvalidArgumentError(absl::StrCat(hello.name(), " offers ", hello.memory_bytes(),
                                                   " bytes of memory; at most ", kMaxMemory,
                                                   " are possible: give it another --memory"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckText("address", hello.address(), "give it another --advertise"));
  ADJOIN_RETURN_IF_ERROR(CheckText("node id", hello.node_id(), "its state folder is damaged, take a new one"));
  ADJOIN_RETURN_IF_ERROR(CheckText("output id", hello.output_id(), "use the same release on both sides"));
  ADJOIN_RETURN_IF_ERROR(CheckText("rank program", hello.rank_program(), "use the same release on both sides"));
  ADJOIN_RETURN_IF_ERROR(CheckCount("labels", hello.label_size(), kMaxLabels));
  for (const auto& [key, value] : hello.label()) {
    ADJOIN_RETURN_IF_ERROR(CheckText("label", key, "give it another --label"));
    ADJOIN_RETURN_IF_ERROR(CheckText(absl::StrCat("label ", key), value, "give it another --label"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckCount("layer kinds", hello.builder_size(), kMaxBuilders));
  for (const std::string& builder : hello.builder()) {
    ADJOIN_RETURN_IF_ERROR(CheckText("layer kind", builder, "give it another name"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckCount("GPUs", hello.gpu_size(), kMaxGpus));
  std::set<std::string> uuids;
  for (const Gpu& gpu : hello.gpu()) {
    ADJOIN_RETURN_IF_ERROR(CheckText("GPU's name", gpu.name(), "start it with --gpus none"));
    ADJOIN_RETURN_IF_ERROR(CheckText("GPU's UUID", gpu.uuid(), "start it with --gpus none"));
    if (gpu.uuid().empty() || !uuids.insert(gpu.uuid()).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          hello.name(), " offers ", gpu.uuid().empty() ? "a GPU without a UUID" : absl::StrCat(gpu.uuid(), " twice"),
          ": each needs a UUID of its own"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adjoin
