#include "cli/command_line.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/completion.h"
#include "base/endpoint.h"
#include "base/flags.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "base/security/tls.h"
#include "base/shell_completion.h"
#include "base/status_macros.h"
#include "base/watchdog.h"
#include "cli/access_commands.h"
#include "cli/color.h"
#include "cli/commands.h"
#include "cli/completed_names.h"
#include "cli/import.h"
#include "cli/rate_flags.h"
#include "cli/view_commands.h"
#include "planner/auto/auto_flags.h"
#include "verify/command_flags.h"
#include "worker/data/array_formats.h"

namespace adjoin {
namespace {

struct Arguments {
  CommandOptions options;
  double retry_seconds = 30;
  SubmitOptions submit;
  LogOptions logs;
  PsOptions ps;
  ViewArguments views;
  std::string color = "auto";
  ExportOptions model;
  std::string job, name, output;
  PlanOptions plan;
  RunOptions run;
  DerivedOptions derived;
  ImportCommand import;
  std::string verify_binary;
  std::string object, data_format;
  AccessArguments access;
  std::string shell;
  bool follow = false, files = false;
  TlsFiles tls;
  std::string token_file;
  const LayerRules* rules = nullptr;
};

using Command = std::function<absl::StatusOr<int>()>;

absl::Status SetCredentials(Arguments& a) {
  ADJOIN_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(a.options.client.address));
  ADJOIN_ASSIGN_OR_RETURN(a.options.client.credentials,
                          MakeChannelCredentials(endpoint, a.tls, a.token_file, &a.options.client.check_server));
  return absl::OkStatus();
}

void AddFormat(CLI::App* command, Arguments& a, const std::string& flags = "-o,--format") {
  AddFormatOption(command, a.options, flags);
}

void AddJob(CLI::App* command, Arguments& a) {
  command->add_option("JOB", a.job, "Its id, or its name (one's own latest job of that name, or else the latest)")
      ->required();
}

void AddChanges(CLI::App* command, Arguments& a) {
  command
      ->add_option("--set", a.submit.changes.set,
                   "PATH=VALUE: a field of the job to change first, such as train.batch=32 or "
                   "layer[conv1].conv.out_channels=8; may be given again and again")
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
  command
      ->add_option("--unset", a.submit.changes.unset,
                   "PATH: a field, a group or an element of a list to remove first, such as train or dataset[test]; "
                   "may be given again and again; done before --set")
      ->allow_extra_args(false)
      ->type_name("PATH");
}

void AddSpec(CLI::App* command, Arguments& a) {
  command->add_option("SPEC", a.submit.spec_file, "The job's file, text format or JSON; - reads standard input")
      ->required();
  AddChanges(command, a);
}

void AddReplace(CLI::App* command, Arguments& a) {
  command->add_flag("--replace", a.submit.replace,
                    "Its results may take the place of what an earlier job left in the same output_dir");
}

// `--auto` and what goes with it. `run` has ranks of its own, and asks no coordinator.
void AddAuto(CLI::App* command, Arguments& a, bool of_run = false) {
  AutoLayoutOptions& layouts = a.submit.layouts;
  AddAutoFlags(command, layouts);
  AddRateFlags(command, a.submit.rates, /*with_nodes=*/!of_run);
  if (of_run) return;
  command->add_option("--ranks", layouts.ranks, "With --auto: for so many ranks; absent: as the job says")
      ->type_name("N");
}

// `predict` and `evaluate`.
void AddDerived(CLI::App* command, Arguments& a, Kind kind, Command& chosen) {
  DerivedJobOptions& job = a.derived.job;
  AddJob(command, a);
  command->add_option("--dataset", job.dataset, "One of the job's data sets, or of --data")->type_name("NAME");
  command
      ->add_option("--data", a.derived.data_file,
                   "A file with dataset { ... }: in place of the job's of the same name, or added to them")
      ->type_name("FILE");
  CLI::Option* best = command->add_flag("--best", job.best,
                                        "Take the checkpoint of the best validation, also of a job that runs, failed "
                                        "or was cancelled");
  command->add_option("--step", job.step, "Take the checkpoint of this step, likewise")
      ->check(CLI::PositiveNumber.description(""))
      ->excludes(best)
      ->type_name("N");
  command->add_option("--batch", job.batch, "Samples at once, over all ranks together")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  command->add_option("--name", job.name, "Of the new job; absent: the job's, with what this does");
  command->add_option("--output-dir", job.output_dir, "Where it writes; absent: beside the job's")->type_name("DIR");
  if (kind == PREDICT) {
    command->add_option("--input", job.input, "A layer whose output is written; absent: what the losses read")
        ->allow_extra_args(false)
        ->type_name("LAYER");
    OneOf(command->add_option("--format", job.format, "Of the files"), {"npy", "hdf5", "nifti"})->capture_default_str();
    command->add_flag("--classes", job.classes, "Write the index of the largest channel, as uint8");
  } else {
    command->add_option("--metric", job.metric, "loss, accuracy, dice, ...; absent: the job's, or else loss")
        ->delimiter(',')
        ->allow_extra_args(false);
  }
  AddChanges(command, a);
  AddAuto(command, a);
  AddReplace(command, a);
  command->add_flag("-f,--follow", a.submit.follow,
                    "Show its progress until it ends; exit code 100 if it fails, 103 if cancelled");
  command->add_flag("--dry-run", a.derived.dry_run, "Print the job instead of submitting it");
  AddFormat(command, a, "-o");
  command->callback([&a, &chosen, kind] {
    chosen = [&a, kind] {
      a.derived.job_name = a.job;
      a.derived.job.kind = kind;
      a.derived.submit = a.submit;
      return RunDerived(a.options, a.derived, *a.rules);
    };
  });
}

absl::StatusOr<int> PlanWith(Arguments& a) {
  a.plan.spec_file = a.submit.spec_file;
  a.plan.changes = a.submit.changes;
  a.plan.format = a.options.format;
  a.plan.layouts = a.submit.layouts;
  a.plan.rates = a.submit.rates;
  if (a.plan.rates.of_nodes) {
    ADJOIN_RETURN_IF_ERROR(SetCredentials(a));
    a.plan.client = a.options.client;
    a.plan.client.retry = absl::ZeroDuration();  // who plans does not wait for a coordinator
  }
  return RunPlan(a.plan, *a.rules);
}

void AddJobCommands(CLI::App& app, Arguments& a, Command& chosen) {
  CLI::App* submit = app.add_subcommand("submit", "Submit a job; prints its id");
  AddSpec(submit, a);
  submit->add_option("--priority", a.submit.priority, "Higher ones start first")->capture_default_str();
  submit
      ->add_option("--idempotency-key", a.submit.idempotency_key,
                   "Submitting again with the same key and job is the same job; with another job it is an error")
      ->type_name("KEY");
  AddReplace(submit, a);
  submit->add_flag("-f,--follow", a.submit.follow,
                   "Show its progress until it ends; exit code 100 if it fails, 103 if cancelled");
  AddAuto(submit, a);
  AddFormat(submit, a);
  submit->callback([&] { chosen = [&] { return RunSubmit(a.options, a.submit, *a.rules); }; });

  CLI::App* follow =
      app.add_subcommand("follow", "Show a job's progress until it ends; exit code 100 if it fails, 103 if cancelled");
  AddJob(follow, a);
  AddFormat(follow, a);
  follow->callback([&] { chosen = [&] { return RunFollow(a.options, a.job); }; });

  CLI::App* plan = app.add_subcommand("plan", "Check a job and show its layouts and movements; needs no coordinator");
  AddSpec(plan, a);
  plan->add_option("--data-root", a.plan.data_root, "Where its data files are looked for, for their sizes")
      ->capture_default_str()
      ->type_name("DIR");
  AddAuto(plan, a);
  plan->get_option("--ranks")->description(
      "With --auto: for so many ranks, or a table for A..B; absent: as the job says");
  plan->add_option("--diff", a.submit.layouts.diff, "With --auto: also how the layouts differ from those of this job")
      ->type_name("FILE");
  plan->add_flag("--emit", a.submit.layouts.emit,
                 "With --auto: print the job with its layouts and nothing else; comments are lost");
  plan->get_option("--rates")->description(
      "Table of rates that the step's time is predicted with, as adjoin-worker --calibrate keeps it; absent: one that "
      "is built in");
  plan->get_option("--measured")->description("Predict with the rates that the coordinator's nodes have measured");
  plan->add_flag("-w,--wide", a.plan.wide, "Do not cut lines to the terminal's width");
  plan->add_option("--svg", a.plan.svg_file, "Write a picture of the plan to this file, as SVG, and print nothing")
      ->type_name("FILE");
  plan->add_option("--html", a.plan.html_file, "The same as a page that needs nothing but this file")
      ->type_name("FILE");
  AddFormat(plan, a);
  plan->callback([&] { chosen = [&] { return PlanWith(a); }; });

  CLI::App* run = app.add_subcommand(
      "run", "Run a job on this machine until it ends, with daemons of its own; needs no coordinator");
  AddSpec(run, a);
  run->add_option("-n,--ranks", a.run.ranks, "How many ranks; absent: as the job says")->check(CLI::Range(1, 100000));
  run->add_option("--data-root", a.run.data_root, "Folder below which the job reads")
      ->capture_default_str()
      ->type_name("DIR");
  run->add_option("--output-root", a.run.output_root, "Folder below which it writes")
      ->capture_default_str()
      ->type_name("DIR");
  run->add_flag("--replace", a.run.replace, "Replace the results that are in the job's output_dir already");
  AddAuto(run, a, /*of_run=*/true);
  AddFormat(run, a);
  run->callback([&] {
    chosen = [&] {
      a.run.spec_file = a.submit.spec_file;
      a.run.changes = a.submit.changes;
      a.run.layouts = a.submit.layouts;
      a.run.rates = a.submit.rates;
      return RunRun(a.options, a.run, *a.rules);
    };
  });

  CLI::App* verify = app.add_subcommand(
      "verify",
      "Compare a job's model, partitioned, with the serial one on a small random input; needs no coordinator");
  verify
      ->add_option("--verify-binary", a.verify_binary,
                   "The program that does it; absent: adjoin-verify beside this one")
      ->type_name("FILE");
  // All else is that program's to read, --help too.
  verify->set_help_flag();
  verify->allow_extras()->fallthrough(false);
  verify->callback([&, verify] {
    chosen = [&a, arguments = verify->remaining()] { return RunVerify(a.verify_binary, arguments); };
  });

  AddDerived(app.add_subcommand("predict", "Submit a job that writes what a trained job's network returns"), a, PREDICT,
             chosen);
  AddDerived(app.add_subcommand("evaluate", "Submit a job that measures a trained job's network"), a, EVALUATE, chosen);

  using Change = absl::StatusOr<int> (*)(const CommandOptions&, const std::string&);
  auto add_change = [&](const char* name, const char* description, Change change) {
    CLI::App* command = app.add_subcommand(name, description);
    AddJob(command, a);
    AddFormat(command, a);
    command->callback([&a, &chosen, change] { chosen = [&a, change] { return change(a.options, a.job); }; });
  };
  add_change("cancel", "Stop a job", RunCancel);
  add_change("retry", "Let a job that failed or was cancelled wait for its turn again", RunRetry);
  add_change("hold", "Keep a waiting job from starting until it is released; it keeps its place in the queue", RunHold);
  add_change("release", "Let a held job start", RunRelease);

  CLI::App* remove =
      app.add_subcommand("rm", "Remove a job that has ended from the list, with its log and its history");
  AddJob(remove, a);
  remove->add_flag("--files", a.files,
                   "Also remove its results, its checkpoints and what its attempts left; not what other jobs or users "
                   "have in the same folders");
  AddFormat(remove, a);
  remove->callback([&a, &chosen] { chosen = [&a] { return RunRemove(a.options, a.job, a.files); }; });
}

void AddImport(CLI::App& app, Arguments& a, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("import", "Make a job and its weights of a model that PyTorch exported; needs no coordinator");
  command->add_option("MODEL", a.import.model,
                      "An archive of torch.export.save, such as model.pt2, or of torch.jit.save");
  command->add_option("-o,--output", a.import.job, "The job's file to write; absent: standard output")
      ->type_name("FILE");
  command->add_option("--weights", a.import.weights, "The weights' file to write, such as model.safetensors")
      ->type_name("FILE");
  command
      ->add_option("--input", a.import.inputs,
                   "The fields of the job's data that the model's arguments are, in their order; absent: of the "
                   "arguments' own names")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FIELDS");
  command
      ->add_option("--example-shape", a.import.examples,
                   "Of a model of torch.jit.trace the shapes that it was traced with, one for each argument, such as "
                   "2x3x64x64 or 2x16:int64")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("SHAPES");
  command->add_option("--template", a.import.frame, "A job without layers, for all the rest; its comments are lost")
      ->type_name("FILE");
  command->add_flag("--outline", a.import.outline, "Leave custom layers in place of what is not known");
  command->add_flag("--force", a.import.force, "Write over files that are there");
  command->add_flag("--script", a.import.script, "Print the lines of Python that export a model, and do nothing else");
  command->callback([&] { chosen = [&] { return RunImport(a.import); }; });
}

void AddData(CLI::App& app, Arguments& a, Command& chosen) {
  CLI::App* data = app.add_subcommand("data", "Data files; needs no coordinator");
  data->require_subcommand(1);
  CLI::App* info = data->add_subcommand("info", "Show an array file's shape, type, range and histogram");
  const ArrayFormats& formats = BuiltinArrayFormats();
  info->add_option("FILE", a.name, absl::StrCat("An array file: ", formats.Titles()))->required();
  info->add_option("--object", a.object, "The data set in an HDF5 file; absent: lists those it has")->type_name("NAME");
  info->add_option("--format", a.data_format, "Of the file; absent: what the content shows")
      ->type_name(absl::StrReplaceAll(formats.Names(), {{", ", "|"}, {" or ", "|"}}));
  info->callback([&] { chosen = [&] { return RunDataInfo(a.name, a.object, a.data_format); }; });
}

void AddQueries(CLI::App& app, Arguments& a, Command& chosen) {
  CLI::App* ps = app.add_subcommand("ps", "List the jobs and the workers");
  ps->add_flag("-a,--all", a.ps.all, "Also the jobs that ended long ago");
  ps->add_option("--limit", a.ps.limit, "So many of the jobs that have ended, the newest")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000).description(""))
      ->excludes("--all");
  ps->add_flag("-q,--quiet", a.ps.ids_only, "Only the jobs' ids, one on a line");
  ps->add_option("-w,--watch", a.ps.watch_seconds, "Again and again, so many seconds apart; without a number: 2")
      ->expected(0, 1)
      ->default_str("2")
      ->check(CLI::Range(0.1, 3600.0).description(""))
      ->type_name("SECONDS");
  ps->add_option("--owner", a.ps.owner, "Only jobs that this user submitted")->type_name("USER");
  ps->add_option("--state", a.ps.states, "Only jobs in these states, such as pending,running")
      ->delimiter(',')
      ->allow_extra_args(false);
  OneOf(ps->get_option("--state"), {"pending", "starting", "running", "succeeded", "failed", "cancelled"});
  AddFormat(ps, a);
  ps->callback([&] { chosen = [&] { return RunPs(a.options, a.ps); }; });

  CLI::App* describe = app.add_subcommand("describe", "Show all that is known of a job");
  AddJob(describe, a);
  AddFormat(describe, a);
  describe->callback([&] { chosen = [&] { return RunDescribe(a.options, a.job); }; });

  CLI::App* events = app.add_subcommand("events", "Show a job's history, oldest first");
  AddJob(events, a);
  events->add_flag("-f,--follow", a.follow, "Go on until the job ends");
  AddFormat(events, a);
  events->callback([&] { chosen = [&] { return RunEvents(a.options, a.job, a.follow); }; });

  CLI::App* logs = app.add_subcommand("logs", "Show what a job's ranks wrote, in all of its attempts");
  AddJob(logs, a);
  logs->add_option("--rank", a.logs.ranks, "Only these ranks, such as 0-3,7")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("RANKS");
  logs->add_option("--since", a.logs.since, "Only lines from then on: 10m, 2h, 7d ago, or 2026-11-20T14:00:00")
      ->type_name("TIME");
  logs->add_flag("-f,--follow", a.logs.follow, "Go on until the job ends");
  AddFormat(logs, a);
  logs->callback([&] {
    chosen = [&] {
      a.logs.job = a.job;
      return RunLogs(a.options, a.logs);
    };
  });

  AddMetricsCommand(app, a.options, a.views, chosen);
  AddCompareCommand(app, a.options, a.views, chosen);
  AddTraceCommand(app, a.options, a.views, chosen);
  AddTopCommand(app, a.options, a.views, chosen);

  CLI::App* get = app.add_subcommand("get", "Fetch a result of a job");
  AddJob(get, a);
  get->add_option("NAME", a.name, "model.safetensors, metrics.jsonl, ...")->required();
  get->add_option("-O,--output", a.output, "Where to write it; - is standard output; absent: NAME")->type_name("FILE");
  get->callback([&] { chosen = [&] { return RunGet(a.options, a.job, a.name, a.output); }; });

  CLI::App* model = app.add_subcommand("export", "Write a job's trained model to a file that PyTorch can read");
  AddJob(model, a);
  model->add_option("FILE", a.model.path, "A safetensors file, such as model.safetensors")->required();
  CLI::Option* best = model->add_flag("--best", a.model.best,
                                      "The checkpoint of the best validation, also of a job that runs, failed or was "
                                      "cancelled");
  model->add_option("--step", a.model.step, "The checkpoint of this step, likewise")
      ->check(CLI::PositiveNumber.description(""))
      ->excludes(best)
      ->type_name("N");
  model->add_flag("--force", a.model.force, "Write over a file that is there");
  model->callback([&] {
    chosen = [&] {
      a.model.job = a.job;
      return RunExport(a.options, a.model);
    };
  });
}

