#include "worker/runtime/idx_samples.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

template <typename Number, typename Bits>
void DecodeAs(const unsigned char* in, int64_t count, double* out) {
  for (int64_t i = 0; i < count; ++i) {
    Bits bits = 0;
    for (size_t byte = 0; byte < sizeof(Bits); ++byte) bits = static_cast<Bits>(bits << 8 | *in++);
    Number number;
    std::memcpy(&number, &bits, sizeof(number));
    out[i] = static_cast<double>(number);
  }
}

void Decode(IdxType type, const unsigned char* in, int64_t count, double* out) {
  switch (type) {
    case IdxType::kUInt8:
      std::copy(in, in + count, out);
      return;
    case IdxType::kInt8:
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int8_t>(in[i]);
      return;
    case IdxType::kInt16:
      return DecodeAs<int16_t, uint16_t>(in, count, out);
    case IdxType::kInt32:
      return DecodeAs<int32_t, uint32_t>(in, count, out);
    case IdxType::kFloat32:
      return DecodeAs<float, uint32_t>(in, count, out);
    case IdxType::kFloat64:
      return DecodeAs<double, uint64_t>(in, count, out);
  }
}

}  // namespace

struct IdxSamples::File {
  std::string name;
  IdxHeader header;
  std::vector<unsigned char> kept;  // of a gzip file: the box of every sample
  int fd = -1;                      // of a plain file
  ~File() {
    if (fd >= 0) close(fd);
  }
};

IdxSamples::~IdxSamples() = default;

// Appends as the bytes come, so a header that claims too much costs nothing.
absl::Status IdxSamples::Keep(ByteSource& source, const std::vector<CellRun>& runs, File& file) {
  constexpr int64_t kPiece = 1 << 16;
  const int64_t cell = SizeOf(file.header.type);
  const int64_t begin = source.position();
  const auto truncated = [&] { return IdxLengthError(file.name, file.header, source.position() - begin); };
  const auto skip_to = [&](int64_t position) -> absl::Status {
    ADJOIN_RETURN_IF_ERROR(source.Skip(position - source.position()).status());
    return source.position() == position ? absl::OkStatus() : truncated();
  };
  const int64_t sample_bytes = file.header.SampleElements() * cell;
  for (int64_t sample = 0; sample < file.header.samples(); ++sample) {
    for (const CellRun& run : runs) {
      ADJOIN_RETURN_IF_ERROR(skip_to(begin + sample * sample_bytes + run.first * cell));
      for (int64_t left = run.count * cell; left > 0;) {
        const int64_t piece = std::min(left, kPiece);
        const size_t size = file.kept.size();
        file.kept.resize(size + piece);
        ADJOIN_ASSIGN_OR_RETURN(const int64_t got, source.Read(file.kept.data() + size, piece));
        if (got < piece) return truncated();
        left -= piece;
      }
    }
  }
  ADJOIN_RETURN_IF_ERROR(skip_to(begin + file.header.DataBytes()));
  char next;
  ADJOIN_ASSIGN_OR_RETURN(const int64_t more, source.Read(&next, 1));
  if (more > 0) return IdxLengthError(file.name, file.header, file.header.DataBytes() + 1);
  file.kept.shrink_to_fit();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<IdxSamples>> IdxSamples::Open(const std::vector<std::string>& paths,
                                                             const std::vector<int64_t>& sample_shape,
                                                             const Box& box, const std::vector<std::string>& names) {
  if (paths.empty()) return absl::InvalidArgumentError("no IDX file is named; right would be one path or more");
  std::unique_ptr<IdxSamples> all(new IdxSamples);
  all->runs_ = RunsOf(sample_shape, box);
  all->elements_ = box.Volume();
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string& name = names.empty() ? paths[i] : names[i];
    ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::Open(paths[i], name));
    auto file = std::make_unique<File>();
    file->name = name;
    ADJOIN_ASSIGN_OR_RETURN(file->header, ReadIdxHeader(*source));
    if (file->header.SampleElements() != VolumeOf(sample_shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " holds ", file->header.ToString(), ", so ", file->header.SampleElements(),
          " elements a sample; the job's shape ", absl::StrJoin(sample_shape, "x"), " has ", VolumeOf(sample_shape)));
    }
    if (box.empty()) {
      // This rank reads nothing of the field, so it need not go through the file.
    } else if (source->compressed()) {
      ADJOIN_RETURN_IF_ERROR(Keep(*source, all->runs_, *file));
    } else {
      const int64_t found = source->file_bytes() - file->header.bytes();
      if (found != file->header.DataBytes()) return IdxLengthError(name, file->header, found);
      file->fd = open(paths[i].c_str(), O_RDONLY | O_CLOEXEC);
      if (file->fd < 0) return absl::UnavailableError(absl::StrCat(name, ": ", std::strerror(errno)));
    }
    all->samples_ += file->header.samples();
    all->files_.push_back(std::move(file));
  }
  return all;
}

absl::Status IdxSamples::Read(int64_t sample, double* out) {
  if (sample < 0 || sample >= samples_) {
    return absl::OutOfRangeError(
        absl::StrCat(files_[0]->name, ": no sample ", sample, "; there are ", samples_, " from 0"));
  }
  size_t index = 0;
  while (sample >= files_[index]->header.samples()) sample -= files_[index++]->header.samples();
  const File& file = *files_[index];
  const int64_t cell = SizeOf(file.header.type);
  if (elements_ == 0) return absl::OkStatus();
  if (file.fd < 0) {
    Decode(file.header.type, file.kept.data() + sample * elements_ * cell, elements_, out);
    return absl::OkStatus();
  }
  const int64_t begin = file.header.bytes() + sample * file.header.SampleElements() * cell;
  for (const CellRun& run : runs_) {
    raw_.resize(run.count * cell);
    for (int64_t done = 0; done < run.count * cell;) {
      const ssize_t got = pread(file.fd, raw_.data() + done, run.count * cell - done, begin + run.first * cell + done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return absl::UnavailableError(absl::StrCat(file.name, ": ", std::strerror(errno)));
      if (got == 0) return absl::DataLossError(absl::StrCat(file.name, ": became shorter while it was read"));
      done += got;
    }
    Decode(file.header.type, raw_.data(), run.count, out);
    out += run.count;
  }
  return absl::OkStatus();
}

}  // namespace adjoin
