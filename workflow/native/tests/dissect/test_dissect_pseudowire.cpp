// Pseudowires. With the vendors known to tshark, the core decodes them like tshark; without the vendors, it
// marks ambiguous ones as unsure.
#include <gtest/gtest.h>

#include "dissect/dissect_frames.hpp"
#include "dissect/vendors.hpp"

namespace acapella::testing {
namespace {

const ByteVector kPacket = ipv4(17, udp(9, kData));
const ByteVector kKnown = hex("001b21aabbcc 001b21ddeeff");
const ByteVector kUnknown = hex("00ff01020304 00ff05060708");
const ByteVector kZeros = hex("00000000");

// Label 20 and its payload.
ByteVector labeled(const ByteVector& carried) { return ethernet(0x8847, hex("00014140") + carried); }
ByteVector ip_frame(const ByteVector& addresses) { return addresses + hex("0800") + kPacket; }

class DissectPseudowire : public ::testing::Test {
  protected:
    DissectPseudowire() { vendors_.add("00:00:00\tXerox\n00:1B:21\tIntelCor\tIntel Corporate\n"); }

    Dissection with_vendors(const ByteVector& bytes) const { return Frame{bytes}.dissected(&vendors_); }
    static Dissection without_vendors(const ByteVector& bytes) { return Frame{bytes}.dissected(); }
    static std::string after_labels(const Dissection& found) {
        const std::string prefix = "eth:ethertype:mpls:pwethheuristic:";
        const std::string text = protocols_of(found);
        return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
    }

    Vendors vendors_;
};

TEST_F(DissectPseudowire, TwoKnownVendorsMeanNoControlWord) {
    const ByteVector frame = labeled(ip_frame(kKnown));
    EXPECT_EQ(after_labels(with_vendors(frame)), "pwethnocw:eth:ethertype:ip:udp");
    EXPECT_TRUE(with_vendors(frame).sure);
    EXPECT_FALSE(without_vendors(frame).sure);
}

TEST_F(DissectPseudowire, SequenceNumberIsAControlWord) {
    const ByteVector frame = labeled(hex("00001234") + ip_frame(kKnown));
    EXPECT_EQ(after_labels(with_vendors(frame)), "pwethcw:eth:ethertype:ip:udp");
    EXPECT_TRUE(with_vendors(frame).sure);
    EXPECT_FALSE(without_vendors(frame).sure);
}

TEST_F(DissectPseudowire, UnknownVendorMeansAControlWord) {
    EXPECT_TRUE(after_labels(with_vendors(labeled(ip_frame(kUnknown)))).starts_with("pwethcw:eth"));
}

TEST_F(DissectPseudowire, ZerosAreAControlWordBeforeAnyVendors) {
    const ByteVector seems_plain =
        hex("1234001b2155 001b21ddeeff");  // 00:00:00:00:12:34 <- 00:1b:21:55:00:1b
    for (const ByteVector& addresses : {kKnown, kUnknown, seems_plain}) {
        const ByteVector frame = labeled(kZeros + ip_frame(addresses));
        EXPECT_EQ(after_labels(with_vendors(frame)), "pwethcw:eth:ethertype:ip:udp");
        EXPECT_TRUE(with_vendors(frame).sure);
        EXPECT_EQ(after_labels(without_vendors(frame)), "pwethcw:eth:ethertype:ip:udp");
        EXPECT_TRUE(without_vendors(frame).sure);
    }
}

TEST_F(DissectPseudowire, AddressThatBeginsWithZerosIsNotAControlWord) {
    const ByteVector frame = labeled(ip_frame(hex("000000000002 000000000001")));
    EXPECT_EQ(after_labels(with_vendors(frame)), "pwethnocw:eth:ethertype:ip:udp");
    EXPECT_TRUE(with_vendors(frame).sure);
    EXPECT_FALSE(without_vendors(frame).sure);
}

TEST_F(DissectPseudowire, AmbiguousPseudowireIsReadAsByTshark) {
    const ByteVector unknown_type = kZeros + hex("000000000002 000000000001 88b5") + kData;
    EXPECT_EQ(after_labels(with_vendors(labeled(unknown_type))), "pwethnocw:eth:ethertype");
}

TEST_F(DissectPseudowire, PseudowireFrameIsStoredForEveryControlWord) {
    const ByteVector inner = ip_frame(kUnknown);
    for (const ByteVector& word : {kZeros, hex("00001234")}) {
        const ByteVector bytes = labeled(word + inner);
        const Dissection found = with_vendors(bytes);
        EXPECT_EQ(found.pseudowire_frame.size(), inner.size());
        EXPECT_EQ(found.pseudowire_frame_len, inner.size());
    }
}

TEST_F(DissectPseudowire, FrameTruncatedBetweenVendorsIsTruncated) {
    const ByteVector frame = labeled(ip_frame(kKnown));
    const Dissection found = cut(frame, 14 + 4 + 8).dissected(&vendors_);
    EXPECT_EQ(found.issue, Issue::truncated_pseudowire);
    EXPECT_TRUE(found.sure);
    EXPECT_EQ(after_labels(cut(frame, 14 + 4 + 9).dissected(&vendors_)), "pwethnocw:eth");
}

TEST(Vendors, OnlyPrefixesOfThreeBytesCount) {
    Vendors vendors;
    vendors.add(
        "# a comment\n00:50:C2\tIEEERegi\tIEEE Registration Authority\n01-00-3C\t\tAuspex\n\n"
        "00:1B:C5:00:00:00/36\tConvergi\n00:55:DA:00:00:00/28\tShinkoTe\n01-00-5E/25\tIPv4mcast\n"
        "00-E0-2B-00-00-00\tExtreme-EDP\n0G:00:01\tx\n00:00:02");
    EXPECT_EQ(vendors.size(), 2U);
    EXPECT_TRUE(vendors.knows(0x0050c2));
    EXPECT_TRUE(vendors.knows(0x01003c));
    EXPECT_FALSE(vendors.knows(0x00003c));
    EXPECT_FALSE(vendors.knows(0x001bc5));
    EXPECT_FALSE(vendors.knows(0x01005e));
    EXPECT_FALSE(vendors.knows(0xffffffff));
}

TEST(Vendors, RepeatedLineCountsOnce) {
    Vendors vendors;
    vendors.add("00:1B:21\tIntelCor\n");
    vendors.add("00:1b:21\tIntelCor\n");
    EXPECT_EQ(vendors.size(), 1U);
}

}  // namespace
}  // namespace acapella::testing
