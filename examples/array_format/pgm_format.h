// PGM, the grey images of Netpbm: "P5", width, height and the largest value as text, then the pixels. Read only.
//
//   ArrayFormats formats = BuiltinArrayFormats();
//   ADJOIN_RETURN_IF_ERROR(formats.Add(PgmFormat()));
//   ADJOIN_ASSIGN_OR_RETURN(auto file, ArrayFile::Open("scan.pgm", {}, formats));
//   file->header().ToString();                                                     // "480x640 uint8": rows, columns
//
// Source: pgm(5) of Netpbm.
#ifndef ADJOIN_EXAMPLES_ARRAY_FORMAT_PGM_FORMAT_H_
#define ADJOIN_EXAMPLES_ARRAY_FORMAT_PGM_FORMAT_H_

#include "worker/data/array_format.h"

namespace adjoin {

// A file is one image [height, width] of uint8, or of uint16 where the largest value is above 255. Files are refused
// with kInvalidArgument (no PGM file, a text image) and kDataLoss (a corrupt header, truncated, a second image).
ArrayFormat PgmFormat();

}  // namespace adjoin

#endif  // ADJOIN_EXAMPLES_ARRAY_FORMAT_PGM_FORMAT_H_
