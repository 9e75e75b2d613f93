// libhdf5 with handles that close themselves, silent, and one thread at a time.
//
//   const Hdf5Lock lock;
//   const Hdf5Id file(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
//   if (!file.ok()) return absl::DataLossError(lock.Error());
//
// Every call of the library, the closing of handles included, is made while this thread has an Hdf5Lock.
#ifndef ADJOIN_WORKER_DATA_HDF5_LIBRARY_H_
#define ADJOIN_WORKER_DATA_HDF5_LIBRARY_H_

#include <mutex>
#include <string>
#include <utility>

#include <hdf5/serial/hdf5.h>

namespace adjoin {

class Hdf5Lock {
 public:
  // Turns off what the library would write to stderr, and its loading of filters from files that are found somewhere.
  Hdf5Lock();
  // Returns the reason of the last failed call, from where the failure began.
  std::string Error() const;

 private:
  const std::lock_guard<std::mutex> lock_;
};

class Hdf5Id {
 public:
  Hdf5Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Hdf5Id(Hdf5Id&& other) : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Id& operator=(Hdf5Id&& other) {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Id() {
    if (id_ >= 0) close_(id_);
  }
  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_HDF5_LIBRARY_H_
