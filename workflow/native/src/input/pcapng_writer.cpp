#include "input/pcapng_writer.hpp"

#include <algorithm>
#include <utility>

namespace acapella::input {
namespace {

constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kEnhancedPacketBlock = 6;

// Blocks are written in this machine's byte order, which the section header defines.
struct Section {
    std::uint32_t magic = 0x1a2b3c4d;
    std::uint16_t major = 1;
    std::uint16_t minor = 0;
    std::int64_t length = -1;  // unknown
};

struct InterfaceDescription {
    std::uint16_t link_type;
    std::uint16_t reserved = 0;
    std::uint32_t snaplen = 0;  // unlimited
    std::uint16_t option = 9;   // if_tsresol
    std::uint16_t option_length = 1;
    std::uint8_t tsresol[4] = {9, 0, 0, 0};
    std::uint32_t end_of_options = 0;
};

// Also declares the length of the FCS.
struct StoredInterface {
    std::uint16_t link_type;
    std::uint16_t reserved = 0;
    std::uint32_t snaplen;
    std::uint16_t option = 9;  // if_tsresol
    std::uint16_t option_length = 1;
    std::uint8_t tsresol[4];
    std::uint16_t fcs_option = 13;  // if_fcslen
    std::uint16_t fcs_option_length = 1;
    std::uint8_t fcs_len[4];
    std::uint32_t end_of_options = 0;
};

struct Packet {
    std::uint32_t interface;
    std::uint32_t ts_high;
    std::uint32_t ts_low;
    std::uint32_t captured;
    std::uint32_t wire;
};

constexpr std::uint32_t kNoInterface = UINT32_MAX;

static_assert(sizeof(Section) == 16 && sizeof(InterfaceDescription) == 20 && sizeof(StoredInterface) == 28 &&
              sizeof(Packet) == 20);

}  // namespace

PcapngWriter::PcapngWriter(int descriptor, std::chrono::milliseconds timeout,
                           ByteSink::WhileWaiting while_waiting)
    : sink_(descriptor, timeout, std::move(while_waiting)),
      interface_of_type_(std::size_t{1} << 16U, kNoInterface) {
    begin_section();
}

PcapngWriter::PcapngWriter(int descriptor, FileStart /*none*/)
    : sink_(descriptor), interface_of_type_(std::size_t{1} << 16U, kNoInterface) {}

void PcapngWriter::begin_section() {
    const Section section;
    put_block_head(kSectionHeader, sizeof section);
    sink_.put(&section, sizeof section);
    const auto size = static_cast<std::uint32_t>(sizeof section + 12);
    sink_.put(&size, sizeof size);
}

void PcapngWriter::describe(const Interface& interface) {
    const std::uint8_t fcs = interface.fcs_len;
    const StoredInterface description{.link_type = interface.link_type,
                                      .snaplen = interface.snaplen,
                                      .tsresol = {interface.tsresol, 0, 0, 0},
                                      .fcs_len = {fcs, 0, 0, 0}};
    // Without an FCS, the second option is replaced by the end of the options.
    const std::size_t fcs_option =
        fcs == 0 ? sizeof description.fcs_option * 2 + sizeof description.fcs_len : 0;
    const std::size_t size = sizeof description - fcs_option;
    put_block_head(kInterfaceDescription, size);
    sink_.put(&description, size - sizeof description.end_of_options);
    sink_.put(&description.end_of_options, sizeof description.end_of_options);
    const auto total_length = static_cast<std::uint32_t>(size + 12);
    sink_.put(&total_length, sizeof total_length);
}

void PcapngWriter::put_block_head(std::uint32_t type, std::size_t size) {
    const std::uint32_t head[2] = {type, static_cast<std::uint32_t>(size + 12)};
    sink_.put(head, sizeof head);
}

std::uint32_t PcapngWriter::interface_of(std::uint16_t link_type) {
    std::uint32_t& interface = interface_of_type_[link_type];
    if (interface != kNoInterface) {
        return interface;
    }
    interface = interfaces_++;
    const InterfaceDescription description{.link_type = link_type};
    put_block_head(kInterfaceDescription, sizeof description);
    sink_.put(&description, sizeof description);
    const auto size = static_cast<std::uint32_t>(sizeof description + 12);
    sink_.put(&size, sizeof size);
    return interface;
}

bool PcapngWriter::write(const Record& record) {
    if (sink_.error_number() != 0) {
        return false;
    }
    const std::uint32_t interface = interface_of(record.link_type);
    const auto pseudo_length = static_cast<std::uint32_t>(record.pseudo_header.size());
    const auto ts = static_cast<std::uint64_t>(std::max<std::int64_t>(record.ts_ns, 0));
    put_packet(interface, ts, record.wire_len + pseudo_length, record.pseudo_header, record.bytes);
    ++frames_;
    return sink_.flush_if_full();
}

void PcapngWriter::put_packet(std::uint32_t interface, std::uint64_t ts, std::uint32_t wire,
                              Bytes pseudo_header, Bytes bytes) {
    const auto captured = static_cast<std::uint32_t>(pseudo_header.size() + bytes.size());
    const Packet packet{interface, static_cast<std::uint32_t>(ts >> 32U), static_cast<std::uint32_t>(ts),
                        captured, wire};
    const std::size_t padding = (4 - captured % 4) % 4;
    const std::size_t size = sizeof packet + captured + padding;
    put_block_head(kEnhancedPacketBlock, size);
    sink_.put(&packet, sizeof packet);
    sink_.put(pseudo_header.data(), pseudo_header.size());
    sink_.put(bytes.data(), bytes.size());
    constexpr std::uint32_t kZeros = 0;
    sink_.put(&kZeros, padding);
    const auto total_length = static_cast<std::uint32_t>(size + 12);
    sink_.put(&total_length, sizeof total_length);
}

bool PcapngWriter::write_stored(const CaptureReader::Stored& stored, std::uint64_t ts) {
    put_packet(0, ts, stored.wire_len, {}, stored.frame);
    ++frames_;
    return sink_.flush_if_full();
}

bool PcapngWriter::copy(Bytes bytes) {
    sink_.put(bytes.data(), bytes.size());
    return sink_.flush_if_full();
}

}  // namespace acapella::input
