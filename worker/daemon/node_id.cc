#include "worker/daemon/node_id.h"

#include <openssl/evp.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/state_folder.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr size_t kNodeIdDigits = 32;

std::string FirstLine(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

bool IsId(const std::string& text) {
  return text.size() == kNodeIdDigits && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

std::string NewId() {
  std::random_device device;
  return absl::StrFormat("%08x%08x%08x%08x", device(), device(), device(), device());
}

std::string Digest(const std::string& text) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), bytes, &size, EVP_sha256(), nullptr) != 1) return NewId();
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes), size}).substr(0, kNodeIdDigits);
}

}  // namespace

absl::StatusOr<std::string> NodeId(const std::string& folder, const std::vector<std::string>& machine_files) {
  const std::string file = absl::StrCat(folder, "/node-id");
  std::string id = FirstLine(file);
  if (!IsId(id)) {  // there is none, or a crash of the machine has cut it: that only costs its sameness
    id = NewId();
    ADJOIN_RETURN_IF_ERROR(WriteFileAtomically(file, id + "\n"));
  }
  for (const std::string& each : machine_files) {
    const std::string machine = FirstLine(each);
    if (machine.empty() || machine == "uninitialized") continue;  // as in images of machines that never ran
    return Digest(absl::StrCat("adjoin ", id, " ", machine));
  }
  return NewId();
}

}  // namespace adjoin
