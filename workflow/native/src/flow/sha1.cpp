#include "flow/sha1.hpp"

#include <bit>
#include <stdexcept>

namespace acapella {
namespace {

constexpr std::size_t kSha1Block = 64;
constexpr std::size_t kSha1Words = 16;
using Sha1Words = std::array<std::uint32_t, kSha1Words>;  // the 16 most recent words of the message schedule
using Sha1Hash = std::array<std::uint32_t, 5>;

constexpr Sha1Hash kSha1Initial = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

std::uint32_t sha1_word(Sha1Words& words, std::size_t round) {
    const auto at = [&words](std::size_t i) -> std::uint32_t& { return words[i % kSha1Words]; };
    if (round < kSha1Words) return words[round];
    return at(round) = std::rotl(at(round - 3) ^ at(round - 8) ^ at(round - 14) ^ at(round), 1);
}

// Twenty rounds with the same function and constant.
template <std::size_t first, typename Function>
void sha1_rounds(Sha1Hash& hash, Sha1Words& words, std::uint32_t constant, const Function& function) {
    auto& [a, b, c, d, e] = hash;
    for (std::size_t round = first; round < first + 20; ++round) {
        const std::uint32_t next =
            std::rotl(a, 5) + function(b, c, d) + e + constant + sha1_word(words, round);
        e = d;
        d = c;
        c = std::rotl(b, 30);
        b = a;
        a = next;
    }
}

Sha1Words sha1_pad(std::span<const std::byte> message) {
    std::array<std::byte, kSha1Block> block{};
    for (std::size_t i = 0; i < message.size(); ++i) block[i] = message[i];
    block[message.size()] = std::byte{0x80};
    const std::size_t bits = message.size() * 8;
    block[kSha1Block - 2] = static_cast<std::byte>(bits >> 8);
    block[kSha1Block - 1] = static_cast<std::byte>(bits & 0xff);
    Sha1Words words{};
    for (std::size_t i = 0; i < kSha1Block; ++i)
        words[i / 4] = words[i / 4] << 8 | std::to_integer<std::uint32_t>(block[i]);
    return words;
}

}  // namespace

std::array<std::byte, kSha1Bytes> sha1_of_short(std::span<const std::byte> message) {
    if (message.size() > kSha1Longest) throw std::length_error("SHA-1: more than one block");
    const auto choose = [](auto b, auto c, auto d) { return (b & c) | (~b & d); };
    const auto parity = [](auto b, auto c, auto d) { return b ^ c ^ d; };
    const auto majority = [](auto b, auto c, auto d) { return (b & c) | (b & d) | (c & d); };
    Sha1Words words = sha1_pad(message);
    Sha1Hash hash = kSha1Initial;
    sha1_rounds<0>(hash, words, 0x5a827999, choose);
    sha1_rounds<20>(hash, words, 0x6ed9eba1, parity);
    sha1_rounds<40>(hash, words, 0x8f1bbcdc, majority);
    sha1_rounds<60>(hash, words, 0xca62c1d6, parity);
    std::array<std::byte, kSha1Bytes> digest;
    for (std::size_t i = 0; i < kSha1Bytes; ++i)
        digest[i] = static_cast<std::byte>((kSha1Initial[i / 4] + hash[i / 4]) >> (24 - 8 * (i % 4)));
    return digest;
}

}  // namespace acapella
