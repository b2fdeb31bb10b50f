#include "input/pcap_reader.hpp"

#include <utility>

#include "input/byte_order.hpp"
#include "input/input_error.hpp"
#include "input/link_types.hpp"

namespace acapella::input {
namespace {

constexpr std::uint32_t kMicroseconds = 0xa1b2c3d4;
constexpr std::uint32_t kNanoseconds = 0xa1b23c4d;
constexpr std::uint32_t kModified = 0xa1b2cd34;  // A. Kuznetsov's patches to libpcap, 1999
constexpr std::uint32_t kIxiaHardware =
    0x1c0001ac;  // "lcap": nanoseconds, and 4 more bytes in the file header
constexpr std::uint32_t kIxiaSoftware = 0x1c0001ab;

constexpr std::size_t kFileHeader = 24;
constexpr std::size_t kIxiaExtraBytes = 4;
constexpr std::uint16_t kDgUxMajor = 543;  // DG/UX's tcpdump

bool known(std::uint32_t magic) {
    return magic == kMicroseconds || magic == kNanoseconds || magic == kModified || magic == kIxiaHardware ||
           magic == kIxiaSoftware;
}

std::uint32_t header_size(PcapReader::Variant variant) {
    switch (variant) {
        case PcapReader::Variant::standard:
            return 16;
        case PcapReader::Variant::nokia:
            return 20;
        case PcapReader::Variant::patched:
            return 24;
        case PcapReader::Variant::patched_smp:
            return 28;
    }
    return 16;
}

// AIX wrote interface types of RFC 1573 instead of link types to files of version 2.2.
constexpr std::pair<std::uint32_t, std::uint16_t> kAixLinkTypes[] = {{6, 1}, {9, 6}, {15, 10}, {24, 0}};

}  // namespace

bool PcapReader::recognizes(Bytes head) {
    return head.size() >= 4 &&
           (known(load<std::uint32_t>(head.data(), false)) || known(load<std::uint32_t>(head.data(), true)));
}

PcapReader::PcapReader(ByteSource& source, BlockObserver* observer) : CaptureReader(source, observer) {
    read_file_header();
}

void PcapReader::read_file_header() {
    const Bytes head = source_.view(kFileHeader);
    if (head.size() < kFileHeader) {
        const auto& fault = source_.fault();
        throw InputError(fault.kind.empty() ? "cut_header" : fault.kind, source_.name(),
                         fault.kind.empty() ? "the pcap file header is truncated" : fault.what, fault.number);
    }
    swapped_ = !known(load<std::uint32_t>(head.data(), false));
    const auto magic = load<std::uint32_t>(head.data(), swapped_);
    const auto major = load<std::uint16_t>(head.data() + 4, swapped_);
    const auto minor = load<std::uint16_t>(head.data() + 6, swapped_);
    Interface interface;
    interface.snaplen = load<std::uint32_t>(head.data() + 16, swapped_);
    snaplen_ = interface.snaplen == 0 ? UINT32_MAX : interface.snaplen;
    const auto network = load<std::uint32_t>(head.data() + 20, swapped_);
    if (major < 2) {
        throw InputError("unsupported_version", source_.name(),
                         "unsupported pcap version " + std::to_string(major) + "." + std::to_string(minor));
    }
    // Bits 16 to 25 are reserved. If bit 26 is set, the upper four bits are the length of the FCS in 16-bit
    // words (draft-ietf-opsawg-pcap, section 4).
    if ((network & 0x03ff0000U) != 0) {
        throw InputError("bad_header", source_.name(), "reserved bits of the pcap link type are set");
    }
    const std::size_t header_bytes =
        kFileHeader + (magic == kIxiaHardware || magic == kIxiaSoftware ? kIxiaExtraBytes : 0);
    if (observer_ != nullptr) {
        observer_->on_block(0, source_.view(header_bytes), true);
    }
    source_.skip(header_bytes);
    link_type_ = static_cast<std::uint16_t>(network & 0xffffU);
    const bool nanoseconds = magic == kNanoseconds || magic == kIxiaHardware;
    info_.format = nanoseconds ? "pcap_ns" : "pcap";
    if (magic == kIxiaHardware || magic == kIxiaSoftware) {
        info_.format = "pcap_ixia";
    }
    fraction_ns_ = nanoseconds ? 1 : 1000;
    set_lengths_order(major, minor);
    if (magic == kMicroseconds && major == 2 && minor == 2) {
        for (const auto& [aix, link_type] : kAixLinkTypes) {
            if (network == aix) {
                link_type_ = link_type;
                info_.format = "pcap_aix";
                fraction_ns_ = 1;
                padding_ = link_type == 10 ? 3 : 0;  // FDDI
                break;
            }
        }
    }
    max_captured_ = max_captured_len(link_type_);
    info_.compression = name_of(source_.compression());
    if (length_order_ == LengthOrder::captured_first) {
        choose_variant(magic);
    }
    interface.link_type = link_type_;
    interface.fcs_len = (network & 0x04000000U) != 0 ? static_cast<std::uint8_t>(network >> 28U) * 2 : 0;
    interface.tsresol = fraction_ns_ == 1 ? 9 : 6;
    fractions_per_second_ = 1'000'000'000 / fraction_ns_;
    add_interface(interface);
}

// Up to version 2.2, the wire length came first. Version 2.3 has the order of a BPF header, but some programs
// wrote files of this version in the old order.
void PcapReader::set_lengths_order(std::uint16_t major, std::uint16_t minor) {
    if (major == kDgUxMajor || (major == 2 && minor < 3)) {
        length_order_ = LengthOrder::captured_second;
    } else if (major == 2 && minor == 3) {
        length_order_ = LengthOrder::by_size;
    }
}

// Two magic numbers were used with several record headers. The usual variant is chosen unless the first
// records contradict it and another variant fits all of them. Wireshark chooses the variant with the fewest
// contradictions, so it may read a damaged file in the wrong format.
void PcapReader::choose_variant(std::uint32_t magic) {
    Variant variant = Variant::standard;
    if (magic == kModified) {
        const bool smp = !fits_variant(Variant::patched) && fits_variant(Variant::patched_smp);
        variant = smp ? Variant::patched_smp : Variant::patched;
        info_.format = "pcap_modified";
    } else if (magic == kMicroseconds && !fits_variant(Variant::standard)) {
        if (fits_variant(Variant::patched)) {
            variant = Variant::patched;
            info_.format = "pcap_patched";
        } else if (fits_variant(Variant::nokia)) {
            variant = Variant::nokia;
            info_.format = "pcap_nokia";
        }
    }
    header_size_ = header_size(variant);
}

PcapReader::Header PcapReader::decode(const std::byte* at) const {
    Header header{};
    header.seconds = load<std::uint32_t>(at, swapped_);
    header.fraction = load<std::uint32_t>(at + 4, swapped_);
    header.captured = load<std::uint32_t>(at + 8, swapped_);
    header.wire = load<std::uint32_t>(at + 12, swapped_);
    if (length_order_ != LengthOrder::captured_first &&
        (length_order_ == LengthOrder::captured_second || header.captured > header.wire)) {
        std::swap(header.captured, header.wire);
    }
    return header;
}

// Returns true if the first records (fewer in a short file) do not contradict this variant.
bool PcapReader::fits_variant(Variant variant) {
    constexpr int kRecords = 3;
    constexpr std::uint32_t kMaxPlausibleLen = 128U << 20;
    constexpr std::uint32_t kMaxInterfaceIndex = 10000;
    const std::uint32_t size = header_size(variant);
    std::size_t at = 0;
    for (int i = 0; i < kRecords; ++i) {
        const Bytes seen = source_.view(at + size);
        if (seen.size() < at + size) {
            return variant == Variant::standard || (seen.size() == at && i > 0);
        }
        const Header header = decode(seen.data() + at);
        if (header.fraction >= 1'000'000 || header.captured > max_captured_ ||
            header.wire > kMaxPlausibleLen || header.captured > header.wire) {
            return false;
        }
        const std::byte* extra = seen.data() + at + 16;
        if (variant == Variant::patched || variant == Variant::patched_smp) {
            // Interface index, payload type, and direction (PACKET_HOST to PACKET_OUTGOING).
            const auto index = load<std::uint32_t>(extra, swapped_);
            const auto type = load<std::uint16_t>(extra + 4, swapped_);
            if (index == 0 || index > kMaxInterfaceIndex || type == 0 || std::to_integer<int>(extra[6]) > 4) {
                return false;
            }
        } else if (variant == Variant::nokia &&
                   (load<std::uint32_t>(extra, swapped_) & 0x0fff00f0U) != 0x0fbf0000U) {
            return false;
        }
        at += size + header.captured;
    }
    return true;
}

bool PcapReader::next(Record& record) {
    source_.skip(std::exchange(pending_, 0));
    const Bytes head = source_.view(header_size_);
    if (head.size() < header_size_) [[unlikely]] {
        return stop_truncated(FileEnd::cut_header, head.size(), header_size_);
    }
    const Header header = decode(head.data());
    if (header.captured > max_captured_) [[unlikely]] {
        return stop_bad_caplen(header.captured, link_type_);
    }
    if (header.captured < padding_) [[unlikely]] {
        return stop(FileEnd::bad_caplen, "capture length " + std::to_string(header.captured) +
                                             " is less than the padding of the record");
    }
    const std::size_t record_size = std::size_t{header_size_} + header.captured;
    const Bytes bytes = source_.view(record_size);
    if (bytes.size() < record_size) [[unlikely]] {
        return stop_truncated(FileEnd::cut_record, bytes.size(), record_size);
    }
    if (!set_frame(record, bytes.subspan(header_size_ + padding_), header.wire - padding_,
                   interfaces_.front())) {
        return false;
    }
    record.ts_ns =
        std::int64_t{header.seconds} * 1'000'000'000 + std::int64_t{header.fraction} * fraction_ns_;
    info_.longer_than_snaplen += header.captured > snaplen_ ? 1 : 0;
    info_.bad_fractions += header.fraction >= fractions_per_second_ ? 1 : 0;
    record.interface_id = 0;
    pending_ = record_size;
    return true;
}

}  // namespace acapella::input
