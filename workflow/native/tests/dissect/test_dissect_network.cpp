// IP and its payload protocols.
#include <gtest/gtest.h>

#include "dissect/dissect_frames.hpp"

namespace acapella::testing {
namespace {

ByteVector in_ethernet(const ByteVector& packet) {
    return ethernet(packet[0] >> 4 == 6 ? 0x86dd : 0x0800, packet);
}
Dissection dissection_of(const ByteVector& packet) { return Frame{in_ethernet(packet)}.dissected(); }

TEST(DissectNetwork, TcpHasPortsSequenceNumbersAndPayload) {
    const Dissection found = dissection_of(ipv4(6, tcp(kData)));
    EXPECT_EQ(found.src_port, 50000);
    EXPECT_EQ(found.dst_port, 443);
    EXPECT_EQ(found.tcp_flags, 0x018);
    EXPECT_EQ(found.tcp_seq, 1U);
    EXPECT_EQ(found.tcp_ack, 2U);
    EXPECT_EQ(found.payload_len, kData.size());
    EXPECT_EQ(found.payload.size(), kData.size());
    EXPECT_TRUE(found.payload_undecoded);
}

TEST(DissectNetwork, AcknowledgmentWithoutPayloadEndsTheStack) {
    const Dissection found = dissection_of(ipv4(6, tcp({})));
    EXPECT_FALSE(found.payload_undecoded);
    EXPECT_TRUE(found.has_payload_len);
    EXPECT_EQ(found.payload_len, 0U);
}

TEST(DissectNetwork, EthernetPaddingIsNotPayload) {
    const Dissection found = Frame{in_ethernet(ipv4(6, tcp({}))) + ByteVector(6)}.dissected();
    EXPECT_EQ(found.payload_len, 0U);
    EXPECT_FALSE(found.payload_undecoded);
    EXPECT_EQ(found.inner_wire_len, 60U);
}

TEST(DissectNetwork, MultipathOptionIsAToken) {
    EXPECT_EQ(protocols_of(dissection_of(ipv4(6, tcp({}, hex("1e04 0000"))))), "eth:ethertype:ip:tcp:mptcp");
}

TEST(DissectNetwork, TruncatedTcpKeepsItsPorts) {
    const ByteVector frame = in_ethernet(ipv4(6, tcp(kData)));
    const Dissection found = cut(frame, 14 + 20 + 10).dissected();
    EXPECT_EQ(protocols_of(found), "eth:ethertype:ip:tcp");
    EXPECT_EQ(found.issue, Issue::truncated_tcp);
    EXPECT_TRUE(found.has_ports);
    EXPECT_FALSE(found.has_tcp);
    EXPECT_FALSE(found.has_payload_len);
}

TEST(DissectNetwork, PayloadLengthIsTheWireLength) {
    const Dissection found = cut(in_ethernet(ipv4(6, tcp(ByteVector(1000)))), 100).dissected();
    EXPECT_EQ(found.payload_len, 1000U);
    EXPECT_EQ(found.payload.size(), 100U - 54U);
}

TEST(DissectNetwork, LaterFragmentHasNoPorts) {
    const Dissection found = dissection_of(ipv4(17, kData, 0x2010));
    EXPECT_EQ(protocols_of(found), "eth:ethertype:ip");
    EXPECT_TRUE(found.later_fragment);
    EXPECT_FALSE(found.has_ports);
    EXPECT_EQ(found.ip_proto, 17);
}

TEST(DissectNetwork, FirstFragmentHasPorts) {
    const Dissection found = dissection_of(ipv4(17, udp(53, kData), 0x2000));
    EXPECT_FALSE(found.later_fragment);
    EXPECT_TRUE(found.has_ports);
}

TEST(DissectNetwork, TotalLengthZeroMeansTheFrameLength) {
    ByteVector packet = ipv4(6, tcp(kData));
    packet[2] = packet[3] = 0;
    EXPECT_EQ(dissection_of(packet).payload_len, kData.size());
}

TEST(DissectNetwork, BadLengthsAreReportedAsIssues) {
    ByteVector short_header = ipv4(17, udp(53, kData));
    short_header[0] = 0x44;
    EXPECT_EQ(dissection_of(short_header).issue, Issue::bad_ipv4_header_length);
    EXPECT_EQ(dissection_of(ipv4(17, udp(53, kData), 0, 19)).issue, Issue::bad_ipv4_total_length);
    EXPECT_EQ(dissection_of(ipv4(17, hex("c350 0035 0007 0000"))).issue, Issue::bad_udp_length);
    ByteVector bad_tcp = tcp(kData);
    bad_tcp[12] = 0x40;
    EXPECT_EQ(dissection_of(ipv4(6, bad_tcp)).issue, Issue::bad_tcp_header_length);
}

TEST(DissectNetwork, ExtensionHeadersAreTokensBeforeTheLayer4Protocol) {
    const ByteVector fragment = hex("11 00 0001 00000001") + udp(53, kData);
    const ByteVector hop_by_hop = hex("2c 00 0104 00000000") + fragment;
    const Dissection found = dissection_of(ipv6(0, hop_by_hop));
    EXPECT_EQ(protocols_of(found), "eth:ethertype:ipv6:ipv6.hopopts:ipv6.fraghdr:udp");
    EXPECT_EQ(found.ip_proto, 17);
    EXPECT_TRUE(found.sure);
    EXPECT_EQ(protocols_of(dissection_of(ipv6(44, hex("11 00 0009 00000001") + kData))),
              "eth:ethertype:ipv6:ipv6.fraghdr");
    EXPECT_TRUE(dissection_of(ipv6(44, hex("11 00 0009 00000001") + kData)).later_fragment);
}

TEST(DissectNetwork, OptionBeyondItsHeaderIsLeftToTshark) {
    EXPECT_FALSE(dissection_of(ipv6(0, hex("11 00 3030 30303030") + udp(53, kData))).sure);
}

TEST(DissectNetwork, QuotedPacketAddsTokensButNoKeys) {
    const Dissection found = dissection_of(ipv4(1, hex("0303000000000000") + ipv6(17, udp(53, kData))));
    EXPECT_EQ(protocols_of(found), "eth:ethertype:ip:icmp:ip:ipv6:udp");
    EXPECT_EQ(found.ip_version, 4);
    EXPECT_EQ(found.ip_proto, 1);
    EXPECT_FALSE(found.has_ports);
    EXPECT_EQ(found.inner_wire_len, 14U + 20U + 8U + 40U + 8U + kData.size());
}

TEST(DissectNetwork, IcmpEchoDataIsUndecodedPayload) {
    EXPECT_EQ(protocols_of(dissection_of(ipv4(1, hex("0800000000010001") + kData))), "eth:ethertype:ip:icmp");
    EXPECT_TRUE(dissection_of(ipv4(1, hex("0800000000010001") + kData)).payload_undecoded);
    EXPECT_FALSE(dissection_of(ipv4(1, hex("0800000000010001"))).payload_undecoded);
}

TEST(DissectNetwork, SctpDataIsUndecodedPayload) {
    const ByteVector header = hex("0b80 0b81 00000001 00000000");
    EXPECT_TRUE(dissection_of(ipv4(132, header + hex("0003 0014") + ByteVector(16))).payload_undecoded);
    EXPECT_FALSE(dissection_of(ipv4(132, header + hex("0300 0010") + ByteVector(12))).payload_undecoded);
}

TEST(DissectNetwork, UnknownProtocolIsUndecodedPayload) {
    EXPECT_EQ(protocols_of(dissection_of(ipv4(200, kData))), "eth:ethertype:ip");
    EXPECT_TRUE(dissection_of(ipv4(200, kData)).payload_undecoded);
}

TEST(DissectNetwork, IgmpAndOspfAddTokens) {
    EXPECT_EQ(protocols_of(dissection_of(ipv4(89, kData))), "eth:ethertype:ip:ospf");
    EXPECT_EQ(protocols_of(dissection_of(ipv4(2, hex("16000000e0000001")))), "eth:ethertype:ip:igmp:igmp");
    EXPECT_EQ(stack_of(dissection_of(ipv4(2, hex("16000000e0000001")))), "Ethernet/IPv4/IGMP");
}

TEST(DissectNetwork, CaptureLengthAboveWireLengthIsLeftToTshark) {
    const ByteVector frame = in_ethernet(ipv4(6, tcp(kData)));
    Record record;
    record.link_type = 1;
    record.wire_len = 40;
    record.bytes = {reinterpret_cast<const std::byte*>(frame.data()), frame.size()};
    Dissection found;
    dissect(record, found);
    EXPECT_FALSE(found.sure);
    EXPECT_EQ(found.issue, Issue::longer_than_wire);
}

}  // namespace
}  // namespace acapella::testing
