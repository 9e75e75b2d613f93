#include "cli/view_commands.h"

#include "base/flags.h"

namespace adjoin {

void AddMetricsCommand(CLI::App& app, CommandOptions& options, ViewArguments& arguments, ChosenCommand& chosen) {
  CLI::App* command = app.add_subcommand(
      "metrics", "Show what jobs have measured so far: the lines of their metrics.jsonl, or several jobs in one table");
  MetricsOptions& metrics = arguments.metrics;
  command
      ->add_option(
          "JOB", metrics.jobs,
          "Ids or names (one's own latest job of that name, or else the latest); of several jobs a table has a "
          "column of each field for each job")
      ->required();
  command->add_flag("-f,--follow", metrics.follow, "Go on until the job ends; one job");
  command->add_option("--type", metrics.type, "Only lines of this type")
      ->type_name("step|validation|evaluation|summary");
  command->add_option("--field", metrics.fields, "Only these fields, such as loss,lr")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("FIELDS");
  OneOf(command->add_option(
            "-o,--format", arguments.metrics_format,
            "json: the lines as they are; csv, text: a table of one --type, the steps unless another is given"),
        {"json", "csv", "text"})
      ->capture_default_str();
  OneOf(command->add_option("--by", arguments.metrics_rows,
                            "What a row of a table is: a step, or the last line of an epoch; absent: step"),
        {"step", "epoch"});
  command->callback([&options, &arguments, &metrics, &chosen] {
    chosen = [&options, &arguments, &metrics] {
      metrics.format = arguments.metrics_format == "csv"    ? MetricsFormat::kCsv
                       : arguments.metrics_format == "text" ? MetricsFormat::kText
                                                            : MetricsFormat::kJson;
      metrics.by_epoch = arguments.metrics_rows == "epoch";
      return RunMetrics(options, metrics);
    };
  });
}

void AddCompareCommand(CLI::App& app, CommandOptions& options, ViewArguments& arguments, ChosenCommand& chosen) {
  CLI::App* command = app.add_subcommand("compare",
                                         "Show what differs in two jobs: their specs, losses and metrics, speed, "
                                         "memory; of two files needs no coordinator");
  constexpr char kReference[] =
      "A job's id or name, or a spec's file: a name with a '/' or one that ends in .textproto, .txtpb, .pbtxt or .json";
  CompareOptions& compare = arguments.compare;
  command->add_option("A", compare.a, kReference)->required()->type_name("JOB");
  command->add_option("B", compare.b, "Likewise")->required()->type_name("JOB");
  command->add_option("--steps", compare.steps, "At most so many of the steps that both have, of each metric")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000).description(""))
      ->type_name("N");
  command->add_flag("-w,--wide", compare.wide, "Do not cut lines to the terminal's width");
  OneOf(command->add_option("-o,--format", arguments.compare_format, "How to print it"), {"table", "json", "yaml"})
      ->capture_default_str();
  command->callback([&options, &arguments, &compare, &chosen] {
    chosen = [&options, &arguments, &compare] {
      options.format = arguments.compare_format == "json"   ? Format::kJson
                       : arguments.compare_format == "yaml" ? Format::kYaml
                                                            : Format::kTable;
      return RunCompare(options, compare);
    };
  });
}

void AddTraceCommand(CLI::App& app, CommandOptions& options, ViewArguments& arguments, ChosenCommand& chosen) {
  CLI::App* command = app.add_subcommand(
      "trace", "Record the next steps of a job that trains, and fetch the trace: a file for Perfetto");
  TraceOptions& trace = arguments.trace;
  command->add_option("JOB", trace.job, "Its id, or its name (one's own latest job of that name, or else the latest)")
      ->required();
  command->add_option("--steps", trace.steps, "How many steps")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N");
  command
      ->add_option("-O,--output", trace.output,
                   "Where to write it; - is standard output; absent: its name among the job's results, such as "
                   "trace-41-45.pftrace")
      ->type_name("FILE");
  command->callback([&options, &trace, &chosen] { chosen = [&options, &trace] { return RunTrace(options, trace); }; });
}

void AddTopCommand(CLI::App& app, CommandOptions& options, ViewArguments& arguments, ChosenCommand& chosen) {
  CLI::App* command = app.add_subcommand(
      "top", "Show jobs and workers on the whole terminal, as they are now, until q is pressed; in a pipe once");
  TopOptions& top = arguments.top;
  command->add_option("-i,--interval", top.interval_seconds, "Seconds between two questions to the coordinator")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0).description(""))
      ->type_name("SECONDS");
  command->add_option("--limit", top.limit, "So many of the jobs that have ended, the newest")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000).description(""));
  command->add_option("--owner", top.owner, "Only jobs that this user submitted")->type_name("USER");
  command->callback([&options, &top, &chosen] { chosen = [&options, &top] { return RunTop(options, top); }; });
}

void AddColorOption(CLI::App& app, std::string& color) {
  OneOf(app.add_option("--color", color,
                       "Whether states are painted; auto: on a terminal, unless NO_COLOR is set or TERM is dumb"),
        {"auto", "always", "never"})
      ->capture_default_str();
}

}  // namespace adjoin
