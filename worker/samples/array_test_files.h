// Array files of every format, for tests.
//
//   WriteArray(path, "npy", CellType::kFloat32, {10, 3, 4}, values);
//   SetFile(field, "npy", "train.npy");
#ifndef ADJOIN_WORKER_SAMPLES_ARRAY_TEST_FILES_H_
#define ADJOIN_WORKER_SAMPLES_ARRAY_TEST_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include "planner/spec/file_formats.h"
#include "primitives/geometry/box.h"
#include "proto/job.pb.h"
#include "worker/data/array_writer.h"
#include "worker/data/cell_type.h"
#include "worker/data/encode_cells.h"
#include "worker/data/idx_test_files.h"

namespace adjoin {

// "idx", "npy", "hdf5" (contiguous, data set "data") and "nifti"; of idx the types uint8 and float32.
inline void WriteArray(const std::string& path, const std::string& format, CellType type,
                       const std::vector<int64_t>& shape, const std::vector<double>& cells) {
  if (format == "idx") {
    return WriteFile(path, IdxBytes(type == CellType::kUInt8 ? IdxType::kUInt8 : IdxType::kFloat32, shape, cells));
  }
  auto writer = ArrayWriter::Create(path, format, type, shape);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<unsigned char> bytes(cells.size() * SizeOf(type));
  EncodeCells(type, cells.data(), static_cast<int64_t>(cells.size()), bytes.data());
  ASSERT_TRUE((*writer)->Write(Box::Whole(shape), bytes.data()).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  ASSERT_TRUE((*writer)->Publish().ok());
}

inline void SetFile(Field& field, const std::string& format, const std::string& path) {
  const auto* const source = Field::descriptor()->FindFieldByName(format);
  ASSERT_NE(source, nullptr) << format;
  auto* const file = static_cast<File*>(field.GetReflection()->MutableMessage(&field, source));
  file->add_path(path);
  if (FindFileFormat(format)->objects) file->set_object("data");
}

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_ARRAY_TEST_FILES_H_
