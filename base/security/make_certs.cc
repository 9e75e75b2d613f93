#include "base/security/make_certs.h"

#include <filesystem>
#include <system_error>

namespace adjoin {

namespace fs = std::filesystem;

std::string MakeCertsProgramOf(const std::string& program) {
  const fs::path folder = fs::path(program).parent_path();
  for (const fs::path& file : {folder / "make-certs", folder.parent_path() / "share/adjoin/make-certs"}) {
    std::error_code error;
    if (fs::is_regular_file(file, error)) return file.string();
  }
  return "tools/make-certs";
}

std::string MakeCertsProgram() {
  static const std::string* const path = [] {
    std::error_code error;
    return new std::string(MakeCertsProgramOf(fs::read_symlink("/proc/self/exe", error).string()));
  }();
  return *path;
}

}  // namespace adjoin
