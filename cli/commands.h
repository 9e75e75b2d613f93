// What each of adjoin's commands does. All return the process's exit code, or the error for its one line on stderr.
#ifndef ADJOIN_CLI_COMMANDS_H_
#define ADJOIN_CLI_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/plan/layer_rule.h"

namespace adjoin {

inline constexpr int kExitFailed = 100;     // the followed job failed
inline constexpr int kExitCancelled = 103;  // the followed job was cancelled

absl::StatusOr<int> RunSubmit(const std::string& coordinator, const std::string& spec_file, bool follow);
// Until the job ends; Ctrl-C only stops looking (exit code 0).
absl::StatusOr<int> RunFollow(const std::string& coordinator, const std::string& job);
// Without a coordinator. `data_root`: where the data files are looked for.
absl::StatusOr<int> RunPlan(const std::string& spec_file, const std::string& data_root, const LayerRules& rules);
// Becomes the program `binary` (empty: adjoin-verify beside this one). Returns only where that fails.
absl::StatusOr<int> RunVerify(const std::string& binary, const std::vector<std::string>& arguments);
absl::StatusOr<int> RunPs(const std::string& coordinator);
absl::StatusOr<int> RunDescribe(const std::string& coordinator, const std::string& job);
absl::StatusOr<int> RunLogs(const std::string& coordinator, const std::string& job, const std::vector<uint32_t>& ranks,
                            bool follow);
absl::StatusOr<int> RunCancel(const std::string& coordinator, const std::string& job);
// `output`: a file, "-" for standard output, empty for the artifact's own name.
absl::StatusOr<int> RunGet(const std::string& coordinator, const std::string& job, const std::string& name,
                           const std::string& output);

}  // namespace adjoin

#endif  // ADJOIN_CLI_COMMANDS_H_
