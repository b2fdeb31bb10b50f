// Identities: the fast path to the IP header matches the dissectors; the hash has an avalanche effect.
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "dissect/dispatch.hpp"
#include "kappa/trial/hash.hpp"
#include "kappa/trial/identity.hpp"

namespace {

using namespace acapella;
using kappa::find_network_quickly;
using Frame = std::vector<std::byte>;

Frame frame_of(std::initializer_list<unsigned> head, std::size_t size) {
    Frame frame;
    for (const unsigned value : head) frame.push_back(static_cast<std::byte>(value));
    frame.resize(size, std::byte{0x45});
    return frame;
}

const std::vector<Frame> kSeeds{
    frame_of({2,  0, 0, 0, 0, 1,  2, 0, 0, 0,  0, 2, 8, 0,  0x45, 0, 0,
              50, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0,    0, 2},
             70),
    frame_of({2, 0, 0, 0,  0,  1, 2, 0,  0, 0, 0, 2,  0x81, 0, 0, 5,    8,    0,    0x45, 0, 0,  60, 0,
              1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0,    0, 2, 0x9c, 0x40, 0x12, 0xb5, 0, 40, 0,  0},
             90),
    frame_of({2,  0, 0, 0, 0, 1,  2,  0, 0, 0,  0, 2, 8, 0,  0x46, 0, 0,
              50, 0, 1, 0, 7, 64, 47, 0, 0, 10, 0, 0, 1, 10, 0,    0, 2},
             64)};

TEST(Identity, FastPathMatchesTheDissectors) {
    std::mt19937 random(1);
    std::size_t fast_paths = 0;
    for (int round = 0; round < 200'000; ++round) {
        Frame frame = kSeeds[random() % kSeeds.size()];
        for (unsigned changes = random() % 4; changes > 0; --changes)
            frame[12 + random() % 40] = static_cast<std::byte>(random());
        frame.resize(random() % 4 ? frame.size() : random() % frame.size());
        Record record;
        record.link_type = 1;
        record.bytes = frame;
        record.wire_len = static_cast<std::uint32_t>(frame.size() + (random() % 3 ? 0 : random() % 20));
        PacketSpan network;
        if (!find_network_quickly(record, network)) continue;
        ++fast_paths;
        Dissection full;
        dissect(record, full);
        ASSERT_EQ(network.version, full.network.version);
        ASSERT_EQ(network.bytes.data(), full.network.bytes.data());
        ASSERT_EQ(network.bytes.size(), full.network.bytes.size());
        ASSERT_EQ(network.reported, full.network.reported);
    }
    EXPECT_GT(fast_paths, 20'000U);
}

// A changed input bit changes every bit of the hash with a probability of about 1/2.
TEST(Identity, InputBitFlipsEachHashBitWithProbabilityOneHalf) {
    std::mt19937_64 random(2);
    for (const std::size_t size : {1U, 15U, 16U, 17U, 31U, 40U, 63U, 200U}) {
        std::vector<int> flips(128, 0);
        constexpr int kRounds = 2000;
        for (int round = 0; round < kRounds; ++round) {
            Frame bytes(size);
            for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
            const auto before = kappa::hash_of(bytes, 0);
            bytes[random() % size] ^= std::byte{1} << (random() % 8);
            const auto after = kappa::hash_of(bytes, 0);
            for (unsigned bit = 0; bit < 64; ++bit) {
                flips[bit] += (before.high ^ after.high) >> bit & 1;
                flips[64 + bit] += (before.low ^ after.low) >> bit & 1;
            }
        }
        for (const int flip : flips) EXPECT_NEAR(flip, kRounds / 2, 6 * 23) << "of " << size << " bytes";
    }
}

// At any length, an IPv4 identity excludes TTL, DSCP, ECN and header checksum, and includes all other bits.
// Not tested for bytes whose change would make the dissector read a different packet.
TEST(Identity, FieldsChangedByHopsAreIgnoredForAllLengths) {
    constexpr std::size_t kEthernet = 14;
    const auto hash_of_first = [](const Frame& frame, std::size_t length) {
        Record record;
        record.link_type = 1;
        record.bytes = frame;
        record.wire_len = static_cast<std::uint32_t>(frame.size());
        kappa::Identifier identifier({});
        EXPECT_GE(identifier.find(record).captured, length);
        return identifier.hash(length);
    };
    const Frame& frame = kSeeds[0];
    for (std::size_t length = 12; length <= 50; ++length) {
        for (std::size_t at = 1; at < length; ++at) {
            if (at == 2 || at == 3 || at == 6 || at == 7 || at == 9)
                continue;  // total length, flags and fragment offset, protocol
            Frame changed = frame;
            changed[kEthernet + at] ^= std::byte{0x11};
            const bool is_ignored = at == 1 || at == 8 || at == 10 || at == 11;
            EXPECT_EQ(hash_of_first(changed, length) == hash_of_first(frame, length), is_ignored)
                << "byte " << at << " of " << length;
        }
    }
}

TEST(Identity, LengthsAndSeedsAreDistinguished) {
    const Frame zeros(64);
    std::vector<kappa::Identity> seen;
    for (std::size_t size = 0; size <= zeros.size(); ++size)
        for (const std::uint64_t seed : {0U, 1U})
            seen.push_back(kappa::hash_of(Bytes(zeros).first(size), seed));
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

}  // namespace
