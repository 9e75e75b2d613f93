#include "worker/data/hdf5_library.h"

#include "base/printable_text.h"

namespace adjoin {
namespace {

std::mutex& LibraryMutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

herr_t KeepFirst(unsigned, const H5E_error2_t* error, void* out) {
  std::string& text = *static_cast<std::string*>(out);
  if (text.empty() && error->desc != nullptr) text = error->desc;
  return 0;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(LibraryMutex()) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

std::string Hdf5Lock::Error() const {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, KeepFirst, &text);
  return text.empty() ? "libhdf5 gives no reason" : PrintableText(text);
}

}  // namespace adjoin
