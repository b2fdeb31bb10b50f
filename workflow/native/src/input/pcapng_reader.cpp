#include "input/pcapng_reader.hpp"

#include <limits>
#include <utility>

#include "input/byte_order.hpp"
#include "input/input_error.hpp"
#include "input/link_types.hpp"

namespace acapella::input {
namespace {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

enum BlockType : std::uint32_t {
    kInterface = 1,
    kPacket = 2,  // obsolete
    kSimplePacket = 3,
    kNames = 4,
    kStatistics = 5,
    kEnhancedPacket = 6,
    kJournal = 9,
    kSecrets = 10,
    kSysdigEvent = 0x204,
    kSysdigEventFlags = 0x208,
    kSysdigEvent2 = 0x216,
    kSysdigEvent2Large = 0x221,
    kCustom = 0xbad,
    kCustomNoCopy = 0x40000bad,
    kSection = 0x0a0d0d0a,
};

constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::size_t kBlockHead = 8;
constexpr std::size_t kTrailer = 4;
constexpr std::size_t kSectionFixed = 24;
constexpr std::size_t kInterfaceFixed = 16;
constexpr std::size_t kPacketFixed = 28;
constexpr std::size_t kSimplePacketFixed = 12;
constexpr std::size_t kStatisticsFixed = 20;
constexpr std::size_t kSecretsFixed = 16;
constexpr std::size_t kMinSection = kSectionFixed + kTrailer;
// Size for the largest frame of any link type and 128 KiB of options, as in Wireshark.
constexpr std::size_t kMaxBlock = 32 + (std::size_t{128} << 20) + (std::size_t{128} << 10);

constexpr std::size_t padded(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

std::uint32_t type_of(const std::byte* at, bool swapped) { return load<std::uint32_t>(at, swapped); }

// Returns true if an option of a packet block has a valid length.
bool packet_option_fits(std::uint16_t code, Bytes value) {
    switch (code) {
        case 2:  // epb_flags
        case 6:  // epb_queue
            return value.size() == 4;
        case 4:  // epb_dropcount
        case 5:  // epb_packetid
            return value.size() == 8;
        case 3:  // epb_hash
            return !value.empty();
        case 7:  // epb_verdict: TC and XDP results are 64-bit
            return !value.empty() &&
                   (value[0] == std::byte{0} || value[0] > std::byte{2} || value.size() == 9);
        default:
            return true;
    }
}

void read_interface_option(std::uint16_t code, Bytes value, bool swapped, Interface& interface,
                           bool& resolution_seen) {
    if (code == 9 && value.size() == 1 && !resolution_seen) {  // if_tsresol: only the first one counts
        const auto resolution = std::to_integer<unsigned>(value[0]);
        interface.tsresol = static_cast<std::uint8_t>(resolution & 0x7fU);
        interface.tsresol_binary = (resolution & 0x80U) != 0;
        resolution_seen = true;
    } else if (code == 13 && value.size() == 1) {  // if_fcslen, in bytes
        interface.fcs_len = std::to_integer<std::uint8_t>(value[0]);
    } else if (code == 14 && value.size() == 8) {  // if_tsoffset
        interface.tsoffset_s = load<std::int64_t>(value.data(), swapped);
    }
}

bool is_custom(std::uint16_t code) { return code == 2988 || code == 2989 || code == 19372 || code == 19373; }

}  // namespace

std::int64_t to_ns(std::uint64_t ts, const Interface& interface, bool& out_of_range) {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    constexpr unsigned kFirstZeroShift = 94;  // from this exponent on, every timestamp is below 1 ns
    constexpr unsigned kFirstZeroPower = 29;  // the same for powers of ten
    UInt128 ns = 0;
    const unsigned exponent = interface.tsresol;
    if (interface.tsresol_binary) {
        ns = exponent < kFirstZeroShift ? (UInt128{ts} * kSecond) >> exponent : 0;
    } else if (exponent < kFirstZeroPower) {
        ns = ts;
        for (unsigned digit = exponent; digit < 9; ++digit) {
            ns *= 10;
        }
        for (unsigned digit = 9; digit < exponent; ++digit) {
            ns /= 10;
        }
    }
    const Int128 sum = static_cast<Int128>(ns) + Int128{interface.tsoffset_s} * static_cast<Int128>(kSecond);
    constexpr auto kLast = std::numeric_limits<std::int64_t>::max();
    constexpr auto kFirst = std::numeric_limits<std::int64_t>::min();
    out_of_range = sum > kLast || sum < kFirst;
    if (out_of_range) {
        return sum < 0 ? kFirst : kLast;
    }
    return static_cast<std::int64_t>(sum);
}

bool PcapngReader::recognizes(Bytes head) {
    if (head.size() < 12 || type_of(head.data(), false) != kSection) {
        return false;
    }
    return load<std::uint32_t>(head.data() + 8, false) == kByteOrderMagic ||
           load<std::uint32_t>(head.data() + 8, true) == kByteOrderMagic;
}

PcapngReader::PcapngReader(ByteSource& source, BlockObserver* observer) : CaptureReader(source, observer) {
    info_.format = "pcapng";
    info_.compression = name_of(source_.compression());
    Block block;
    opening_ = true;
    if (read_block_head(block) && read_section(block)) {
        opening_ = false;
        return;
    }
    std::string kind = name_of(info_.end);
    if (info_.end == FileEnd::cut_record) {
        kind = "cut_header";
    } else if (info_.end == FileEnd::bad_version) {
        kind = "unsupported_version";
    } else if (info_.end == FileEnd::bad_block) {
        kind = "bad_header";
    }
    throw InputError(kind, source_.name(), "pcapng section header: " + info_.end_detail);
}

bool PcapngReader::bad_block(const Block& block, const char* what) {
    return stop(FileEnd::bad_block, "block of type " + std::to_string(block.type) + ", " +
                                        std::to_string(block.size) + " bytes: " + what);
}

bool PcapngReader::read_block_head(Block& block) {
    const Bytes head = source_.view(kBlockHead);
    if (head.size() < kBlockHead) {
        return stop_truncated(FileEnd::cut_header, head.size(), kBlockHead);
    }
    block.type = type_of(head.data(), swapped_);
    bool swapped = swapped_;
    if (block.type == kSection) {  // a palindrome; the section defines its own byte order
        const Bytes section_head = source_.view(kBlockHead + 4);
        if (section_head.size() < kBlockHead + 4) {
            return stop_truncated(FileEnd::cut_record, section_head.size(), kMinSection);
        }
        const auto magic = load<std::uint32_t>(section_head.data() + kBlockHead, false);
        swapped = magic == swap_bytes(kByteOrderMagic);
        if (!swapped && magic != kByteOrderMagic) {
            return bad_block(block, "no byte-order magic");
        }
        block.size = load<std::uint32_t>(section_head.data() + 4, swapped);
        swapped_ = swapped;
    } else {
        block.size = load<std::uint32_t>(head.data() + 4, swapped);
    }
    if (block.size < kBlockHead + kTrailer) {
        return bad_block(block, "shorter than a block can be");
    }
    // Some programs do not count the padding; 2^32 - 1 is invalid in either case.
    block.size = padded(block.size);
    return block.size <= kMaxBlock || bad_block(block, "longer than a block can be");
}

bool PcapngReader::trailer_agrees(const std::byte* at, const Block& block) {
    return padded(load<std::uint32_t>(at, swapped_)) == block.size ||
           bad_block(block, "its two lengths differ");
}

// Reads the whole block into `bytes`, which then contains at least `fixed_size` bytes before its trailer.
bool PcapngReader::view_block(const Block& block, std::size_t fixed_size, Bytes& bytes) {
    if (block.size < fixed_size + kTrailer) {
        return bad_block(block, "shorter than its fixed part");
    }
    bytes = source_.view(block.size);
    if (bytes.size() < block.size) {
        return stop_truncated(FileEnd::cut_record, bytes.size(), block.size);
    }
    return trailer_agrees(bytes.data() + block.size - kTrailer, block);
}

// Like view_block(), but for a block that is not used and may be long.
bool PcapngReader::skip_block(const Block& block) {
    const std::uint64_t skipped = source_.skip(block.size - kTrailer);
    if (skipped < block.size - kTrailer) {
        return stop_truncated(FileEnd::cut_record, skipped, block.size);
    }
    const Bytes trailer = source_.view(kTrailer);
    if (trailer.size() < kTrailer) {
        return stop_truncated(FileEnd::cut_record, skipped + trailer.size(), block.size);
    }
    if (!trailer_agrees(trailer.data(), block)) {
        return false;
    }
    source_.skip(kTrailer);
    return true;
}

bool PcapngReader::next(Record& record) {
    if (info_.end != FileEnd::clean) [[unlikely]] {
        // after a fault, the position may be inside a partly skipped block
        return false;
    }
    source_.skip(std::exchange(pending_, 0));
    for (;;) {
        Block block;
        if (!read_block_head(block)) {
            return false;
        }
        switch (read_block(block, record)) {
            case Outcome::frame:
                return true;
            case Outcome::stopped:
                return false;
            case Outcome::no_frame:
                break;
        }
    }
}

PcapngReader::Outcome PcapngReader::read_block(const Block& block, Record& record) {
    switch (block.type) {
        case kEnhancedPacket:
        case kPacket:
            return read_packet(block, record);
        case kSimplePacket:
            return read_simple_packet(block, record);
        case kSection:
            return read_section(block) ? Outcome::no_frame : Outcome::stopped;
        case kInterface:
            return read_interface(block) ? Outcome::no_frame : Outcome::stopped;
        default:
            return read_other(block) ? Outcome::no_frame : Outcome::stopped;
    }
}

bool PcapngReader::read_section(const Block& block) {
    Bytes bytes;
    if (!view_block(block, kSectionFixed, bytes)) {
        return false;
    }
    const auto major = load<std::uint16_t>(bytes.data() + 12, swapped_);
    const auto minor = load<std::uint16_t>(bytes.data() + 14, swapped_);
    if (major != 1 || (minor != 0 && minor != 2)) {
        return stop(FileEnd::bad_version, "version " + std::to_string(major) + "." + std::to_string(minor));
    }
    if (!check_options(bytes.subspan(kSectionFixed, block.size - kMinSection), block.type, nullptr)) {
        return false;
    }
    section_base_ = interfaces_.size();
    if (observer_ != nullptr) {
        observer_->on_block(source_.offset(), bytes, true);
    }
    source_.skip(block.size);
    return true;
}

bool PcapngReader::read_interface(const Block& block) {
    Bytes bytes;
    if (!view_block(block, kInterfaceFixed, bytes)) {
        return false;
    }
    Interface interface;
    interface.link_type = load<std::uint16_t>(bytes.data() + 8, swapped_);
    interface.snaplen = load<std::uint32_t>(bytes.data() + 12, swapped_);
    if (!check_options(bytes.subspan(kInterfaceFixed, block.size - kInterfaceFixed - kTrailer), block.type,
                       &interface)) {
        return false;
    }
    if (interfaces_.size() == kMaxInterfaces) {
        return stop(FileEnd::too_many_interfaces,
                    "more than " + std::to_string(kMaxInterfaces) + " interfaces");
    }
    add_interface(interface);
    if (observer_ != nullptr) {
        observer_->on_block(source_.offset(), bytes, false);
    }
    source_.skip(block.size);
    return true;
}

// Checks that options fit into their block and have valid lengths, and reads the options of an interface.
bool PcapngReader::check_options(Bytes options, std::uint32_t block_type, Interface* interface) {
    bool resolution_seen = false;
    while (!options.empty()) {
        if (options.size() < 4) {
            return stop(FileEnd::bad_block, "an option header is truncated");
        }
        const auto code = load<std::uint16_t>(options.data(), swapped_);
        const auto size = load<std::uint16_t>(options.data() + 2, swapped_);
        options = options.subspan(4);
        if (padded(size) > options.size()) {
            return stop(FileEnd::bad_block, "an option of " + std::to_string(size) + " bytes is truncated");
        }
        if (code == 0) {  // opt_endofopt
            return true;
        }
        const Bytes value = options.first(size);
        const bool packet = block_type == kEnhancedPacket || block_type == kPacket;
        if ((is_custom(code) && size < 4) || (packet && !packet_option_fits(code, value)) ||
            (interface != nullptr && code == 11 && value.empty())) {
            return stop(FileEnd::bad_block,
                        "option " + std::to_string(code) + " cannot have " + std::to_string(size) + " bytes");
        }
        if (interface != nullptr) {
            read_interface_option(code, value, swapped_, *interface, resolution_seen);
        }
        options = options.subspan(padded(size));
    }
    return true;
}

void PcapngReader::set_time(Record& record, const Interface& interface, std::uint64_t ts) {
    constexpr std::uint64_t kSafe = std::numeric_limits<std::int64_t>::max() / 1000;
    if (!interface.tsresol_binary && interface.tsoffset_s == 0 && ts <= kSafe) [[likely]] {
        if (interface.tsresol == 9) {
            record.ts_ns = static_cast<std::int64_t>(ts);
            return;
        }
        if (interface.tsresol == 6) {
            record.ts_ns = static_cast<std::int64_t>(ts * 1000);
            return;
        }
    }
    bool out_of_range = false;
    record.ts_ns = to_ns(ts, interface, out_of_range);
    info_.ts_out_of_range += out_of_range ? 1 : 0;
}

PcapngReader::Outcome PcapngReader::read_packet(const Block& block, Record& record) {
    Bytes bytes;
    if (!view_block(block, kPacketFixed, bytes)) {
        return Outcome::stopped;
    }
    const std::byte* at = bytes.data();
    const std::uint32_t index = block.type == kEnhancedPacket ? load<std::uint32_t>(at + 8, swapped_)
                                                              : load<std::uint16_t>(at + 8, swapped_);
    const std::uint64_t ts =
        std::uint64_t{load<std::uint32_t>(at + 12, swapped_)} << 32U | load<std::uint32_t>(at + 16, swapped_);
    const auto captured = load<std::uint32_t>(at + 20, swapped_);
    const auto wire_len = load<std::uint32_t>(at + 24, swapped_);
    if (index >= interfaces_.size() - section_base_) [[unlikely]] {
        bad_block(block, "its interface is not described");
        return Outcome::stopped;
    }
    const Interface& interface = interfaces_[section_base_ + index];
    if (captured > max_captured_len(interface.link_type)) {
        stop_bad_caplen(captured, interface.link_type);
        return Outcome::stopped;
    }
    const std::size_t options = kPacketFixed + padded(captured);
    if (options + kTrailer > block.size) [[unlikely]] {
        bad_block(block, "too short for its frame");
        return Outcome::stopped;
    }
    if (!check_options(bytes.subspan(options, block.size - kTrailer - options), block.type, nullptr) ||
        !set_frame(record, bytes.subspan(kPacketFixed, captured), wire_len, interface)) {
        return Outcome::stopped;
    }
    info_.longer_than_snaplen += interface.snaplen != 0 && captured > interface.snaplen ? 1 : 0;
    set_time(record, interface, ts);
    record.interface_id = static_cast<std::uint32_t>(section_base_ + index);
    pending_ = block.size;
    return Outcome::frame;
}

// A simple packet block has no timestamp and no capture length. The capture length is the minimum of the
// frame's length and the snap length of the first interface.
PcapngReader::Outcome PcapngReader::read_simple_packet(const Block& block, Record& record) {
    Bytes bytes;
    if (!view_block(block, kSimplePacketFixed, bytes)) {
        return Outcome::stopped;
    }
    if (interfaces_.size() == section_base_) {
        bad_block(block, "its interface is not described");
        return Outcome::stopped;
    }
    const Interface& interface = interfaces_[section_base_];
    const auto wire_len = load<std::uint32_t>(bytes.data() + 8, swapped_);
    const std::uint32_t captured = interface.snaplen == 0 ? wire_len : std::min(wire_len, interface.snaplen);
    if (captured > max_captured_len(interface.link_type)) {
        stop_bad_caplen(captured, interface.link_type);
        return Outcome::stopped;
    }
    if (kSimplePacketFixed + padded(captured) + kTrailer > block.size) {
        bad_block(block, "too short for its frame");
        return Outcome::stopped;
    }
    if (!set_frame(record, bytes.subspan(kSimplePacketFixed, captured), wire_len, interface)) {
        return Outcome::stopped;
    }
    record.ts_ns = 0;
    record.timed = false;
    record.interface_id = static_cast<std::uint32_t>(section_base_);
    ++info_.untimed;
    pending_ = block.size;
    return Outcome::frame;
}

// Reads a block without a frame, of which only the lengths are checked.
bool PcapngReader::read_other(const Block& block) {
    switch (block.type) {
        case kStatistics:
            if (block.size < kStatisticsFixed + kTrailer) {
                return bad_block(block, "shorter than its fixed part");
            }
            break;
        case kSecrets: {
            const Bytes head = source_.view(kSecretsFixed);
            if (head.size() == kSecretsFixed &&
                load<std::uint32_t>(head.data() + 12, swapped_) + kSecretsFixed + kTrailer > block.size) {
                return bad_block(block, "too short for its secrets");
            }
            break;
        }
        case kJournal:
        case kSysdigEvent:
        case kSysdigEventFlags:
        case kSysdigEvent2:
        case kSysdigEvent2Large:
        case kCustom:
        case kCustomNoCopy:
            ++info_.blocks_not_frames;
            break;
        default:
            break;
    }
    return skip_block(block);
}

}  // namespace acapella::input
