// Finds blocks of a job's text that are not closed: the parser notices a missing '}' only where something does not fit,
// often many lines later.
//
//   OpenBlocks(text, BlockSyntax::kText, {.line = 8, .column = 0});   // {{"layer", '{', {.line = 2, .column = 0}}}
#ifndef ADJOIN_PLANNER_SPEC_OPEN_BLOCKS_H_
#define ADJOIN_PLANNER_SPEC_OPEN_BLOCKS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adjoin {

// Counted from 0, as protobuf's parser does; a tab ends at a multiple of 8.
struct TextPosition {
  int line = 0;
  int column = 0;
};

struct OpenBlock {
  std::string name;  // the word before the bracket: "layer"
  char bracket = '{';
  TextPosition position;  // of the name, or else of the bracket
};

enum class BlockSyntax { kText, kJson };

// Returns the blocks that are open at `end`, the outermost first. Brackets in texts and comments do not count. It stops
// early at a bracket that closes another kind of block than the innermost one.
std::vector<OpenBlock> OpenBlocks(absl::string_view text, BlockSyntax syntax, TextPosition end);

// What a user has to know of a text that the parser has refused with `message` at `error`: ": layer { of line 3, column
// 1, is not closed ..."; "" where the mistake is no missing bracket.
std::string MissingBracketHint(absl::string_view text, TextPosition error, absl::string_view message);
// The same of JSON, where the parser names no place.
std::string MissingJsonBracketHint(absl::string_view text);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_OPEN_BLOCKS_H_
