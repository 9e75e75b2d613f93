#include "primitives/status_exception.h"

#include <exception>
#include <new>

#include <c10/util/Exception.h>

namespace adjoin {

absl::Status StatusFromCurrentException() {
  try {
    throw;
  } catch (const StatusException& e) {
    return e.status();
  } catch (const c10::Error& e) {
    return absl::InternalError(e.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  } catch (...) {
    return absl::InternalError("an exception of unknown type");
  }
}

}  // namespace adjoin
