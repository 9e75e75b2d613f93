#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"

namespace adjoin {

absl::StatusOr<int> RunVerify(const std::string& binary, const std::vector<std::string>& arguments) {
  std::error_code ignored;
  std::filesystem::path program = binary;
  if (program.empty())
    program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "adjoin-verify";
  std::string name = program.string();
  std::vector<char*> command = {name.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) command.push_back(argument.data());
  command.push_back(nullptr);
  std::cout << std::flush;
  execv(name.c_str(), command.data());
  return absl::NotFoundError(
      absl::StrCat(name, " cannot be run (", strerror(errno), "): name the program with --verify-binary"));
}

}  // namespace adjoin
