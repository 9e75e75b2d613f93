#include "worker/data/hdf5_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/printable_list.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "worker/data/cell_file.h"
#include "worker/data/hdf5_chunk.h"
#include "worker/data/hdf5_library.h"
#include "worker/data/hdf5_type.h"
#include "worker/data/open_file.h"

namespace adjoin {
namespace {

constexpr char kHdf5Name[] = "hdf5";
constexpr int64_t kPieceBytes = 16 << 20;
constexpr int64_t kMaxChunkCache = 256 << 20;
// Each chunk costs at least this much of CheckLimits::bytes: a file of a few hundred bytes can claim any number of
// chunks.
constexpr int64_t kLeastCost = 4096;

herr_t RefuseLink(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) { return -1; }

// How a data set's cells are stored in its file.
struct Cells {
  StoredArray array;           // its offset and byte order have a meaning only with `follow`
  bool follow = false;         // the cells follow each other, from array.offset
  std::vector<hsize_t> chunk;  // extents of a chunk; empty: the data set is not chunked
};

// Files are read and made also on disks that have no locks.
Hdf5Id FileAccess() {
  Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

absl::StatusOr<Hdf5Id> OpenFileOf(const Hdf5Lock& lock, const std::string& path, const std::string& name) {
  ADJOIN_RETURN_IF_ERROR(OpenFile::Open(path, name).status());  // its error describes a wrong path better
  const Hdf5Id access = FileAccess();
  Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (file.ok()) return file;
  const std::string why = lock.Error();
  if (H5Fis_hdf5(path.c_str()) > 0) return absl::DataLossError(absl::StrCat(name, ": ", why));
  return absl::InvalidArgumentError(absl::StrCat(name, ": not an HDF5 file: ", why));
}

absl::StatusOr<std::vector<int64_t>> ShapeOf(hid_t data_set) {
  const Hdf5Id space(H5Dget_space(data_set), H5Sclose);
  const H5S_class_t kind = space.ok() ? H5Sget_simple_extent_type(space.get()) : H5S_NO_CLASS;
  if (kind == H5S_SCALAR) return std::vector<int64_t>();
  if (kind != H5S_SIMPLE) return absl::InvalidArgumentError("has no cells (a null data space)");
  std::vector<hsize_t> dims(static_cast<size_t>(H5Sget_simple_extent_ndims(space.get())));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  for (hsize_t extent : dims) {
    if (extent > INT64_MAX) return absl::DataLossError("has an extent that no file has");
  }
  return std::vector<int64_t>(dims.begin(), dims.end());
}

absl::Status CheckFilters(hid_t creation) {
  const int filters = H5Pget_nfilters(creation);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    size_t values = 0;
    char name[64] = "";
    const H5Z_filter_t filter =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, sizeof(name) - 1, name, nullptr);
    if (filter >= 0 && H5Zfilter_avail(filter) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("is compressed by ",
                                                   name[0] != '\0' ? PrintableText(name) : "a filter", " (filter ",
                                                   filter, "), which is not there; right would be gzip (deflate)"));
  }
  return absl::OkStatus();
}

// Errors without the names of file and data set.
absl::StatusOr<Cells> Describe(hid_t data_set, int64_t file_bytes) {
  Cells cells;
  ArrayHeader& header = cells.array.header;
  header.format = kHdf5Name;
  const Hdf5Id type(H5Dget_type(data_set), H5Tclose);
  ADJOIN_ASSIGN_OR_RETURN(header.type, CellTypeOfHdf5(type.get(), &cells.array.big_endian));
  ADJOIN_ASSIGN_OR_RETURN(header.shape, ShapeOf(data_set));
  const Hdf5Id creation(H5Dget_create_plist(data_set), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(creation.get()) > 0) {
    return absl::InvalidArgumentError("has its cells in other files, which are not read; right would be one file");
  }
  ADJOIN_RETURN_IF_ERROR(CheckFilters(creation.get()));
  const haddr_t offset = layout == H5D_CONTIGUOUS ? H5Dget_offset(data_set) : HADDR_UNDEF;
  if (offset != HADDR_UNDEF) {
    cells.follow = true;
    cells.array.offset = static_cast<int64_t>(offset);
  }
  ADJOIN_RETURN_IF_ERROR(CheckArraySize("its data set", header, cells.array.offset));
  if (cells.follow && cells.array.EndOfData() > file_bytes) {
    return absl::DataLossError(absl::StrCat("is truncated: its cells (", header.ToString(), ") end at byte ",
                                            cells.array.EndOfData(), ", the file has ", file_bytes));
  }
  if (layout != H5D_CHUNKED) return cells;
  cells.chunk.resize(header.shape.size());
  H5Pget_chunk(creation.get(), static_cast<int>(cells.chunk.size()), cells.chunk.data());
  header.chunk.assign(cells.chunk.begin(), cells.chunk.end());
  return cells;
}

absl::Status Within(const std::string& name, const std::string& object, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(name, ": data set '", PrintableText(object), "' ", std::string(status.message())));
}

