// Hash function for in-memory tables. Its seed is random in every run, so that no one can prepare a capture
// whose keys collide. No result depends on the seed, because no table is iterated in hash order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace acapella {

class TableHash {
  public:
    TableHash();                             // a random seed
    explicit TableHash(std::uint64_t seed);  // for tests

    std::uint64_t start() const { return secrets_[0]; }

    // Hashes data of any length, one word at a time.
    static std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
        return fold(state ^ 0x9e3779b97f4a7c15, word ^ 0xd6e8feb86659fd93 ^ state);
    }

    // Hashes a fixed number of words. The multiplications are independent of each other.
    template <std::size_t N>
    std::uint64_t words(const std::array<std::uint64_t, N>& words) const {
        static_assert(N % 2 == 0 && N < kSecrets);
        std::uint64_t state = secrets_[N];
        for (std::size_t i = 0; i < N; i += 2)
            state ^= fold(words[i] ^ secrets_[i], words[i + 1] ^ secrets_[i + 1]);
        return fold(state, 0x9e3779b97f4a7c15);
    }

    std::uint64_t operator()(std::uint64_t word) const { return mix(mix(start(), word), 0x2545f4914f6cdd1d); }

  private:
    static constexpr std::size_t kSecrets = 9;
    __extension__ using Wide = unsigned __int128;

    static std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
        const Wide product = static_cast<Wide>(a) * b;
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }

    std::array<std::uint64_t, kSecrets> secrets_;
};

}  // namespace acapella
