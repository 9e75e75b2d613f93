// The files of a field, whatever their format.
//
//   const File* files = FilesOf(field);    // field.npy(); null where the field has no files
//   SourceName(field);                     // "npy": the field of Field and the format's name
#ifndef ADJOIN_PLANNER_SPEC_FIELD_FILES_H_
#define ADJOIN_PLANNER_SPEC_FIELD_FILES_H_

#include <string>

#include "proto/job.pb.h"

namespace adjoin {

inline const File* FilesOf(const Field& field) {
  switch (field.source_case()) {
    case Field::kIdx:
      return &field.idx();
    case Field::kNpy:
      return &field.npy();
    case Field::kHdf5:
      return &field.hdf5();
    case Field::kNifti:
      return &field.nifti();
    case Field::kSynthetic:
    case Field::SOURCE_NOT_SET:
      break;
  }
  return nullptr;
}

// Returns "synthetic" for a field without files; empty where the field has no source.
inline std::string SourceName(const Field& field) {
  switch (field.source_case()) {
    case Field::kIdx:
      return "idx";
    case Field::kNpy:
      return "npy";
    case Field::kHdf5:
      return "hdf5";
    case Field::kNifti:
      return "nifti";
    case Field::kSynthetic:
      return "synthetic";
    case Field::SOURCE_NOT_SET:
      break;
  }
  return "";
}

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_FIELD_FILES_H_