// Returns one name of each data set.
absl::StatusOr<std::vector<std::string>> Names(const Hdf5Lock& lock, hid_t file, const std::string& name) {
  std::vector<std::string> names;
  // `info`: H5O_info_t or, from HDF5 1.12 on, H5O_info1_t.
  const auto add = [](hid_t, const char* path, const auto* info, void* out) -> herr_t {
    if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(out)->push_back(path);
    return 0;
  };
  if (H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add, &names, H5O_INFO_BASIC) < 0) {
    return absl::DataLossError(absl::StrCat(name, ": its groups cannot be read: ", lock.Error()));
  }
  return names;
}

// `chunk_cache`: bytes of inflated chunks to keep; the library heeds it only where the data set is not open already.
absl::StatusOr<Hdf5Id> OpenDataSet(const Hdf5Lock& lock, hid_t file, const std::string& name, const std::string& object,
                                   int64_t chunk_cache) {
  const Hdf5Id access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_chunk_cache(access.get(), 521, static_cast<size_t>(chunk_cache), H5D_CHUNK_CACHE_W0_DEFAULT);
  H5Pset_elink_cb(access.get(), RefuseLink, nullptr);
  Hdf5Id data_set(H5Dopen2(file, object.c_str(), access.get()), H5Dclose);
  if (data_set.ok()) return data_set;
  const std::string why = lock.Error();
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(lock, file, name));
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": data set '", object, "' cannot be opened: ", why, "; there are: ", PrintableList(names)));
}

// Returns `object`, or the only data set where it is empty.
absl::StatusOr<std::string> ObjectOf(const Hdf5Lock& lock, hid_t file, const std::string& name,
                                     const std::string& object) {
  if (!object.empty()) return object;
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(lock, file, name));
  if (names.size() == 1) return names[0];
  return absl::InvalidArgumentError(
      names.empty() ? absl::StrCat(name, ": no data set is in it")
                    : absl::StrCat(name, ": which data set (object) is to be read? There are: ", PrintableList(names)));
}

// A data set that only the library can read.
class LibraryFile : public ArrayFile {
 public:
  LibraryFile(Hdf5Id file, Hdf5Id data_set, Cells cells, std::string name)
      : file_(std::move(file)), data_set_(std::move(data_set)), cells_(std::move(cells)), name_(std::move(name)) {}
  ~LibraryFile() override {
    const Hdf5Lock lock;
    data_set_ = Hdf5Id(-1, H5Dclose);
    file_ = Hdf5Id(-1, H5Fclose);
  }

  const ArrayHeader& header() const override { return cells_.array.header; }
  int64_t bytes_read() const override { return bytes_read_; }
  const std::vector<hsize_t>& chunk() const { return cells_.chunk; }

  // Checks that the library can read the chunk that begins at `at`; false where this cannot be checked.
  absl::StatusOr<bool> CheckChunkAt(const std::vector<Interval>& at, int64_t bytes) const {
    if (cells_.chunk.empty()) return true;
    std::vector<hsize_t> first;
    for (const Interval& dim : at) first.push_back(static_cast<hsize_t>(dim.lo));
    const Hdf5Lock lock;
    const absl::StatusOr<bool> known = CheckChunk(lock, data_set_.get(), first, bytes);
    if (known.ok()) return known;
    return absl::Status(known.status().code(), absl::StrCat(name_, ": cells [", absl::StrJoin(first, ", "),
                                                            "], their chunk ", std::string(known.status().message())));
  }

