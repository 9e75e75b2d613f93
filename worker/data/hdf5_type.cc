#include "worker/data/hdf5_type.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr char kKnown[] = "; right would be integers of 1 to 8 bytes, float16, float32 or float64";

std::string ClassName(H5T_class_t kind) {
  switch (kind) {
    case H5T_STRING: return "text";
    case H5T_COMPOUND: return "structures (complex numbers are such)";
    case H5T_REFERENCE: return "references";
    case H5T_VLEN: return "lists of different lengths";
    case H5T_ARRAY: return "arrays as cells";
    case H5T_TIME: return "times";
    case H5T_BITFIELD:
    case H5T_OPAQUE: return "bytes without a meaning";
    default: return "cells of an unknown type";
  }
}

absl::StatusOr<CellType> IntegerOf(hid_t type) {
  const size_t size = H5Tget_size(type);
  const bool sign = H5Tget_sign(type) != H5T_SGN_NONE;
  if (H5Tget_precision(type) == 8 * size && H5Tget_offset(type) == 0) {
    switch (size) {
      case 1: return sign ? CellType::kInt8 : CellType::kUInt8;
      case 2: return sign ? CellType::kInt16 : CellType::kUInt16;
      case 4: return sign ? CellType::kInt32 : CellType::kUInt32;
      case 8: return sign ? CellType::kInt64 : CellType::kUInt64;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("holds integers of ", H5Tget_precision(type), " bits in ", size,
                                                 " bytes, which cannot be read", kKnown));
}

absl::StatusOr<CellType> FloatOf(hid_t type) {
  // sign, exponent and its bits, mantissa and its bits, bias: IEEE 754's
  const auto is = [&](std::array<size_t, 6> wanted) {
    std::array<size_t, 6> found{};
    H5Tget_fields(type, &found[0], &found[1], &found[2], &found[3], &found[4]);
    found[5] = H5Tget_ebias(type);
    return found == wanted && H5Tget_offset(type) == 0 && H5Tget_norm(type) == H5T_NORM_IMPLIED;
  };
  const size_t size = H5Tget_size(type);
  if (size == 2 && is({15, 10, 5, 0, 10, 15})) return CellType::kFloat16;
  if (size == 4 && is({31, 23, 8, 0, 23, 127})) return CellType::kFloat32;
  if (size == 8 && is({63, 52, 11, 0, 52, 1023})) return CellType::kFloat64;
  return absl::InvalidArgumentError(absl::StrCat("holds floating point numbers of ", size,
                                                 " bytes that are not IEEE 754's, which cannot be read", kKnown));
}

}  // namespace

absl::StatusOr<CellType> CellTypeOfHdf5(hid_t type, bool* big_endian) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_ENUM) {
    const Hdf5Id integer(H5Tget_super(type), H5Tclose);
    return CellTypeOfHdf5(integer.get(), big_endian);
  }
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) {
    return absl::InvalidArgumentError(absl::StrCat("holds ", ClassName(kind), ", which cannot be read", kKnown));
  }
  const H5T_order_t order = H5Tget_order(type);
  if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) {
    return absl::InvalidArgumentError(absl::StrCat("holds numbers in a byte order that cannot be read", kKnown));
  }
  *big_endian = order == H5T_ORDER_BE;
  return kind == H5T_INTEGER ? IntegerOf(type) : FloatOf(type);
}

Hdf5Id Hdf5TypeOf(CellType type) {
  const auto copy = [](hid_t known) { return Hdf5Id(H5Tcopy(known), H5Tclose); };
  switch (type) {
    case CellType::kUInt8: return copy(H5T_STD_U8LE);
    case CellType::kInt8: return copy(H5T_STD_I8LE);
    case CellType::kUInt16: return copy(H5T_STD_U16LE);
    case CellType::kInt16: return copy(H5T_STD_I16LE);
    case CellType::kUInt32: return copy(H5T_STD_U32LE);
    case CellType::kInt32: return copy(H5T_STD_I32LE);
    case CellType::kUInt64: return copy(H5T_STD_U64LE);
    case CellType::kInt64: return copy(H5T_STD_I64LE);
    case CellType::kFloat16: {
      Hdf5Id half = copy(H5T_IEEE_F32LE);
      H5Tset_fields(half.get(), 15, 10, 5, 0, 10);
      H5Tset_size(half.get(), 2);
      H5Tset_ebias(half.get(), 15);
      return half;
    }
    case CellType::kFloat32: return copy(H5T_IEEE_F32LE);
    case CellType::kFloat64: return copy(H5T_IEEE_F64LE);
  }
  return Hdf5Id(-1, H5Tclose);
}

}  // namespace adjoin
