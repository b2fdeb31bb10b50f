// Ethernet, LLC, VLAN, MPLS, pseudowires, and the link types that are not Ethernet.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "dissect/dissect_frames.hpp"

namespace acapella::testing {
namespace {

const ByteVector kPacket = ipv4(17, udp(40001, kData));
const ByteVector kLabel20 = hex("00014140");      // bottom of the stack
const ByteVector kLabel600000 = hex("927c0040");  // another label follows

TEST(DissectLink, FabricPseudowireHasAllTagsAndLabels) {
    const ByteVector inner = ethernet(0x0800, ipv4(6, tcp(kData)));
    const Frame frame{ethernet(0x8100, hex("006f 8847") + kLabel600000 + kLabel20 + hex("00000000") + inner)};
    const Dissection found = frame.dissected();
    EXPECT_EQ(protocols_of(found),
              "eth:ethertype:vlan:ethertype:mpls:pwethheuristic:pwethcw:eth:ethertype:ip:tcp");
    EXPECT_EQ(stack_of(found), "Ethernet/VLAN/MPLS/MPLS/PseudoWire/Ethernet/IPv4/TCP");
    ASSERT_EQ(found.vlan_count, 1);
    EXPECT_EQ(found.vlans[0], 111);
    ASSERT_EQ(found.label_count, 2);
    EXPECT_EQ(found.labels[0], 600000U);
    EXPECT_EQ(found.labels[1], 20U);
    EXPECT_EQ(found.inner_wire_len, inner.size());
    EXPECT_TRUE(found.sure);
    EXPECT_TRUE(found.payload_undecoded);
}

TEST(DissectLink, PseudowireWithoutControlWordIsLeftToTshark) {
    EXPECT_FALSE((Frame{ethernet(0x8847, kLabel20 + ethernet(0x0800, kPacket))}.dissected().sure));
}

TEST(DissectLink, FirstNibbleAfterTheBottomLabelDecides) {
    EXPECT_EQ((Frame{ethernet(0x8847, kLabel20 + kPacket)}.protocols()), "eth:ethertype:mpls:ip:udp");
    EXPECT_EQ((Frame{ethernet(0x8847, kLabel20 + ipv6(17, udp(53, kData)))}.protocols()),
              "eth:ethertype:mpls:ipv6:udp");
    EXPECT_EQ((Frame{ethernet(0x8847, kLabel20 + hex("80") + kData)}.protocols()), "eth:ethertype:mpls");
}

TEST(DissectLink, ServiceAndCustomerTags) {
    const Frame frame{ethernet(0x88a8, hex("00c8 8100 07d1 0800") + kPacket)};
    const Dissection found = frame.dissected();
    EXPECT_EQ(protocols_of(found), "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ip:udp");
    EXPECT_EQ(stack_of(found), "Ethernet/VLAN/VLAN/IPv4/UDP");
    ASSERT_EQ(found.vlan_count, 2);
    EXPECT_EQ(found.vlans[0], 200);
    EXPECT_EQ(found.vlans[1], 2001);
    EXPECT_EQ(found.inner_wire_len, 14 + kPacket.size());
}

TEST(DissectLink, TwoServiceTagsAreOneHeaderWithTwoIds) {
    struct Case {
        ByteVector tags;
        const char* protocols;
        std::vector<std::uint16_t> ids;
    };
    const Case cases[] = {
        {hex("00c8 88a8 07d1 0800"), "eth:ethertype:ieee8021ad:ethertype:ip:udp", {200, 2001}},
        {hex("00c8 88a8 07d1 8100 0003 0800"),
         "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ip:udp",
         {200, 2001, 3}},
        {hex("00c8 88a8 07d1 88a8 0003 0800"),
         "eth:ethertype:ieee8021ad:ethertype:ieee8021ad:ethertype:ip:udp",
         {200, 2001, 3}},
        {hex("00c8 88a8 07d1 88a8 0003 88a8 0004 0800"),
         "eth:ethertype:ieee8021ad:ethertype:ieee8021ad:ethertype:ip:udp",
         {200, 2001, 3, 4}},
    };
    for (const Case& test_case : cases) {
        const Dissection found = Frame{ethernet(0x88a8, test_case.tags + kPacket)}.dissected();
        EXPECT_EQ(protocols_of(found), test_case.protocols);
        EXPECT_EQ(std::vector(found.vlans.begin(), found.vlans.begin() + found.vlan_count), test_case.ids);
        EXPECT_EQ(found.inner_wire_len, 14 + kPacket.size());
        EXPECT_TRUE(found.sure);
    }
}

TEST(DissectLink, TruncatedServiceTagHasIdsOnlyIfBothWereCaptured) {
    const ByteVector frame = ethernet(0x88a8, hex("00c8 88a8 07d1 0800") + kPacket);
    for (std::size_t length = 14; length < 22; ++length) {
        const Dissection found = cut(frame, length).dissected();
        EXPECT_EQ(protocols_of(found), "eth:ethertype:ieee8021ad") << length;
        EXPECT_EQ(found.issue, Issue::truncated_vlan) << length;
        EXPECT_EQ(found.vlan_count, length < 20 ? 0 : 2) << length;
    }
}

TEST(DissectLink, LengthFieldSelectsLlc) {
    EXPECT_EQ((Frame{ethernet(20, hex("424203") + kData)}.protocols()), "eth:llc:stp");
    EXPECT_EQ((Frame{ethernet(60, hex("aaaa03 000000 0800") + kPacket)}.protocols()), "eth:llc:ip:udp");
    EXPECT_EQ((Frame{ethernet(0x8100, hex("0005 0014 424203") + kData)}.protocols()),
              "eth:ethertype:vlan:llc:stp");
    EXPECT_EQ((Frame{ethernet(1501, kData)}.protocols()), "eth");
    EXPECT_EQ((Frame{ethernet(1501, kData)}.dissected().issue), Issue::bad_ethernet_length);
}

Dissection innermost_of(const Frame& frame) {
    Record record;
    record.link_type = frame.link_type;
    record.bytes = std::as_bytes(std::span(frame.bytes));
    record.wire_len = static_cast<std::uint32_t>(frame.bytes.size());
    Dissection dissection;
    dissect(record, dissection, nullptr, Depth::innermost);
    return dissection;
}

TEST(DissectLink, InnermostContinuesWhereTsharkStops) {
    const ByteVector snap = hex("aaaa03 000000 0800") + kPacket;
    const ByteVector isl = hex("aaaa03 001b21 000a 0000 0000") + ethernet(0x0800, kPacket) + hex("deadbeef");
    const ByteVector to_isl = hex("01000c0000 00 001b21ddeeff");
    for (const Frame& frame : {Frame{ethernet(0x88a8, hex("0005") + be16(snap.size()) + snap)},
                               Frame{to_isl + be16(isl.size()) + isl}, Frame{to_isl + be16(1501) + isl}}) {
        EXPECT_EQ(frame.dissected().network.version, 0);
        const Dissection found = innermost_of(frame);
        EXPECT_FALSE(found.sure);
        ASSERT_EQ(found.network.version, 4);
        EXPECT_EQ(found.network.reported, kPacket.size());
        EXPECT_EQ(found.network.bytes.size(), kPacket.size());
    }
    EXPECT_EQ(innermost_of(Frame{hex("01000c0000 10 001b21ddeeff") + be16(isl.size()) + isl}).network.version,
              0)
        << "Token Ring";
}

TEST(DissectLink, TruncatedTagIsReported) {
    const ByteVector frame = ethernet(0x8100, hex("0005 0800") + kPacket);
    for (std::size_t length = 14; length < 18; ++length) {
        const Dissection found = cut(frame, length).dissected();
        EXPECT_EQ(protocols_of(found), "eth:ethertype:vlan") << length;
        EXPECT_EQ(found.issue, Issue::truncated_vlan) << length;
        // tshark prints the id if it was captured
        EXPECT_EQ(found.vlan_count, length < 16 ? 0 : 1) << length;
        EXPECT_TRUE(found.sure) << length;
    }
}

TEST(DissectLink, TruncatedEthernetIsReported) {
    const Dissection found = cut(ethernet(0x0800, kPacket), 13).dissected();
    EXPECT_EQ(protocols_of(found), "eth");
    EXPECT_EQ(found.issue, Issue::truncated_ethernet);
}

TEST(DissectLink, OtherLinkTypes) {
    EXPECT_EQ((Frame{hex("0000 0001 0006 0000000000000000 0800") + kPacket, 113}.protocols()),
              "sll:ethertype:ip:udp");
    EXPECT_EQ((Frame{hex("0800 0000 00000001 0001 00 06 0000000000000000") + kPacket, 276}.protocols()),
              "sll:ethertype:ip:udp");
    EXPECT_EQ((Frame{hex("02000000") + kPacket, 0}.protocols()), "null:ip:udp");
    EXPECT_EQ((Frame{hex("0000001e") + ipv6(17, udp(53, kData)), 0}.protocols()), "null:ipv6:udp");
    EXPECT_EQ((Frame{hex("00000002") + kPacket, 108}.protocols()), "null:ip:udp");
    EXPECT_EQ((Frame{kPacket, 101}.protocols()), "raw:ip:udp");
    EXPECT_EQ((Frame{kPacket, 12}.protocols()), "raw:ip:udp");
    EXPECT_EQ((Frame{kPacket, 14}.protocols()), "raw:ip:udp");
    EXPECT_EQ((Frame{kPacket, 228}.protocols()), "ip:udp");
    EXPECT_EQ((Frame{ipv6(17, udp(53, kData)), 229}.protocols()), "ipv6:udp");
}

TEST(DissectLink, UnsupportedLinkTypeIsLeftToTshark) {
    const Dissection found = Frame{kPacket, 147}.dissected();
    EXPECT_EQ(found.issue, Issue::unsupported_link_type);
    EXPECT_FALSE(found.sure);
}

TEST(DissectLink, NonzeroTrailerIsUndecodedPayload) {
    const ByteVector frame = ethernet(0x0800, ipv4(6, tcp({})));
    EXPECT_FALSE((Frame{frame + hex("000000000000")}.dissected().payload_undecoded));
    EXPECT_TRUE((Frame{frame + hex("000000000001")}.dissected().payload_undecoded));
}

TEST(DissectLink, TooManyTagsEndTheDissection) {
    ByteVector tags;
    for (int i = 0; i < 100; ++i) tags = tags + hex("0005 8100");
    const Dissection found = Frame{ethernet(0x8100, tags)}.dissected();
    EXPECT_EQ(found.issue, Issue::too_many_headers);
    EXPECT_FALSE(found.sure);
    EXPECT_EQ(found.vlan_count, kMaxVlans);
}

}  // namespace
}  // namespace acapella::testing
