// Output lines of tshark, and the keys in them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "hybrid/tshark_columns.hpp"
#include "hybrid/tshark_output.hpp"

namespace acapella::hybrid {
namespace {

// Returns a line of tshark with these fields; the other fields are empty.
std::string line(const std::map<std::string_view, std::string>& fields) {
    std::string text;
    for (const std::string_view name : kFieldNames) {
        if (!text.empty() || name != kFieldNames.front()) text += '\t';
        const auto found = fields.find(name);
        if (found != fields.end()) text += found->second;
    }
    return text + '\n';
}

// Returns the read end of a pipe that contains a text; its write end is closed.
int pipe_with(std::string_view text) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    return ends[0];
}

// Writes a text to a pipe `times` times, or until the reader closes the pipe.
class RepeatingWriter {
  public:
    RepeatingWriter(const std::string& text, int times) {
        EXPECT_EQ(::pipe(ends_.data()), 0);
        ::signal(SIGPIPE, SIG_IGN);
        thread_ = std::thread([this, text, times] {
            for (int i = 0; i < times; ++i) {
                for (std::size_t at = 0; at < text.size();) {
                    const ssize_t done = ::write(ends_[1], text.data() + at, text.size() - at);
                    if (done <= 0) return;
                    at += static_cast<std::size_t>(done);
                    bytes_written_ += static_cast<std::size_t>(done);
                }
            }
        });
    }
    RepeatingWriter(const RepeatingWriter&) = delete;
    RepeatingWriter& operator=(const RepeatingWriter&) = delete;
    ~RepeatingWriter() {
        wait_until_written();
        ::close(ends_[1]);
    }
    [[nodiscard]] int reading() const { return ends_[0]; }
    [[nodiscard]] std::size_t bytes_written() const { return bytes_written_; }
    // Waits until everything is written. The reader must close the pipe or continue reading.
    std::size_t wait_until_written() {
        if (thread_.joinable()) thread_.join();
        return bytes_written_;
    }

  private:
    std::array<int, 2> ends_{};
    std::atomic<std::size_t> bytes_written_ = 0;
    std::thread thread_;
};

Dissection keys_of(std::map<std::string_view, std::string> fields) {
    fields["frame.number"] = "1";
    TsharkOutput reader(pipe_with(line(fields)));
    Dissection keys;
    take_keys(reader.wait(), keys);
    return keys;
}

int last_of(const std::array<std::byte, 16>& address, std::size_t width) {
    return std::to_integer<int>(address[width - 1]);
}

TEST(TsharkOutput, LinesAreReadInOrder) {
    TsharkOutput reader(pipe_with(line({{"frame.number", "1"}, {"frame.protocols", "eth:arp"}}) +
                                  line({{"frame.number", "2"}, {"frame.protocols", "eth:ip"}})));
    EXPECT_EQ(reader.wait().protocols(), "eth:arp");
    EXPECT_EQ(reader.wait().protocols(), "eth:ip");
    EXPECT_EQ(reader.next(), nullptr);
    EXPECT_THROW(reader.wait(), TsharkOutputError);
}

TEST(TsharkOutput, WaitingCanBeInterrupted) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    TsharkOutput reader(ends[0], Layout::kFields, Seconds(3600), [] { throw std::domain_error("Ctrl-C"); });
    EXPECT_THROW(reader.wait(), std::domain_error);
    ::close(ends[1]);
}

TEST(TsharkOutput, MissingOutputIsATimeout) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const std::string first = line({{"frame.number", "1"}});
    ASSERT_EQ(::write(ends[1], first.data(), first.size()), static_cast<ssize_t>(first.size()));
    TsharkOutput reader(ends[0], Layout::kFields, Seconds(0.05));
    EXPECT_NO_THROW(reader.wait());
    EXPECT_EQ(reader.poll(), nullptr);
    EXPECT_THROW(reader.wait(), TsharkTimeout);
    EXPECT_THROW(reader.expect_end(), TsharkTimeout);
    ::close(ends[1]);
}

TEST(TsharkOutput, EndlessLineIsAnError) {
    RepeatingWriter writer(std::string(std::size_t{1} << 20, 'x'), 200);
    {
        TsharkOutput reader(writer.reading());
        EXPECT_THROW(
            {
                while (reader.next() != nullptr) {
                }
            },
            TsharkOutputError);
    }
    EXPECT_LE(writer.wait_until_written(), std::size_t{18} << 20);
}

TEST(TsharkOutput, PendingOutputIsBounded) {
    const std::string lines(std::size_t{1} << 10, '\n');
    RepeatingWriter writer(lines, 200 << 10);  // 200 MiB
    {
        TsharkOutput reader(writer.reading());
        std::size_t previous = 1;
        for (std::size_t written = 0; written != previous || written == 0;) {  // until reading stops
            previous = written;
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
            written = writer.bytes_written();
        }
        EXPECT_GE(writer.bytes_written(), std::size_t{64} << 20);
        EXPECT_LE(writer.bytes_written(), std::size_t{66} << 20);
        EXPECT_GE(reader.pending_bytes(), std::size_t{64} << 20);
    }
    EXPECT_LE(writer.wait_until_written(), std::size_t{66} << 20);
}

