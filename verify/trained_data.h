// The data set that a job trains on, or that it predicts, and its fields.
//
//   const Field* image = FieldOf(TrainedData(spec), "image");
#ifndef ADJOIN_VERIFY_TRAINED_DATA_H_
#define ADJOIN_VERIFY_TRAINED_DATA_H_

#include <string>

#include "proto/job.pb.h"

namespace adjoin {

// `spec` has passed the planner, so there is one.
inline const Dataset& TrainedData(const JobSpec& spec) {
  const std::string& name = spec.kind() == PREDICT ? spec.predict().dataset() : spec.train().dataset();
  int index = 0;
  while (spec.dataset(index).name() != name) ++index;
  return spec.dataset(index);
}

// Null where there is none of this name.
inline const Field* FieldOf(const Dataset& dataset, const std::string& name) {
  for (const Field& field : dataset.field()) {
    if (field.name() == name) return &field;
  }
  return nullptr;
}

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_TRAINED_DATA_H_
