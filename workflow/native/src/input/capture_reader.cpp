#include "input/capture_reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "input/byte_order.hpp"
#include "input/input_error.hpp"
#include "input/link_types.hpp"
#include "input/pcap_reader.hpp"
#include "input/pcapng_reader.hpp"

namespace acapella::input {
namespace {

// Wireshark uses signed frame lengths. It shows larger lengths as this value.
constexpr std::uint32_t kMaxWireLen = 0x7fffffff;

// Returns true for an invalid record before the end of the data.
bool is_damage(FileEnd end) {
    return end == FileEnd::bad_caplen || end == FileEnd::bad_pseudo_header || end == FileEnd::bad_block ||
           end == FileEnd::bad_version || end == FileEnd::too_many_interfaces;
}

FileEnd end_of_fault(const std::string& kind) {
    if (kind == "cut_compressed") {
        return FileEnd::cut_compressed;
    }
    if (kind == "decompression_limit") {
        return FileEnd::decompression_limit;
    }
    if (kind == "trailing_bytes") {
        return FileEnd::trailing_bytes;
    }
    return FileEnd::bad_compression;
}

std::int64_t unit_ns(const Interface& interface) {
    if (interface.tsresol_binary) {
        return interface.tsresol >= 30 ? 1 : std::int64_t{1'000'000'000} >> interface.tsresol;
    }
    std::int64_t unit = 1'000'000'000;
    for (int digit = 0; digit < interface.tsresol && unit > 1; ++digit) {
        unit /= 10;
    }
    return unit;
}

struct KnownMagic {
    std::string_view magic;
    const char* name;
};

// Common file formats that are detected but not supported.
constexpr std::array<KnownMagic, 10> kUnsupported{{
    {std::string_view("\xfd"
                      "7zXZ",
                      5),
     "xz"},
    {"BZh", "bzip2"},
    {std::string_view("PK\x03\x04", 4), "zip"},
    {std::string_view("\x02\x21\x4c\x18", 4), "lz4 (legacy format)"},
    {std::string_view("snoop\0\0\0", 8), "snoop"},
    {"TRSNIFF data", "Sniffer"},
    {"GMBU", "Network Monitor"},
    {"RTSS", "Network Monitor"},
    {"PAR1", "Parquet"},
    {"\x7f"
     "ELF",
     "ELF"},
}};

bool is_text(Bytes head) {
    return std::all_of(head.begin(), head.end(), [](std::byte b) {
        const auto c = std::to_integer<unsigned char>(b);
        return std::isprint(c) != 0 || std::isspace(c) != 0 || c >= 0x80;
    });
}

[[noreturn]] void throw_unsupported(const ByteSource& source, Bytes head) {
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    for (const auto& [magic, name] : kUnsupported) {
        if (text.starts_with(magic)) {
            throw InputError("unsupported_format", source.name(),
                             std::string(name) + " file, not pcap or pcapng");
        }
    }
    throw InputError("not_a_capture", source.name(),
                     is_text(head) ? "text, not a pcap or pcapng capture" : "not a pcap or pcapng capture");
}

// A read error does not mean that the capture is damaged, so it is an exception and not a FileEnd.
void throw_read_error(const ByteSource& source) {
    const ByteStream::Fault& fault = source.fault();
    if (fault.kind == "read_error") {
        throw InputError(fault.kind, source.name(), fault.what, fault.number);
    }
}

}  // namespace

const char* name_of(FileEnd end) {
    constexpr std::array kNames{"clean",           "cut_header",          "cut_record",
                                "bad_caplen",      "bad_pseudo_header",   "bad_block",
                                "bad_version",     "too_many_interfaces", "cut_compressed",
                                "bad_compression", "decompression_limit", "trailing_bytes"};
    return kNames.at(static_cast<std::size_t>(end));
}

void CaptureReader::add_interface(const Interface& interface) {
    interfaces_.push_back(interface);
    const std::int64_t unit = unit_ns(interface);
    info_.ts_unit_ns = interfaces_.size() == 1 ? unit : std::min(info_.ts_unit_ns, unit);
    info_.snaplen = std::max(info_.snaplen, interface.snaplen);
    info_.fcs_len = std::max(info_.fcs_len, interface.fcs_len);
    if (!link_types_seen_.test(interface.link_type)) {
        link_types_seen_.set(interface.link_type);
        info_.link_types.push_back(interface.link_type);
    }
}

bool CaptureReader::stop(FileEnd end, std::string detail) {
    if (info_.end != FileEnd::clean) {
        return false;
    }
    info_.end = end;
    info_.end_detail = std::move(detail);
    info_.end_offset = source_.offset();
    if (!opening_ && is_damage(end)) {
        read_to_end();
    }
    return false;
}

// Damaged compressed data may yield invalid records before its checksum is reached.
void CaptureReader::read_to_end() {
    info_.unread_bytes = source_.skip(UINT64_MAX);
    throw_read_error(source_);
    const ByteStream::Fault& fault = source_.fault();
    if (fault.kind == "bad_compression") {
        info_.end = FileEnd::bad_compression;
        info_.end_detail = fault.what + ", found after a damaged record (" + info_.end_detail + ")";
    }
}

bool CaptureReader::stop_truncated(FileEnd end, std::size_t available, std::size_t required) {
    const ByteStream::Fault& fault = source_.fault();
    if (!fault.kind.empty()) {
        throw_read_error(source_);
        return stop(end_of_fault(fault.kind), fault.what);
    }
    if (available == 0 && end == FileEnd::cut_header) {
        return stop(FileEnd::clean, "");
    }
    const std::string unit = info_.format == "pcapng" ? "block" : "record";
    const std::string part = end == FileEnd::cut_header ? " header" : "";
    return stop(end, "the file contains only " + std::to_string(available) + " of the " +
                         std::to_string(required) + " bytes of a " + unit + part);
}

bool CaptureReader::stop_bad_caplen(std::uint64_t caplen, std::uint16_t link_type) {
    return stop(FileEnd::bad_caplen, "capture length " + std::to_string(caplen) + " is larger than " +
                                         std::to_string(max_captured_len(link_type)));
}

bool CaptureReader::set_frame(Record& record, Bytes bytes, std::uint32_t wire_len,
                              const Interface& interface) {
    const std::uint32_t pseudo_length = pseudo_header_len(interface.link_type);
    if (bytes.size() < pseudo_length) [[unlikely]] {
        return stop(FileEnd::bad_pseudo_header,
                    "a record of " + std::to_string(bytes.size()) + " bytes is shorter than the " +
                        std::to_string(pseudo_length) + " bytes of its pseudo-header");
    }
    record.frame = ++info_.records;
    frame_ = bytes;
    frame_wire_len_ = wire_len;
    record.link_type = interface.link_type;
    record.timed = true;
    record.pseudo_header = bytes.first(pseudo_length);
    record.bytes = bytes.subspan(pseudo_length);
    record.wire_len = std::min(wire_len - pseudo_length, kMaxWireLen);
    if (record.wire_len >= interface.fcs_len && interface.fcs_len != 0) [[unlikely]] {
        record.wire_len -= interface.fcs_len;
        record.bytes = record.bytes.first(std::min<std::size_t>(record.bytes.size(), record.wire_len));
    }
    return true;
}

std::unique_ptr<CaptureReader> open_capture(ByteSource& source, BlockObserver* observer) {
    constexpr std::size_t kLongestMagic = 16;
    const Bytes head = source.view(kLongestMagic);
    if (head.size() < sizeof(std::uint32_t)) {
        if (!source.fault().kind.empty()) {
            throw InputError(source.fault().kind, source.name(), source.fault().what, source.fault().number);
        }
        if (head.empty()) {
            throw InputError("empty_file", source.name(), "the file is empty");
        }
        throw_unsupported(source, head);
    }
    if (PcapngReader::recognizes(head)) {
        return std::make_unique<PcapngReader>(source, observer);
    }
    if (PcapReader::recognizes(head)) {
        return std::make_unique<PcapReader>(source, observer);
    }
    throw_unsupported(source, head);
}

}  // namespace acapella::input
