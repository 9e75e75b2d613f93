// The files of assets/, which a genrule writes into the program (embed_files.py).
//
//   const PageFile* file = FindPageFile("jobs_view.js");      // null where there is none
#ifndef ADJOIN_COORDINATOR_PAGE_PAGE_FILES_H_
#define ADJOIN_COORDINATOR_PAGE_PAGE_FILES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace adjoin {

struct PageFile {
  absl::string_view name, type, content;
  absl::string_view etag;  // another one where the content is another
};

// By name.
absl::Span<const PageFile> PageFiles();

inline const PageFile* FindPageFile(absl::string_view name) {
  for (const PageFile& file : PageFiles()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_PAGE_FILES_H_
