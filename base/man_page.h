// A program's page of the manual, in roff, from the same CLI::App that parses its command line.
//
//   std::cout << ManPage(app, {.section = 8, .see_also = {"adjoin(1)"}});
//
// The page is the same on every machine: its defaults are those that --help shows, and there is no date.
#ifndef ADJOIN_BASE_MAN_PAGE_H_
#define ADJOIN_BASE_MAN_PAGE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace adjoin {

struct ManPageOptions {
  int section = 1;                    // 1: commands; 8: daemons
  std::vector<std::string> see_also;  // "adjoin-worker(8)"
};

// Call it after all options are added. Hidden options and commands (of the group "") are left out.
std::string ManPage(const CLI::App& app, const ManPageOptions& options);

}  // namespace adjoin

#endif  // ADJOIN_BASE_MAN_PAGE_H_