TEST(TsharkOutput, PendingOutputIsReadCompletely) {
    constexpr std::uint64_t kLines = 100'000;
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    std::thread writer([&] {
        for (std::uint64_t number = 1; number <= kLines; ++number) {  // 100 MB
            const std::string text =
                line({{"frame.number", std::to_string(number)}, {"frame.protocols", std::string(1000, 'x')}});
            for (std::size_t at = 0; at < text.size();)
                at += static_cast<std::size_t>(::write(ends[1], text.data() + at, text.size() - at));
        }
        ::close(ends[1]);
    });
    TsharkOutput reader(ends[0]);
    while (reader.pending_bytes() < std::size_t{64} << 20)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (std::uint64_t number = 1; number <= kLines; ++number)
        EXPECT_EQ(reader.wait().protocols().size(), 1000U);
    reader.expect_end();
    writer.join();
}

TEST(TsharkOutput, MissingFrameIsAnError) {
    TsharkOutput reader(pipe_with(line({{"frame.number", "2"}})));
    EXPECT_THROW(reader.wait(), TsharkOutputError);
}

TEST(TsharkOutput, ExtraRowIsAnError) {
    TsharkOutput reader(pipe_with(line({{"frame.number", "1"}}) + line({{"frame.number", "2"}})));
    reader.wait();
    EXPECT_THROW(reader.expect_end(), TsharkOutputError);
}

