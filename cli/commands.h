// adjoin's commands. All return the process's exit code, or the error for its one line on stderr.
#ifndef ADJOIN_CLI_COMMANDS_H_
#define ADJOIN_CLI_COMMANDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/coordinator_client.h"
#include "cli/derived_job.h"
#include "cli/format.h"
#include "cli/job_display.h"
#include "cli/rates.h"
#include "layers/rules/layer_rule.h"
#include "planner/auto/auto_layouts.h"
#include "planner/spec/spec_include.h"

namespace adjoin {

inline constexpr int kExitFailed = 100;     // the followed job failed
inline constexpr int kExitCancelled = 103;  // the followed job was cancelled

// Options of all commands that call the coordinator.
struct CommandOptions {
  ClientOptions client;
  Format format = Format::kTable;
  bool color = false;  // states are painted, in text for people
};

struct SubmitOptions {
  std::string spec_file;  // "-" is standard input
  SpecChanges changes;
  int32_t priority = 0;
  std::string idempotency_key;
  bool replace = false;  // what an earlier job left in its output_dir
  bool follow = false;
  AutoLayoutOptions layouts;
  RateChoice rates;  // that layouts are chosen by
};

struct LogOptions {
  std::string job;
  std::vector<std::string> ranks;  // "3" or "0-3"; empty: all
  std::string since;               // as ReadSince has it; empty: all
  bool follow = false;
};

enum class MetricsFormat { kJson, kCsv, kText };

struct MetricsOptions {
  std::vector<std::string> jobs;    // at least one
  std::string type;                 // only lines of this type: "step"; empty: all, or in tables steps
  std::vector<std::string> fields;  // only these; empty: all
  MetricsFormat format = MetricsFormat::kJson;
  bool by_epoch = false;  // in tables a row for each epoch instead of each step
  bool follow = false;
};

struct TraceOptions {
  std::string job;
  uint32_t steps = 5;
  std::string output;  // a file, "-" for standard output, empty for the trace's own name
};

struct CompareOptions {
  std::string a, b;   // jobs, or files of specs (IsSpecFile)
  size_t steps = 6;   // at most so many equal steps of each metric
  bool wide = false;  // lines are not cut to the terminal's width
};

struct ExportOptions {
  std::string job, path;
  bool force = false;  // also over a file that is there
  bool best = false;   // the checkpoint of the best validation
  uint64_t step = 0;   // the checkpoint of this step; neither: the model that the job has published
};

struct PsOptions {
  std::vector<std::string> states;  // "running"; empty: all
  std::string owner;                // empty: all
  bool all = false;                 // also the jobs that ended long ago
  uint32_t limit = 50;              // of those that have ended, without `all`
  bool ids_only = false;            // a line with the id of each job, and nothing else
  double watch_seconds = 0;         // again and again, so often; 0: once
};

struct TopOptions {
  std::string owner;    // empty: all
  uint32_t limit = 50;  // of the jobs that have ended
  double interval_seconds = 2;
};

struct PlanOptions {
  std::string spec_file;  // "-" is standard input
  SpecChanges changes;
  std::string data_root = ".";  // the folder of the data files
  Format format = Format::kTable;
  bool wide = false;                // lines are not cut to the terminal's width
  std::string svg_file, html_file;  // pictures are written there, and nothing is printed; at most one is set
  AutoLayoutOptions layouts;
  RateChoice rates;
  ClientOptions client;  // whom RateChoice::of_nodes asks
};

struct RunOptions {
  std::string spec_file;  // "-" is standard input
  SpecChanges changes;
  uint32_t ranks = 0;  // 0: the job's
  std::string data_root = ".", output_root = ".";
  bool replace = false;  // results that are in the job's output_dir already
  AutoLayoutOptions layouts;
  RateChoice rates;  // that layouts are chosen by; not `of_nodes`
};

// `adjoin predict` and `adjoin evaluate`.
struct DerivedOptions {
  std::string job_name;   // of the job that trained
  std::string data_file;  // read into job.data; empty: none
  DerivedJobOptions job;
  SubmitOptions submit;  // spec_file is not used
  bool dry_run = false;  // prints the spec instead
};

absl::StatusOr<int> RunSubmit(const CommandOptions& options, const SubmitOptions& submit, const LayerRules& rules);
// The same of a spec that was read; `submit.spec_file` and `submit.changes` are not looked at.
absl::StatusOr<int> SubmitLoaded(const CommandOptions& options, const SubmitOptions& submit, const LoadedSpec& loaded);
// Runs the job with a coordinator and a worker of its own; the exit code is that of RunFollow. Ctrl-C cancels the job.
absl::StatusOr<int> RunRun(CommandOptions options, const RunOptions& run, const LayerRules& rules);
// Submits a job that applies or measures the model of another one.
absl::StatusOr<int> RunDerived(const CommandOptions& options, DerivedOptions derive, const LayerRules& rules);
// Shows the job until it ends: on `display`, or as the options' format has it. Returns its last state.
absl::StatusOr<JobSummary> ShowUntilEnd(const CommandOptions& options, CoordinatorClient& client,
                                        const std::string& job, JobDisplay& display);
// Shows the job until it ends; Ctrl-C only stops the showing (exit code 0).
absl::StatusOr<int> RunFollow(const CommandOptions& options, const std::string& job);
// Needs no coordinator.
absl::StatusOr<int> RunPlan(const PlanOptions& options, const LayerRules& rules);
// Becomes the program `binary` (empty: adjoin-verify beside this one). Returns only where that fails.
absl::StatusOr<int> RunVerify(const std::string& binary, const std::vector<std::string>& arguments);
absl::StatusOr<int> RunPs(const CommandOptions& options, const PsOptions& ps);
// The jobs and workers again and again on the whole terminal, until the user leaves; where there is none, once.
absl::StatusOr<int> RunTop(const CommandOptions& options, const TopOptions& top);
absl::StatusOr<int> RunDescribe(const CommandOptions& options, const std::string& job);
absl::StatusOr<int> RunEvents(const CommandOptions& options, const std::string& job, bool follow);
absl::StatusOr<int> RunLogs(const CommandOptions& options, const LogOptions& logs);
absl::StatusOr<int> RunCancel(const CommandOptions& options, const std::string& job);
absl::StatusOr<int> RunRetry(const CommandOptions& options, const std::string& job);
// Forgets an ended job. `files`: also removes its results, its checkpoints and what its attempts left.
absl::StatusOr<int> RunRemove(const CommandOptions& options, const std::string& job, bool files);
absl::StatusOr<int> RunHold(const CommandOptions& options, const std::string& job);
absl::StatusOr<int> RunRelease(const CommandOptions& options, const std::string& job);
// `valid_for`: "12h", "30d".
absl::StatusOr<int> RunTokenCreate(const CommandOptions& options, const std::string& user, const std::string& role,
                                   const std::string& valid_for);
absl::StatusOr<int> RunTokenList(const CommandOptions& options);
absl::StatusOr<int> RunTokenRevoke(const CommandOptions& options, const std::string& id);
// A token with which workers get their certificates. `node`: a name, or "any".
absl::StatusOr<int> RunTokenJoin(const CommandOptions& options, const std::string& node, uint32_t uses,
                                 const std::string& valid_for);
absl::StatusOr<int> RunNodeRevoke(const CommandOptions& options, const std::string& node);
// `output`: a file, "-" for standard output, empty for the artifact's own name.
absl::StatusOr<int> RunGet(const CommandOptions& options, const std::string& job, const std::string& name,
                           const std::string& output);
// Has a job that runs trace its next steps, waits for the trace and fetches it.
absl::StatusOr<int> RunTrace(const CommandOptions& options, const TraceOptions& trace);
// What jobs have measured so far, line by line or as a table.
absl::StatusOr<int> RunMetrics(const CommandOptions& options, const MetricsOptions& metrics);
// True of a reference that means a file: it has a '/', or ends as specs do, or is "-", standard input.
bool IsSpecFile(const std::string& reference);
// What differs in two jobs: their specs, what they have measured, how fast they are. Of two files no coordinator is
// asked.
absl::StatusOr<int> RunCompare(const CommandOptions& options, const CompareOptions& compare);
// The model of a job, as one safetensors file with PyTorch's names.
absl::StatusOr<int> RunExport(const CommandOptions& options, const ExportOptions& model);
// Without a coordinator: what an array file holds. `object`: of an HDF5 file; empty: the list of its data sets.
// `format`: an ArrayFormat's name; empty: the content shows it.
absl::StatusOr<int> RunDataInfo(const std::string& path, const std::string& object, const std::string& format);

}  // namespace adjoin

#endif  // ADJOIN_CLI_COMMANDS_H_
