// adjoin-verify: what `adjoin verify` runs. A program of its own, because it links LibTorch, which `adjoin` does not.
#include "verify/command.h"

int main(int argc, char** argv) { return adjoin::RunVerifyCommand(argc, argv, adjoin::VerifyOptions()); }
