#include "planner/auto/auto_flags.h"

#include <cstdint>

#include "CLI/CLI.hpp"

namespace adjoin {

void AddAutoFlags(CLI::App* command, AutoLayoutOptions& layouts) {
  command->add_flag("--auto", layouts.chosen,
                    "Choose all layouts, in place of those that the job has, so that a step takes the least time");
  command
      ->add_option("--memory", layouts.memory_bytes,
                   "With --auto: for the tensors of each rank, such as 4GiB; absent: as the job's "
                   "resources.memory_bytes says")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false).description("SIZE"))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 60).description(""));
  command
      ->add_option("--pin", layouts.pin,
                   "With --auto: LAYER=PARTITION, a layer that reads its input in this partition, or in this layout of "
                   "the job; several, with commas or again and again")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LAYER=PARTITION");
}

}  // namespace adjoin
