// The output of tshark: one line per frame, with the tab-separated fields below or the columns of
// tshark_columns.hpp.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "frame/dissection.hpp"
#include "frame/frame_row.hpp"
#include "input/byte_sink.hpp"

namespace acapella::hybrid {

// The requested fields (tshark -e). A field with several values in a frame is a comma-separated list,
// outermost first.
#define ACAPELLA_TSHARK_FIELDS(X)            \
    X(number, "frame.number")                \
    X(protocols, "frame.protocols")          \
    X(vlan, "vlan.id")                       \
    X(service_vlan, "ieee8021ad.id")         \
    X(service_outer, "ieee8021ad.svid")      \
    X(service_inner, "ieee8021ad.cvid")      \
    X(service_text, "ieee8021ad")            \
    X(label, "mpls.label")                   \
    X(ip_src, "ip.src")                      \
    X(ip_dst, "ip.dst")                      \
    X(ip_proto, "ip.proto")                  \
    X(ip_len, "ip.len")                      \
    X(ip_id, "ip.id")                        \
    X(ip_hdr_len, "ip.hdr_len")              \
    X(ip_frag_offset, "ip.frag_offset")      \
    X(ipv6_src, "ipv6.src")                  \
    X(ipv6_dst, "ipv6.dst")                  \
    X(ipv6_nxt, "ipv6.nxt")                  \
    X(ipv6_plen, "ipv6.plen")                \
    X(hopopts_nxt, "ipv6.hopopts.nxt")       \
    X(routing_nxt, "ipv6.routing.nxt")       \
    X(fraghdr_nxt, "ipv6.fraghdr.nxt")       \
    X(dstopts_nxt, "ipv6.dstopts.nxt")       \
    X(fraghdr_offset, "ipv6.fraghdr.offset") \
    X(ah_nxt, "ah.next_header")              \
    X(tcp_src, "tcp.srcport")                \
    X(tcp_dst, "tcp.dstport")                \
    X(tcp_flags, "tcp.flags")                \
    X(tcp_seq, "tcp.seq_raw")                \
    X(tcp_ack, "tcp.ack_raw")                \
    X(tcp_window, "tcp.window_size_value")   \
    X(tcp_len, "tcp.len")                    \
    X(tcp_urgent, "tcp.urgent_pointer")      \
    X(udp_src, "udp.srcport")                \
    X(udp_dst, "udp.dstport")                \
    X(udp_length, "udp.length")              \
    X(sctp_src, "sctp.srcport")              \
    X(sctp_dst, "sctp.dstport")              \
    X(label_bottom, "mpls.bottom")           \
    X(vxlan_flags, "vxlan.flags")            \
    X(vxlan_vni, "vxlan.vni")                \
    X(geneve_version, "geneve.version")      \
    X(geneve_vni, "geneve.vni")              \
    X(gre_flags, "gre.flags_and_version")    \
    X(gre_proto, "gre.proto")                \
    X(gre_key, "gre.key")                    \
    X(gre_call, "gre.key.call_id")           \
    X(gtp_flags, "gtp.flags")                \
    X(gtp_message, "gtp.message")            \
    X(gtp_teid, "gtp.teid")                  \
    X(l2tp_type, "l2tp.type")                \
    X(l2tp_version, "l2tp.version")          \
    X(l2tp_tunnel, "l2tp.tunnel")            \
    X(l2tp_session, "l2tp.session")          \
    X(l2tp_sid, "l2tp.sid")                  \
    X(pppoe_session, "pppoe.session_id")     \
    X(pbb_isid, "ieee8021ah.isid")           \
    X(erspan_session, "erspan.spanid")       \
    X(encap, "frame.encap_type")             \
    X(time, "frame.time_epoch")              \
    X(len, "frame.len")                      \
    X(cap_len, "frame.cap_len")              \
    X(eth_dst, "eth.dst")

enum class Field : std::uint8_t {
#define ACAPELLA_FIELD(name, text) name,
    ACAPELLA_TSHARK_FIELDS(ACAPELLA_FIELD)
#undef ACAPELLA_FIELD
        count_
};

inline constexpr std::size_t kReferenceFields = static_cast<std::size_t>(Field::count_);
// Only ReferenceDigest needs the fields from `time` on: for frames sent to tshark, they are already known.
inline constexpr std::size_t kDigestFields = static_cast<std::size_t>(Field::time);
inline constexpr std::array<std::string_view, kReferenceFields> kFieldNames = {
#define ACAPELLA_FIELD(name, text) text,
    ACAPELLA_TSHARK_FIELDS(ACAPELLA_FIELD)
#undef ACAPELLA_FIELD
};

// Value of Field::encap for a link type unknown to tshark. For such a frame, tshark prints only "data".
inline constexpr std::string_view kUnknownEncap = "0";

// Unexpected output of tshark, such as a missing frame, an additional line, or an unexpected value.
class TsharkOutputError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// tshark did not print or read anything before the timeout.
class TsharkTimeout : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

using Seconds = std::chrono::duration<double>;
inline constexpr Seconds kTsharkTimeout{120};
using WhileWaiting = input::ByteSink::WhileWaiting;

// The row that tshark printed for one frame. Its views are valid until the next call of TsharkOutput.
struct TsharkRow {
    std::array<std::string_view, kReferenceFields> fields;

