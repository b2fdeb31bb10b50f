// A fast 128-bit hash for packets of 40 to 1500 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "kappa/trial/identity.hpp"

namespace acapella::kappa {

// Hashes 16 bytes per step: two words are multiplied to 128 bits, and both halves remain in the state, so
// collisions in a step are not more frequent than by chance. There are two lanes, because a multiplication
// takes several cycles.
class Hasher {
  public:
    static constexpr std::size_t kStep = 16;

    Hasher(std::uint64_t seed, std::size_t length)
        : lanes_{{{kKeys[0] ^ seed, kKeys[1] ^ length}, {kKeys[2] ^ length, kKeys[3] ^ seed}}} {}

    // Hashes all of `bytes`. If there are at least 16 bytes, the last step may read some of them twice; the
    // length in the initial state distinguishes such inputs.
    void absorb(Bytes bytes) {
        const std::byte* at = bytes.data();
        std::size_t left = bytes.size();
        for (; left >= 2 * kStep; at += 2 * kStep, left -= 2 * kStep) {
            step(0, at);
            step(1, at + kStep);
        }
        if (left >= kStep) {
            step(0, at);
            at += kStep;
            left -= kStep;
        }
        if (left == 0) return;
        if (bytes.size() >= kStep) {
            step(1, at + left - kStep);
        } else {
            std::array<std::byte, kStep> rest{};
            std::memcpy(rest.data(), at, left);
            step(1, rest.data());
        }
    }

    // Hashes the first 32 of `bytes`, or all if there are fewer; of the first 16 bytes, only the bits in
    // `mask`. Returns the remaining bytes. The mask is applied in registers, because loading a word just
    // stored byte by byte is slow.
    Bytes absorb_head(Bytes bytes, const std::array<std::byte, kStep>& mask) {
        if (bytes.size() < 2 * kStep) [[unlikely]] {
            std::array<std::byte, 2 * kStep> head{};
            for (std::size_t i = 0; i < bytes.size(); ++i)
                head[i] = i < kStep ? bytes[i] & mask[i] : bytes[i];
            absorb(Bytes(head).first(bytes.size()));
            return {};
        }
        const Lane keep = load(mask.data());
        const Lane first = load(bytes.data());
        const Lane second = load(bytes.data() + kStep);
        lanes_[0] = mixed(lanes_[0], first.x & keep.x, first.y & keep.y);
        lanes_[1] = mixed(lanes_[1], second.x, second.y);
        return bytes.subspan(2 * kStep);
    }

    Identity finish() const {
        Lane lane = mixed(lanes_[0], lanes_[1].x, lanes_[1].y);
        lane = mixed(lane, kKeys[1], kKeys[2]);
        lane = mixed(lane, kKeys[3], kKeys[0]);
        return {lane.x, lane.y};
    }

  private:
    struct Lane {
        std::uint64_t x;
        std::uint64_t y;
    };

    // Fractional digits of pi, as in Blowfish.
    static constexpr std::array<std::uint64_t, 4> kKeys{0x243f6a8885a308d3, 0x13198a2e03707344,
                                                        0xa4093822299f31d0, 0x082efa98ec4e6c89};

    static Lane mixed(Lane lane, std::uint64_t a, std::uint64_t b) {
        __extension__ using Wide = unsigned __int128;
        const std::uint64_t x = lane.x ^ a;
        const std::uint64_t y = lane.y ^ b;
        const Wide product = static_cast<Wide>(x ^ kKeys[2]) * (y ^ kKeys[0]);
        // If a factor is zero, the sums still depend on the other one. The product is rotated by half a word,
        // because its upper bits depend mostly on the upper bits of the factors.
        return {static_cast<std::uint64_t>(product) + (y << 32 | y >> 32),
                static_cast<std::uint64_t>(product >> 64) ^ (x << 32 | x >> 32)};
    }

    static Lane load(const std::byte* at) {
        Lane words;
        std::memcpy(&words.x, at, sizeof words.x);
        std::memcpy(&words.y, at + sizeof words.x, sizeof words.y);
        return words;
    }

    void step(std::size_t lane, const std::byte* at) {
        const Lane words = load(at);
        lanes_[lane] = mixed(lanes_[lane], words.x, words.y);
    }

    std::array<Lane, 2> lanes_;
};

}  // namespace acapella::kappa
