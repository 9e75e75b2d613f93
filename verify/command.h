// The program adjoin-verify, which `adjoin verify` runs, for the layers that are linked into it.
//
//   int main(int argc, char** argv) {
//     adjoin::VerifyOptions options;                     // with a user's own rules, layers and serial functions
//     return adjoin::RunVerifyCommand(argc, argv, options);
//   }
#ifndef ADJOIN_VERIFY_COMMAND_H_
#define ADJOIN_VERIFY_COMMAND_H_

#include "verify/verify.h"

namespace adjoin {

// The exit code: 0 where nothing deviates; 1 where something does, is not verified, or is wrong with the job (one line
// on standard error); 2 for wrong usage. What the command line says replaces what `options` says.
int RunVerifyCommand(int argc, char** argv, VerifyOptions options);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_COMMAND_H_
