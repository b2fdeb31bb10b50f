#include "flow/sha1.hpp"

#include <bit>
#include <stdexcept>

namespace acapella {
namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kWords = 16;
using Words = std::array<std::uint32_t, kWords>;  // the last words of the message schedule
using Hash = std::array<std::uint32_t, 5>;

constexpr Hash kInitial = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

std::uint32_t word_of(Words& words, std::size_t round) {
    const auto at = [&words](std::size_t i) -> std::uint32_t& { return words[i % kWords]; };
    if (round < kWords) return words[round];
    return at(round) = std::rotl(at(round - 3) ^ at(round - 8) ^ at(round - 14) ^ at(round), 1);
}

// Twenty rounds with the same function and constant.
template <std::size_t first, typename Function>
void mix(Hash& hash, Words& words, std::uint32_t constant, const Function& function) {
    auto& [a, b, c, d, e] = hash;
    for (std::size_t round = first; round < first + 20; ++round) {
        const std::uint32_t next = std::rotl(a, 5) + function(b, c, d) + e + constant + word_of(words, round);
        e = d;
        d = c;
        c = std::rotl(b, 30);
        b = a;
        a = next;
    }
}

Words pad(std::span<const std::byte> message) {
    std::array<std::byte, kBlock> block{};
    for (std::size_t i = 0; i < message.size(); ++i) block[i] = message[i];
    block[message.size()] = std::byte{0x80};
    const std::size_t bits = message.size() * 8;
    block[kBlock - 2] = static_cast<std::byte>(bits >> 8);
    block[kBlock - 1] = static_cast<std::byte>(bits & 0xff);
    Words words{};
    for (std::size_t i = 0; i < kBlock; ++i)
        words[i / 4] = words[i / 4] << 8 | std::to_integer<std::uint32_t>(block[i]);
    return words;
}

}  // namespace

std::array<std::byte, kSha1Bytes> sha1_of_short(std::span<const std::byte> message) {
    if (message.size() > kSha1Longest) throw std::length_error("SHA-1: more than one block");
    const auto choose = [](auto b, auto c, auto d) { return (b & c) | (~b & d); };
    const auto parity = [](auto b, auto c, auto d) { return b ^ c ^ d; };
    const auto majority = [](auto b, auto c, auto d) { return (b & c) | (b & d) | (c & d); };
    Words words = pad(message);
    Hash hash = kInitial;
    mix<0>(hash, words, 0x5a827999, choose);
    mix<20>(hash, words, 0x6ed9eba1, parity);
    mix<40>(hash, words, 0x8f1bbcdc, majority);
    mix<60>(hash, words, 0xca62c1d6, parity);
    std::array<std::byte, kSha1Bytes> digest;
    for (std::size_t i = 0; i < kSha1Bytes; ++i)
        digest[i] = static_cast<std::byte>((kInitial[i / 4] + hash[i / 4]) >> (24 - 8 * (i % 4)));
    return digest;
}

}  // namespace acapella
