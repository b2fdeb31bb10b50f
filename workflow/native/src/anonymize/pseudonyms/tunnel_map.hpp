// Maps tunnel identifiers to pseudonyms, which depend only on the key, the type and the identifier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "anonymize/pseudonyms/permutation.hpp"
#include "frame/dissection.hpp"

namespace acapella::anonymize {

// Permutes the identifiers of each type: equal identifiers have equal pseudonyms, different identifiers have
// different ones, pseudonyms fit the field, and only zero may be its own pseudonym. Identifiers that
// dissectors or a standard treat differently (zero, a GRE key that could belong to NVGRE, an L2TP session of
// 16 bits) are permuted separately.
class TunnelMap {
  public:
    explicit TunnelMap(Key key)
        : permutation_(key, "acapella anonymise: tunnel identifiers") {}  // codespell:ignore

    [[nodiscard]] std::uint32_t map(TunnelType type, std::uint32_t id);

  private:
    [[nodiscard]] std::uint32_t replaced(TunnelType type, std::uint32_t id) const;

    Permutation permutation_;
    std::unordered_map<std::uint64_t, std::uint32_t> known_;
};

// Returns the number of bits of the identifiers of a type.
[[nodiscard]] unsigned bits_of(TunnelType type);

}  // namespace acapella::anonymize
