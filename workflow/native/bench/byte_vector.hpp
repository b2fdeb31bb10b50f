// Bytes of frames, which are appended and modified in network byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace acapella::bench {

using ByteVector = std::vector<std::uint8_t>;

inline void put16(std::uint8_t* at, std::uint32_t value) {
    const auto swapped = __builtin_bswap16(static_cast<std::uint16_t>(value));
    std::memcpy(at, &swapped, sizeof swapped);
}

inline void put32(std::uint8_t* at, std::uint32_t value) {
    const auto swapped = __builtin_bswap32(value);
    std::memcpy(at, &swapped, sizeof swapped);
}

inline ByteVector& add8(ByteVector& out, std::uint32_t value) {
    out.push_back(static_cast<std::uint8_t>(value));
    return out;
}

inline ByteVector& add16(ByteVector& out, std::uint32_t value) { return add8(add8(out, value >> 8U), value); }

inline ByteVector& add32(ByteVector& out, std::uint32_t value) {
    return add16(add16(out, value >> 16U), value);
}

inline ByteVector& add(ByteVector& out, const ByteVector& bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return out;
}

inline ByteVector& add(ByteVector& out, std::string_view text) {
    for (const char c : text) {
        add8(out, static_cast<unsigned char>(c));
    }
    return out;
}

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31U);
    }

    // Returns a number from 0 to bound - 1; bound is at most 2^32.
    std::uint32_t below(std::uint64_t bound) {
        return static_cast<std::uint32_t>(((next() >> 32U) * bound) >> 32U);
    }

  private:
    std::uint64_t state_;
};

inline ByteVector& add_random(ByteVector& out, Random& random, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        add8(out, random.below(256));
    }
    return out;
}

}  // namespace acapella::bench
