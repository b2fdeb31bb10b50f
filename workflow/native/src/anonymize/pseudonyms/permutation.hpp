// A keyed permutation of the numbers of a given width.
#pragma once

#include <cstdint>
#include <string_view>

#include "anonymize/pseudonyms/aes.hpp"

namespace acapella::anonymize {

class Permutation {
  public:
    // Each `label` selects an independent permutation, so pseudonyms of one kind reveal nothing about those
    // of another. The AES-128 key is the first 16 bytes of HMAC-SHA-256(key, label).
    Permutation(Key key, std::string_view label);

    // Permutes `value` with a Feistel network of ten rounds, as in NIST SP 800-38G FF1. `bits` is even and at
    // most 64. `kind` selects one of 256 permutations.
    [[nodiscard]] std::uint64_t map(std::uint64_t value, unsigned bits, std::uint8_t kind = 0) const;
    [[nodiscard]] std::uint64_t inverse(std::uint64_t value, unsigned bits, std::uint8_t kind = 0) const;

  private:
    [[nodiscard]] std::uint64_t round(unsigned number, std::uint64_t half, unsigned bits,
                                      std::uint8_t kind) const;

    Aes128 aes_;
};

}  // namespace acapella::anonymize
