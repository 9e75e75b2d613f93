// OpenSSL's objects in owning pointers, and their times, numbers and PEM texts as values.
//
//   for (const X509Ptr& certificate : ParsePem(pem, /*most=*/16)) Use(SerialOf(certificate.get()));
#ifndef ADJOIN_BASE_SECURITY_OPENSSL_HANDLES_H_
#define ADJOIN_BASE_SECURITY_OPENSSL_HANDLES_H_

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <time.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adjoin {

template <typename T, void (*Free)(T*)>
struct OpensslFree {
  void operator()(T* pointer) const { Free(pointer); }
};
using X509Ptr = std::unique_ptr<X509, OpensslFree<X509, X509_free>>;
using CrlPtr = std::unique_ptr<X509_CRL, OpensslFree<X509_CRL, X509_CRL_free>>;
using ContextPtr = std::unique_ptr<X509_STORE_CTX, OpensslFree<X509_STORE_CTX, X509_STORE_CTX_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, OpensslFree<X509_REQ, X509_REQ_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY, EVP_PKEY_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES, GENERAL_NAMES_free>>;
struct BioFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioPtr = std::unique_ptr<BIO, BioFree>;
struct StackFree {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};

// Returns the certificates of a PEM text, in order.
inline std::vector<X509Ptr> ParsePem(const std::string& pem, size_t most) {
  std::vector<X509Ptr> certificates;
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (certificates.size() < most) {
    X509Ptr next(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  ERR_clear_error();  // the end of the text counts as one
  return certificates;
}

struct RevocationLists {
  std::vector<CrlPtr> whole;  // in order
  int damaged = 0;            // cannot be read, or have no beginning or no end
};

// Returns the revocation lists of a PEM text. Each is read by itself, so that nothing damaged hides what stands behind.
inline RevocationLists ParseRevocationLists(absl::string_view pem) {
  constexpr absl::string_view kBegin = "-----BEGIN X509 CRL-----", kEnd = "-----END X509 CRL-----";
  RevocationLists lists;
  std::string block;  // lines of the list that has begun; empty: none has
  for (const absl::string_view line : absl::StrSplit(pem, '\n')) {
    const bool ends = absl::StartsWith(line, kEnd);
    if (absl::StartsWith(line, "-----BEGIN ") && !block.empty()) {
      ++lists.damaged;
      block.clear();
    }
    if (ends && block.empty()) ++lists.damaged;
    if (absl::StartsWith(line, kBegin) || !block.empty()) absl::StrAppend(&block, line, "\n");
    if (!ends || block.empty()) continue;
    BioPtr bio(BIO_new_mem_buf(block.data(), static_cast<int>(block.size())));
    CrlPtr list(PEM_read_bio_X509_CRL(bio.get(), nullptr, nullptr, nullptr));
    list == nullptr ? void(++lists.damaged) : lists.whole.push_back(std::move(list));
    block.clear();
  }
  if (!block.empty()) ++lists.damaged;
  ERR_clear_error();
  return lists;
}

inline std::string BioText(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return std::string(text, size);
}

inline std::string PemOf(X509* certificate) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return BioText(bio.get());
}

inline std::string PemOf(X509_CRL* list) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_CRL(bio.get(), list);
  return BioText(bio.get());
}

// Certificates of one authority, such as a renewed one, have its name and key.
inline bool IsSameAuthority(X509* a, X509* b) {
  return X509_NAME_cmp(X509_get_subject_name(a), X509_get_subject_name(b)) == 0 &&
         EVP_PKEY_eq(X509_get0_pubkey(a), X509_get0_pubkey(b)) == 1;
}

inline absl::Time TimeOf(const ASN1_TIME* time) {
  tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? absl::FromTM(parts, absl::UTCTimeZone()) : absl::InfinitePast();
}

inline std::string SerialOf(X509* certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* digits = number == nullptr ? nullptr : BN_bn2hex(number);
  std::string serial = digits == nullptr ? "" : absl::AsciiStrToLower(digits);
  OPENSSL_free(digits);
  BN_free(number);
  return serial;
}

// Returns the SHA-256 of a public key as certificates have it (SubjectPublicKeyInfo, DER): 32 bytes, empty for none.
inline std::string KeyHash(X509_PUBKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(key, &der);
  if (size <= 0) return "";
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(der, size, reinterpret_cast<unsigned char*>(hash.data()));
  OPENSSL_free(der);
  return hash;
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_OPENSSL_HANDLES_H_
