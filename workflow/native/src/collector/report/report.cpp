#include "collector/report/report.hpp"

#include <algorithm>

namespace acapella::collector {
namespace {

constexpr std::uint8_t kTcp = 6;
constexpr std::uint64_t kRttUnitNs = 1024;

// A key consists of bytes 8 to 71 of a report of format 2, with IP version and protocol in place of the
// ingress port.
static_assert(format2::vlan_count.offset == 8 && format2::mpls_count.offset == 9 &&
              format2::src_port.offset == 10 && format2::dst_port.offset == 12 &&
              format2::ingress_port.offset == 14 && format2::src.offset == 16 && format2::dst.offset == 32 &&
              format2::vlans.offset == 48 && format2::mpls.offset == 56 &&
              format2::vlans.kCount == ReportKey::kTags && format2::mpls.kCount == ReportKey::kTags);

template <typename Integer>
Integer load_unaligned(const std::byte* at) {
    Integer value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

std::uint64_t head_of(std::uint64_t tags_and_ports, std::uint64_t ip_version, std::uint64_t ip_proto) {
    return tags_and_ports | ip_version << 48 | ip_proto << 56;
}

// Keeps the first `count` of a list of numbers with `bits` bits each. The word contains the numbers after the
// first `skipped`.
std::uint64_t first_of(std::uint64_t word, unsigned count, unsigned bits, unsigned skipped) {
    const unsigned kept = (count <= skipped ? 0 : count - skipped) * bits;
    return kept >= 64 ? word : word & ((std::uint64_t{1} << kept) - 1);
}

// Triggers caused by a packet of the flow itself; the time of such a report is that of the packet.
constexpr unsigned kOwnPacket = format2::trigger_bits::syn | format2::trigger_bits::fin |
                                format2::trigger_bits::rst | format2::trigger_bits::nth |
                                format2::trigger_bits::time | format2::trigger_bits::first;

}  // namespace

// The bits of `valid` and Report::Has are equal.
static_assert(Report::kStart == format2::valid_bits::start &&
              Report::kRttSyn == format2::valid_bits::rtt_syn &&
              Report::kRttAck == format2::valid_bits::rtt_ack && Report::kIat == format2::valid_bits::iat &&
              Report::kSeq == format2::valid_bits::seq && Report::kAck == format2::valid_bits::ack &&
              Report::kSlot == format2::valid_bits::slot && Report::kTags == format2::valid_bits::tags &&
              Report::kLast == format2::valid_bits::last &&
              Report::kUncertain == format2::valid_bits::uncertain);

bool is_report(Format format, const std::byte* bytes) {
    if (format == Format::published) return format1::timestamp.of(bytes) >> 48 == 0;
    const std::uint8_t ip_version = format2::ip_version.of(bytes);
    return format2::version.of(bytes) == 2 && (ip_version == 4 || ip_version == 6);
}

template <>
ReportKey::Words key_of<Format::published>(const std::byte* bytes) {
    static_assert(format1::dst_port.offset == format1::src_port.offset + 2);
    const std::uint64_t ports = load_unaligned<std::uint32_t>(bytes + format1::src_port.offset);
    ReportKey::Words words{};
    words[0] = head_of(ports << 16, 4, kTcp);
    words[2] = std::uint64_t{load_unaligned<std::uint32_t>(bytes + format1::src.offset)} << 32;
    words[4] = std::uint64_t{load_unaligned<std::uint32_t>(bytes + format1::dst.offset)} << 32;
    return words;
}

template <>
ReportKey::Words key_of<Format::tagged>(const std::byte* bytes) {
    auto words = load_unaligned<ReportKey::Words>(bytes + format2::vlan_count.offset);
    const std::uint8_t ip_version = format2::ip_version.of(bytes);
    const std::uint64_t vlans = std::min<std::uint64_t>(words[0] & 0xff, ReportKey::kTags);
    const std::uint64_t labels = std::min<std::uint64_t>(words[0] >> 8 & 0xff, ReportKey::kTags);
    constexpr std::uint64_t kPorts = 0x0000'ffff'ffff'0000;
    words[0] = head_of((words[0] & kPorts) | vlans | labels << 8, ip_version, format2::ip_proto.of(bytes));
    if (ip_version == 4) {
        constexpr std::uint64_t kAddress = 0xffff'ffff'0000'0000;
        words[1] = words[3] = 0;
        words[2] &= kAddress;
        words[4] &= kAddress;
    }
    words[5] = first_of(words[5], static_cast<unsigned>(vlans), 16, 0);
    words[6] = first_of(words[6], static_cast<unsigned>(labels), 32, 0);
    words[7] = first_of(words[7], static_cast<unsigned>(labels), 32, 2);
    return words;
}

template <>
Report report_of<Format::published>(const std::byte* bytes) {
    namespace types = format1::packet_type_values;
    Report report;
    report.epoch = report.sequence = 0;
    report.timestamp = format1::timestamp.of(bytes) & ((std::uint64_t{1} << 48) - 1);
    report.bytes = format1::bytes.smallest(bytes);
    report.packets = format1::packets.smallest(bytes);
    report.rtt_syn = format1::rtt.of(bytes) * kRttUnitNs;
    report.iat = format1::iat.of(bytes);
    report.seq_end = format1::seq.of(bytes);
    report.ack = report.first_ack = format1::ack.of(bytes);
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

template <>
Report report_of<Format::tagged>(const std::byte* bytes) {
    namespace trigger_bits = format2::trigger_bits;
    Report report;
    const std::uint32_t trigger = format2::trigger.of(bytes);
    unsigned has = format2::valid.of(bytes) & 0x3ffU;
    if (format2::ip_proto.of(bytes) != kTcp)
        has &= ~static_cast<unsigned>(Report::kSlot);  // these counts are for TCP only
    else if ((has & Report::kSlot) == 0)
        has |= Report::kNoSlot;
    if ((trigger & (trigger_bits::fin | trigger_bits::rst)) != 0) has |= Report::kEnd;
    if ((trigger & trigger_bits::syn) != 0) {
        has |= Report::kSyn;
        if ((has & Report::kSeq) != 0) has |= Report::kSynSeq;
    }
    report.has = static_cast<std::uint16_t>(has);
    report.epoch = format2::epoch.of(bytes);
    report.sequence = format2::report_sequence.of(bytes);
    report.timestamp = format2::timestamp.of(bytes);
    report.start = format2::start.of(bytes);
    report.last = std::min<std::uint64_t>(format2::last.of(bytes), report.timestamp);
    if ((report.has & Report::kLast) == 0 && (trigger & kOwnPacket) != 0) {  // a flow without a slot
        report.last = report.timestamp;
        report.has |= Report::kLast;
    }
    report.bytes = format2::bytes.of(bytes);
    report.packets = format2::packets.of(bytes);
    report.rtt_syn = format2::rtt_syn.of(bytes);
    report.rtt_ack = format2::rtt_ack.of(bytes);
    report.iat = format2::iat.of(bytes);
    report.seq_end = format2::seq_end.of(bytes);
    report.ack = format2::ack.of(bytes);
    report.first_ack = format2::first_ack.of(bytes);
    report.duplicate_acks = format2::duplicate_acks.of(bytes);
    report.retransmitted_bytes = format2::retransmitted_bytes.of(bytes);
    report.gap_bytes = format2::gap_bytes.of(bytes);
    report.payload_bytes = format2::payload_bytes.of(bytes);
    report.uncertain_bytes = format2::uncertain_bytes.of(bytes);
    return report;
}

}  // namespace acapella::collector
