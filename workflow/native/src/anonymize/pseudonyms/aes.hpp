// AES-128 (FIPS 197) in ECB mode, with OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "frame/record.hpp"

struct evp_cipher_ctx_st;

namespace acapella::anonymize {

inline constexpr std::size_t kBlock = 16;

class Aes128 {
  public:
    explicit Aes128(std::span<const std::byte, kBlock> key);

    // Encrypts whole blocks independently, in place.
    void encrypt(std::span<std::byte> blocks) const;

  private:
    struct Free {
        void operator()(evp_cipher_ctx_st* context) const;
    };
    std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace acapella::anonymize
