#include "anonymize/pseudonyms/aes.hpp"

#include <array>
#include <new>
#include <stdexcept>

#ifdef ACAPELLA_HAS_OPENSSL
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#endif

namespace acapella::anonymize {

#ifdef ACAPELLA_HAS_OPENSSL

namespace {

void check(int status) {
    if (status != 1) throw std::runtime_error("OpenSSL does not support AES-128");
}

unsigned char* as_unsigned(std::byte* at) { return reinterpret_cast<unsigned char*>(at); }

}  // namespace

bool has_aes() { return true; }

void Aes128::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

Aes128::Aes128(std::span<const std::byte, kBlock> key) : context_(EVP_CIPHER_CTX_new()) {
    if (!context_) throw std::bad_alloc();
    const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
    check(EVP_EncryptInit_ex(context_.get(), EVP_aes_128_ecb(), nullptr, bytes, nullptr));
    check(EVP_CIPHER_CTX_set_padding(context_.get(), 0));
}

Aes128 Aes128::derived(Key key, std::string_view label) {
    std::array<std::byte, 32> sum{};
    unsigned length = 0;
    const auto* result = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                              reinterpret_cast<const unsigned char*>(label.data()), label.size(),
                              as_unsigned(sum.data()), &length);
    if (result == nullptr || length != sum.size())
        throw std::runtime_error("OpenSSL does not support HMAC-SHA-256");
    Aes128 cipher(std::span<const std::byte, kBlock>(sum.data(), kBlock));
    OPENSSL_cleanse(sum.data(), sum.size());
    return cipher;
}

void Aes128::encrypt(std::span<std::byte> blocks) const {
    int written = 0;
    const auto size = static_cast<int>(blocks.size());
    check(EVP_EncryptUpdate(context_.get(), as_unsigned(blocks.data()), &written, as_unsigned(blocks.data()),
                            size));
    if (written != size) throw std::runtime_error("OpenSSL did not encrypt all data");
}

#else

namespace {

[[noreturn]] void refuse() { throw std::runtime_error("the core was built without OpenSSL"); }

}  // namespace

bool has_aes() { return false; }

void Aes128::Free::operator()(evp_cipher_ctx_st* /*context*/) const {}

Aes128::Aes128(std::span<const std::byte, kBlock> /*key*/) { refuse(); }

Aes128 Aes128::derived(Key /*key*/, std::string_view /*label*/) { refuse(); }

void Aes128::encrypt(std::span<std::byte> /*blocks*/) const { refuse(); }

#endif

}  // namespace acapella::anonymize
