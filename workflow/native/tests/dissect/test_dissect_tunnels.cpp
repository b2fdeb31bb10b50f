// Tunnels: the addresses and ports of a frame are the innermost ones.
#include <gtest/gtest.h>

#include "dissect/dissect_frames.hpp"

namespace acapella::testing {
namespace {

const ByteVector kInner = ipv6(6, tcp(kData));
const ByteVector kInnerFrame = ethernet(0x86dd, kInner);

std::string through(const ByteVector& packet) { return Frame{ethernet(0x0800, packet)}.protocols(); }
std::string through_udp(std::uint16_t port, const ByteVector& payload) {
    return through(ipv4(17, udp(port, payload)));
}

TEST(DissectTunnels, EveryTunnelEndsAtTheInnerTcp) {
    const std::string udp_of = "eth:ethertype:ip:udp:";
    EXPECT_EQ(through_udp(4789, hex("08000000 00000100") + kInnerFrame),
              udp_of + "vxlan:eth:ethertype:ipv6:tcp");
    EXPECT_EQ(through_udp(6081, hex("01006558 00000100 00000000") + kInnerFrame),
              udp_of + "geneve:eth:ethertype:ipv6:tcp");
    EXPECT_EQ(through_udp(2152, hex("30ff") + be16(kInner.size()) + hex("00000001") + kInner),
              udp_of + "gtp:ipv6:tcp");
    EXPECT_EQ(through_udp(6635, hex("00014140") + kInner), udp_of + "mpls:ipv6:tcp");
    EXPECT_EQ(through_udp(3544, hex("0001 0000 000000000000000000") + kInner), udp_of + "teredo:ipv6:tcp");
    EXPECT_EQ(through(ipv4(47, hex("3000 86dd 00000001 00000001") + kInner)),
              "eth:ethertype:ip:gre:ipv6:tcp");
    EXPECT_EQ(through(ipv4(47, hex("1000 88be 00000001 1000000000000000") + kInnerFrame)),
              "eth:ethertype:ip:gre:erspan:eth:ethertype:ipv6:tcp");
    EXPECT_EQ(through(ipv4(41, kInner)), "eth:ethertype:ip:ipv6:tcp");
    EXPECT_EQ(through(ipv4(4, ipv4(41, kInner))), "eth:ethertype:ip:ip:ipv6:tcp");
    EXPECT_EQ(through(ipv4(97, hex("3000") + kInnerFrame)),
              "eth:ethertype:ip:etherip:eth:ethertype:ipv6:tcp");
    EXPECT_EQ(through(ipv4(103, hex("2100000000000000") + kInner)), "eth:ethertype:ip:pim:ipv6:tcp");
}

TEST(DissectTunnels, KeysAreTheInnermost) {
    const Dissection found =
        Frame{ethernet(0x0800, ipv4(17, udp(4789, hex("0800000000000100") + kInnerFrame)))}.dissected();
    EXPECT_EQ(found.ip_version, 6);
    EXPECT_EQ(found.dst_port, 443);
    EXPECT_TRUE(found.has_tcp);
    EXPECT_EQ(found.inner_wire_len, kInnerFrame.size());
    EXPECT_EQ(stack_of(found), "Ethernet/IPv4/UDP/VXLAN/Ethernet/IPv6/TCP");
}

TEST(DissectTunnels, TruncatedInnerHeaderKeepsTheOuterKeys) {
    const ByteVector frame = ethernet(0x0800, ipv4(17, udp(4789, hex("0800000000000100") + kInnerFrame)));
    const Dissection found = cut(frame, 14 + 20 + 8 + 8 + 14 + 10).dissected();
    EXPECT_EQ(found.issue, Issue::truncated_ipv6);
    EXPECT_EQ(found.ip_version, 4);
    EXPECT_EQ(found.dst_port, 4789);
}

TEST(DissectTunnels, LowerPortHasPriority) {
    const ByteVector payload = hex("0800000000000100") + kInnerFrame;
    EXPECT_TRUE((Frame{ethernet(0x0800, ipv4(17, udp(4789, payload, 50000)))}.dissected().sure));
    EXPECT_FALSE((Frame{ethernet(0x0800, ipv4(17, udp(4789, payload, 53)))}.dissected().sure));
}

TEST(DissectTunnels, RocePayloadThatLooksLikeAnEthertypeIsLeftToTshark) {
    const ByteVector send_only = hex("0440ffff 00000001 00000001");
    EXPECT_EQ(through_udp(4791, send_only + kData), "eth:ethertype:ip:udp:infiniband");
    EXPECT_TRUE((Frame{ethernet(0x0800, ipv4(17, udp(4791, send_only + kData)))}.dissected().sure));
    EXPECT_FALSE(
        (Frame{ethernet(0x0800, ipv4(17, udp(4791, send_only + hex("08000000") + kData)))}.dissected().sure));
}

TEST(DissectTunnels, PortsThatHideLayersAreLeftToTshark) {
    for (const std::uint16_t port : {5247, 6343, 12222, 37008}) {
        EXPECT_FALSE((Frame{ethernet(0x0800, ipv4(17, udp(port, kData)))}.dissected().sure)) << port;
    }
}

TEST(DissectTunnels, OpenFlowThatCarriesAFrameIsLeftToTshark) {
    const ByteVector hello = hex("0100 0008 00000001");
    const ByteVector packet_in = hex("010a 0020 00000002") + kData;
    EXPECT_TRUE((Frame{ethernet(0x0800, ipv4(6, tcp(hello)))}.dissected().sure));
    EXPECT_FALSE((Frame{ethernet(0x0800, ipv4(6, tcp(hello + packet_in)))}.dissected().sure));
}

TEST(DissectTunnels, EspInUdp) {
    EXPECT_EQ(through_udp(4500, kData), "eth:ethertype:ip:udp:udpencap:esp");
    EXPECT_EQ(through_udp(4500, hex("00000000") + kData), "eth:ethertype:ip:udp:udpencap");
    EXPECT_EQ(through_udp(4500, hex("ff")), "eth:ethertype:ip:udp:udpencap");
}

}  // namespace
}  // namespace acapella::testing
