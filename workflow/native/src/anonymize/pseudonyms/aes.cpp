#include "anonymize/pseudonyms/aes.hpp"

#include <openssl/evp.h>

#include <stdexcept>

namespace acapella::anonymize {
namespace {

void check(int done) {
    if (done != 1) throw std::runtime_error("OpenSSL does not support AES-128");
}

unsigned char* as_unsigned(std::byte* at) { return reinterpret_cast<unsigned char*>(at); }

}  // namespace

void Aes128::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

Aes128::Aes128(std::span<const std::byte, kBlock> key) : context_(EVP_CIPHER_CTX_new()) {
    if (!context_) throw std::bad_alloc();
    const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
    check(EVP_EncryptInit_ex(context_.get(), EVP_aes_128_ecb(), nullptr, bytes, nullptr));
    check(EVP_CIPHER_CTX_set_padding(context_.get(), 0));
}

void Aes128::encrypt(std::span<std::byte> blocks) const {
    int done = 0;
    const auto size = static_cast<int>(blocks.size());
    check(EVP_EncryptUpdate(context_.get(), as_unsigned(blocks.data()), &done, as_unsigned(blocks.data()),
                            size));
    if (done != size) throw std::runtime_error("OpenSSL did not encrypt all data");
}

}  // namespace acapella::anonymize
