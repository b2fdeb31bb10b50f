// tshark's lines, and the keys of a frame that they hold.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>
#include <string_view>

#include "hybrid/answers.hpp"

namespace acapella::hybrid {
namespace {

// A line of tshark with the fields named, and the others empty.
std::string line(const std::map<std::string_view, std::string>& fields) {
    std::string text;
    for (const std::string_view name : kFieldNames) {
        if (!text.empty() || name != kFieldNames.front()) text += '\t';
        const auto found = fields.find(name);
        if (found != fields.end()) text += found->second;
    }
    return text + '\n';
}

// A pipe that holds all of a text and then ends.
int pipe_with(std::string_view text) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    return ends[0];
}

Dissection keys_of(std::map<std::string_view, std::string> fields) {
    fields["frame.number"] = "1";
    AnswerReader reader(pipe_with(line(fields)));
    Dissection keys;
    take_keys(reader.wait(), keys);
    return keys;
}

int last_of(const std::array<std::byte, 16>& address, std::size_t width) {
    return std::to_integer<int>(address[width - 1]);
}

TEST(HybridAnswers, LinesComeInOrderAndThenEnd) {
    AnswerReader reader(pipe_with(line({{"frame.number", "1"}, {"frame.protocols", "eth:arp"}}) +
                                  line({{"frame.number", "2"}, {"frame.protocols", "eth:ip"}})));
    EXPECT_EQ(reader.wait().protocols(), "eth:arp");
    EXPECT_EQ(reader.wait().protocols(), "eth:ip");
    EXPECT_EQ(reader.next(), nullptr);
    EXPECT_THROW(reader.wait(), AnswerError);
}

TEST(HybridAnswers, AFrameLeftOutIsAnError) {
    AnswerReader reader(pipe_with(line({{"frame.number", "2"}})));
    EXPECT_THROW(reader.wait(), AnswerError);
}

TEST(HybridAnswers, AnAnswerTooManyIsAnError) {
    AnswerReader reader(pipe_with(line({{"frame.number", "1"}}) + line({{"frame.number", "2"}})));
    reader.wait();
    EXPECT_THROW(reader.expect_end(), AnswerError);
}

TEST(HybridAnswers, KeysAreTheInnermostHeaders) {
    const Dissection keys =
        keys_of({{"frame.protocols", "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:tcp:tls"},
                 {"ip.src", "10.0.0.1,192.168.0.7"},
                 {"ip.dst", "10.0.0.2,192.168.0.8"},
                 {"ip.proto", "17,6"},
                 {"ip.len", "500,450"},
                 {"ip.hdr_len", "20,20"},
                 {"udp.srcport", "5000"},
                 {"udp.dstport", "4789"},
                 {"tcp.srcport", "443"},
                 {"tcp.dstport", "50000"},
                 {"tcp.flags", "0x0018"},
                 {"tcp.seq_raw", "4294967295"},
                 {"tcp.ack_raw", "7"},
                 {"tcp.urgent_pointer", "0"},
                 {"tcp.len", "410"}});
    EXPECT_EQ(last_of(keys.src, 4), 7);
    EXPECT_EQ(keys.ip_proto, 6);
    EXPECT_EQ(keys.ip_len, 450U);
    EXPECT_EQ(keys.src_port, 443);
    EXPECT_TRUE(keys.has_tcp);
    EXPECT_EQ(keys.tcp_flags, 0x18);
    EXPECT_EQ(keys.tcp_seq, 4294967295U);
    EXPECT_EQ(keys.payload_len, 410U);
}

TEST(HybridAnswers, WhatAnIcmpErrorQuotesIsNoKey) {
    const Dissection keys = keys_of({{"frame.protocols", "eth:ethertype:ip:icmp:ip:udp:dns"},
                                     {"ip.src", "10.0.0.1,192.168.0.7"},
                                     {"ip.dst", "10.0.0.2,192.168.0.8"},
                                     {"ip.proto", "1,17"},
                                     {"ip.len", "84,56"},
                                     {"ip.hdr_len", "20,20"},
                                     {"udp.srcport", "5000"},
                                     {"udp.dstport", "53"}});
    EXPECT_EQ(last_of(keys.src, 4), 1);
    EXPECT_EQ(keys.ip_proto, 1);
    EXPECT_FALSE(keys.has_ports);
    EXPECT_EQ(keys.payload_len, 56U);
}

TEST(HybridAnswers, TagsOfBothKindsKeepTheirOrder) {
    const Dissection keys = keys_of({{"frame.protocols", "eth:ethertype:ieee8021ad:vlan:ethertype:mpls:ip"},
                                     {"ieee8021ad.id", "100"},
                                     {"vlan.id", "101"},
                                     {"mpls.label", "17,18"},
                                     {"ip.src", "10.0.0.1"},
                                     {"ip.dst", "10.0.0.2"}});
    ASSERT_EQ(keys.vlan_count, 2);
    EXPECT_EQ(keys.vlans[0], 100);
    EXPECT_EQ(keys.vlans[1], 101);
    ASSERT_EQ(keys.label_count, 2);
    EXPECT_EQ(keys.labels[1], 18U);
}

std::vector<std::uint16_t> vlans_of(const Dissection& keys) {
    return {keys.vlans.begin(), keys.vlans.begin() + keys.vlan_count};
}

TEST(HybridAnswers, TwoServiceTagsInOneHeaderAreTwoIds) {
    const Dissection keys = keys_of({{"frame.protocols", "eth:ethertype:ieee8021ad:ethertype:ip"},
                                     {"ieee8021ad.svid", "100"},
                                     {"ieee8021ad.cvid", "200"}});
    EXPECT_EQ(vlans_of(keys), (std::vector<std::uint16_t>{100, 200}));
}

TEST(HybridAnswers, ATagBehindTwoInOneHeaderKeepsItsPlace) {
    const Dissection keys =
        keys_of({{"frame.protocols", "eth:ethertype:ieee8021ad:ethertype:ieee8021ad:ethertype:ip"},
                 {"ieee8021ad.id", "102"},
                 {"ieee8021ad.svid", "100"},
                 {"ieee8021ad.cvid", "101"}});
    EXPECT_EQ(vlans_of(keys), (std::vector<std::uint16_t>{100, 101, 102}));
}

TEST(HybridAnswers, TheTextOfAServiceTagTellsWhetherItIsTwo) {
    const char* protocols = "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ieee8021ad:ethertype:ip";
    const Dissection first =
        keys_of({{"frame.protocols", protocols},
                 {"vlan.id", "102"},
                 {"ieee8021ad.id", "103"},
                 {"ieee8021ad.svid", "100"},
                 {"ieee8021ad.cvid", "101"},
                 {"ieee8021ad", "IEEE 802.1ad, S-VID: 100, C-VID: 101,IEEE 802.1ad, ID: 103"}});
    EXPECT_EQ(vlans_of(first), (std::vector<std::uint16_t>{100, 101, 102, 103}));
    const Dissection last =
        keys_of({{"frame.protocols", protocols},
                 {"vlan.id", "101"},
                 {"ieee8021ad.id", "100"},
                 {"ieee8021ad.svid", "102"},
                 {"ieee8021ad.cvid", "103"},
                 {"ieee8021ad", "IEEE 802.1ad, ID: 100,IEEE 802.1ad, S-VID: 102, C-VID: 103"}});
    EXPECT_EQ(vlans_of(last), (std::vector<std::uint16_t>{100, 101, 102, 103}));
}

TEST(HybridAnswers, TheCoreKnowsTheOrderOfTagsThatBothHave) {
    Dissection core;
    core.reset();
    core.label_count = 3;
    core.labels[0] = 17;
    core.labels[1] = 0;
    core.labels[2] = 16;
    Dissection keys = core;
    std::swap(keys.labels[0], keys.labels[1]);
    CoreTags(1, core).order(keys);
    EXPECT_EQ(std::vector(keys.labels.begin(), keys.labels.begin() + 3),
              (std::vector<std::uint32_t>{17, 0, 16}));
    keys.labels[0] = 18;
    CoreTags(1, core).order(keys);
    EXPECT_EQ(keys.labels[0], 18U) << "another label than the core's is tshark's to say";
}

TEST(HybridAnswers, ALaterFragmentHasNoPorts) {
    const Dissection keys = keys_of({{"frame.protocols", "eth:ethertype:ipv6:ipv6.fraghdr:data"},
                                     {"ipv6.src", "2001:db8::1"},
                                     {"ipv6.dst", "2001:db8::2"},
                                     {"ipv6.nxt", "44"},
                                     {"ipv6.plen", "1400"},
                                     {"ipv6.fraghdr.nxt", "17"},
                                     {"ipv6.fraghdr.offset", "174"}});
    EXPECT_TRUE(keys.later_fragment);
    EXPECT_EQ(keys.ip_proto, 17);
    EXPECT_FALSE(keys.has_ports);
    EXPECT_EQ(keys.ip_len, 1440U);
}

TEST(HybridAnswers, ACutTcpHeaderHasPortsOnly) {
    const Dissection keys = keys_of({{"frame.protocols", "eth:ethertype:ip:tcp"},
                                     {"ip.src", "10.0.0.1"},
                                     {"ip.dst", "10.0.0.2"},
                                     {"tcp.srcport", "1"},
                                     {"tcp.dstport", "2"},
                                     {"tcp.flags", "0x0010"},
                                     {"tcp.seq_raw", "5"}});
    EXPECT_TRUE(keys.has_ports);
    EXPECT_FALSE(keys.has_tcp);
}

TEST(HybridAnswers, EveryLabelOfAStackIsNamed) {
    AnswerReader reader(pipe_with(line({{"frame.number", "1"},
                                        {"frame.protocols", "eth:ethertype:vlan:ethertype:mpls:ip:tcp:tls"},
                                        {"mpls.label", "17,18"}})));
    EXPECT_EQ(stack_text(reader.wait()), "Ethernet/VLAN/MPLS/MPLS/IPv4/TCP/TLS");
}

TEST(Answers, AColumnsLastTokenMayBeCut) {
    const std::string shorter(kLongestColumn - 6, 'x');
    EXPECT_EQ(whole_tokens(shorter + ":data"), shorter + ":data");
    EXPECT_EQ(whole_tokens(shorter + ":data:"), shorter + ":data");
    EXPECT_EQ(whole_tokens(shorter + "x:data"), shorter + "x");
}

}  // namespace
}  // namespace acapella::hybrid
