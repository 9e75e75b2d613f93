#include "base/security/certificate_request.h"

#include <openssl/ec.h>

#include <vector>

#include "absl/status/status.h"
#include "base/security/openssl_handles.h"

namespace adjoin {
namespace {

absl::StatusOr<KeyAndRequest> Request(EVP_PKEY* key) {
  KeyAndRequest made;
  BioPtr bio(BIO_new(BIO_s_mem()));
  RequestPtr request(X509_REQ_new());
  const bool signed_well = PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1 &&
                           X509_REQ_set_version(request.get(), 0) == 1 &&
                           X509_REQ_set_pubkey(request.get(), key) == 1 &&
                           X509_REQ_sign(request.get(), key, EVP_sha256()) > 0;
  unsigned char* der = nullptr;
  const int size = signed_well ? i2d_X509_REQ(request.get(), &der) : 0;
  ERR_clear_error();
  if (size <= 0) return absl::InternalError("OpenSSL makes no request for a certificate");
  made.key_pem = BioText(bio.get());
  made.request_der.assign(reinterpret_cast<const char*>(der), size);
  OPENSSL_free(der);
  return made;
}

}  // namespace

absl::StatusOr<KeyAndRequest> MakeKeyAndRequest() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    ERR_clear_error();
    return absl::InternalError("OpenSSL makes no key");
  }
  return Request(key.get());
}

absl::StatusOr<KeyAndRequest> MakeRequest(const std::string& key_pem) {
  BioPtr bio(BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())));
  // A key with a passphrase would ask for it on the terminal.
  auto no_passphrase = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) return absl::InvalidArgumentError("it holds no private key in PEM format");
  return Request(key.get());
}

absl::StatusOr<Validity> ValidityOf(const std::string& pem) {
  const std::vector<X509Ptr> certificates = ParsePem(pem, 1);
  if (certificates.empty()) return absl::InvalidArgumentError("it holds no certificate in PEM format");
  return Validity{TimeOf(X509_get0_notBefore(certificates[0].get())),
                  TimeOf(X509_get0_notAfter(certificates[0].get()))};
}

}  // namespace adjoin
