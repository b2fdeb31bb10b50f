// AES-128 (FIPS 197) in ECB mode, with OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "frame/record.hpp"

struct evp_cipher_ctx_st;

namespace acapella::anonymize {

inline constexpr std::size_t kBlock = 16;
inline constexpr std::size_t kKey = 32;

using Key = std::span<const std::byte, kKey>;

// Returns true if the core was built with OpenSSL. Without it, all functions of Aes128 throw
// std::runtime_error.
bool has_aes();

class Aes128 {
  public:
    explicit Aes128(std::span<const std::byte, kBlock> key);

    // Returns the cipher whose key is the first 16 bytes of HMAC-SHA-256(key, label).
    static Aes128 derived(Key key, std::string_view label);

    // Encrypts whole blocks independently, in place.
    void encrypt(std::span<std::byte> blocks) const;

  private:
    struct Free {
        void operator()(evp_cipher_ctx_st* context) const;
    };
    std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace acapella::anonymize
