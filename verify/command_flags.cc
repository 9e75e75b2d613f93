#include "verify/command_flags.h"

#include "planner/auto/auto_flags.h"

namespace adjoin {

void AddVerifyFlags(CLI::App& app, VerifyFlags& flags) {
  app.footer(
      "Needs no coordinator and no data files. What is absent is as the job's verify { } says.\n"
      "Exit codes: 0 no deviation, 1 a deviation or an error, 2 wrong usage.");
  app.add_option("SPEC", flags.file, "The job's file, text format or JSON; - reads standard input")->required();
  app.add_option(
         "--ranks", flags.ranks,
         "Numbers of ranks, such as 1,2,4: layouts are re-cut, with --auto chosen for each; absent: the job's own")
      ->delimiter(',');
  app.add_option("--batch", flags.batch, "Samples per step; absent: a few for each part of the batch");
  app.add_option("--tolerance", flags.tolerance,
                 "Largest relative difference; absent: 1e-10; with --against 1e-4 of float32");
  app.add_option("--steps", flags.steps, "Optimizer steps; absent: 1");
  app.add_option("--seed", flags.seed, "Of parameters and samples")->capture_default_str();
  app.add_option("--set", flags.changes.set, "PATH=VALUE: a field of the job to change first, as of `adjoin submit`")
      ->allow_extra_args(false)
      ->type_name("PATH=VALUE");
  app.add_option("--unset", flags.changes.unset, "PATH: a field of the job to remove first, as of `adjoin submit`")
      ->allow_extra_args(false)
      ->type_name("PATH");
  CLI::Option* sample = app.add_option("--against", flags.sample,
                                       "SAMPLE.npz: compare with what PyTorch computed: input.<field>, output, "
                                       "output.<layer>, in evaluation mode")
                            ->type_name("FILE");
  app.add_option("--weights", flags.weights, "With --against: the model's safetensors file")
      ->needs(sample)
      ->type_name("FILE");
  app.add_option("--data-root", flags.data_root, "With --against: the folder of the job's weights.init_from")
      ->needs(sample)
      ->type_name("DIR");
  for (const char* other : {"--batch", "--steps", "--seed"}) sample->excludes(app.get_option(other));
  AddAutoFlags(&app, flags.layouts);
}

}  // namespace adjoin
