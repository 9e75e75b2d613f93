// The files of a field, whatever their format.
//
//   const File* files = FilesOf(field);    // field.npy(); null where the field has no files
//   SourceName(field);                     // "npy": the field of Field.source, and the format's name
#ifndef ADJOIN_PLANNER_SPEC_FIELD_FILES_H_
#define ADJOIN_PLANNER_SPEC_FIELD_FILES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace adjoin {

const File* FilesOf(const Field& field);

// "synthetic" where the field is made without files; empty where the spec names no source.
std::string SourceName(const Field& field);

// The names of all formats that the spec's language has, in the order of Field.source.
std::vector<std::string> FileSourceNames();

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_FIELD_FILES_H_
