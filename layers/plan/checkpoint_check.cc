#include "layers/plan/checkpoint_check.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/plan/name_check.h"
#include "layers/plan/spec_error.h"

namespace adjoin {

absl::Status CheckCheckpoint(const JobSpec& spec) {
  if (!spec.has_checkpoint()) return absl::OkStatus();
  const Checkpoint& checkpoint = spec.checkpoint();
  ADJOIN_RETURN_IF_ERROR(CheckPath("checkpoint.dir", "--output-root", checkpoint.dir()));
  return CheckPath("checkpoint.resume_from", "--output-root", checkpoint.resume_from());
}

}  // namespace adjoin