  absl::Status Read(const Box& box, double* out) override {
    ADJOIN_RETURN_IF_ERROR(CheckBox(name_, header(), box));
    if (box.empty()) return absl::OkStatus();
    if (box.dims() == 0) return ReadPiece(box, out);
    // Whole chunks at a time, in pieces that need little memory beside `out`.
    int dim = 0;
    while (dim + 1 < box.dims() && box[dim].size() == 1) ++dim;
    const int64_t row = box.Volume() / box[dim].size();
    const int64_t chunk = cells_.chunk.empty() ? 1 : static_cast<int64_t>(cells_.chunk[dim]);
    const int64_t chunks = std::max<int64_t>(1, kPieceBytes / SizeOf(header().type) / row / chunk);
    Box piece = box;
    for (int64_t at = box[dim].lo; at < box[dim].hi; at = piece[dim].hi) {
      piece[dim] = Interval{at, std::min(box[dim].hi, (at / chunk + chunks) * chunk)};
      ADJOIN_RETURN_IF_ERROR(ReadPiece(piece, out));
      out += piece.Volume();
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadPiece(const Box& box, double* out) {
    const ArrayHeader& header = cells_.array.header;
    raw_.resize(static_cast<size_t>(box.Volume() * SizeOf(header.type)));
    {
      const Hdf5Lock lock;
      const Hdf5Id from(H5Dget_space(data_set_.get()), H5Sclose);
      std::vector<hsize_t> start, count;
      for (int dim = 0; dim < box.dims(); ++dim) {
        start.push_back(static_cast<hsize_t>(box[dim].lo));
        count.push_back(static_cast<hsize_t>(box[dim].size()));
      }
      const Hdf5Id to(box.dims() == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(box.dims(), count.data(), nullptr),
                      H5Sclose);
      if (box.dims() > 0) {
        H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
      }
      // The file's own type: the library converts nothing, and DecodeCells decodes the cells as for other formats.
      const Hdf5Id type(H5Dget_type(data_set_.get()), H5Tclose);
      if (H5Dread(data_set_.get(), type.get(), to.get(), from.get(), H5P_DEFAULT, raw_.data()) < 0) {
        return absl::DataLossError(absl::StrCat(name_, ": cells ", box.ToString(), " cannot be read: ", lock.Error()));
      }
      Count(box);
    }
    DecodeCells(header.type, cells_.array.big_endian, raw_.data(), box.Volume(), out);
    return absl::OkStatus();
  }

  // Adds the stored sizes of the chunks that meet `box`, or the size of its cells where there are no chunks.
  void Count(const Box& box) {
    if (cells_.chunk.empty()) {
      bytes_read_ += box.Volume() * SizeOf(header().type);
      return;
    }
    std::vector<hsize_t> at(cells_.chunk.size());
    const auto first = [&](int dim) {
      return static_cast<hsize_t>(box[dim].lo) / cells_.chunk[dim] * cells_.chunk[dim];
    };
    for (int dim = 0; dim < box.dims(); ++dim) at[dim] = first(dim);
    for (;;) {
      hsize_t stored = 0;
      if (H5Dget_chunk_storage_size(data_set_.get(), at.data(), &stored) >= 0)
        bytes_read_ += static_cast<int64_t>(stored);
      int dim = box.dims() - 1;
      for (; dim >= 0; --dim) {
        at[dim] += cells_.chunk[dim];
        if (static_cast<int64_t>(at[dim]) < box[dim].hi) break;
        at[dim] = first(dim);
      }
      if (dim < 0) return;
    }
  }

  Hdf5Id file_;
  Hdf5Id data_set_;
  const Cells cells_;
  const std::string name_;
  std::vector<unsigned char> raw_;
  int64_t bytes_read_ = 0;
};

// Returns how much the library may keep inflated: boxes that are read one after another often meet the same chunks.
int64_t ChunkCacheBytes(const Cells& cells) {
  int64_t chunk_bytes = SizeOf(cells.array.header.type);
  for (hsize_t extent : cells.chunk) chunk_bytes *= static_cast<int64_t>(extent);  // below 4 GiB in any file
  return std::min(std::max<int64_t>(8 * chunk_bytes, 1 << 20), kMaxChunkCache);
}

// True where `cost` bytes more may be inflated; subtracts them.
bool Afford(CheckLimits* limits, int64_t cost) {
  if (limits == nullptr) return true;
  if (limits->bytes < cost || (limits->enough && limits->enough())) return false;
  limits->bytes -= cost;
  return true;
}

// Reads a cell of each chunk: for that the library inflates all of it and compares its checksum.
absl::Status CheckChunks(LibraryFile& file, CheckLimits* limits) {
  const ArrayHeader& header = file.header();
  const std::vector<int64_t>& shape = header.shape;
  // A data set without chunks is one piece, in its header or not in the file at all.
  const std::vector<int64_t> chunk =
      file.chunk().empty() ? shape : std::vector<int64_t>(file.chunk().begin(), file.chunk().end());
  int64_t chunk_bytes = SizeOf(header.type);
  for (hsize_t extent : file.chunk()) chunk_bytes *= static_cast<int64_t>(extent);  // below 4 GiB in any file
  std::vector<Interval> cell(shape.size(), Interval{0, 1});
  while (Afford(limits, std::max(chunk_bytes, kLeastCost))) {
    ADJOIN_ASSIGN_OR_RETURN(const bool known, file.CheckChunkAt(cell, chunk_bytes));
    if (!known) break;
    double value;
    ADJOIN_RETURN_IF_ERROR(file.Read(Box(cell), &value));
    int dim = static_cast<int>(shape.size()) - 1;
    for (; dim >= 0; --dim) {
      Interval& at = cell[dim];
      if (chunk[dim] < shape[dim] - at.lo) {
        at = Interval{at.lo + chunk[dim], at.hi + chunk[dim]};
        break;
      }
      at = Interval{0, 1};
    }
    if (dim < 0) break;
  }
  return absl::OkStatus();
}

struct Found {
  Hdf5Id file;
  Hdf5Id data_set;
  std::string object;
  Cells cells;
};

absl::StatusOr<Found> Find(const Hdf5Lock& lock, const std::string& path, const std::string& name,
                           const std::string& wanted) {
  ADJOIN_ASSIGN_OR_RETURN(const OpenFile plain, OpenFile::Open(path, name));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t bytes, plain.Size());
  ADJOIN_ASSIGN_OR_RETURN(Hdf5Id file, OpenFileOf(lock, path, name));
  ADJOIN_ASSIGN_OR_RETURN(std::string object, ObjectOf(lock, file.get(), name, wanted));
  Cells cells;
  {
    ADJOIN_ASSIGN_OR_RETURN(const Hdf5Id data_set, OpenDataSet(lock, file.get(), name, object, 0));
    absl::StatusOr<Cells> described = Describe(data_set.get(), bytes);
    if (!described.ok()) return Within(name, object, described.status());
    cells = *std::move(described);
  }
  ADJOIN_ASSIGN_OR_RETURN(Hdf5Id data_set, OpenDataSet(lock, file.get(), name, object, ChunkCacheBytes(cells)));
  return Found{
      .file = std::move(file),
      .data_set = std::move(data_set),
      .object = std::move(object),
      .cells = std::move(cells),
  };
}

// Finds the magic at the beginning or, by the library, after a user's block.
Likeness SniffHdf5(const FileStart& start) {
  if (absl::StartsWith(start.bytes, absl::string_view("\x89HDF\r\n\x1a\n", 8))) return Likeness::kYes;
  // The library would wait for the writer of a pipe.
  if (start.compressed || !OpenFile::Open(start.path).ok()) return Likeness::kNo;
  const Hdf5Lock lock;
  return H5Fis_hdf5(start.path.c_str()) > 0 ? Likeness::kYes : Likeness::kNo;
}

// Opens the data set options.object, or the only one there is where that is empty.
absl::StatusOr<std::unique_ptr<ArrayFile>> OpenHdf5(const std::string& path, const ArrayFileOptions& options) {
  const std::string& name = options.name.empty() ? path : options.name;
  const Hdf5Lock lock;
  ADJOIN_ASSIGN_OR_RETURN(Found found, Find(lock, path, name, options.object));
  const std::string shown = absl::StrCat(name, ": ", found.object);
  if (found.cells.follow) {
    ADJOIN_ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(path, shown));
    return std::unique_ptr<ArrayFile>(std::make_unique<CellFile>(std::move(file), std::move(found.cells.array)));
  }
  return std::unique_ptr<ArrayFile>(
      std::make_unique<LibraryFile>(std::move(found.file), std::move(found.data_set), std::move(found.cells), shown));
}

