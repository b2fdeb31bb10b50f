#include "collector/receive/crc32.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace acapella::collector {
namespace {

constexpr std::uint32_t kPolynomial = 0xedb88320;  // reflected
constexpr std::size_t kSlices = 16;

using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// tables[n][b]: the effect of byte b on the register after n more zero bytes.
constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t state = byte;
        for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? kPolynomial : 0);
        tables[0][byte] = state;
    }
    for (std::size_t slice = 1; slice < kSlices; ++slice)
        for (std::size_t byte = 0; byte < 256; ++byte)
            tables[slice][byte] = (tables[slice - 1][byte] >> 8) ^ tables[0][tables[slice - 1][byte] & 0xff];
    return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t word_at(const std::byte* at) {
    std::uint32_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

std::uint32_t sliced(std::uint32_t word, std::size_t last) {
    return kTables[last + 3][word & 0xff] ^ kTables[last + 2][word >> 8 & 0xff] ^
           kTables[last + 1][word >> 16 & 0xff] ^ kTables[last][word >> 24];
}

#if defined(__x86_64__)

// x^n mod P for the reflected folding, after Gopal et al., "Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ Instruction" (Intel, 2009): folding by 512 bits, folding by 128 bits, and Barrett reduction
// from 128 to 32 bits.
constexpr std::uint64_t kFold512High = 0x1c6e41596;
constexpr std::uint64_t kFold512Low = 0x154442bd4;
constexpr std::uint64_t kFold128High = 0x0ccaa009e;
constexpr std::uint64_t kFold128Low = 0x1751997d0;
constexpr std::uint64_t kFold64 = 0x163cd6124;
constexpr std::uint64_t kBarrettMu = 0x1f7011641;
constexpr std::uint64_t kBarrettPolynomial = 0x1db710641;

#define ACAPELLA_CLMUL __attribute__((target("pclmul,sse4.1")))

ACAPELLA_CLMUL __m128i load(const std::byte* at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

ACAPELLA_CLMUL __m128i constants(std::uint64_t low, std::uint64_t high) {
    return _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
}

ACAPELLA_CLMUL __m128i fold(__m128i value, __m128i by, __m128i next) {
    const __m128i low = _mm_clmulepi64_si128(value, by, 0x00);
    const __m128i high = _mm_clmulepi64_si128(value, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

ACAPELLA_CLMUL std::uint32_t reduce(__m128i value) {
    const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
    const __m128i by_128 = constants(kFold128Low, kFold128High);
    value = _mm_xor_si128(_mm_srli_si128(value, 8), _mm_clmulepi64_si128(value, by_128, 0x10));
    const __m128i upper = _mm_srli_si128(value, 4);
    value = _mm_clmulepi64_si128(_mm_and_si128(value, low_words), constants(kFold64, 0), 0x00);
    value = _mm_xor_si128(value, upper);
    const __m128i barrett = constants(kBarrettPolynomial, kBarrettMu);
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(value, low_words), barrett, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), barrett, 0x00);
    return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(value, quotient), 1));
}

struct Lanes {
    __m128i lane[4];
};

// Processes the 64 bytes in `first` and then the `count` bytes at `at`. `count` is a multiple of 16.
ACAPELLA_CLMUL std::uint32_t multiplied(std::uint32_t state, const Lanes& first, const std::byte* at,
                                        std::size_t count) {
    const __m128i by_512 = constants(kFold512Low, kFold512High);
    const __m128i by_128 = constants(kFold128Low, kFold128High);
    __m128i lanes[4] = {first.lane[0], first.lane[1], first.lane[2], first.lane[3]};
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(state)));
    for (; count >= 64; at += 64, count -= 64)
        for (std::size_t i = 0; i < 4; ++i) lanes[i] = fold(lanes[i], by_512, load(at + 16 * i));
    __m128i value = lanes[0];
    for (std::size_t i = 1; i < 4; ++i) value = fold(value, by_128, lanes[i]);
    for (; count >= 16; at += 16, count -= 16) value = fold(value, by_128, load(at));
    return reduce(value);
}

// `blocks` is a multiple of 16 and at least 64.
ACAPELLA_CLMUL std::uint32_t multiplied(std::uint32_t state, const std::byte* at, std::size_t blocks) {
    return multiplied(state, {{load(at), load(at + 16), load(at + 32), load(at + 48)}}, at + 64, blocks - 64);
}

// Applies the mask in registers, because reading a masked copy from memory would stall on its stores.
ACAPELLA_CLMUL std::uint32_t multiplied_masked(const std::byte* mask, const std::byte* at,
                                               std::size_t blocks) {
    const auto masked = [=](std::size_t i)
                            ACAPELLA_CLMUL { return _mm_or_si128(load(at + i), load(mask + i)); };
    const __m128i first = _mm_or_si128(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)),
                                       _mm_loadl_epi64(reinterpret_cast<const __m128i*>(mask)));
    const Lanes lanes{{_mm_unpacklo_epi64(_mm_set1_epi32(-1), first), masked(8), masked(24), masked(40)}};
    return multiplied(0xffffffff, lanes, at + kCrcMask, blocks);
}

const bool kHasClmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");

#endif

}  // namespace

std::uint32_t crc32_update_by_tables(std::uint32_t state, std::span<const std::byte> data) {
    const std::byte* at = data.data();
    std::size_t count = data.size();
    for (; count >= kSlices; at += kSlices, count -= kSlices)
        state = sliced(state ^ word_at(at), 12) ^ sliced(word_at(at + 4), 8) ^ sliced(word_at(at + 8), 4) ^
                sliced(word_at(at + 12), 0);
    for (; count > 0; ++at, --count)
        state = (state >> 8) ^ kTables[0][(state ^ std::to_integer<std::uint32_t>(*at)) & 0xff];
    return state;
}

std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> data) {
#if defined(__x86_64__)
    constexpr std::size_t kMin = 64;
    if (data.size() >= kMin && kHasClmul) {
        const std::size_t blocks = data.size() / 16 * 16;
        state = multiplied(state, data.data(), blocks);
        data = data.subspan(blocks);
    }
#endif
    return crc32_update_by_tables(state, data);
}

std::uint32_t crc32_of_masked(std::span<const std::byte, kCrcMask> mask, std::span<const std::byte> data) {
    const std::span<const std::byte> rest = data.subspan(kCrcMask);
#if defined(__x86_64__)
    if (kHasClmul) {
        const std::size_t blocks = rest.size() / 16 * 16;
        const std::uint32_t state = multiplied_masked(mask.data(), data.data(), blocks);
        return crc32_update_by_tables(state, rest.subspan(blocks));
    }
#endif
    std::array<std::byte, kCrcOnes + kCrcMask> head;
    head.fill(std::byte{0xff});
    for (std::size_t i = 0; i < kCrcMask; ++i) head[kCrcOnes + i] = data[i] | mask[i];
    return crc32_update_by_tables(crc32_update_by_tables(0xffffffff, head), rest);
}

}  // namespace acapella::collector
