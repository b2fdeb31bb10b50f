// Prints the core's dissection of every frame of captures, tab-separated with a header line, to compare it
// with tshark.
//
// --cut N: use only the first N captured bytes. --write FILE: write these frames to a pcapng. --vendors FILE:
// read a vendor list of tshark; may be repeated.
#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "dissect/dispatch.hpp"
#include "dissect/vendors.hpp"
#include "frame/issue.hpp"
#include "frame/tokens.hpp"
#include "input/capture_reader.hpp"
#include "input/input_error.hpp"
#include "input/pcapng_writer.hpp"

namespace {

using namespace acapella;

struct Options {
    std::size_t cut = static_cast<std::size_t>(-1);
    std::string write;
    std::vector<std::string> vendors;
    std::vector<std::string> files;
};

std::string address(std::uint8_t version, const std::array<std::byte, 16>& bytes) {
    char text[INET6_ADDRSTRLEN] = "";
    if (version) inet_ntop(version == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text);
    return text;
}

template <typename Values>
std::string joined(const Values& values, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += (i ? "," : "") + std::to_string(values[i]);
    return text;
}

std::string number(bool known, std::uint32_t value) { return known ? std::to_string(value) : std::string(); }

constexpr const char* kHeader =
    "protocols\tsure\topen_above\tissue\tvlan\tmpls\tsrc\tdst\tsrc_port\tdst_port\ttcp_flags\ttcp_seq\ttcp_"
    "ack\t"
    "payload_len\tip_len\tip_id\tinner_wire_len\tstack\n";

void print(const Dissection& d) {
    const std::string columns[] = {
        protocols_of(d),
        std::to_string(d.sure),
        std::to_string(d.payload_undecoded),
        std::string(text_of(d.issue)),
        joined(d.vlans, d.vlan_count),
        joined(d.labels, d.label_count),
        address(d.ip_version, d.src),
        address(d.ip_version, d.dst),
        number(d.has_ports, d.src_port),
        number(d.has_ports, d.dst_port),
        number(d.has_tcp, d.tcp_flags),
        number(d.has_tcp, d.tcp_seq),
        number(d.has_tcp, d.tcp_ack),
        number(d.has_payload_len, d.payload_len),
        number(d.ip_version != 0, d.ip_len),
        number(d.has_ip_id, d.ip_id),
        std::to_string(d.inner_wire_len),
        stack_of(d),
    };
    std::string line;
    for (const std::string& column : columns)
        line += (line.empty() && &column == columns ? "" : "\t") + column;
    std::puts(line.c_str());
}

std::string content(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

void dump(const std::string& name, const Options& options, const Vendors* vendors,
          input::PcapngWriter* writer) {
    const auto source = input::ByteSource::open(name);
    const auto reader = open_capture(*source);
    Dissection dissection;
    for (Record record; reader->next(record);) {
        record.bytes = record.bytes.first(std::min(record.bytes.size(), options.cut));
        dissect(record, dissection, vendors);
        print(dissection);
        if (writer) writer->write(record);
    }
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--cut" && i + 1 < argc) {
            options.cut = std::strtoul(argv[++i], nullptr, 10);
        } else if (argument == "--write" && i + 1 < argc) {
            options.write = argv[++i];
        } else if (argument == "--vendors" && i + 1 < argc) {
            options.vendors.push_back(argv[++i]);
        } else {
            options.files.push_back(argument);
        }
    }
    return options;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    std::unique_ptr<input::PcapngWriter> writer;
    if (!options.write.empty()) {
        const int descriptor = open(options.write.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (descriptor < 0) return 1;
        writer = std::make_unique<input::PcapngWriter>(descriptor);
    }
    Vendors vendors;
    for (const std::string& file : options.vendors) vendors.add(content(file));
    std::fputs(kHeader, stdout);
    for (const std::string& file : options.files) {
        try {
            dump(file, options, options.vendors.empty() ? nullptr : &vendors, writer.get());
        } catch (const input::InputError& error) {
            std::fprintf(stderr, "%s: %s\n", file.c_str(), error.kind().c_str());
        }
    }
    const bool written = !writer || writer->flush();
    return std::fflush(stdout) == 0 && written ? 0 : 1;
}