void AddCompletion(CLI::App& app, Arguments& a, Command& chosen) {
  CLI::App* completion = app.add_subcommand("completion", "Print the completion of this command for a shell");
  OneOf(completion->add_option("SHELL", a.shell, "Whose"), {"bash", "zsh", "fish"})->required();
  completion->callback([&] {
    chosen = [&]() -> absl::StatusOr<int> {
      ADJOIN_ASSIGN_OR_RETURN(const std::string script, CompletionScript("adjoin", a.shell));
      std::cout << script;
      return 0;
    };
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// What Tab offers

std::vector<Suggestion> CompletedValues(Arguments& a, const std::string& type) {
  if (type != "JOB" && type != "ID") return {};
  // Ends also what has no deadline, such as the look-up of a name. Nothing was printed before.
  Watchdog late(CompletionPatience(), [] { _exit(0); });
  if (!SetCredentials(a).ok()) return {};
  a.options.client.retry = absl::ZeroDuration();
  return type == "JOB" ? JobSuggestions(a.options.client) : TokenSuggestions(a.options.client);
}

}  // namespace

int RunAdjoin(int argc, char** argv, const LayerRules& rules) {
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // before gRPC starts: what goes wrong is said once, below
  InitLogging("adjoin", LogFormat::kText, /*quiet=*/true);
  Arguments arguments;
  arguments.rules = &rules;
  Command chosen;
  CLI::App app("Trains networks whose tensors do not fit one machine", "adjoin");
  app.footer(
      "`adjoin COMMAND --help` shows the options of one command.\n"
      "Exit codes: 0 done, 1 an error (a line on stderr says which), 2 wrong usage; of a followed job 100 if it "
      "failed, "
      "103 if it was cancelled.");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--coordinator", arguments.options.client.address, "HOST:PORT of the coordinator")
      ->capture_default_str()
      ->type_name("HOST:PORT")
      ->envname("ADJOIN_COORDINATOR");
  app.add_option("--retry-seconds", arguments.retry_seconds,
                 "How long to try again while the coordinator does not answer; 0: not at all")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6).description(""));
  AddColorOption(app, arguments.color);
  AddTlsOptions(app, arguments.tls);
  AddTokenOption(app, arguments.token_file);
  AddJobCommands(app, arguments, chosen);
  AddQueries(app, arguments, chosen);
  AddImport(app, arguments, chosen);
  AddData(app, arguments, chosen);
  AddTokenCommands(app, arguments.options, arguments.access, chosen);
  AddNodeCommands(app, arguments.options, arguments.access, chosen);
  AddCompletion(app, arguments, chosen);
  AddConfigSources(app, "ADJOIN_");
  const ManPageOptions page = {.section = 1,
                               .see_also = {"adjoin-verify(1)", "adjoin-coordinator(8)", "adjoin-worker(8)"}};
  CLI::App verify;
  VerifyFlags verify_flags;
  AddVerifyFlags(verify, verify_flags);
  CompletionSources sources;
  sources.values = [&](const std::string& type, const std::vector<std::string>&) {
    return CompletedValues(arguments, type);
  };
  sources.handed_on = [&](const CLI::App& command) { return command.get_name() == "verify" ? &verify : nullptr; };
  if (std::optional<int> code = ParseFlags(app, argc, argv, page, sources)) return *code;
  signal(SIGPIPE, SIG_DFL);  // `adjoin logs JOB | head` ends quietly
  arguments.options.color = UsesColor(ColorChoiceOf(arguments.color));
  arguments.options.client.retry = absl::Seconds(arguments.retry_seconds);
  arguments.options.client.notice = [](const std::string& text) {
    std::cerr << "adjoin: " << PrintableText(text) << std::endl;
  };
  const bool alone =
      app.got_subcommand("plan") || app.got_subcommand("run") || app.got_subcommand("verify") ||
      app.got_subcommand("data") || app.got_subcommand("import") || app.got_subcommand("completion") ||
      (app.got_subcommand("compare") && IsSpecFile(arguments.views.compare.a) && IsSpecFile(arguments.views.compare.b));
  absl::Status status = alone ? absl::OkStatus() : SetCredentials(arguments);
  absl::StatusOr<int> code = status.ok() ? chosen() : status;
  if (code.ok() && !std::cout.flush()) code = absl::DataLossError("standard output cannot be written");
  if (code.ok()) return *code;
  std::cerr << "adjoin: error: " << PrintableText(code.status().message()) << std::endl;
  return 1;
}

}  // namespace adjoin
