// The samples of array files that continue each other: boxes of them, in the sample's shape.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto samples, FileSamples::Open(field, {2, 4, 3}, "/srv/data"));
//   ADJOIN_RETURN_IF_ERROR(samples->Read(/*sample=*/5, /*count=*/1, Box({{0, 2}, {0, 2}, {0, 3}}), cells));
//
// Open reads every file's header. A file itself is opened when it is read, and a few stay open: a data set may have
// more files than a process may open. One thread.
#ifndef ADJOIN_WORKER_SAMPLES_FILE_SAMPLES_H_
#define ADJOIN_WORKER_SAMPLES_FILE_SAMPLES_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "proto/job.pb.h"
#include "worker/data/array_file.h"
#include "worker/data/path_rules.h"
#include "worker/samples/field_source.h"

namespace adjoin {

class FileSamples : public FieldSource {
 public:
  // Errors: as OpenFieldSource.
  static absl::StatusOr<std::unique_ptr<FieldSource>> Open(const Field& field, const std::vector<int64_t>& sample_shape,
                                                           const DataFolder& data);

  int64_t samples() const override { return samples_; }
  const std::vector<int64_t>& ShapeOf(int64_t sample) const override { return FileOf(sample).shape; }
  std::string NameOf(int64_t sample) const override;
  absl::Status Read(int64_t sample, int64_t count, const Box& box, double* out) override;
  void Stop() override { stop_ = true; }
  int64_t bytes_read() const override;
  std::optional<BoxCut> CutOf(int64_t sample, const Box& box) const override;

 private:
  struct File {
    std::string name;  // below the data root
    ArrayHeader header;
    int64_t first = 0;  // number of its first sample
    int64_t samples = 0;
    std::vector<int64_t> shape;  // one sample's
    std::vector<int64_t> chunk;  // extents in a sample's dims; empty: no chunks, or they do not follow these dims
  };
  struct OpenFile {
    size_t index;
    std::unique_ptr<ArrayFile> file;
  };

  FileSamples(const Field& field, const DataFolder& data);
  ArrayFileOptions OptionsOf(const std::string& name) const;
  // There is such a sample. `within` gets its position in the file; may be null.
  const File& FileOf(int64_t sample, int64_t* within = nullptr) const;
  absl::StatusOr<ArrayFile*> Opened(size_t index);
  absl::Status ReadWithin(size_t index, int64_t sample, int64_t count, const Box& box, double* out);

  std::atomic<bool> stop_{false};
  const std::string root_;
  const std::string cache_dir_;
  const int64_t cache_bytes_;
  const std::string format_;
  const std::string object_;
  std::vector<File> files_;
  int64_t samples_ = 0;
  std::list<OpenFile> open_;  // the one used last comes first
  int64_t bytes_of_closed_ = 0;
  std::vector<double> part_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_FILE_SAMPLES_H_
