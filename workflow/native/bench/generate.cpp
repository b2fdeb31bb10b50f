// acapella-generate: writes a nanosecond pcap of any length. The content depends only on the arguments.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "traffic.hpp"

namespace {

using acapella::bench::Options;
using acapella::bench::Profile;
using acapella::bench::Traffic;

constexpr const char* kHelp =
    "usage: acapella-generate [--frames N] [--flows N] [--profile NAME] [--first N]\n"
    "                         [--snaplen N] [--seed N] [--start-ns N] [-o FILE]\n"
    "Writes a nanosecond pcap to FILE or standard output. The output depends only on the arguments.\n"
    "  fabric  TCP connections in VLAN, two MPLS labels and an Ethernet pseudowire with control word; each\n"
    "          direction has its own labels; two of three frames carry data; every second connection is TLS\n"
    "  plain   the same connections without the encapsulation\n"
    "  vlan    the same connections with a VLAN tag\n"
    "  mpls    the same connections with a VLAN tag and an MPLS label before IP\n"
    "  pw      as mpls, but with an Ethernet pseudowire with control word after the label\n"
    "  single  as fabric, but the connections are sequential, with one data frame in each direction: the\n"
    "          maximum number of flows for a number of frames\n"
    "  iperf   bulk TCP over Ethernet: frames of 1514 bytes, acknowledgments of 66\n"
    "--first is the number of the first connection; different numbers give different addresses.\n"
    "Defaults: 1000000 frames, 6000 flows (directions; 8 for iperf), fabric, snaplen 200, seed 1.\n";

struct Arguments {
    Options options;
    std::string output = "-";
};

[[noreturn]] void exit_with_error(const std::string& what) {
    std::fprintf(stderr, "acapella-generate: error: %s\n", what.c_str());
    std::exit(2);
}

std::uint64_t number(std::string_view name, std::string_view text, std::uint64_t min, std::uint64_t max) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
        exit_with_error(std::string(name) + ": not a number from " + std::to_string(min) + " to " +
                        std::to_string(max) + ": " + std::string(text));
    }
    return value;
}

Profile profile_of(std::string_view name) {
    constexpr std::pair<std::string_view, Profile> kProfiles[] = {
        {"fabric", Profile::fabric}, {"iperf", Profile::iperf}, {"plain", Profile::plain},
        {"vlan", Profile::vlan},     {"mpls", Profile::mpls},   {"pw", Profile::pw},
        {"single", Profile::single},
    };
    for (const auto& [known, profile] : kProfiles) {
        if (name == known) {
            return profile;
        }
    }
    exit_with_error("--profile: expected fabric, iperf, plain, vlan, mpls, pw or single, got " +
                    std::string(name));
}

Arguments parse(int argc, char** argv) {
    constexpr std::uint64_t kMax = ~std::uint64_t{0} >> 1U;
    Arguments out;
    bool has_flows = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view name = argv[i];
        if (name == "--help" || name == "-h") {
            std::fputs(kHelp, stdout);
            std::exit(0);
        }
        if (i + 1 == argc) {
            exit_with_error(std::string(name) + ": unknown option, or its value is missing; see --help");
        }
        const std::string_view value = argv[++i];
        if (name == "--frames") {
            out.options.frames = number(name, value, 0, kMax);
        } else if (name == "--flows") {
            out.options.flows = static_cast<std::uint32_t>(number(name, value, 2, 1'000'000));
            has_flows = true;
        } else if (name == "--profile") {
            out.options.profile = profile_of(value);
        } else if (name == "--snaplen") {
            out.options.snaplen = static_cast<std::uint32_t>(number(name, value, 1, 65535));
        } else if (name == "--first") {  // address() has addresses for 8 million connections
            out.options.first = static_cast<std::uint32_t>(number(name, value, 0, 7'000'000));
        } else if (name == "--seed") {
            out.options.seed = number(name, value, 0, kMax);
        } else if (name == "--start-ns") {
            out.options.start_ns = number(name, value, 0, 4'000'000'000'000'000'000);
        } else if (name == "-o") {
            out.output = value;
        } else {
            exit_with_error(std::string(name) + ": unknown option; see --help");
        }
    }
    if (out.options.profile == Profile::iperf && !has_flows) {
        out.options.flows = 8;
    }
    return out;
}

void write_all(int descriptor, const std::uint8_t* from, std::size_t size, const std::string& output) {
    while (size > 0) {
        const ssize_t done = ::write(descriptor, from, size);
        if (done < 0) {
            if (errno == EINTR) {
                continue;
            }
            exit_with_error(output + ": " + std::strerror(errno));
        }
        from += done;
        size -= static_cast<std::size_t>(done);
    }
}

std::size_t put_file_header(std::uint8_t* into, std::uint32_t snaplen) {
    const std::uint32_t fields[] = {0xa1b23c4d, 0x00040002, 0, 0, snaplen, 1};
    std::memcpy(into, fields, sizeof fields);
    return sizeof fields;
}

}  // namespace

int main(int argc, char** argv) {
    const Arguments arguments = parse(argc, argv);
    std::signal(SIGPIPE, SIG_IGN);  // so that a broken pipe is an error of write()
    const bool to_file = arguments.output != "-";
    const int descriptor =
        to_file ? ::open(arguments.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                : STDOUT_FILENO;
    if (descriptor < 0) {
        exit_with_error(arguments.output + ": " + std::strerror(errno));
    }
    constexpr std::size_t kBuffer = std::size_t{256} << 10U;
    std::vector<std::uint8_t> buffer(kBuffer + Traffic::kMaxBytes);
    Traffic traffic(arguments.options);
    std::size_t size = put_file_header(buffer.data(), arguments.options.snaplen);
    for (std::uint64_t frame = 0; frame < arguments.options.frames; ++frame) {
        size += traffic.next(buffer.data() + size);
        if (size >= kBuffer) {
            write_all(descriptor, buffer.data(), size, arguments.output);
            size = 0;
        }
    }
    write_all(descriptor, buffer.data(), size, arguments.output);
    if (to_file && ::close(descriptor) != 0) {
        exit_with_error(arguments.output + ": " + std::strerror(errno));
    }
    return 0;
}
