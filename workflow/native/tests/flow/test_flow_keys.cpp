// Flow keys: assignment of frames to flows, and reproducible ids.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "flow/blake2b.hpp"
#include "flow/flow_frames.hpp"
#include "flow/flow_keys.hpp"

namespace acapella {
namespace {

using test::dissection;
using test::Ends;

std::string hex(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        text += kDigits[static_cast<std::size_t>(byte) >> 4];
        text += kDigits[static_cast<std::size_t>(byte) & 15];
    }
    return text;
}

std::string blake2b_hex(const std::string& text) {
    return hex(blake2b_128(std::as_bytes(std::span(text.data(), text.size()))));
}

// hashlib.blake2b(text, digest_size=16).hexdigest() of Python 3.11.
TEST(Blake2b, MatchesPython) {
    std::string twice;
    for (int i = 0; i < 512; ++i) twice += static_cast<char>(i);
    EXPECT_EQ(blake2b_hex(""), "cae66941d9efbd404e4d88758ea67670");
    EXPECT_EQ(blake2b_hex("abc"), "cf4ab791c62b8d2b2109c90275287816");
    EXPECT_EQ(blake2b_hex(std::string(128, '\0')), "40d697295c01d2312035c1fa7d884b8d");
    EXPECT_EQ(blake2b_hex(twice), "43d6c8c9d71d2bf482bc9fdcb35a5496");
}

TEST(FlowKeys, EqualKeysHaveEqualNumbersInOrderOfAppearance) {
    FlowKeys keys;
    EXPECT_EQ(keys.intern(dissection({})), 0);
    EXPECT_EQ(keys.intern(dissection({.src_port = 1001})), 1);
    EXPECT_EQ(keys.intern(dissection({})), 0);
    EXPECT_EQ(keys.size(), 2);
}

TEST(FlowKeys, EveryPartOfTheKeyDistinguishesFlows) {
    FlowKeys keys;
    Dissection other = dissection({});
    other.ip_proto = 17;
    Dissection fragment = dissection({});
    fragment.later_fragment = true;
    const Dissection all[] = {dissection({}),
                              dissection({.src = 3}),
                              dissection({.dst = 3}),
                              dissection({.src_port = 1}),
                              dissection({.dst_port = 1}),
                              dissection({}, {5}),
                              dissection({}, {5, 6}),
                              dissection({}, {5, 7}),
                              dissection({}, {}, {5}),
                              dissection({}, {}, {5, 6, 7}),
                              dissection({}, {}, {5, 6, 7, 8}),
                              dissection({}, {}, {5, 6, 7, 9}),
                              other,
                              fragment};
    for (const Dissection& d : all) keys.intern(d);
    EXPECT_EQ(keys.size(), std::size(all));
}

TEST(FlowKeys, FrameWithoutIpHeaderHasNoKey) {
    FlowKeys keys;
    Dissection d = dissection({});
    d.ip_version = 0;
    EXPECT_EQ(keys.intern(d), kNone);
}

TEST(FlowKeys, BytesAfterAnIpv4AddressAreIgnored) {
    FlowKeys keys;
    Dissection d = dissection({});
    keys.intern(d);
    d.src[7] = std::byte{1};
    EXPECT_EQ(keys.intern(d), 0);
}

TEST(FlowKeys, ManyKeysAreFound) {
    FlowKeys keys(TableHash(0));
    for (int round = 0; round < 2; ++round)
        for (std::uint32_t i = 0; i < 20000; ++i) {
            const Ends ends{.src = static_cast<std::uint8_t>(i % 250),
                            .src_port = static_cast<std::uint16_t>(i)};
            ASSERT_EQ(keys.intern(dissection(ends, {}, {i % 7})), i);
        }
    EXPECT_EQ(keys.size(), 20000);
}

TEST(FlowKeys, ReversedEndpointsAreLinkedInAnyOrder) {
    FlowKeys keys;
    const Ends ends;
    const FlowKey a = keys.key(keys.intern(dissection(ends)));
    EXPECT_EQ(keys.reversed(a.endpoints), kNone);
    const FlowKey b = keys.key(keys.intern(dissection(ends.back(), {9})));
    EXPECT_EQ(keys.reversed(a.endpoints), b.endpoints);
    EXPECT_EQ(keys.reversed(b.endpoints), a.endpoints);
}

TEST(FlowKeys, EqualEndpointsHaveNoReverse) {
    FlowKeys keys;
    const FlowKey key = keys.key(keys.intern(dissection({1, 1, 5, 5})));
    EXPECT_EQ(keys.reversed(key.endpoints), kNone);
}

TEST(FlowKeys, NetworksAreVlanStacksWithoutLabels) {
    FlowKeys keys;
    const auto network_of = [&](auto... tags) {
        return keys.network(keys.key(keys.intern(dissection({}, tags...))).tags);
    };
    using Vlans = std::initializer_list<std::uint16_t>;
    using Labels = std::initializer_list<std::uint32_t>;
    EXPECT_EQ(network_of(Vlans{5}, Labels{1}), network_of(Vlans{5}, Labels{2}));
    EXPECT_NE(network_of(Vlans{5}, Labels{1}), network_of(Vlans{6}, Labels{1}));
    EXPECT_NE(network_of(Vlans{}, Labels{1}), network_of(Vlans{6}, Labels{1}));
}

TEST(FlowKeys, FlowIdDependsOnKeyAndSiteOnly) {
    FlowKeys first, second;
    second.intern(dissection({.src = 77}));
    const std::uint32_t a = first.intern(dissection({}, {5}, {16}));
    const std::uint32_t b = second.intern(dissection({}, {5}, {16}));
    EXPECT_EQ(hex(first.flow_id(a, "S")), hex(second.flow_id(b, "S")));
    EXPECT_NE(hex(first.flow_id(a, "S")), hex(first.flow_id(a, "T")));
}

}  // namespace
}  // namespace acapella