TEST(TsharkOutput, KeysAreTheInnermostHeaders) {
    const Dissection keys =
        keys_of({{"frame.protocols", "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:tcp:tls"},
                 {"ip.src", "10.0.0.1,192.168.0.7"},
                 {"ip.dst", "10.0.0.2,192.168.0.8"},
                 {"ip.proto", "17,6"},
                 {"ip.len", "500,450"},
                 {"ip.id", "0x0001,0x1234"},
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
    EXPECT_TRUE(keys.has_ip_id);
    EXPECT_EQ(keys.ip_id, 0x1234);
    EXPECT_EQ(keys.src_port, 443);
    EXPECT_TRUE(keys.has_tcp);
    EXPECT_EQ(keys.tcp_flags, 0x18);
    EXPECT_EQ(keys.tcp_seq, 4294967295U);
    EXPECT_EQ(keys.payload_len, 410U);
}

TEST(TsharkOutput, PacketQuotedInIcmpErrorHasNoKey) {
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

TEST(TsharkOutput, TagsOfBothKindsKeepTheirOrder) {
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

TEST(TsharkOutput, TwoServiceTagsInOneHeaderAreTwoIds) {
    const Dissection keys = keys_of({{"frame.protocols", "eth:ethertype:ieee8021ad:ethertype:ip"},
                                     {"ieee8021ad.svid", "100"},
                                     {"ieee8021ad.cvid", "200"}});
    EXPECT_EQ(vlans_of(keys), (std::vector<std::uint16_t>{100, 200}));
}

TEST(TsharkOutput, TagAfterDoubleTagKeepsItsPosition) {
    const Dissection keys =
        keys_of({{"frame.protocols", "eth:ethertype:ieee8021ad:ethertype:ieee8021ad:ethertype:ip"},
                 {"ieee8021ad.id", "102"},
                 {"ieee8021ad.svid", "100"},
                 {"ieee8021ad.cvid", "101"}});
    EXPECT_EQ(vlans_of(keys), (std::vector<std::uint16_t>{100, 101, 102}));
}

TEST(TsharkOutput, TextOfAServiceTagShowsWhetherItIsDouble) {
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

TEST(TsharkOutput, CommonTagsAreInTheOrderOfTheCore) {
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
    EXPECT_EQ(keys.labels[0], 18U) << "the order is kept if the core did not find the same labels";
}

TEST(TsharkOutput, ALaterFragmentHasNoPorts) {
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
    EXPECT_FALSE(keys.has_ip_id);
}

TEST(TsharkOutput, TruncatedTcpHeaderHasPortsOnly) {
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

TEST(TsharkOutput, EveryLabelIsInTheStackText) {
    TsharkOutput reader(pipe_with(line({{"frame.number", "1"},
                                        {"frame.protocols", "eth:ethertype:vlan:ethertype:mpls:ip:tcp:tls"},
                                        {"mpls.label", "17,18"}})));
    EXPECT_EQ(stack_text(reader.wait()), "Ethernet/VLAN/MPLS/MPLS/IPv4/TCP/TLS");
}

// Returns a line of columns. Each column lists the values of its fields in order, like tshark.
std::string column_line(const std::map<Field, std::string>& fields) {
    std::string text =
        fields.at(Field::number) + "," + fields.at(Field::encap) + "," + fields.at(Field::protocols);
    for (const TsharkColumn& column : kTsharkColumns) {
        std::string values;
        for (std::size_t i = 0; i < column.count; ++i) {
            const auto found = fields.find(column.fields[i]);
            if (found != fields.end()) values.append(values.empty() ? "" : ",").append(found->second);
        }
        text.append("\t").append(values);
    }
    return text + '\n';
}

std::string protocols_of(const std::string& protocols) {
    TsharkOutput reader(
        pipe_with(column_line({{Field::number, "1"}, {Field::encap, "1"}, {Field::protocols, protocols}})),
        Layout::kColumns);
    return std::string(reader.wait().protocols());
}

// Tests every field with none to three values of its format.
TEST(TsharkColumns, FieldsOfAColumnDifferInValueFormat) {
    constexpr std::array kAddresses4 = {Field::ip_src, Field::ip_dst};
    constexpr std::array kAddresses6 = {Field::ipv6_src, Field::ipv6_dst};
    constexpr std::array kHexadecimal = {Field::tcp_flags, Field::vxlan_flags,   Field::geneve_vni,
                                         Field::gre_flags, Field::gre_proto,     Field::gre_key,
                                         Field::gtp_flags, Field::gtp_message,   Field::gtp_teid,
                                         Field::l2tp_sid,  Field::pppoe_session, Field::ip_id};
    const auto is_in = [](const auto& list, Field field) {
        return std::ranges::find(list, field) != list.end();
    };
    std::uint32_t state = 1;
    for (int round = 0; round < 500; ++round) {
        std::map<Field, std::string> fields = {
            {Field::number, "1"}, {Field::encap, "1"}, {Field::protocols, "eth:ethertype:ip"}};
        for (const TsharkColumn& column : kTsharkColumns) {
            std::size_t last = 0;
            for (std::size_t i = 0; i < column.count; ++i) {
                const Field field = column.fields[i];
                const bool second = i + 1 == column.count && column.count > 1 &&
                                    !is_in(kHexadecimal, column.fields[i - 1]) &&
                                    !is_in(kAddresses6, column.fields[i - 1]);
                state = state * 1664525 + 1013904223;
                std::size_t values = (state >> 16) % 4;
                if (second)
                    // the last header may be truncated
                    values = last - (last > 0 && (state >> 20) % 4 == 0 ? 1 : 0);
                last = values;
                for (std::size_t n = 0; n < values; ++n) {
                    state = state * 1664525 + 1013904223;
                    std::string value = std::to_string(state >> 16);
                    if (is_in(kAddresses4, field)) value = "10.0.0." + value;
                    if (is_in(kAddresses6, field)) value = "::" + value;
                    if (is_in(kHexadecimal, field)) value = "0x" + value;
                    fields[field] += (n > 0 ? "," : "") + value;
                }
            }
        }
        TsharkOutput reader(pipe_with(column_line(fields)), Layout::kColumns);
        const TsharkRow& row = reader.wait();
        for (std::size_t i = 0; i < kDigestFields; ++i) {
            const auto found = fields.find(static_cast<Field>(i));
            EXPECT_EQ(row.fields[i], found == fields.end() ? "" : found->second) << kFieldNames[i];
        }
    }
}

// tshark 4.0 prints an empty value between an address and a list of several values.
TEST(TsharkColumns, EmptyValueBetweenTwoFieldsIsSkipped) {
    TsharkOutput reader(pipe_with("1,1,eth:ethertype:ip:ipv6:ipv6\t10.0.0.1,,::1,::2,41,41,58\n"),
                        Layout::kColumns);
    const TsharkRow& row = reader.wait();
    EXPECT_EQ(row[Field::ip_src], "10.0.0.1");
    EXPECT_EQ(row[Field::ipv6_src], "::1,::2");
    EXPECT_EQ(row[Field::ip_proto], "41,41,58");
}

TEST(TsharkColumns, ValueOfADifferentFormatIsAnError) {
    TsharkOutput reader(pipe_with("1,1,eth:ethertype:ip\t6,10.0.0.1\n"), Layout::kColumns);
    EXPECT_THROW(reader.wait(), TsharkOutputError);
}

TEST(TsharkColumns, LastTokenOfATruncatedColumnIsDropped) {
    const std::string shorter(kMaxColumnBytes - 10, 'x');  // after "1,1,"
    EXPECT_EQ(protocols_of(shorter + ":data"), shorter + ":data");
    EXPECT_EQ(protocols_of(shorter + ":data:"), shorter + ":data");
    EXPECT_EQ(protocols_of(shorter + "x:data"), shorter + "x");
}

}  // namespace
}  // namespace acapella::hybrid
