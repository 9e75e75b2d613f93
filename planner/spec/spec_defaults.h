// The values that fields of a job have where the job does not say them, as far as they follow from the job alone.
//
//   WithDefaults(spec).layer(0).conv().groups();    // 1, where the spec has no groups
//
// What depends on data files or on a layer's shapes (Activation.arg, Layer.y, Train.validate_every) stays absent.
#ifndef ADJOIN_PLANNER_SPEC_SPEC_DEFAULTS_H_
#define ADJOIN_PLANNER_SPEC_SPEC_DEFAULTS_H_

#include <vector>

#include <google/protobuf/message.h>

#include "proto/job.pb.h"

namespace adjoin {

// A field whose default is always the same. A test compares the list with the comments of job.proto.
struct SpecDefault {
  const char* message;  // "Conv"
  const char* field;    // "groups"
  const char* value;    // in text format; of a list its only element
};
const std::vector<SpecDefault>& SpecDefaults();

// Writes the values of SpecDefaults into the message itself, where they are absent; not into its groups of fields.
void FillDefaults(google::protobuf::Message* message);

// Returns the job with its defaults written out, and what has several ways of being written in one of them: a list of
// equal values per dim as one value. The jobs so returned mean the same where they are equal.
JobSpec WithDefaults(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_DEFAULTS_H_