    std::string_view operator[](Field field) const { return fields[static_cast<std::size_t>(field)]; }
    std::string_view protocols() const { return (*this)[Field::protocols]; }
};

// The layout of a line: one field after the other, or the columns of tshark_columns.hpp.
enum class Layout : std::uint8_t { kFields, kColumns };

// Reads the output of tshark from a pipe in a separate thread, because tshark stops reading its input if its
// output is not read. The thread pauses only if more output is pending than required for any capture.
class TsharkOutput {
  public:
    // Takes ownership of the descriptor. `timeout`: maximum time until the next row or the end of the output.
    // `while_waiting` is called about every ByteSink::kSlice during that time, and may throw to stop waiting.
    explicit TsharkOutput(int descriptor, Layout layout = Layout::kFields, Seconds timeout = kTsharkTimeout,
                          WhileWaiting while_waiting = nullptr);
    TsharkOutput(const TsharkOutput&) = delete;
    TsharkOutput& operator=(const TsharkOutput&) = delete;
    ~TsharkOutput();

    // Returns the next row, or null if it has not arrived yet. Throws TsharkOutputError if the output is
    // unexpected.
    const TsharkRow* poll();
    // Like poll(), but waits; returns null at the end of the output. Throws TsharkTimeout.
    const TsharkRow* next();
    // Like next(), but throws if there is no further row.
    const TsharkRow& wait();
    // Waits for the end of the output. Throws TsharkOutputError if there is another row.
    void expect_end();
    // Number of received bytes that were not returned yet. The thread that writes to tshark must read rows
    // before this becomes large.
    [[nodiscard]] std::size_t pending_bytes() const {
        return text_.size() - at_ + received_bytes_.load(std::memory_order_relaxed);
    }

  private:
    void receive();
    bool wait_for_output() const;
    bool wait_for_room();
    void keep(std::string_view output);
    // Appends received output to `text_`. Returns false if none is available (with `wait`: at the end of the
    // output). Throws TsharkTimeout, and TsharkOutputError if a line is too long.
    bool fetch(bool wait);
    void wait_for_lines(std::unique_lock<std::mutex>& lock);
    bool next_line(std::string_view& line);
    const TsharkRow& parse(std::string_view line);

    int descriptor_;
    Layout layout_;
    Seconds timeout_;
    WhileWaiting while_waiting_;
    int stop_event_;  // readable when the receiver must stop
    std::uint64_t frames_ = 0;
    TsharkRow row_;
    std::vector<char> text_;  // received lines; those starting at at_ are unread
    std::size_t at_ = 0;

    std::mutex mutex_;  // guards the members below, up to has_new_lines_
    std::condition_variable changed_;
    std::condition_variable room_;
    std::vector<char> received_;
    std::size_t line_bytes_ = 0;  // of the incomplete line at the end of the output
    bool too_long_ = false;       // the line is too long; nothing is read after it
    bool ended_ = false;
    bool stopped_ = false;
    std::atomic<std::size_t> received_bytes_ = 0;  // size of received_, readable without the lock
    std::atomic<bool> has_new_lines_ = false;      // a hint, so that polling needs no lock
    std::thread receiver_;
};

// Reads layers 2 to 4 from tshark's fields: tags, tunnel identifiers, and the innermost addresses, ports and
// TCP numbers, but no tokens. Skips packets quoted in ICMP errors and packets carried by an application, like
// the core.
void take_keys(const TsharkRow& tshark_row, Dissection& dissection);
// VLAN ids and MPLS labels as read by the core. tshark's columns do not show which service tags are double,
// and list reserved labels (RFC 3032 section 2.1) before the others, because reserved labels are a separate
// field with the same name.
struct CoreTags {
    CoreTags(std::uint64_t number, const Dissection& d);

    // Puts the ids and labels of `keys` into the order of the frame's bytes, unless the core read others.
    void order(Dissection& keys) const;

    std::uint64_t frame;
    std::array<std::uint16_t, kMaxVlans> vlans;
    std::array<std::uint32_t, kMaxLabels> labels;
    std::uint8_t vlan_count;
    std::uint8_t label_count;
};
// Replaces the core's keys in a row. The caller assigns the number of the key.
void replace_keys(FrameRow& row, const Dissection& keys);

// Returns the text of the column `stack`: mpls is repeated for every label.
std::string stack_text(const TsharkRow& tshark_row);

}  // namespace acapella::hybrid
