// Sums of a capture's decompressed bytes in pieces of equal size, which detect a change of the capture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "frame/record.hpp"

namespace acapella::input {

inline constexpr std::size_t kPiece = std::size_t{512} << 10;
inline constexpr std::size_t kSmallestPiece = 64;
inline constexpr std::size_t kLargestPiece = std::size_t{4} << 20;

// A checksum against accidental changes, not a cryptographic hash. Eight lanes multiply the halves of 64-bit
// words, as in the loop of XXH3 for long inputs, so that compilers use vector instructions. The keys of the
// lanes change with every stripe, so that the order of stripes matters.
class PieceSum {
  public:
    static constexpr std::size_t kStripe = 64;

    // The number of bytes must be a multiple of kStripe, except in the last call before value().
    void add(const std::byte* at, std::size_t size) {
        auto sums = sums_;  // local, so that the compiler keeps the lanes in registers
        auto keys = keys_;
        for (; size >= kStripe; at += kStripe, size -= kStripe) add_stripe(at, sums, keys);
        sums_ = sums;
        keys_ = keys;
        if (size == 0) return;
        std::array<std::byte, kStripe> last{};
        std::memcpy(last.data(), at, size);
        add_stripe(last.data(), sums_, keys_);
        rest_ = size;
    }

    [[nodiscard]] std::uint32_t value() const {
        std::uint64_t sum = rest_;
        for (std::size_t lane = 0; lane < kLanes; ++lane) sum = mix((sum ^ sums_[lane]) + keys_[lane]);
        return static_cast<std::uint32_t>(sum >> 32U);
    }

  private:
    static constexpr std::size_t kLanes = 8;
    static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio

    static std::uint64_t mix(std::uint64_t value) {  // the finalizer of SplitMix64
        value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
        value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
        return value ^ (value >> 31U);
    }

    using Lanes = std::array<std::uint64_t, kLanes>;

    static void add_stripe(const std::byte* at, Lanes& sums, Lanes& keys) {
        Lanes words;
        std::memcpy(words.data(), at, kStripe);
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const std::uint64_t keyed = words[lane] ^ keys[lane];
            sums[lane] += words[lane ^ 1U] + (keyed & 0xffffffffU) * (keyed >> 32U);
            keys[lane] += kStep;
        }
    }

    Lanes sums_{};
    Lanes keys_{0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0,
                0x082efa98ec4e6c89, 0x452821e638d01377, 0xbe5466cf34e90c6c,
                0xc0ac29b7c97c50dd, 0x3f84d5b5b5470917};  // digits of pi
    std::size_t rest_ = 0;
};

// Computes the sums of consecutive pieces of a stream. The last piece may be shorter.
class PieceSums {
  public:
    // `piece_bytes`: a multiple of PieceSum::kStripe.
    explicit PieceSums(std::size_t piece_bytes = kPiece) : piece_bytes_(piece_bytes) {}

    void add(Bytes bytes);

    // Returns the sums of all pieces. Ends the last piece, so it must be called after the last add().
    const std::vector<std::uint32_t>& finish();
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  private:
    std::size_t piece_bytes_;
    PieceSum sum_;
    std::array<std::byte, PieceSum::kStripe> carry_;  // the start of an incomplete stripe
    std::size_t carried_ = 0;
    std::size_t in_piece_ = 0;
    std::uint64_t bytes_ = 0;
    std::vector<std::uint32_t> sums_;
};

}  // namespace acapella::input