absl::StatusOr<ArrayHeader> ReadHdf5Header(const std::string& path, const ArrayFileOptions& options) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayFile> file, OpenHdf5(path, options));
  return file->header();
}

// Has the library read every chunk, as far as `limits` go.
absl::StatusOr<ArrayHeader> CheckHdf5(const std::string& path, const ArrayFileOptions& options, CheckLimits* limits) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayFile> file, OpenHdf5(path, options));
  const ArrayHeader& header = file->header();
  // A contiguous data set can be wrong in nothing but its length, which was compared.
  auto* const read_by_library = dynamic_cast<LibraryFile*>(file.get());
  if (read_by_library == nullptr || header.Cells() == 0) return header;
  ADJOIN_RETURN_IF_ERROR(CheckChunks(*read_by_library, limits));
  return header;
}

// Lists every data set, but for those behind links to other files.
absl::StatusOr<std::vector<ArrayObject>> ListHdf5(const std::string& path, const std::string& given_name) {
  const std::string& name = given_name.empty() ? path : given_name;
  const Hdf5Lock lock;
  ADJOIN_ASSIGN_OR_RETURN(const OpenFile plain, OpenFile::Open(path, name));
  ADJOIN_ASSIGN_OR_RETURN(const int64_t bytes, plain.Size());
  ADJOIN_ASSIGN_OR_RETURN(const Hdf5Id file, OpenFileOf(lock, path, name));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(lock, file.get(), name));
  std::vector<ArrayObject> objects;
  for (const std::string& object : names) {
    ArrayObject entry;
    entry.name = object;
    const absl::StatusOr<Hdf5Id> data_set = OpenDataSet(lock, file.get(), name, object, 0);
    absl::StatusOr<Cells> cells = data_set.ok() ? Describe(data_set->get(), bytes) : data_set.status();
    entry.problem = cells.status();
    if (cells.ok()) entry.header = std::move(cells->array.header);
    objects.push_back(std::move(entry));
  }
  return objects;
}

