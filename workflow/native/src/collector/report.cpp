#include "collector/report.hpp"

#include <algorithm>

namespace acapella::collector {
namespace {

constexpr std::uint8_t kTcp = 6;
constexpr std::size_t kIpv4Bytes = 4;
constexpr std::size_t kIpv6Bytes = 16;
constexpr std::uint64_t kRttUnitNs = 1024;

static_assert(format2::vlans.kCount == ReportKey::kTags && format2::mpls.kCount == ReportKey::kTags);

ReportKey key_of_published(const std::byte* bytes) {
    ReportKey key;
    key.ip_version = 4;
    key.ip_proto = kTcp;
    key.src_port = format1::src_port.of(bytes);
    key.dst_port = format1::dst_port.of(bytes);
    std::memcpy(key.src.data(), bytes + format1::src.offset, kIpv4Bytes);
    std::memcpy(key.dst.data(), bytes + format1::dst.offset, kIpv4Bytes);
    return key;
}

void copy_address(std::uint8_t ip_version, const std::byte* from, std::array<std::byte, 16>& to) {
    const std::size_t width = ip_version == 4 ? kIpv4Bytes : kIpv6Bytes;
    std::memcpy(to.data(), from + kIpv6Bytes - width, width);
}

ReportKey key_of_tagged(const std::byte* bytes) {
    ReportKey key;
    key.ip_version = format2::ip_version.of(bytes);
    key.ip_proto = format2::ip_proto.of(bytes);
    key.vlan_count = std::min<std::uint8_t>(format2::vlan_count.of(bytes), ReportKey::kTags);
    key.mpls_count = std::min<std::uint8_t>(format2::mpls_count.of(bytes), ReportKey::kTags);
    key.src_port = format2::src_port.of(bytes);
    key.dst_port = format2::dst_port.of(bytes);
    copy_address(key.ip_version, bytes + format2::src.offset, key.src);
    copy_address(key.ip_version, bytes + format2::dst.offset, key.dst);
    for (std::size_t i = 0; i < key.vlan_count; ++i) key.vlans[i] = format2::vlans.of(bytes, i);
    for (std::size_t i = 0; i < key.mpls_count; ++i) key.labels[i] = format2::mpls.of(bytes, i);
    return key;
}

Report report_of_published(const std::byte* bytes) {
    namespace types = format1::packet_type_values;
    Report report;
    report.timestamp = format1::timestamp.of(bytes) & ((std::uint64_t{1} << 48) - 1);
    report.bytes = format1::bytes.least(bytes);
    report.packets = format1::packets.least(bytes);
    report.rtt_syn = format1::rtt.of(bytes) * kRttUnitNs;
    report.iat = format1::iat.of(bytes);
    report.seq_end = format1::seq.of(bytes);
    report.ack = format1::ack.of(bytes);
    const std::uint32_t type = format1::packet_type.of(bytes);
    unsigned has = Report::kTags;
    if (report.rtt_syn != 0) has |= Report::kRttSyn;
    if (report.iat != 0) has |= Report::kIat;
    if (type == types::syn || type == types::syn_ack) {
        has |= Report::kStart;
        report.start = report.timestamp;
    }
    if (type == types::fin_rst) has |= Report::kEnd;
    if (type == types::ack) has |= Report::kAck | Report::kSeq;
    report.has = static_cast<std::uint16_t>(has);
    return report;
}

Report report_of_tagged(const std::byte* bytes) {
    namespace why = format2::trigger_bits;
    Report report;
    const std::uint32_t trigger = format2::trigger.of(bytes);
    unsigned has = format2::valid.of(bytes) & 0xffU;
    if (format2::ip_proto.of(bytes) != kTcp)
        has &= ~static_cast<unsigned>(Report::kSlot);  // counts of TCP alone
    if ((trigger & (why::fin | why::rst)) != 0) has |= Report::kEnd;
    if ((trigger & why::syn) != 0 && (has & Report::kSeq) != 0) has |= Report::kSynSeq;
    report.has = static_cast<std::uint16_t>(has);
    report.epoch = format2::epoch.of(bytes);
    report.sequence = format2::report_sequence.of(bytes);
    report.timestamp = format2::timestamp.of(bytes);
    report.start = format2::start.of(bytes);
    report.bytes = format2::bytes.of(bytes);
    report.packets = format2::packets.of(bytes);
    report.rtt_syn = format2::rtt_syn.of(bytes);
    report.rtt_ack = format2::rtt_ack.of(bytes);
    report.iat = format2::iat.of(bytes);
    report.seq_end = format2::seq_end.of(bytes);
    report.ack = format2::ack.of(bytes);
    report.duplicate_acks = format2::duplicate_acks.of(bytes);
    report.retransmitted_bytes = format2::retransmitted_bytes.of(bytes);
    report.gap_bytes = format2::gap_bytes.of(bytes);
    report.payload_bytes = format2::payload_bytes.of(bytes);
    return report;
}

}  // namespace

// The bits of `valid` and those of Has are the same ones.
static_assert(Report::kStart == format2::valid_bits::start &&
              Report::kRttSyn == format2::valid_bits::rtt_syn &&
              Report::kRttAck == format2::valid_bits::rtt_ack && Report::kIat == format2::valid_bits::iat &&
              Report::kSeq == format2::valid_bits::seq && Report::kAck == format2::valid_bits::ack &&
              Report::kSlot == format2::valid_bits::slot && Report::kTags == format2::valid_bits::tags);

bool is_report(Format format, const std::byte* bytes) {
    if (format == Format::published) return format1::timestamp.of(bytes) >> 48 == 0;
    const std::uint8_t ip_version = format2::ip_version.of(bytes);
    return format2::version.of(bytes) == 2 && (ip_version == 4 || ip_version == 6);
}

ReportKey key_of(Format format, const std::byte* bytes) {
    return format == Format::published ? key_of_published(bytes) : key_of_tagged(bytes);
}

Report report_of(Format format, const std::byte* bytes) {
    return format == Format::published ? report_of_published(bytes) : report_of_tagged(bytes);
}

}  // namespace acapella::collector
