#include "anonymize/pseudonyms/permutation.hpp"

#include <array>
#include <utility>

namespace acapella::anonymize {
namespace {

constexpr unsigned kRounds = 10;

}  // namespace

Permutation::Permutation(Key key, std::string_view label) : aes_(Aes128::derived(key, label)) {}

std::uint64_t Permutation::round(unsigned number, std::uint64_t half, unsigned bits,
                                 std::uint8_t kind) const {
    std::array<std::byte, kBlock> block{};
    block[0] = static_cast<std::byte>(bits);
    block[1] = static_cast<std::byte>(number);
    block[2] = static_cast<std::byte>(kind);
    for (unsigned i = 0; i < 4; ++i) block[15 - i] = static_cast<std::byte>(half >> (8 * i));
    aes_.encrypt(block);
    std::uint64_t word = 0;
    for (unsigned i = 0; i < 4; ++i) word = word << 8 | std::to_integer<std::uint64_t>(block[i]);
    return word & ((std::uint64_t{1} << bits / 2) - 1);
}

std::uint64_t Permutation::map(std::uint64_t value, unsigned bits, std::uint8_t kind) const {
    const unsigned half = bits / 2;
    std::uint64_t left = value >> half;
    std::uint64_t right = value & ((std::uint64_t{1} << half) - 1);
    for (unsigned number = 0; number < kRounds; ++number) {
        left ^= round(number, right, bits, kind);
        std::swap(left, right);
    }
    return left << half | right;
}

std::uint64_t Permutation::inverse(std::uint64_t value, unsigned bits, std::uint8_t kind) const {
    const unsigned half = bits / 2;
    std::uint64_t left = value >> half;
    std::uint64_t right = value & ((std::uint64_t{1} << half) - 1);
    for (unsigned number = kRounds; number-- > 0;) {
        std::swap(left, right);
        left ^= round(number, right, bits, kind);
    }
    return left << half | right;
}

}  // namespace acapella::anonymize
