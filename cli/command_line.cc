#include "cli/command_line.h"

#include <signal.h>

#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "cli/commands.h"

namespace adjoin {
namespace {

struct Arguments {
  std::string coordinator = "127.0.0.1:7411";
  std::string spec, job, name, output;
  std::string data_root = ".";
  std::string verify_binary;
  std::vector<uint32_t> ranks;
  bool follow = false;
  const LayerRules* rules = nullptr;
};

using Command = std::function<absl::StatusOr<int>()>;

// Errors: kInvalidArgument.
absl::Status CheckCoordinator(const std::string& address) {
  ADJOIN_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(address));
  if (endpoint.IsLoopback()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--coordinator ", address, " is on another machine, which needs mutual "
                                                 "TLS, and that is not supported yet: only loopback is"));
}

void AddJobCommands(CLI::App& app, Arguments& a, Command& chosen) {
  CLI::App* submit = app.add_subcommand("submit", "Submit a job; prints its id");
  submit->add_option("SPEC", a.spec, "The job's file, text format or JSON; - reads standard input")->required();
  submit->add_flag("-f,--follow", a.follow, "Show its progress until it ends; exit code 100 if it fails, 103 if cancelled");
  submit->callback([&] { chosen = [&] { return RunSubmit(a.coordinator, a.spec, a.follow); }; });

  CLI::App* follow =
      app.add_subcommand("follow", "Show a job's progress until it ends; exit code 100 if it fails, 103 if cancelled");
  follow->add_option("JOB", a.job, "Its id, or its name")->required();
  follow->callback([&] { chosen = [&] { return RunFollow(a.coordinator, a.job); }; });

  CLI::App* plan = app.add_subcommand("plan", "Check a job and show its layouts and movements; needs no coordinator");
  plan->add_option("SPEC", a.spec, "The job's file, text format or JSON; - reads standard input")->required();
  plan->add_option("--data-root", a.data_root, "Where its data files are looked for, for their sizes")->capture_default_str();
  plan->callback([&] { chosen = [&] { return RunPlan(a.spec, a.data_root, *a.rules); }; });

  CLI::App* verify = app.add_subcommand(
      "verify", "Compare a job's model, partitioned, with the serial one on a small random input; needs no coordinator");
  verify->add_option("--verify-binary", a.verify_binary, "The program that does it; absent: adjoin-verify beside this one");
  // All else is that program's to read, --help too.
  verify->set_help_flag();
  verify->allow_extras()->fallthrough(false);
  verify->callback([&, verify] {
    chosen = [&a, arguments = verify->remaining()] { return RunVerify(a.verify_binary, arguments); };
  });

  CLI::App* cancel = app.add_subcommand("cancel", "Stop a job");
  cancel->add_option("JOB", a.job, "Its id, or its name")->required();
  cancel->callback([&] { chosen = [&] { return RunCancel(a.coordinator, a.job); }; });
}

void AddQueries(CLI::App& app, Arguments& a, Command& chosen) {
  CLI::App* ps = app.add_subcommand("ps", "List the jobs and the workers");
  ps->callback([&] { chosen = [&] { return RunPs(a.coordinator); }; });

  CLI::App* describe = app.add_subcommand("describe", "Show all that is known of a job");
  describe->add_option("JOB", a.job, "Its id, or its name")->required();
  describe->callback([&] { chosen = [&] { return RunDescribe(a.coordinator, a.job); }; });

  CLI::App* logs = app.add_subcommand("logs", "Show what a job's ranks wrote");
  logs->add_option("JOB", a.job, "Its id, or its name")->required();
  logs->add_option("--rank", a.ranks, "Only these ranks, such as 0,2")->delimiter(',');
  logs->add_flag("-f,--follow", a.follow, "Go on until the job ends");
  logs->callback([&] { chosen = [&] { return RunLogs(a.coordinator, a.job, a.ranks, a.follow); }; });

  CLI::App* get = app.add_subcommand("get", "Fetch a result of a job");
  get->add_option("JOB", a.job, "Its id, or its name")->required();
  get->add_option("NAME", a.name, "model.safetensors, metrics.jsonl, ...")->required();
  get->add_option("-O,--output", a.output, "Where to write it; - is standard output; absent: NAME");
  get->callback([&] { chosen = [&] { return RunGet(a.coordinator, a.job, a.name, a.output); }; });
}

}  // namespace

int RunAdjoin(int argc, char** argv, const LayerRules& rules) {
  Arguments arguments;
  arguments.rules = &rules;
  Command chosen;
  CLI::App app("Trains networks whose tensors do not fit one machine", "adjoin");
  app.footer("`adjoin COMMAND --help` shows the options of one command.\n"
             "Exit codes: 0 done, 1 an error (a line on stderr says which), 2 wrong usage; of a followed job 100 if it failed, "
             "103 if it was cancelled.");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--coordinator", arguments.coordinator, "HOST:PORT of the coordinator")
      ->capture_default_str()->envname("ADJOIN_COORDINATOR");
  AddJobCommands(app, arguments, chosen);
  AddQueries(app, arguments, chosen);
  AddConfigSources(app, "ADJOIN_");
  if (std::optional<int> code = ParseFlags(app, argc, argv)) return *code;
  signal(SIGPIPE, SIG_DFL);  // `adjoin logs JOB | head` ends quietly
  const bool alone = app.got_subcommand("plan") || app.got_subcommand("verify");
  absl::Status status = alone ? absl::OkStatus() : CheckCoordinator(arguments.coordinator);
  absl::StatusOr<int> code = status.ok() ? chosen() : status;
  if (code.ok() && !std::cout.flush()) code = absl::DataLossError("standard output cannot be written");
  if (code.ok()) return *code;
  std::cerr << "adjoin: error: " << code.status().message() << std::endl;
  return 1;
}

}  // namespace adjoin
