#include "base/security/certificate_issuer.h"

#include <openssl/ec.h>
#include <openssl/obj_mac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/security/certificate.h"
#include "base/security/openssl_handles.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr size_t kMostChain = 16;
constexpr int kSerialBytes = 16;
constexpr size_t kMostCommonName = 64;  // X.520

bool IsStrong(EVP_PKEY* key) {
  if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA) {
    return EVP_PKEY_get_bits(key) >= 2048 && EVP_PKEY_get_bits(key) <= 8192;
  }
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC) return false;
  char curve[64] = {};
  if (EVP_PKEY_get_group_name(key, curve, sizeof(curve), nullptr) != 1) return false;
  const int nid = OBJ_txt2nid(curve);
  return nid == NID_X9_62_prime256v1 || nid == NID_secp384r1;
}

std::string ReadFile(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}

bool SetSerial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] = (bytes[0] & 0x7f) | 0x40;  // positive, and always as long
  BIGNUM* number = BN_bin2bn(bytes, sizeof(bytes), nullptr);
  const bool set = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

bool AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  std::unique_ptr<X509_EXTENSION, OpensslFree<X509_EXTENSION, X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool SetName(X509* certificate, const std::string& node) {
  const std::string shown = node.substr(0, kMostCommonName);
  std::unique_ptr<X509_NAME, OpensslFree<X509_NAME, X509_NAME_free>> name(X509_NAME_new());
  return X509_NAME_add_entry_by_NID(name.get(), NID_commonName, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(shown.data()),
                                    static_cast<int>(shown.size()), -1, 0) == 1 &&
         X509_set_subject_name(certificate, name.get()) == 1;
}

bool SetTimes(X509* certificate, absl::Time not_before, absl::Time not_after) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(not_before)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(not_after)) != nullptr;
}

}  // namespace

struct RequestedKey::Key {
  KeyPtr key;
};
struct CertificateIssuer::Authority {
  X509Ptr certificate;
  KeyPtr key;
  std::string chain;  // what others need beside an authority that they trust
};

RequestedKey::RequestedKey() : key_(std::make_unique<Key>()) {}
RequestedKey::RequestedKey(RequestedKey&&) noexcept = default;
RequestedKey::~RequestedKey() = default;
CertificateIssuer::CertificateIssuer() : authority_(std::make_unique<Authority>()) {}
CertificateIssuer::~CertificateIssuer() = default;

absl::StatusOr<RequestedKey> RequestedKey::Read(const std::string& request_der) {
  if (request_der.size() > kMaxRequestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request for a certificate of ", request_der.size(), " bytes: it may have ", kMaxRequestBytes));
  }
  const unsigned char* at = reinterpret_cast<const unsigned char*>(request_der.data());
  const unsigned char* const end = at + request_der.size();
  RequestPtr request(d2i_X509_REQ(nullptr, &at, static_cast<long>(request_der.size())));
  RequestedKey read;
  read.key_->key.reset(request == nullptr ? nullptr : X509_REQ_get_pubkey(request.get()));
  EVP_PKEY* key = read.key_->key.get();
  const bool parsed = at == end && key != nullptr;
  const bool strong = parsed && IsStrong(key);  // a weak or huge key is not worked with
  const bool own = strong && X509_REQ_verify(request.get(), key) == 1;
  ERR_clear_error();
  if (!parsed) return absl::InvalidArgumentError("what was sent is no request for a certificate (PKCS #10, DER)");
  if (!strong) {
    return absl::InvalidArgumentError(
        "the request for a certificate has a key that is not taken: right are P-256, P-384 and RSA of 2048 to 8192 "
        "bits");
  }
  if (!own) {
    return absl::InvalidArgumentError("the request for a certificate is not signed with the key that it asks for");
  }
  read.sha256_ = KeyHash(X509_REQ_get_X509_PUBKEY(request.get()));
  return read;
}

absl::StatusOr<std::unique_ptr<CertificateIssuer>> CertificateIssuer::Open(const std::string& certificate_file,
                                                                           const std::string& key_file) {
  ADJOIN_RETURN_IF_ERROR(CheckKey(certificate_file, key_file));
  std::unique_ptr<CertificateIssuer> issuer(new CertificateIssuer());
  Authority& authority = *issuer->authority_;
  std::vector<X509Ptr> certificates = ParsePem(ReadFile(certificate_file), kMostChain);
  const std::string text = ReadFile(key_file);
  BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  auto no_passphrase = [](char*, int, int, void*) { return -1; };
  authority.key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (certificates.empty() || authority.key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(certificate_file, " and ", key_file, " changed while being read"));
  }
  if (X509_check_ca(certificates[0].get()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(certificate_file, " is not the certificate of an authority: it needs basicConstraints CA:TRUE"));
  }
  for (const X509Ptr& certificate : certificates) {
    if (X509_self_signed(certificate.get(), 0) == 1) break;
    authority.chain += PemOf(certificate.get());
  }
  authority.certificate = std::move(certificates[0]);
  return issuer;
}

absl::StatusOr<IssuedCertificate> CertificateIssuer::Issue(const RequestedKey& key, const std::string& node,
                                                           absl::Time now, absl::Duration lifetime) const {
  X509* const issuer = authority_->certificate.get();
  const absl::Time end = TimeOf(X509_get0_notAfter(issuer));
  if (now >= end) {
    return absl::FailedPreconditionError("the certificate with which the coordinator issues others has expired");
  }
  IssuedCertificate made;
  made.not_after = absl::FromTimeT(absl::ToTimeT(std::min(now + lifetime, end)));
  X509Ptr certificate(X509_new());
  X509* const made_x509 = certificate.get();
  EVP_PKEY* const signer = authority_->key.get();
  // Ed25519 and its like have a digest of their own.
  const bool own_digest =
      EVP_PKEY_get_base_id(signer) == EVP_PKEY_ED25519 || EVP_PKEY_get_base_id(signer) == EVP_PKEY_ED448;
  const bool good = X509_set_version(made_x509, 2) == 1 && SetSerial(made_x509) && SetName(made_x509, node) &&
                    X509_set_issuer_name(made_x509, X509_get_subject_name(issuer)) == 1 &&
                    SetTimes(made_x509, now - kClockTolerance, made.not_after) &&
                    X509_set_pubkey(made_x509, key.key_->key.get()) == 1 &&
                    AddExtension(made_x509, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
                    AddExtension(made_x509, issuer, NID_key_usage, "critical,digitalSignature") &&
                    AddExtension(made_x509, issuer, NID_ext_key_usage, "clientAuth") &&
                    AddExtension(made_x509, issuer, NID_subject_alt_name, absl::StrCat("URI:adjoin://worker/", node)) &&
                    AddExtension(made_x509, issuer, NID_subject_key_identifier, "hash") &&
                    AddExtension(made_x509, issuer, NID_authority_key_identifier, "keyid") &&
                    X509_sign(made_x509, signer, own_digest ? nullptr : EVP_sha256()) > 0;
  ERR_clear_error();
  if (!good) return absl::InternalError(absl::StrCat("OpenSSL signs no certificate for ", node));
  made.serial = SerialOf(made_x509);
  made.pem = PemOf(made_x509) + authority_->chain;
  return made;
}

}  // namespace adjoin