absl::StatusOr<StoredArray> CreateHdf5(const std::string& path, int, CellType type, const std::vector<int64_t>& shape,
                                       const ArrayWriterOptions& options) {
  const std::string& object = options.object;
  if (object.empty() || object == "." || absl::StrContains(object, '/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", object, "' cannot be a data set's name; right would be 'data'"));
  }
  const Hdf5Lock lock;
  StoredArray array;
  array.header.format = kHdf5Name;
  array.header.type = type;
  array.header.shape = shape;
  {
    const std::vector<hsize_t> dims(shape.begin(), shape.end());
    const Hdf5Id file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, FileAccess().get()), H5Fclose);
    if (!file.ok()) return absl::UnavailableError(absl::StrCat(path, ": ", lock.Error()));
    const Hdf5Id space(
        dims.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
        H5Sclose);
    const Hdf5Id creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
    H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
    const Hdf5Id cell = Hdf5TypeOf(type);
    const Hdf5Id data_set(
        H5Dcreate2(file.get(), object.c_str(), cell.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
        H5Dclose);
    if (!data_set.ok()) return absl::UnavailableError(absl::StrCat(path, ": ", lock.Error()));
    const haddr_t offset = H5Dget_offset(data_set.get());
    if (offset != HADDR_UNDEF) array.offset = static_cast<int64_t>(offset);
    if (offset == HADDR_UNDEF && array.header.Cells() > 0) {
      return absl::InternalError(absl::StrCat(path, ": libhdf5 allocated nothing for the data set"));
    }
    if (H5Fflush(file.get(), H5F_SCOPE_GLOBAL) < 0)
      return absl::UnavailableError(absl::StrCat(path, ": ", lock.Error()));
  }
  return array;
}

absl::StatusOr<StoredArray> FindWritten(const std::string& path, const ArrayWriterOptions& options) {
  const Hdf5Lock lock;
  ADJOIN_ASSIGN_OR_RETURN(Found found, Find(lock, path, path, options.object));
  if (found.cells.follow || found.cells.array.header.Cells() == 0) return std::move(found.cells.array);
  return absl::InvalidArgumentError(absl::StrCat(path, ": data set '", options.object, "' is not contiguous"));
}

}  // namespace

ArrayFormat Hdf5Format() {
  return {
      .name = kHdf5Name,
      .title = "HDF5",
      .extension = ".h5",
      .sniff = SniffHdf5,
      .header = ReadHdf5Header,
      .open = OpenHdf5,
      .check = CheckHdf5,
      .list = ListHdf5,
      .create = CreateHdf5,
      .find = FindWritten,
  };
}

}  // namespace adjoin
